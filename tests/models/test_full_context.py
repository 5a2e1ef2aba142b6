"""`context: full`: one solve over prompt and utterance, however the tokens come, in torch and as graphs."""

from copy import deepcopy

import pytest
import torch

from firstword.models import token2wav
from firstword.models.flow.incremental import FlowNetworks, IncrementalFlow
from firstword.models.runtimes.onnx.build import onnx_estimator, onnx_front
from firstword.models.token2wav import Token2Wav
from firstword.models.token2wav_step import StepInput
from tests.models.networks import FLOWS, UNGUIDED_FLOWS, random_ids, small_flow, small_hift, small_speaker

pytestmark = pytest.mark.slow

NUM_PROMPT = 33
TOKENS = random_ids(7, 90)


@pytest.mark.parametrize("has_graphs", [False, True], ids=["torch", "onnx"])
@pytest.mark.parametrize("kind", [*FLOWS, *UNGUIDED_FLOWS])
def test_mel_is_that_of_one_solve_over_everything(kind: str, has_graphs: bool) -> None:
    speaker = small_speaker(1, NUM_PROMPT)
    expected = small_flow(kind)(
        torch.tensor([TOKENS]), speaker.prompt_tokens[None], speaker.prompt_mel[None], speaker.embedding[None]
    )[0]
    flow = deepcopy(small_flow(kind))
    front = onnx_front(flow, num_threads=1) if has_graphs else None
    estimator = onnx_estimator(flow, has_int8=False, num_threads=1) if has_graphs else None
    spks = flow.speaker_projection(speaker.embedding[None])
    networks = FlowNetworks(front or flow.front, estimator or flow.estimator)
    mel = IncrementalFlow(flow, networks).solve_whole(
        speaker.prompt_tokens.tolist(), speaker.prompt_mel, spks, TOKENS
    )
    torch.testing.assert_close(mel, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("kind", FLOWS)
def test_nothing_is_heard_before_the_last_token_and_neighbours_do_not_matter(kind: str) -> None:
    session = Token2Wav(small_flow(kind), small_hift(kind == "dit"))
    prompt = session.compute_prompt_state(small_speaker(1, NUM_PROMPT))
    (whole,) = session.step([StepInput(session.start(prompt, has_full_context=True), TOKENS, True)])
    state, chunked = session.start(prompt, has_full_context=True), session.start(prompt)
    assert session.tokens_wanted(state) == token2wav.MAX_FULL_TOKENS + 1 - NUM_PROMPT
    (silent, heard) = session.step(
        [StepInput(state, TOKENS[:60], False), StepInput(chunked, TOKENS[:60], False)]
    )
    assert len(silent) == 0
    assert len(heard) > 0
    (rest, _) = session.step([StepInput(state, TOKENS[60:], True), StepInput(chunked, TOKENS[60:], True)])
    torch.testing.assert_close(rest, whole, atol=1e-5, rtol=0)
    assert len(rest) == len(TOKENS) * session.samples_per_token
    (in_chunks,) = session.step([StepInput(session.start(prompt), TOKENS, True)])
    assert float((in_chunks - whole).abs().max()) > 2e-4  # further than rounding


def test_what_is_too_long_to_be_solved_at_once_is_solved_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token2wav, "MAX_FULL_TOKENS", NUM_PROMPT + len(TOKENS) - 1)
    session = Token2Wav(small_flow("unet"), small_hift(False))
    prompt = session.compute_prompt_state(small_speaker(1, NUM_PROMPT))
    state = session.start(prompt, has_full_context=True)
    pieces = []
    position = 0
    while position < len(TOKENS):
        due = position + session.tokens_wanted(state)
        pieces += session.step([StepInput(state, TOKENS[position:due], due >= len(TOKENS))])
        position = due
    (in_chunks,) = session.step([StepInput(session.start(prompt), TOKENS, True)])
    torch.testing.assert_close(torch.cat(pieces), in_chunks, atol=1e-4, rtol=0)
