"""Guards the speed by counting, on the built-in voice: a count cannot flicker as a time does.

Bounds lie somewhat above what is needed now; who needs more must raise one in sight of everybody.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from firstword.app.audio.encode import AudioEncoder
from firstword.models.lm.decoder import SpeechDecoder
from firstword.models.token2wav_step import StepInput
from tests.guards.counting import Work, calls_of, graph_runs, work_of
from tests.guards.voices import FIRST_HOP_TOKENS, KINDS, Kind, torch_networks, voice
from tests.models.networks import random_ids

KIB, MIB = 1 << 10, 1 << 20
LOOKAHEAD_TOKENS = 3
VOCODER_LOOKAHEAD_SAMPLES = 1_800  # of Harmonic Vocos: four frames, and half a window that overlaps on
PLACES = (15, 40)  # of chunks: the window of ten seconds is full; late in the stream
BOTH = pytest.mark.parametrize("kind", KINDS)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one token of the language model, and of one chunk in the full window of ten seconds."""

    token_operations: int
    token_copied_bytes: int
    chunk_operations: int
    chunk_copied_bytes: int


BOUNDS: dict[Kind, Bounds] = {
    "graphs": Bounds(90, 16 * KIB, 500, 12 * MIB),  # 72, 8.6 KB, 436, 9.5 MB now
    "torch": Bounds(260, 64 * KIB, 2400, 28 * MIB),  # 221, 45 KB, 2087, 25.2 MB now
}


def plain_step(decoder: SpeechDecoder) -> Work:
    """Of 24 steps: one in which no row draws twice, for having repeated itself, which depends on the weights;
    the copies of the one that copied most."""
    works = [work_of(decoder.step) for _ in range(24)]
    plain = min(works, key=lambda work: work.num_operations)
    return replace(plain, copied_bytes=max(work.copied_bytes for work in works))


@BOTH
def test_first_audio_comes_after_ten_tokens_and_their_lookahead(kind: Kind) -> None:
    """More: the first audio waits for another step of the language model with each token."""
    session, (state,) = voice(kind).session, voice(kind).start(1)
    wanted = session.tokens_wanted(state)
    assert wanted <= FIRST_HOP_TOKENS + LOOKAHEAD_TOKENS == 13
    (samples,) = session.step([StepInput(state, random_ids(1, wanted), False)])
    assert len(samples) == FIRST_HOP_TOKENS * session.samples_per_token - VOCODER_LOOKAHEAD_SAMPLES


@pytest.mark.parametrize("num_streams", [1, 4])
def test_each_network_runs_once_a_chunk_for_all_streams(num_streams: int) -> None:
    """More calls: a chunk is solved in parts, again, or for each stream apart; each costs its launches."""
    here, (flow, vocoder) = voice("torch"), torch_networks()
    states = here.start(num_streams)
    here.feed(states)
    with (
        calls_of(flow.front) as front,
        calls_of(flow.estimator) as estimator,
        calls_of(vocoder.f0_net) as f0,
        calls_of(vocoder.filters_net) as filters,
    ):
        here.feed(states)
    assert front or estimator or filters, "the networks are called otherwise now; count them there"
    assert len(front) <= 1
    assert len(estimator) <= flow.config.cfm.num_steps
    assert len(f0) <= 1
    assert len(filters) <= 1


def test_graphs_run_once_a_solver_step_once_before_and_twice_behind_them() -> None:
    """More: a pass that was one call has come apart, and each call costs its binding and Python's lock."""
    here, (flow, _) = voice("graphs"), torch_networks()
    states = here.start(1)
    here.feed(states)
    with graph_runs() as runs:
        here.feed(states)
    assert 1 <= len(runs) <= flow.config.cfm.num_steps + 3  # the vocoder's are F0 and filters


def test_graphs_run_twice_a_token_for_all_rows() -> None:
    """Decoder and head. More: rows no longer share a step, or it has come apart."""
    decoder = voice("graphs").decoder(num_rows=4)
    with graph_runs() as runs:
        for _ in range(10):
            decoder.step()
    assert 1 <= len(runs) <= 20


@BOTH
def test_no_frame_is_solved_twice(kind: Kind) -> None:
    """More than 50 a second and pass: history or prompt are solved again, so cost grows with the stream."""
    here, (flow, _) = voice(kind), torch_networks()
    (state,) = here.start(1)
    for _ in range(3):
        here.feed([state])
    solved, chunks = state.flow.num_solved_frames, 12  # past the window of ten seconds
    with calls_of(flow.estimator) as shapes:
        for _ in range(chunks):
            here.feed([state])
    passes = flow.config.cfm.rows_per_stream * flow.config.cfm.num_steps
    assert state.flow.num_solved_frames - solved == 50 * chunks
    assert sum(shape[0] * shape[-1] for shape in shapes) <= 50 * chunks * passes


@BOTH
def test_four_rows_share_a_step_of_the_language_model(kind: Kind) -> None:
    """More: the time for a token grows with the streams."""
    alone, together = (plain_step(voice(kind).decoder(num_rows)) for num_rows in (1, 4))
    assert together.num_operations <= 1.2 * alone.num_operations, together.operations - alone.operations


@BOTH
def test_step_of_the_language_model_does_no_more_than_it_must(kind: Kind) -> None:
    """Operations are the step's cost at this size: each is a call, on a GPU a launch."""
    work = work_of(voice(kind).decoder(num_rows=1).step)
    assert 0 < work.num_operations <= BOUNDS[kind].token_operations, work.operations.most_common(12)


@BOTH
def test_step_of_the_language_model_copies_no_history(kind: Kind) -> None:
    """More: the cache of keys and values is joined or moved, which grows with the utterance."""
    decoder = voice(kind).decoder(num_rows=1)
    early = plain_step(decoder)
    for _ in range(200):
        decoder.step()
    late = plain_step(decoder)
    assert late.copied_bytes <= BOUNDS[kind].token_copied_bytes, late.operations.most_common(12)
    assert late.num_operations <= 1.05 * early.num_operations, late.operations - early.operations


@BOTH
def test_chunk_does_no_more_than_it_must(kind: Kind) -> None:
    """More operations: each is a call, on a GPU a launch. More copies: each is bandwidth."""
    work, _ = voice(kind).chunk_work(1, *PLACES)
    assert 0 < work.num_operations <= BOUNDS[kind].chunk_operations, work.operations.most_common(12)
    assert work.copied_bytes <= BOUNDS[kind].chunk_copied_bytes, work.operations.most_common(12)


@BOTH
def test_chunk_late_in_a_stream_does_what_one_in_its_full_window_does(kind: Kind) -> None:
    """More: something grows with the stream."""
    early, late = voice(kind).chunk_work(1, *PLACES)
    assert late.num_operations <= 1.05 * early.num_operations, late.operations - early.operations
    assert late.copied_bytes <= 1.05 * early.copied_bytes


def test_four_streams_share_the_work_of_a_chunk() -> None:
    """Attention over each past is a stream's own; the rest is done once. More: streams are not batched."""
    (alone,), (together,) = (voice("torch").chunk_work(num_streams, 3) for num_streams in (1, 4))
    assert together.num_operations <= 2 * alone.num_operations, together.operations - alone.operations


def test_plain_audio_is_two_bytes_a_sample_with_nothing_kept_back() -> None:
    """More bytes: the listener is sent padding or a second header; fewer: its audio waits in an encoder."""
    encoder = AudioEncoder("pcm", 24_000)
    assert encoder.start() == b""
    assert len(encoder.encode(np.zeros(24_000, np.float32))) == 48_000
    assert encoder.finish() == b""
