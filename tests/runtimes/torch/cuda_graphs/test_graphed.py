"""Networks as CUDA graphs, on a CPU where a graph is a plain run over the same fixed memory: which shapes are
recorded, and that padding changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from firstword.models.flow.incremental import FlowNetworks
from firstword.models.hift.streaming import CausalVocoder, Sound, Vocoder, WindowedVocoder, vocode
from firstword.models.lm.decoder import Emitted, RowRequest, SpeechLM, new_decoder
from firstword.models.lm.plan import LengthRatios, OfflinePlan
from firstword.models.networks import Networks
from firstword.models.runtimes.torch.cuda_graphs import flow as graphed_flows
from firstword.models.runtimes.torch.cuda_graphs import token_graphs
from firstword.models.runtimes.torch.cuda_graphs.buckets import BATCHES, bucket
from firstword.models.runtimes.torch.cuda_graphs.build import graphed_lm, graphed_networks
from firstword.models.runtimes.torch.cuda_graphs.causal_vocoder import GraphedCausalVocoder
from firstword.models.runtimes.torch.cuda_graphs.flow import GraphedFlow
from firstword.models.runtimes.torch.cuda_graphs.pages import OutOfPages
from firstword.models.runtimes.torch.cuda_graphs.windowed_vocoder import GraphedWindowedVocoder
from firstword.models.runtimes.torch.runtime import window_pieces
from firstword.models.token2wav import Token2Wav
from firstword.models.token2wav_step import StepInput
from tests.models.networks import FLOWS, VOCAB_SIZE, WIDE_UNET, small_flow, small_hift, small_speaker
from tests.support.clear_draws import clear
from tests.support.small_lm import small_lm


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The module of each graph that was recorded."""
    found: list[str] = []
    for module in (token_graphs, graphed_flows):

        def record(
            run: Callable[[], Tensor],
            device: torch.device,
            *how: object,
            name: str = module.__name__,
            **more: object,
        ) -> Callable[[], Tensor]:
            found.append(name.rpartition(".")[2])
            run()  # as on a GPU, where it runs before it is recorded
            return run

        monkeypatch.setattr(module, "captured", record)
    return found


@pytest.mark.parametrize(("size", "found"), [(1, 1), (2, 2), (3, 4), (33, 64), (64, 64), (65, None)])
def test_bucket_is_the_smallest_that_holds_it(size: int, found: int | None) -> None:
    assert bucket(BATCHES, size) == found


def speak(model: SpeechLM, first_seed: int) -> dict[int, list[int]]:
    """Five utterances that join and leave one after the other. -> the speech of each, by its seed."""
    vocabulary = small_lm().vocabulary
    decoder = new_decoder(model, small_lm().config.sampling)
    ids: dict[int, list[int]] = {seed: [] for seed in range(5)}
    for step in range(100):
        if step % 5 == 0 and step < 25:
            seed = step // 5
            ratios = LengthRatios(10 + 3 * seed, 10 + 3 * seed)
            plan = OfflinePlan(vocabulary, [1, 2], [3], list(range(3 * seed)), ratios)
            decoder.add(RowRequest(plan, first_seed + seed))
        for event in decoder.step():
            if isinstance(event, Emitted):
                ids[event.row.request.seed - first_seed].append(event.speech_id)
    return ids


@pytest.mark.parametrize("kind", [*FLOWS, WIDE_UNET])
def test_flow_solves_the_same_whatever_the_padding(kind: str, recorded: list[str]) -> None:
    """Three streams of two speakers at different positions, the last chunks short."""
    flow, hift = small_flow(kind), small_hift(is_causal=kind == "dit")

    def made(session: Token2Wav) -> list[Tensor]:
        prompts = [session.compute_prompt_state(small_speaker(number, number)) for number in (30, 61)]
        states = [session.start(prompts[number % 2], seed=number) for number in range(3)]
        generator = torch.Generator().manual_seed(2)
        samples: list[list[Tensor]] = [[] for _ in states]
        for step, size in enumerate((40, 25, 30, 7)):
            tokens = torch.randint(0, VOCAB_SIZE, (3, size), generator=generator).tolist()
            chosen = [number for number in range(3) if step != 1 or number != 1]
            batch = [StepInput(states[number], tokens[number], step == 3) for number in chosen]
            for number, new in zip(chosen, session.step(batch), strict=True):
                samples[number].append(new)
        return [torch.cat(parts) for parts in samples]

    whole = GraphedFlow(flow)
    num_free = whole.pages.num_free
    for window_s in (10.0, 2.0):
        networks = Networks(flow=FlowNetworks(flow.front, flow.estimator, whole))
        graphed = made(Token2Wav(flow, hift, window_s, networks=networks))
        for ours, plain in zip(graphed, made(Token2Wav(flow, hift, window_s)), strict=True):
            torch.testing.assert_close(ours, plain, atol=2e-4, rtol=1e-3)
    assert 1 <= len(recorded) <= 6
    assert whole.pages.num_free == num_free, "a stream or a prompt that has ended keeps its pages"


