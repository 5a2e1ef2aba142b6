"""The networks at fixed shapes give what they give over their caches, whatever the padding."""

import pytest
import torch
import torch.nn.functional as F

from firstword.models.config import NUM_MELS
from firstword.models.flow.batched_cache import BatchedCache
from firstword.models.flow.kv_cache import CacheWindow, PromptCache, RingKVCache
from firstword.models.flow.state import estimator_layout
from firstword.models.flow.unet import Attention
from firstword.models.layers import GeluFeedForward
from firstword.models.lm.qwen2 import rotary_table, rotate_halves
from firstword.models.runtimes.torch.cuda_graphs.estimator import ChunkPosition, EstimatorStep
from firstword.models.runtimes.torch.cuda_graphs.fused_estimators import value_bias, with_spare_units
from firstword.models.runtimes.torch.cuda_graphs.lm import (
    DecoderRun,
    DecoderStep,
    FusedDecoder,
    rotation_matrices,
)
from tests.models.networks import FLOWS, WIDE_UNET, small_flow
from tests.support.small_lm import small_lm


@torch.inference_mode()
def test_decoder_step_equals_the_pass_and_leaves_other_rows_alone() -> None:
    lm = small_lm()
    cache = lm.new_cache()
    lengths = (3, 7, 5)
    for length in lengths:
        row = cache.add_row()
        prefill = cache.open_pass(range(row, row + 1), [length])
        lm(lm.embed(torch.arange(length)[None]), prefill)
        prefill.commit()
    decoder = FusedDecoder(lm.decoder, num_positions=17)
    keys_values = decoder.new_keys_values(len(lengths) + 1)
    for fixed, *parts in zip(keys_values, cache.keys, cache.values, strict=True):
        fixed[: len(lengths), :, :, :16] = torch.stack(parts, dim=1)[: len(lengths), :, :, :16]
    x = lm.embed(torch.tensor([[4], [5]]))
    cache_pass = cache.open_pass(range(1, 3), [1, 1])
    expected = lm(x, cache_pass)

    step = DecoderStep(decoder, keys_values, num_visible=16)  # of 8 positions in use
    padded = torch.cat([torch.randn_like(x[:1]), x, torch.randn_like(x[:1])])[:, 0]
    position, is_active = torch.tensor([999, 7, 5, 0]), torch.tensor([False, True, True, False])
    actual = step(padded, position, is_active)
    torch.testing.assert_close(actual[1:3], expected[:, 0], atol=1e-5, rtol=1e-5)
    for fixed, *parts in zip(keys_values, cache.keys, cache.values, strict=True):
        grown = torch.stack(parts, dim=1)[: len(lengths), :, :, :16]
        torch.testing.assert_close(fixed[: len(lengths), :, :, :16], grown, atol=1e-5, rtol=1e-5)
        assert not fixed[len(lengths), :, :, :16].any()


@torch.inference_mode()
def test_fused_decoder_keeps_no_weight_twice_and_leaves_the_decoder_as_it_was() -> None:
    """Twice, as of a benchmark: what is made of a decoder again is the same."""
    lm = small_lm()

    def passed() -> torch.Tensor:
        cache = lm.new_cache()
        cache.add_row()
        return lm(lm.embed(torch.arange(6)[None]), cache.open_pass(range(1), [6]))

    expected = passed()
    num_bytes = sum(one.nbytes for one in lm.parameters())
    for _ in range(2):
        decoder = FusedDecoder(lm.decoder, num_positions=17)
        run = DecoderRun(decoder, decoder.new_keys_values(1), num_visible=16)
        made = run(lm.embed(torch.arange(6)), torch.tensor([0]), torch.tensor([0]))
        torch.testing.assert_close(made, expected[0], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(passed(), expected, atol=1e-5, rtol=1e-5)
        memory = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in lm.parameters()}
        for layer in decoder._layers:
            for one in (layer.qkv[0], layer.out, layer.gate_up, layer.down):
                assert one.untyped_storage().data_ptr() in memory
        assert sum(memory.values()) == num_bytes


