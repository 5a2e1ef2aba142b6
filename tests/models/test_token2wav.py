"""Streaming through flow and vocoder: equal to recomputation, at constant work, whoever the neighbours."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from firstword.models.config import MelConfig
from firstword.models.flow.flow import Flow
from firstword.models.flow.incremental import FlowState, IncrementalFlow
from firstword.models.frontend.mel_match import NO_CHANGE
from firstword.models.frontend.speaker import EQUALIZER_SHAPE, SpeakerFeatures
from firstword.models.speaker_match import matched
from firstword.models.token2wav import PromptState, Token2Wav, aligned_cut
from firstword.models.token2wav_step import StepInput
from tests.models.networks import (
    FLOWS,
    NUM_STEPS,
    UNGUIDED_FLOWS,
    random_ids,
    small_flow,
    small_hift,
    small_speaker,
)

FLOW = pytest.mark.parametrize("kind", FLOWS)
GUIDED_OR_NOT = pytest.mark.parametrize("kind", FLOWS + UNGUIDED_FLOWS)
TOLERANCE = 1e-3  # of the joined mel against recomputation
SECOND = 25  # tokens


def make(kind: str, window_s: float | None = None, max_state_bytes: int | None = None) -> Token2Wav:
    return Token2Wav(small_flow(kind), small_hift(kind == "dit"), window_s, max_state_bytes)


def cut(tokens: list[int], hops: list[int]) -> list[list[int]]:
    """The tokens in pieces of the given sizes, the last size repeated to the end."""
    places = [0]
    while places[-1] < len(tokens):
        places.append(places[-1] + hops[min(len(places) - 1, len(hops) - 1)])
    return [tokens[a:b] for a, b in pairwise(places)]


def speak(session: Token2Wav, prompt: PromptState, pieces: list[list[int]], seed: int = 0) -> list[Tensor]:
    state = session.start(prompt, seed)
    last = len(pieces) - 1
    return [session.step([StepInput(state, piece, i == last)])[0] for i, piece in enumerate(pieces)]


def streamed_mel(
    network: Flow, prompt: PromptState, pieces: list[list[int]], window_chunks: int | None = None
) -> tuple[Tensor, FlowState]:
    """The joined mel (M, T) of the flow's chunks."""
    flow = IncrementalFlow(network)
    state = flow.start(prompt.flow, window_chunks)
    mels: list[Tensor] = []
    for index, piece in enumerate(pieces):
        state.pending_tokens += piece
        while chunk := flow.next_chunk(state, is_last=index == len(pieces) - 1):
            mels += flow.solve_chunks([chunk])
    return torch.cat(mels, dim=1), state


def whole_mel(kind: str, seed: int, num_prompt: int, prompt: PromptState, tokens: list[int]) -> Tensor:
    """One chunk-causal solve over the aligned prompt and everything: (M, T)."""
    speaker = small_speaker(seed, num_prompt)
    start = num_prompt - len(prompt.tokens)
    ids = speaker.prompt_tokens[None, start:]
    mel = speaker.prompt_mel[None, 2 * start :]
    return small_flow(kind)(torch.tensor([tokens]), ids, mel, speaker.embedding[None], is_streaming=True)[0]


@contextmanager
def counted_frames(kind: str) -> Iterator[list[int]]:
    """Frames that the estimator is really given, rows of guidance included, one entry a call."""
    counts: list[int] = []

    def count(_: torch.nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Tensor]) -> None:
        x = args[0] if args else kwargs["x"]
        counts.append(x.shape[0] * x.shape[-1])

    handle = small_flow(kind).estimator.register_forward_pre_hook(count, with_kwargs=True)
    try:
        yield counts
    finally:
        handle.remove()


# Of the first hop and of those that follow; the first two with every prompt, the others with one.
CUTS = [(10, [10, 25]), (13, [3, 1, 7, 40]), (1, [1, 25, 50, 100]), (25, [25]), (24, [24, 50]), (20, [1000])]


@FLOW
@pytest.mark.parametrize(
    ("num_prompt", "first_hop", "hops"),
    [
        *((num_prompt, *cuts) for num_prompt in (0, 7, 25, 60, 200) for cuts in CUTS[:2]),
        *((60, *cuts) for cuts in CUTS[2:]),
    ],
)
def test_streamed_mel_equals_one_solve_over_everything(
    kind: str, num_prompt: int, first_hop: int, hops: list[int]
) -> None:
    prompt = make(kind).compute_prompt_state(small_speaker(5, num_prompt), first_hop)
    tokens = random_ids(6, 137)
    mel, _ = streamed_mel(small_flow(kind), prompt, cut(tokens, hops))
    expected = whole_mel(kind, 5, num_prompt, prompt, tokens)
    assert mel.shape == expected.shape
    assert float((mel - expected).abs().max()) < TOLERANCE


