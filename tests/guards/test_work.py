"""Guards the speed by counting, on the built-in voice: a count cannot flicker as a time does.

Bounds lie above what is needed now; who needs more must raise one in sight of everybody. Networks that are
fused or compiled do less that can be seen here, and pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from app.audio.encoder import open_encoder
from app.engine.chunks import ChunkSchedule
from app.settings import BUILTIN_CHECKPOINT, Settings
from models.checkpoint import open_checkpoint
from models.config import SamplingConfig
from models.flow.flow import Flow
from models.hift.hift import HiFT
from models.lm.decoder import RowRequest, SpeechDecoder
from models.lm.plan import LengthRatios, OneWayPlan
from models.lm.qwen2_lm import Qwen2LM
from models.token2wav import PromptState, StepInput, StreamState, Token2Wav
from tests.guards.counting import Work, calls_of, work_of
from tests.models.networks import random_ids

MIB = 1 << 20
DEFAULTS = Settings.model_fields
LOOKAHEAD_TOKENS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Voice:
    flow: Flow
    hift: HiFT
    lm: Qwen2LM
    sampling: SamplingConfig
    session: Token2Wav
    prompt: PromptState

    def start(self, count: int) -> list[StreamState]:
        return [self.session.start(self.prompt, seed) for seed in range(count)]

    def feed(self, states: Sequence[StreamState]) -> None:
        """What each needs for its next chunk. All stand at the same place."""
        wanted = self.session.tokens_wanted(states[0])
        self.session.step([StepInput(state, random_ids(1, wanted), False) for state in states])

    def decoder(self, num_rows: int) -> SpeechDecoder:
        """Rows that have begun and will not end soon."""
        decoder = SpeechDecoder(self.lm, self.sampling)
        text, prompt = list(range(20)), list(range(40))
        for seed in range(num_rows):
            plan = OneWayPlan(self.lm.vocabulary, text, text, prompt, LengthRatios(30, 30))
            decoder.add(RowRequest(plan, seed))
        for _ in range(num_rows):  # one new row a step
            decoder.step()
        return decoder


@cache
def voice() -> Voice:
    checkpoint = open_checkpoint(BUILTIN_CHECKPOINT)
    flow, lm = checkpoint.load_flow(), checkpoint.load_lm()
    assert isinstance(flow, Flow)
    assert isinstance(lm, Qwen2LM)
    session = Token2Wav(flow, hift := checkpoint.load_hift(), DEFAULTS["window_s"].default)
    speaker = next(iter(checkpoint.load_speakers().values()))
    prompt = session.prepare(speaker, DEFAULTS["first_hop_tokens"].default)
    return Voice(flow, hift, lm, checkpoint.config.lm.sampling, session, prompt)


def test_first_audio_comes_after_ten_tokens_and_their_lookahead() -> None:
    """More: the first audio waits for 7 ms of the language model and 40 ms of speech with each token."""
    session, (state,) = voice().session, voice().start(1)
    wanted = session.tokens_wanted(state)
    assert wanted <= DEFAULTS["first_hop_tokens"].default + LOOKAHEAD_TOKENS == 13
    chunk = ChunkSchedule().next_chunk(wanted, wanted, has_ended=False)
    assert chunk is not None, "the schedule waits for more than the network needs"
    (samples,) = session.step([StepInput(state, random_ids(1, wanted), False)])
    assert len(samples) == DEFAULTS["first_hop_tokens"].default * session.samples_per_token


@pytest.mark.parametrize("num_streams", [1, 4])
def test_each_network_runs_once_a_chunk_for_all_streams(num_streams: int) -> None:
    """More calls: a chunk is solved in parts, again, or for each stream apart; each costs its launches."""
    here = voice()
    states = here.start(num_streams)
    here.feed(states)
    with (
        calls_of(here.flow.front) as front,
        calls_of(here.flow.estimator) as estimator,
        calls_of(here.hift.f0) as f0,
        calls_of(here.hift.generator) as generator,
    ):
        here.feed(states)
    assert front or estimator or generator, "the networks are called otherwise now; count them there"
    assert len(front) <= 1
    assert len(estimator) <= here.flow.config.cfm.num_steps
    assert len(f0) <= 1
    assert len(generator) <= 1


def test_no_frame_is_solved_twice() -> None:
    """More than 50 a second and pass: history or prompt are solved again, so cost grows with the stream."""
    here = voice()
    (state,) = here.start(1)
    for _ in range(3):
        here.feed([state])
    solved, chunks = state.flow.num_solved_frames, 12  # past the window of ten seconds
    with calls_of(here.flow.estimator) as shapes:
        for _ in range(chunks):
            here.feed([state])
    passes = here.flow.config.cfm.rows_per_stream * here.flow.config.cfm.num_steps
    assert state.flow.num_solved_frames - solved == 50 * chunks
    assert sum(shape[0] * shape[-1] for shape in shapes) <= 50 * chunks * passes


def test_language_model_runs_once_a_token_for_all_rows() -> None:
    """More: rows no longer share a step, and the time for a token grows with the streams."""
    alone, together = voice().decoder(num_rows=1), voice().decoder(num_rows=4)
    with calls_of(voice().lm) as shapes:
        work = work_of(together.step)
    assert len(shapes) <= 1
    assert work.num_operations <= 1.2 * work_of(alone.step).num_operations, work.operations.most_common(12)


def test_step_of_the_language_model_does_no_more_than_it_must() -> None:
    """Operations are the step's cost at this size: 221 now, of which 43 are the layers' products."""
    decoder = voice().decoder(num_rows=1)
    work = work_of(decoder.step)
    assert 0 < work.num_operations <= 260, work.operations.most_common(12)


def test_step_of_the_language_model_copies_no_history() -> None:
    """40 KB now, the row's mask and embeddings. More: the cache of keys and values is joined or moved."""
    decoder = voice().decoder(num_rows=1)
    early = work_of(decoder.step)
    for _ in range(200):
        decoder.step()
    late = work_of(decoder.step)
    assert late.copied_bytes <= 64 * 1024, late.operations.most_common(12)
    assert late.num_operations <= 1.05 * early.num_operations, late.operations - early.operations