@torch.inference_mode()
def test_bfloat16_rotations_add_less_than_rounding_their_results_does() -> None:
    """At positions about 2,000, which bfloat16 cannot tell apart."""
    head_dim, theta = 64, 1e6
    positions = torch.arange(1980, 2001)
    x = torch.randn(1, 50, len(positions), head_dim, generator=torch.Generator().manual_seed(1)).bfloat16()
    expected = rotate_halves(x.float(), rotary_table(positions[None], head_dim, theta))
    matrices = rotation_matrices(2001, head_dim, theta, x)[positions]
    assert matrices.dtype == torch.bfloat16
    turned = x[0].float().transpose(0, 1) @ matrices.float()  # (T, H, D), of exact products
    error = turned.transpose(0, 1) - expected[0]
    rounding = expected - expected.bfloat16().float()
    assert 0 < error.norm() < rounding.norm()


@torch.inference_mode()
def test_spare_units_add_the_bias_and_keep_no_weight_twice() -> None:
    """The module goes on over the same memory, with the same result."""
    generator = torch.Generator().manual_seed(2)
    feedforward = GeluFeedForward(16, 64, has_tanh_gelu=False)
    x = torch.randn(3, 16, generator=generator)
    expected = feedforward(x)
    up, down = with_spare_units(feedforward)
    torch.testing.assert_close(F.gelu(F.linear(x, *up)) @ down, expected)
    torch.testing.assert_close(feedforward(x), expected)
    own = feedforward.up.weight, feedforward.up.bias, feedforward.down.weight
    for whole, part in zip((*up, down), own, strict=True):
        assert part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()


@torch.inference_mode()
def test_values_bring_the_bias_of_attentions_last_product_where_they_can() -> None:
    torch.manual_seed(3)
    out = torch.nn.Linear(32, 16)
    y = torch.randn(5, 32)
    added, rest = value_bias(out)
    assert rest is None
    torch.testing.assert_close((y + added) @ out.weight.mT, out(y))
    wide = [one.out for one in small_flow(WIDE_UNET).estimator.modules() if isinstance(one, Attention)]
    assert wide
    assert all(value_bias(one)[1] is None for one in wide)

    out.weight[:, 1:] = 0  # a bias that no input gives
    added, rest = value_bias(out)
    assert not added.any()
    assert rest is not None
    torch.testing.assert_close((y + added) @ out.weight.mT + rest, out(y))


@pytest.mark.parametrize("kind", FLOWS)
@torch.inference_mode()
def test_estimator_step_equals_the_incremental_one_chunk_after_chunk(kind: str) -> None:
    """Buffers larger than what is in use, and other streams in the batch, change nothing."""
    estimator = small_flow(kind).estimator
    frames, rows, buffer_frames = 50, 2, 173
    cache = RingKVCache(CacheWindow(frames), PromptCache())
    state = estimator_layout(estimator).zeros(rows + 1, buffer_frames, torch.empty(0))
    step = EstimatorStep(estimator, state)
    generator = torch.Generator().manual_seed(3)
    for chunk in range(3):
        x, mu, cond = torch.randn(3, rows, NUM_MELS, frames, generator=generator)
        spks, t = torch.randn(rows, NUM_MELS, generator=generator), torch.full((rows,), 0.3)
        expected = estimator(x, mu, t, spks, cond, BatchedCache([cache], [frames], rows))
        cache.commit()
        mask = torch.arange(buffer_frames) < (chunk + 1) * frames
        other = torch.randn(1, NUM_MELS, frames, generator=generator)
        actual = step(
            *(torch.cat([part, other]) for part in (x, mu)),
            torch.full((rows + 1,), 0.3),
            torch.cat([spks, other[:, :, 0]]),
            torch.cat([cond, other]),
            ChunkPosition(
                torch.full((rows + 1,), chunk * frames),
                torch.full((rows + 1,), chunk * frames),
                mask.expand(rows + 1, -1),
            ),
        )
        torch.testing.assert_close(actual[:rows], expected, atol=2e-5, rtol=1e-4)