@GUIDED_OR_NOT
@pytest.mark.parametrize("rest", [1, 2, 3, 22, 24, 25, 26, 27, 28])
def test_every_length_of_the_end_equals_one_solve(kind: str, rest: int) -> None:
    prompt = make(kind).compute_prompt_state(small_speaker(5, 40), 10)
    tokens = random_ids(7, 10 + SECOND + rest)
    mel, _ = streamed_mel(small_flow(kind), prompt, cut(tokens, [10, 28, 25]))
    assert float((mel - whole_mel(kind, 5, 40, prompt, tokens)).abs().max()) < TOLERANCE


@FLOW
def test_twenty_seconds_equal_one_solve_over_everything(kind: str) -> None:
    prompt = make(kind).compute_prompt_state(small_speaker(5, 75), 10)
    tokens = random_ids(8, 20 * SECOND)
    mel, state = streamed_mel(small_flow(kind), prompt, cut(tokens, [10, 25, 50, 100]))
    expected = whole_mel(kind, 5, 75, prompt, tokens)
    assert float((mel - expected).abs().max()) < TOLERANCE
    windowed, _ = streamed_mel(small_flow(kind), prompt, cut(tokens, [10, 25, 50, 100]), window_chunks=10)
    within = 2 * 10 * SECOND
    assert float((windowed - expected)[:, :within].abs().max()) < TOLERANCE
    assert float((windowed - expected).abs().max()) > TOLERANCE, (
        "the past has no effect: the test proves nothing"
    )
    assert state.num_solved_frames == 2 * (len(prompt.flow.pending_tokens) + len(tokens))


@FLOW
def test_default_window_is_the_prompt_and_ten_seconds(kind: str) -> None:
    session = Token2Wav(small_flow(kind), small_hift(kind == "dit"))
    assert session.start(session.compute_prompt_state(small_speaker(5, 60))).window_chunks == 10


@GUIDED_OR_NOT
def test_every_frame_is_solved_exactly_once_a_pass(kind: str) -> None:
    session = make(kind, window_s=2.0)
    tokens = random_ids(6, 12 * SECOND + 3)
    with counted_frames(kind) as of_prompt:
        prompt = session.compute_prompt_state(small_speaker(5, 60), 10)
    with counted_frames(kind) as of_stream:
        speak(session, prompt, cut(tokens, [10, 25, 50]))
    passes = (1 if kind in UNGUIDED_FLOWS else 2) * NUM_STEPS  # guidance, steps
    assert sum(of_prompt) + sum(of_stream) == passes * 2 * (len(prompt.tokens) + len(tokens))
    with counted_frames(kind) as of_second_stream:
        speak(session, prompt, cut(tokens, [10, 100]))
    assert sum(of_second_stream) == sum(of_stream), "the prompt was solved again"


@FLOW
@pytest.mark.parametrize("first_hop", range(1, 26))
def test_first_hop_ends_on_the_grid_whatever_its_size(kind: str, first_hop: int) -> None:
    session = make(kind)
    prompt = session.compute_prompt_state(small_speaker(5, 60), first_hop)
    assert prompt.first_hop_tokens == first_hop
    assert 60 - 25 < len(prompt.tokens) <= 60
    state = session.start(prompt)
    assert session.tokens_wanted(state) == first_hop + session.lookahead_tokens
    tokens = random_ids(9, first_hop + session.lookahead_tokens)
    assert len(session.step([StepInput(state, tokens[:-1], False)])[0]) == 0
    withheld = 4 * 480 + 4 if kind == "dit" else 0
    samples = session.step([StepInput(state, tokens[-1:], False)])[0]
    assert len(samples) == max(0, 960 * first_hop - withheld)


def test_prompt_too_short_for_the_first_hop_stays_whole() -> None:
    assert aligned_cut(num_tokens=7, first_hop_tokens=10, chunk_tokens=25) == 0
    prompt = make("unet").compute_prompt_state(small_speaker(5, 7), 10)
    assert len(prompt.tokens) == 7
    assert prompt.first_hop_tokens == 18


