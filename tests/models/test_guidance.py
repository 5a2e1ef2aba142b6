"""A flow without guidance computes no unconditional rows."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from firstword.models.config import CFMConfig, ConformerConfig, CosyVoice1FlowConfig, UNetConfig
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow
from firstword.models.flow.flow import Flow
from tests.models.networks import UNGUIDED_FLOWS, VOCAB_SIZE, random_ids, small_flow, small_speaker

TOO_LITTLE_TO_MATTER = 1e-30


def unguided(kind: str) -> Flow | CosyVoice1Flow:
    if kind != "cosyvoice1":
        return small_flow(kind)
    encoder, unet = ConformerConfig(64, 64, 4, 128, 2), UNetConfig(320, 80, (32, 32), 16, 1, 2, 2)
    config = CosyVoice1FlowConfig(VOCAB_SIZE, encoder, unet, CFMConfig(inference_cfg_rate=0.0))
    torch.manual_seed(0)
    return CosyVoice1Flow(config).eval()


def solved(flow: Flow | CosyVoice1Flow) -> tuple[Tensor, set[int]]:
    """-> mel of 60 tokens, and how many rows the estimator was given."""
    counts: set[int] = set()
    hook = flow.estimator.register_forward_pre_hook(lambda _, args: counts.add(len(args[0])))
    speaker = small_speaker(5, 40)
    tokens = torch.tensor([random_ids(7, 60)])
    prompt = (speaker.prompt_tokens[None], speaker.prompt_mel[None], speaker.embedding[None])
    if isinstance(flow, Flow):
        mel = flow(tokens, *prompt, is_streaming=True)
    else:
        noise = torch.randn(1, 80, 400, generator=torch.Generator().manual_seed(0))
        mel, _ = flow(tokens, *prompt, noise)
    hook.remove()
    return mel, counts


@pytest.mark.parametrize("kind", [*UNGUIDED_FLOWS, "cosyvoice1"])
def test_leaving_the_twins_out_changes_nothing(kind: str) -> None:
    flow = deepcopy(unguided(kind))
    alone, rows = solved(flow)
    with_twins = replace(flow.config.cfm, inference_cfg_rate=TOO_LITTLE_TO_MATTER)
    flow.config = replace(flow.config, cfm=with_twins)
    with_guidance, rows_then = solved(flow)
    assert (rows, rows_then) == ({1}, {2})
    torch.testing.assert_close(alone, with_guidance, atol=1e-5, rtol=1e-5)
