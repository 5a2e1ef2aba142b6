"""The language model's steps with their draws, asked for ahead: what is spoken is the same."""

from collections.abc import Sequence

import pytest
import torch

from firstword.models.config import SamplingConfig
from firstword.models.lm.decoder import (
    Decoder,
    Emitted,
    Event,
    Row,
    RowRequest,
    SpeechDecoder,
    Stopped,
    Waiting,
)
from firstword.models.lm.plan import BistreamPlan, LengthRatios, OfflinePlan, Plan
from firstword.models.runtimes.torch.cuda_graphs import token_decoder, token_graphs
from firstword.models.runtimes.torch.cuda_graphs.token_decoder import GraphedDecoder
from tests.support.clear_draws import clear
from tests.support.small_lm import small_lm

MAX_ROWS = 3
WAYS = (
    None,
    SamplingConfig(top_p=0.95, top_k=60, win_size=25, tau_r=0.3, temperature=0.6),
    SamplingConfig(top_k=1, win_size=100, tau_r=0.02),
    SamplingConfig(top_k=300),  # more candidates than graphs have
)


def few(seed: int) -> Plan:
    ratios = LengthRatios(3 + seed, 9 + seed)
    return OfflinePlan(small_lm().vocabulary, [1, 2], [3], list(range(3 * seed)), ratios)


def decoders() -> tuple[Decoder, Decoder]:
    sampling = small_lm().config.sampling
    return SpeechDecoder(small_lm(), sampling), GraphedDecoder(small_lm(), sampling, MAX_ROWS)


def spoken(decoder: Decoder, requests: Sequence[RowRequest], every: int = 3) -> list[list[Event]]:
    """Requests join one after the other. -> the events of each, but for those of waiting."""
    rows: list[Row] = []
    found: dict[Row, list[Event]] = {}
    for step in range(400):
        if step % every == 0 and len(rows) < len(requests):
            rows.append(decoder.add(requests[len(rows)]))
            found[rows[-1]] = []
        for event in decoder.step():
            if not isinstance(event, Waiting):
                found[event.row].append(event)
        if not decoder.rows and len(rows) == len(requests):
            return [found[row] for row in rows]
    raise AssertionError("they speak on and on")


def told(events: list[Event]) -> list[object]:
    return [event.speech_id if isinstance(event, Emitted) else event.reason for event in events]  # type: ignore[union-attr]


def test_rows_that_join_and_leave_speak_the_same_several_steps_ahead() -> None:
    """More rows than there are seats, each drawn in its own way, one without chance."""

    def requests(first_seed: int) -> list[RowRequest]:
        return [
            RowRequest(
                few(number),
                first_seed + number,
                is_greedy=number == 4,
                sampling=WAYS[number % 4],
                wants_logprobs=number == 1,
            )
            for number in range(6)
        ]

    by_itself, graphed = decoders()
    first_seed, plain = clear(lambda first_seed: spoken(by_itself, requests(first_seed)))
    ahead = spoken(graphed, requests(first_seed))
    assert [told(events) for events in ahead] == [told(events) for events in plain]
    assert all(isinstance(events[-1], Stopped) for events in ahead)
    assert all(len(events) > 5 for events in ahead)
    logprobs = [
        [event.detail.logprob for event in found[1] if isinstance(event, Emitted)] for found in (plain, ahead)
    ]
    torch.testing.assert_close(*map(torch.tensor, logprobs), atol=1e-4, rtol=1e-4)
    assert all(event.detail.logprob is None for event in ahead[0] if isinstance(event, Emitted))


@pytest.mark.parametrize("seed", range(2))
def test_text_that_is_pushed_is_spoken_the_same(seed: int) -> None:
    """Blocks of text and speech, a wait for text, an end; beside a row that has all its text."""

    def pushed(decoder: Decoder, first_seed: int) -> list[object]:
        plan = BistreamPlan(small_lm().vocabulary, [7, 8], list(range(20)), mix_ratio=(5, 15))
        row = decoder.add(RowRequest(plan, first_seed + seed))
        decoder.add(RowRequest(few(1), first_seed + 1))
        events: list[Event] = []
        pieces = [[1, 2], [3, 4, 5, 6, 7, 8], [9] * 12]
        for _ in range(600):
            for event in decoder.step():
                if event.row is row and not isinstance(event, Waiting):
                    events.append(event)
                elif event.row is row and pieces:
                    plan.push_text(pieces.pop(0))
                elif event.row is row:
                    plan.finish_text()
            if not decoder.rows:
                break
        assert not decoder.rows
        return told(events)

    plain, graphed = decoders()
    first_seed, wanted = clear(lambda first_seed: pushed(plain, first_seed))
    assert pushed(graphed, first_seed) == wanted
    assert len(wanted) > 20


def test_row_that_is_removed_leaves_its_seat_and_no_trace() -> None:
    plain, ahead = decoders()
    seed, (wanted,) = clear(lambda seed: spoken(plain, [RowRequest(few(2), seed)]))
    gone = ahead.add(RowRequest(few(5), 5))
    for _ in range(3):
        ahead.step()
    ahead.remove(gone)
    ahead.remove(gone)
    assert not ahead.rows
    (found,) = spoken(ahead, [RowRequest(few(2), seed)])
    assert told(found) == told(wanted)
    assert found[0].row.index == -1


def test_step_that_fails_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, ahead = decoders()
    seed, (wanted,) = clear(lambda seed: spoken(plain, [RowRequest(few(3), seed)]))
    row = ahead.add(RowRequest(few(3), seed))
    events: list[Event] = []
    whole, times = token_graphs.TokenGraphs.step, iter(range(100))

    def step(graphs: token_graphs.TokenGraphs, *given: int) -> None:
        if next(times) in (1, 4, 5):
            raise RuntimeError("out of memory")
        whole(graphs, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(token_graphs.TokenGraphs, "step", step)
    failures = 0
    while ahead.rows:
        try:
            events += ahead.step()
        except RuntimeError:
            failures += 1
    assert failures == 3
    assert told(events) == told(wanted)
    assert all(event.row is row for event in events)


def test_utterance_that_is_too_long_goes_on_without_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt that no run holds, and speech that leaves the memory of the graphs."""
    for module in (token_graphs, token_decoder):
        monkeypatch.setattr(module, "LENGTHS", (16, 32))
    monkeypatch.setattr(token_graphs, "RUNS", ((8, 16), (16, 32)))
    plain, ahead = decoders()
    text, many = [1, 2, 3, 4, 5], LengthRatios(8, 8)

    def said(decoder: Decoder, first_seed: int) -> list[list[object]]:
        requests = [
            RowRequest(OfflinePlan(small_lm().vocabulary, text, [3], prompt, many), first_seed + number)
            for number, prompt in enumerate(([4] * 30, [1, 2]))
        ]
        return [told(events) for events in spoken(decoder, requests)]

    first_seed, wanted = clear(lambda first_seed: said(plain, first_seed))
    assert said(ahead, first_seed) == wanted
    assert all(len(events) == 41 for events in wanted)