def test_chunk_does_no_more_than_it_must() -> None:
    """1,973 operations and 20.8 MB copied now. More: each operation is a launch, each copy is bandwidth."""
    work = chunk_work(at_chunk=3)
    assert 0 < work.num_operations <= 2300, work.operations.most_common(12)
    assert work.copied_bytes <= 24 * MIB, work.operations.most_common(12)


def test_chunk_late_in_a_stream_does_what_an_early_one_does() -> None:
    """What is left to grow: places that the window lies in. More: something grows with the stream."""
    early, late = chunk_work(at_chunk=15), chunk_work(at_chunk=40)
    assert late.num_operations <= 1.05 * early.num_operations, late.operations - early.operations
    assert late.copied_bytes <= 1.05 * early.copied_bytes


def test_four_streams_share_the_work_of_a_chunk() -> None:
    """Attention over each past is a stream's own; the rest is done once. More: streams are not batched."""
    alone, together = chunk_work(at_chunk=3), chunk_work(at_chunk=3, num_streams=4)
    assert together.num_operations <= 2 * alone.num_operations, together.operations - alone.operations


def test_plain_audio_is_two_bytes_a_sample_with_nothing_kept_back() -> None:
    """More bytes: the listener is sent padding or a second header; fewer: its audio waits in an encoder."""
    encoder = open_encoder("pcm", 24_000)
    assert encoder.start() == b""
    assert len(encoder.encode(np.zeros(24_000, np.float32))) == 48_000
    assert encoder.finish() == b""


def chunk_work(at_chunk: int, num_streams: int = 1) -> Work:
    here = voice()
    states = here.start(num_streams)
    for _ in range(at_chunk):
        here.feed(states)
    return work_of(lambda: here.feed(states))
