"""The flows of CosyVoice 2 and 3 against the published implementation."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from firstword.models.checkpoint.config_parser import parse_flow
from firstword.models.checkpoint.names import COSYVOICE1_FLOW, DIT_FLOW, UNET_FLOW
from firstword.models.checkpoint.weights import load_exactly
from firstword.models.config import CosyVoice1FlowConfig, DiTFlowConfig, UNetFlowConfig
from firstword.models.flow.cosyvoice1 import OVERLAP_TOKENS, CosyVoice1Flow
from firstword.models.flow.encoder import without_lookahead
from firstword.models.flow.flow import Flow
from firstword.models.layers import FullContext, chunk_mask
from tests.parity.networks import flow_fields
from tests.parity.reference import NETWORK_TOLERANCE, SOLVE_TOLERANCE, Case, assert_close, load_case

STREAMING = pytest.mark.parametrize("is_streaming", [False, True], ids=["offline", "streaming"])
FAMILY = pytest.mark.parametrize("name", ["flow_v2", "flow_v3"])


def load_flow(case: Case) -> Flow:
    config = parse_flow(flow_fields(case.config), case.config["kind"])
    assert isinstance(config, UNetFlowConfig | DiTFlowConfig)
    flow = Flow(config)
    table = UNET_FLOW if isinstance(config, UNetFlowConfig) else DIT_FLOW
    buffers = frozenset({"decoder.estimator.rotary_embed.inv_freq"})
    load_exactly(flow, case.weights, table, Path(case.name), optional=buffers)
    assert_close(flow.noise[:, : case.io["rand_noise"].shape[-1]], case.io["rand_noise"][0], 0.0)
    return flow


def whole_ids(case: Case) -> Tensor:
    return torch.cat([case.io["prompt_token"], case.io["token"]], dim=1)


@torch.inference_mode()
def test_encoder_gives_the_published_mu() -> None:
    case = load_case("flow_v2")
    flow = load_flow(case)
    ids = whole_ids(case)
    final = without_lookahead(ids, flow.config.lookahead_tokens)
    assert_close(flow.mu(final, is_streaming=False).mT, case.io["mu_streaming_0"], NETWORK_TOLERANCE)
    assert_close(flow.mu(final, is_streaming=True).mT, case.io["mu_streaming_1"], NETWORK_TOLERANCE)
    assert_close(flow.mu(ids, is_streaming=True).mT, case.io["mu_streaming_1_context"], NETWORK_TOLERANCE)


@FAMILY
@STREAMING
@torch.inference_mode()
def test_one_estimator_call_gives_the_published_velocity(name: str, is_streaming: bool) -> None:
    case = load_case(name)
    flow = load_flow(case)
    x, mu, cond = (case.io[f"est_{key}"] for key in ("x", "mu", "cond"))
    mask = chunk_mask(x.shape[-1], flow.config.estimator.chunk if is_streaming else 0)
    velocity = flow.estimator(x, mu, case.io["est_t"], case.io["est_spks"], cond, FullContext(mask))
    assert_close(velocity, case.io[f"est_out_streaming_{int(is_streaming)}"], NETWORK_TOLERANCE)


@FAMILY
@STREAMING
def test_ten_step_solve_gives_the_published_mel(name: str, is_streaming: bool) -> None:
    case = load_case(name)
    io = case.io
    mel = load_flow(case)(io["token"], io["prompt_token"], io["prompt_feat"], io["embedding"], is_streaming)
    expected = io["mel_streaming_mask_full" if is_streaming else "mel_offline"]
    assert_close(mel, expected, SOLVE_TOLERANCE)


@FAMILY
def test_recomputed_chunks_give_the_published_mel(name: str) -> None:
    case = load_case(name)
    flow, io = load_flow(case), case.io
    for index, (offset, hop, is_last) in enumerate(io["chunk_schedule"].tolist()):
        visible = io["token"] if is_last else io["token"][:, : offset + hop + flow.config.lookahead_tokens]
        mel = flow(visible, io["prompt_token"], io["prompt_feat"], io["embedding"], True, bool(is_last))
        assert_close(mel[:, :, 2 * offset :], io[f"chunk_mel_{index}"], SOLVE_TOLERANCE)


def test_cosyvoice1_flow_gives_the_published_mel_and_cache() -> None:
    case = load_case("flow_v1")
    config = parse_flow(flow_fields(case.config), case.config["kind"])
    assert isinstance(config, CosyVoice1FlowConfig)
    flow, io = CosyVoice1Flow(config), case.io
    load_exactly(flow, case.weights, COSYVOICE1_FLOW, Path(case.name))
    prompt = (io["prompt_token"], io["prompt_feat"], io["embedding"], io["z"])
    mel, cache = flow(io["token"], *prompt, flow.empty_cache())
    assert_close(mel, io["mel"], SOLVE_TOLERANCE)
    assert_close(cache, io["flow_cache"], SOLVE_TOLERANCE)
    second, _ = flow(io["token"][:, OVERLAP_TOKENS:], *prompt, io["flow_cache"])
    assert_close(second, io["mel_second_from_token20_with_cache"], SOLVE_TOLERANCE)