@FLOW
def test_every_hop_gives_960_samples_a_token(kind: str) -> None:
    session = make(kind, window_s=2.0)
    prompt = session.compute_prompt_state(small_speaker(5, 60), 10)
    sizes = [len(x) for x in speak(session, prompt, [random_ids(1, n) for n in (13, 25, 50, 25, 17)])]
    withheld = 4 * 480 + 4 if kind == "dit" else 0
    assert sizes == [9600 - withheld, 24000, 48000, 24000, 960 * 20 + withheld]


@pytest.mark.parametrize("kind", FLOWS)
def test_mel_by_itself_and_then_the_vocoder_give_the_same_sound(kind: str) -> None:
    session = make(kind)
    prompt = session.compute_prompt_state(small_speaker(7, 60), 10)
    tokens = random_ids(1, 30)
    (whole,) = session.step([StepInput(session.start(prompt, 0), tokens, True)])
    state = session.start(prompt, 0)
    pieces = [StepInput(state, tokens[:13], False), StepInput(state, tokens[13:], True)]
    mel = torch.cat([session.step_mel(piece) for piece in pieces], dim=1)
    assert mel.shape == (80, 60)
    samples = session.vocode(mel, is_last=True)
    assert samples.shape == whole.shape
    if kind == "dit":  # whose vocoder does not depend on the chunks
        assert float((samples - whole).abs().max()) < 1e-3 * max(1.0, float(whole.abs().max()))
        assert session.vocode(mel, is_last=False).shape[0] < whole.shape[0]


@torch.inference_mode()
def test_causal_audio_equals_the_whole_utterance_at_once() -> None:
    session, hift = make("dit"), small_hift(is_causal=True)
    prompt = session.compute_prompt_state(small_speaker(5, 60), 10)
    tokens = random_ids(6, 111)
    audio = torch.cat(speak(session, prompt, cut(tokens, [10, 31, 50])))
    mel = whole_mel("dit", 5, 60, prompt, tokens)[None]
    noise = hift.fixed_noise(0, mel.shape[-1] * 480)[None]
    source, _ = hift.source(hift.predict_f0(mel), noise, None, is_last=True)
    expected = hift.decode(mel, source)[0]
    assert audio.shape == expected.shape
    assert float((audio - expected).abs().max()) < 1e-3 * max(1.0, float(expected.abs().max()))


@FLOW
def test_a_matched_speaker_is_mapped_frame_by_frame(kind: str) -> None:
    session = make(kind)
    speaker = small_speaker(5, 33)
    louder = torch.eye(80, 81)
    louder[:, -1] = 1.5
    tokens = random_ids(4, 83)

    def mel(mel_map: Tensor | None, has_full_context: bool) -> Tensor:
        prompt = session.compute_prompt_state(replace(speaker, mel_map=mel_map), 10)
        state = session.start(prompt, has_full_context=has_full_context)
        return session.step_mel(StepInput(state, tokens, is_last=True))

    for has_full_context in (False, True):
        plain = mel(None, has_full_context)
        assert torch.equal(mel(NO_CHANGE, has_full_context), plain)
        expected = (plain + 1.5).maximum(plain.clamp_max(math.log(1e-5)))
        torch.testing.assert_close(mel(louder, has_full_context), expected)
    echo = torch.zeros(EQUALIZER_SHAPE)
    echo[0], echo[300] = 1.0, 0.5
    whole = session.compute_prompt_state(replace(speaker, mel_map=louder, equalizer=echo), 10)
    expected_samples = torch.cat(speak(session, whole, [tokens], seed=3))
    samples = torch.cat(speak(session, whole, cut(tokens, [10, 25]), seed=3))
    torch.testing.assert_close(samples, expected_samples, atol=1e-5, rtol=0)
    without = torch.cat(speak(session, replace(whole, equalizer=None), [tokens], seed=3))
    late = torch.cat([torch.zeros(300), without[:-300]])
    torch.testing.assert_close(samples, without + 0.5 * late, atol=1e-5, rtol=0)


@FLOW
def test_matching_needs_nothing_but_the_speaker(kind: str) -> None:
    config = MelConfig(24_000, 1920, 480, 1920)
    speaker = small_speaker(5, 33)
    found = matched(make(kind), speaker, random_ids(1, 40), config)
    assert found.mel_map is not None
    assert found.equalizer is not None
    assert not torch.equal(found.mel_map, NO_CHANGE)
    other = replace(speaker, mel_map=NO_CHANGE + 0.3, equalizer=torch.ones(EQUALIZER_SHAPE))
    again = matched(make(kind), other, random_ids(1, 40), config)
    assert again.mel_map is not None
    assert again.equalizer is not None
    assert torch.equal(again.mel_map, found.mel_map)
    assert torch.equal(again.equalizer, found.equalizer)


