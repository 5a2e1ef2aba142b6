"""The two networks, their parts against plain formulas."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.finetune.losses import teacher_forced
from firstword.models.config import TransformerLMConfig
from firstword.models.layers import FullContext
from firstword.models.lm.kv_cache import attend_grouped
from firstword.models.lm.plan import offline_layout
from firstword.models.lm.qwen2 import Qwen2LM, rotary_table, rotate_halves
from firstword.models.lm.transformer_lm import TransformerLM
from tests.models.lm.networks import COSYVOICE1, FAMILIES, NUM_SPEECH_IDS, make_model

ALL = pytest.mark.parametrize("family", FAMILIES)


def test_special_rows_and_the_bias_of_the_head_follow_the_family() -> None:
    two, three = make_model("cosyvoice2").state_dict(), make_model("cosyvoice3").state_dict()

    assert two["special_embedding.weight"].shape[0] == 2
    assert two["head.bias"].shape == (NUM_SPEECH_IDS + 3,)
    assert "special_embedding.weight" not in three
    assert "head.bias" not in three
    assert three["speech_embedding.weight"].shape[0] == three["head.weight"].shape[0] == NUM_SPEECH_IDS + 200


@torch.inference_mode()
def test_an_id_is_embedded_by_the_table_it_belongs_to() -> None:
    for family in ("cosyvoice2", "cosyvoice3"):
        model = make_model(family)
        assert isinstance(model, Qwen2LM)
        names = model.vocabulary
        x = model.embed(torch.tensor([[7, names.sos, names.task, names.first_text, names.num_ids - 1]]))[0]
        is_apart = family == "cosyvoice2"
        special = model.special_embedding.weight if is_apart else model.speech_embedding.weight
        text = model.text_embedding.weight
        sos, task = (0, 1) if is_apart else (names.sos, names.task)
        rows = [model.speech_embedding.weight[7], special[sos], special[task], text[0], text[-1]]
        torch.testing.assert_close(x, torch.stack(rows))


def test_rotary_positions_turn_pairs_half_a_head_apart() -> None:
    x = torch.randn(1, 3, 4, 8)
    positions = torch.tensor([[0, 1, 5, 300]])
    y = rotate_halves(x, rotary_table(positions, 8, 1e4))
    a, b = x.double().chunk(2, dim=-1)
    angle = positions[0, :, None].double() * 1e4 ** (-torch.arange(0, 8, 2).double() / 8)
    turned = torch.complex(a, b) * torch.polar(torch.ones_like(angle), angle)
    torch.testing.assert_close(y.double(), torch.cat([turned.real, turned.imag], -1), rtol=1e-4, atol=1e-4)


def test_rotation_of_bfloat16_is_computed_in_float32() -> None:
    x = torch.randn(1, 2, 3, 8).bfloat16()
    rotation = rotary_table(torch.tensor([[1000, 1001, 1002]]), 8, 1e6)
    torch.testing.assert_close(
        rotate_halves(x, rotation), rotate_halves(x.float(), rotation).bfloat16(), rtol=0, atol=0
    )


def test_norm_of_bfloat16_is_computed_in_float32() -> None:
    norm = torch.nn.RMSNorm(64, eps=1e-6)
    x = (300 * torch.randn(5, 64)).bfloat16()
    exact = x.float() * (x.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    torch.testing.assert_close(norm.bfloat16()(x), exact.bfloat16(), rtol=2**-7, atol=0)


def test_grouped_queries_see_the_key_head_of_their_group() -> None:
    q, keys, values = torch.randn(2, 6, 3, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)
    mask = torch.rand(2, 1, 3, 5) < 0.7
    mask[..., 0] = True
    repeated_keys, repeated_values = (x.repeat_interleave(3, dim=1) for x in (keys, values))
    expected = F.scaled_dot_product_attention(q, repeated_keys, repeated_values, attn_mask=mask)
    torch.testing.assert_close(attend_grouped(q, keys, values, mask), expected)


@ALL
@torch.inference_mode()
def test_bfloat16_runs_and_stays_near_float32(family: str) -> None:
    model = make_model(family)
    layout = offline_layout(model.vocabulary, range(12), range(20))
    exact, _ = teacher_forced(model, [layout], [torch.ones(192)])
    rough, _ = teacher_forced(model.bfloat16(), [layout], [torch.ones(192)])
    assert rough.dtype is torch.bfloat16
    assert float((rough.float() - exact).abs().max()) < 0.05 * float(exact.abs().max())


@torch.inference_mode()
def test_text_encoder_is_causal_and_the_speaker_stands_behind_sos() -> None:
    model = make_model("cosyvoice1")
    assert isinstance(model, TransformerLM)
    names = model.vocabulary

    def prompt(text: list[int], speaker: Tensor | None) -> Tensor:
        return model.prompt_embeddings((names.sos, *names.text(text), names.task, 3), speaker)[0]

    speaker = torch.randn(192)
    bare, spoken = prompt([4, 5, 6], None), prompt([4, 5, 6], speaker)
    assert (len(bare), len(spoken)) == (6, 7)
    torch.testing.assert_close(torch.cat([spoken[:1], spoken[2:]]), bare)
    torch.testing.assert_close(spoken[1], model.speaker_projection(speaker / speaker.norm()))
    torch.testing.assert_close(prompt([4, 5, 9], None)[:3], bare[:3])
    torch.testing.assert_close(prompt([4, 5, 6], 10 * speaker), spoken)


def test_a_decoder_that_is_not_causal_is_refused() -> None:
    config = TransformerLMConfig(
        5, 5, COSYVOICE1.text_encoder, decoder=COSYVOICE1.text_encoder.__class__(24, 24, 4, 48, 1, chunk=0)
    )
    with pytest.raises(ValueError, match="chunk is 0; expected 1"):
        TransformerLM(config)


@ALL
def test_a_network_can_be_made_without_memory(family: str) -> None:
    config = FAMILIES[family]
    with torch.device("meta"):
        model = TransformerLM(config) if isinstance(config, TransformerLMConfig) else Qwen2LM(config)
    assert not list(model.buffers())
    model.load_state_dict(make_model(family).state_dict(), assign=True)
    x = torch.randn(1, 3, model.prompt_embeddings((model.vocabulary.sos, 1)).shape[-1])
    assert model(x, FullContext()).isfinite().all()