@pytest.mark.parametrize("num_streams", [1, 3])
@pytest.mark.parametrize("is_causal", [True, False])
def test_vocoder_sounds_the_same_from_recorded_pieces(num_streams: int, is_causal: bool) -> None:
    """First pieces, whole hops, one of a length that has no graph and a hop behind it, a short last one."""
    hift = small_hift(is_causal)
    graphed: Vocoder[Any]
    if is_causal:
        plain: Vocoder[Any] = CausalVocoder(hift)
        graphed = GraphedCausalVocoder(hift)
        graphed.record([10, 50], 50, (1, 2, 4))
    else:
        plain, graphed = WindowedVocoder(hift), GraphedWindowedVocoder(hift)
        graphed.record(window_pieces(5, 25), (1, 2, 4))
    pieces = ((10, False), (50, False), (50, False), (31, False), (50, False), (23, True))

    def made(vocoder: Vocoder[Any]) -> list[Tensor]:
        generator = torch.Generator().manual_seed(1)
        sounds = [Sound(vocoder.start(seed)) for seed in range(num_streams)]
        for frames, is_last in pieces:
            for sound in sounds:
                sound.pending.append((torch.randn(80, frames, generator=generator) - 6, is_last))
            with torch.inference_mode():
                vocode(vocoder, sounds)
        return [sound.take() for sound in sounds]

    for ours, wanted in zip(made(graphed), made(plain), strict=True):
        torch.testing.assert_close(ours, wanted, atol=1e-5, rtol=1e-5)
        assert len(ours) == 214 * hift.config.samples_per_frame


def test_what_cannot_be_recorded_runs_eagerly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_memory(*given: object, **more: object) -> Callable[[], Tensor]:
        raise RuntimeError("out of memory")

    for module in (token_graphs, graphed_flows):
        monkeypatch.setattr(module, "captured", no_memory)
    first_seed, wanted = clear(lambda first_seed: speak(small_lm(), first_seed))
    assert speak(graphed_lm(small_lm(), 4), first_seed) == wanted
    flow, hift = small_flow("dit"), small_hift(is_causal=True)
    whole = GraphedFlow(flow)
    whole.record()
    networks = Networks(flow=FlowNetworks(flow.front, flow.estimator, whole))
    graphed, plain = Token2Wav(flow, hift, networks=networks), Token2Wav(flow, hift)
    tokens, speaker = list(range(40)), small_speaker(1, 30)
    (ours,), (wanted,) = (
        session.step([StepInput(session.start(session.compute_prompt_state(speaker)), tokens, True)])
        for session in (graphed, plain)
    )
    torch.testing.assert_close(ours, wanted, atol=2e-4, rtol=1e-3)
    assert "could not be recorded as a CUDA graph and runs eagerly: out of memory" in caplog.text


def test_stream_without_a_page_says_what_to_do() -> None:
    flow, hift = small_flow("dit"), small_hift(is_causal=True)
    whole = GraphedFlow(flow)
    taken = [whole.pages.take() for _ in range(whole.pages.num_free)]
    networks = Networks(flow=FlowNetworks(flow.front, flow.estimator, whole))
    session = Token2Wav(flow, hift, networks=networks)
    with pytest.raises(OutOfPages, match="lower FIRSTWORD_MAX_STREAMS or FIRSTWORD_WINDOW_S"):
        session.compute_prompt_state(small_speaker(1, 61))
    del taken
    assert session.compute_prompt_state(small_speaker(1, 61)).state_bytes > 0


def test_window_is_shortened_so_that_forty_streams_have_pages() -> None:
    flow, hift = small_flow("dit"), small_hift(is_causal=True)
    page_bytes = GraphedFlow(flow).pages.num_bytes
    networks = graphed_networks(flow, 400 * page_bytes)
    whole = networks.whole
    assert isinstance(whole, GraphedFlow)
    assert whole.pages.count == 400
    session = Token2Wav(flow, hift, 20.0, networks=Networks(flow=networks))
    prompt = session.compute_prompt_state(small_speaker(1, 30))
    before = whole.pages.num_free
    state = session.start(prompt)
    assert state.is_window_shortened
    for _ in range(12):
        session.step([StepInput(state, list(range(25)), False)])
    assert 2 <= before - whole.pages.num_free <= 300 / 40