@FLOW
def test_rows_of_a_batch_do_not_know_each_other(kind: str) -> None:
    session = make(kind, window_s=3.0)
    speakers = ((1, 60, 10), (2, 0, 25), (3, 90, 7))  # seed, prompt tokens, first hop
    prompts = [session.compute_prompt_state(small_speaker(seed, count), hop) for seed, count, hop in speakers]
    plans = [
        cut(random_ids(11, 205), [13, 25]),
        cut(random_ids(12, 90), [40]),
        cut(random_ids(13, 160), [9, 50]),
    ]
    alone = [torch.cat(speak(session, prompts[seed], plan, seed)) for seed, plan in enumerate(plans)]

    states = [session.start(prompt, seed) for seed, prompt in enumerate(prompts)]
    joined: list[list[Tensor]] = [[], [], []]
    for turn in range(max(map(len, plans)) + 2):  # each stream starts a turn after the one before
        rows = [i for i, plan in enumerate(plans) if 0 <= turn - i < len(plan)]
        items = [StepInput(states[i], plans[i][turn - i], turn - i == len(plans[i]) - 1) for i in rows]
        for i, samples in zip(rows, session.step(items), strict=True):
            joined[i].append(samples)
    for i, expected in enumerate(alone):
        assert float((torch.cat(joined[i]) - expected).abs().max()) < 1e-4


@FLOW
def test_audio_does_not_depend_on_how_the_tokens_came(kind: str) -> None:
    session = make(kind)
    prompt = session.compute_prompt_state(small_speaker(5, 33), 10)
    tokens = random_ids(4, 83)
    expected = torch.cat(speak(session, prompt, [tokens], seed=3))
    assert len(expected) == 960 * len(tokens)
    for hops in ([1], [10, 25], [13, 25], [50]):
        audio = torch.cat(speak(session, prompt, cut(tokens, hops), seed=3))
        torch.testing.assert_close(audio, expected, atol=1e-5, rtol=0)


@GUIDED_OR_NOT
def test_memory_stays_the_same_once_the_window_is_full(kind: str) -> None:
    session = make(kind, window_s=3.0)
    prompt = session.compute_prompt_state(small_speaker(5, 60), 10)
    state = session.start(prompt)
    sizes = []
    session.step([StepInput(state, random_ids(0, 13), False)])
    for second in range(12):
        session.step([StepInput(state, random_ids(second, SECOND), False)])
        sizes.append(state.state_bytes)
    assert len(set(sizes[4:])) == 1
    fixed, per_chunk = IncrementalFlow(small_flow(kind)).state_bytes()
    assert state.flow.num_bytes == fixed + 5 * per_chunk  # window, the chunk with the prompt's rest, current


@FLOW
def test_tight_memory_shortens_the_window_and_says_so(kind: str) -> None:
    fixed, per_chunk = IncrementalFlow(small_flow(kind)).state_bytes()
    sound_bytes = 140_000  # a little more than the vocoder keeps
    budget = fixed + 4 * per_chunk + sound_bytes
    for window_s in (10.0, None):
        session = make(kind, window_s, max_state_bytes=budget)
        state = session.start(session.compute_prompt_state(small_speaker(5, 60), 10))
        assert state.window_chunks == 2
        assert state.is_window_shortened
        for _ in range(8):
            session.step([StepInput(state, random_ids(1, SECOND), False)])
        assert state.state_bytes <= budget
        assert state.state_bytes > budget - per_chunk
    generous = make(kind, 10.0, max_state_bytes=fixed + 13 * per_chunk)
    assert not generous.start(generous.compute_prompt_state(small_speaker(5, 60), 10)).is_window_shortened
    nothing = make(kind, 10.0, max_state_bytes=0)
    state = nothing.start(nothing.compute_prompt_state(small_speaker(5, 60), 10))
    assert state.window_chunks == 0
    assert len(nothing.step([StepInput(state, random_ids(1, 60), True)])[0]) == 60 * 960


