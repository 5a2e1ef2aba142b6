"""Engines built and run on a GPU: the samples of torch's networks on the CPU."""

from pathlib import Path

import pytest
import torch

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import Family
from firstword.models.flow.flow import Flow
from firstword.models.networks import Networks
from firstword.models.runtimes.tensorrt.engines import (
    FLOW_PARTS,
    VOCODER_PARTS,
    EnginePlans,
    flow_networks,
    load_engines,
    vocoder_network,
)
from firstword.models.runtimes.tensorrt.library import find_library, installed_modules
from firstword.models.runtimes.tensorrt.plans import build_plans
from firstword.models.token2wav import Token2Wav
from firstword.models.token2wav_step import StepInput
from tests.models.networks import random_ids, small_speaker
from tests.support.checkpoints import small_checkpoint

pytestmark = [
    pytest.mark.tensorrt,
    pytest.mark.skipif(not installed_modules(), reason="TensorRT is not installed: make setup-tensorrt"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU to run engines on"),
]


def spoken(token2wav: Token2Wav, num_tokens: int) -> torch.Tensor:
    state = token2wav.start(token2wav.compute_prompt_state(small_speaker(0, 65)))
    return token2wav.step([StepInput(state, random_ids(0, num_tokens), True)])[0].cpu()


@pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])
def test_engines_speak_as_torch_does(family: Family, tmp_path: Path) -> None:
    checkpoint, library = open_checkpoint(small_checkpoint(family)), find_library()
    found = EnginePlans(checkpoint, library, "float32", 10.0, tmp_path)
    flow, hift = checkpoint.load_flow(), checkpoint.load_hift()
    assert isinstance(flow, Flow)
    build_plans(library, found.parts(flow, hift), found.plans)
    expected = spoken(Token2Wav(flow, hift), 130)
    flow, hift = flow.to("cuda"), hift.to("cuda")
    made = load_engines(found, FLOW_PARTS + VOCODER_PARTS, num_contexts=2)
    networks = Networks(flow=flow_networks(made, flow), vocoder=vocoder_network(made, hift))
    token2wav = Token2Wav(flow, hift, networks=networks)
    torch.testing.assert_close(spoken(token2wav, 130), expected, atol=5e-3, rtol=0)