@FLOW
def test_streams_of_a_speaker_share_its_prompt_and_leave_it_alone(kind: str) -> None:
    session = make(kind)
    prompt = session.compute_prompt_state(small_speaker(5, 60), 10)
    before = [layer.keys.clone() for layer in prompt.flow.estimator_cache.key_values.values()]
    tokens = random_ids(3, 60)
    first = torch.cat(speak(session, prompt, cut(tokens, [10, 25])))
    assert all(
        torch.equal(a, b.keys)
        for a, b in zip(before, prompt.flow.estimator_cache.key_values.values(), strict=True)
    )
    assert torch.equal(first, torch.cat(speak(session, prompt, cut(tokens, [10, 25]))))


@FLOW
def test_step_that_failed_can_be_repeated(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = make(kind)
    prompt = session.compute_prompt_state(small_speaker(5, 60), 10)
    tokens = random_ids(3, 88)
    expected = torch.cat(speak(session, prompt, [tokens[:13], tokens[13:]]))

    state = session.start(prompt)
    out = session.step([StepInput(state, tokens[:13], False)])
    estimator = small_flow(kind).estimator
    calls = iter(range(1000))

    def fail_late(*_: object) -> None:
        if next(calls) == NUM_STEPS + NUM_STEPS // 2:  # in the second of three chunks
            raise MemoryError("no memory")

    handle = estimator.register_forward_pre_hook(fail_late)
    try:
        with pytest.raises(MemoryError):
            session.step([StepInput(state, tokens[13:], True)])
    finally:
        handle.remove()
    out += session.step([StepInput(state, [], True)])
    torch.testing.assert_close(torch.cat(out), expected, atol=1e-5, rtol=0)


def test_wrong_input_is_refused_before_anything_changes() -> None:
    session = make("unet")
    speaker = small_speaker(5, 60)
    with pytest.raises(ValueError, match=r"first_hop_tokens is 26, expected 1\.\.25"):
        session.compute_prompt_state(speaker, 26)
    prompt = session.compute_prompt_state(speaker, 10)
    state, other = session.start(prompt), session.start(prompt)
    with pytest.raises(ValueError, match=r"speech token 120; the flow knows 0\.\.119"):
        session.step([StepInput(other, [1, 2], False), StepInput(state, [3, 120], False)])
    assert not other.flow.pending_tokens[len(prompt.flow.pending_tokens) :]
    with pytest.raises(ValueError, match="twice in the batch"):
        session.step([StepInput(state, [1], False), StepInput(state, [2], False)])
    session.step([StepInput(state, random_ids(1, 5), True)])
    with pytest.raises(ValueError, match="has had its last tokens"):
        session.step([StepInput(state, [1], False)])


@FLOW
def test_stream_without_tokens_ends_silently(kind: str) -> None:
    session = make(kind)
    state = session.start(session.compute_prompt_state(small_speaker(5, 25), 10))
    assert len(session.step([StepInput(state, [], True)])[0]) == 0
    assert state.is_finished


@FLOW
@torch.inference_mode()
def test_bfloat16_stays_near_float32(kind: str) -> None:
    flow = deepcopy(small_flow(kind)).to(torch.bfloat16)
    hift = deepcopy(small_hift(kind == "dit")).to(torch.bfloat16)
    session, tokens = Token2Wav(flow, hift, None), random_ids(6, 70)
    prompt = session.compute_prompt_state(small_speaker(5, 60))
    audio = torch.cat(speak(session, prompt, cut(tokens, [13, 25])))
    assert audio.dtype == torch.float32
    assert len(audio) == 70 * 960
    assert torch.isfinite(audio).all()
    assert flow.noise.dtype == torch.float32
    mel, _ = streamed_mel(flow, prompt, cut(tokens, [13, 25]))
    expected = whole_mel(kind, 5, 60, prompt, tokens)
    error = float((mel - expected).square().mean().sqrt() / expected.square().mean().sqrt())
    assert 0 < error < 0.02


def test_prompt_whose_mel_is_not_two_frames_a_token_is_aligned() -> None:
    session, speaker = make("unet"), small_speaker(5, 60)
    odd = SpeakerFeatures("", speaker.prompt_tokens, speaker.prompt_mel[:-1], speaker.embedding)
    cut_speaker = SpeakerFeatures("", speaker.prompt_tokens[:-1], speaker.prompt_mel[:-2], speaker.embedding)
    audio, expected = (
        torch.cat(speak(session, session.compute_prompt_state(one), [random_ids(1, 40)]))
        for one in (odd, cut_speaker)
    )
    assert torch.equal(audio, expected)
