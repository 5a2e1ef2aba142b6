"""Decoding speech tokens on a GPU some steps ahead: one is asked for before the last one's ids are known."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from firstword.models.config import AlignmentHeads, SamplingConfig
from firstword.models.lm.decoder import (
    Decoder,
    Emitted,
    Ended,
    Event,
    Row,
    RowRequest,
    SpeechDecoder,
    Stopped,
    Waiting,
    next_action,
    take_drawn,
)
from firstword.models.lm.kv_cache import CachePass, KeyValueCache
from firstword.models.lm.plan import Run, Stop, TokenDetail
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.runtimes.torch.cuda_graphs.token_graphs import (
    DRAW,
    HISTORY,
    LENGTHS,
    STATE,
    TokenGraphs,
    TokenSizes,
    draw_numbers,
)

AHEAD = 3
"""Steps under way at once: the GPU works while the host looks at the last ids; a new row waits for them."""

Array = npt.NDArray[np.int64]


class GraphedLM:
    """A `SpeechLM` that is decoded as CUDA graphs; asked otherwise, it runs as the given one.

    A model with alignment heads, whose queries are looked at between layers, is decoded without graphs.
    """

    def __init__(self, lm: Qwen2LM, max_rows: int) -> None:
        """max_rows: utterances in a step; further ones, if there are more, run beside it without graphs."""
        self._lm, self._max_rows = lm, max_rows
        self.vocabulary = lm.vocabulary
        self.prompt_embeddings = lm.prompt_embeddings
        self.embed = lm.embed
        self.logits = lm.logits

    @property
    def alignment_heads(self) -> AlignmentHeads:
        return self._lm.alignment_heads

    def new_cache(self) -> KeyValueCache:
        return self._lm.new_cache()

    def __call__(self, x: Tensor, context: CachePass) -> Tensor:
        return self._lm(x, context)

    def new_decoder(self, sampling: SamplingConfig) -> Decoder:
        """Return a decoder with memory and graphs of its own, all recorded here."""
        if self.alignment_heads:
            return SpeechDecoder(self._lm, sampling)
        return GraphedDecoder(self._lm, sampling, self._max_rows)


@dataclass(slots=True, eq=False)
class _Seat:
    """A row in the graphs' memory. position: of the ids that were run, as far as their draws are known.

    draws: those that were asked for and are not known yet; they are void once one of them has ended them.
    """

    row: Row
    position: int = 0
    draws: "deque[_Draw]" = field(default_factory=deque)


@dataclass(frozen=True, slots=True, eq=False)
class _Draw:
    seat: _Seat
    num_ids: int  # that are run for it


class _Flight:
    """A step under way: inputs and results in memory of the host that the device reads and writes itself."""

    def __init__(self, sizes: TokenSizes, device: torch.device) -> None:
        pins = device.type == "cuda"
        shape = sizes.max_rows, sizes.num_columns
        self.numbers = torch.zeros(shape, dtype=torch.long, pin_memory=pins)
        self.run_numbers = torch.zeros(1, sizes.num_run_columns, dtype=torch.long, pin_memory=pins)
        self.results = torch.zeros(sizes.max_rows, 2, dtype=torch.float64, pin_memory=pins)
        self.given: Array = self.numbers.numpy()
        self.given_run: Array = self.run_numbers.numpy()[0]
        self.draws: list[_Draw] = []
        self._done = torch.cuda.Event() if pins else None

    def leave(self, results: Tensor) -> None:
        self.results.copy_(results, non_blocking=True)
        if self._done is not None:
            self._done.record()

    def wait(self) -> list[list[float]]:
        if self._done is not None:
            self._done.synchronize()
        found: list[list[float]] = self.results.numpy().tolist()
        return found


class GraphedDecoder:
    """A `Decoder` whose steps are CUDA graphs; one thread uses it, on one stream.

    What does not fit, a row too many or an utterance that is too long, goes on in a `SpeechDecoder`.
    """

    def __init__(self, lm: Qwen2LM, sampling: SamplingConfig, max_rows: int) -> None:
        self._sampling = sampling
        self._vocabulary = lm.vocabulary
        self._others = SpeechDecoder(lm, sampling)
        self._graphs = TokenGraphs(lm, max_rows, sampling)
        self._seats: list[_Seat | None] = [None] * max_rows
        flights = [_Flight(self._graphs.sizes, self.device) for _ in range(AHEAD)]
        self._landed, self._flying = deque(flights), deque[_Flight]()
        self._told: list[Event] = []
        self._num_arrivals = 0

    @property
    def device(self) -> torch.device:
        return self._graphs.device

    @property
    def rows(self) -> Sequence[Row]:
        return [*self._others.rows, *(seat.row for seat in self._seats if seat is not None)]

    def add(self, request: RowRequest) -> Row:
        arrival = self._num_arrivals
        self._num_arrivals += 1
        fits = self._graphs.sizes.fits(request.sampling or self._sampling)
        index = self._seats.index(None) if fits and None in self._seats else -1
        if index < 0:
            row = self._others.add(request)
            row.arrival = arrival
            return row
        row = Row(request, index, arrival)
        self._seats[index] = _Seat(row)
        return row

    def remove(self, row: Row) -> None:
        """Free the row; does nothing for a row that has left already. What is under way of it is void."""
        if row in self._others.rows:
            self._others.remove(row)
        elif row.index >= 0:
            self._leave(row)

    @torch.inference_mode()
    def step(self) -> list[Event]:
        """Ask for steps ahead, and wait for the oldest. -> what its rows did.

        If it raises, no row has advanced, and it can be repeated; what fails after something was done is
        left to the next one.
        """
        try:
            self._told += self._others.step() if self._others.rows else []
            waiting = self._ask()
            while self._landed and self._fly():
                pass
            self._told += self._land() if self._flying else []
        except Exception:
            self._forget()
            if not self._told:
                raise
            waiting = []
        told, self._told = self._told, []
        return told + [Waiting(seat.row) for seat in waiting if seat.row.index >= 0]

    def _ask(self) -> list[_Seat]:
        """Return the rows that wait for text.

        Those whose plan has ended leave; those that no longer fit move to the plain decoder.
        """
        waiting = []
        for seat in [*self._resting()]:
            action = next_action(seat.row, self._vocabulary)
            if isinstance(action, Stop):
                self._told.append(self._stop(seat.row, action.reason))
            elif not isinstance(action, Run):
                waiting.append(seat)
            elif self._size_of(seat, action) is None:
                self._move(seat)
        return waiting

    def _resting(self) -> list[_Seat]:
        """Rows of which nothing is under way."""
        return [seat for seat in self._seats if seat is not None and not seat.draws]

    def _size_of(self, seat: _Seat, action: Run) -> tuple[int, int] | None:
        """None: it does not fit. A single id is run by a step."""
        if len(action.ids) == 1 and 0 < seat.position < LENGTHS[-1]:
            return 1, seat.position + 1
        return self._graphs.run_size(seat.position, len(action.ids))

    def _fly(self) -> bool:
        """Ask for a run of the oldest row that has several ids, and a step of all that go on. -> if any."""
        flight = self._landed[0]
        flight.draws = []
        runs: list[tuple[_Seat, Run, tuple[int, int]]] = []
        flight.given[:, :DRAW] = 0  # neither wanted nor given
        num_positions = num_rows = 0
        for seat in self._seats:
            if seat is None:
                continue
            position = seat.position + sum(draw.num_ids for draw in seat.draws)
            if not seat.draws:
                action = next_action(seat.row, self._vocabulary)
                size = self._size_of(seat, action) if isinstance(action, Run) else None
                if not isinstance(action, Run) or size is None:
                    continue
                if size[0] > 1:
                    runs.append((seat, action, size))
                    continue
            elif position >= LENGTHS[-1] or not self._goes_on(seat):
                continue
            self._give(flight.given[seat.row.index], seat, 1)
            self._draw(flight, seat, 1)
            num_rows, num_positions = seat.row.index + 1, max(num_positions, position + 1)
        run = min(runs, key=lambda run: run[0].row.arrival, default=None)
        if run is None and not num_rows:
            return False
        self._flying.append(self._landed.popleft())
        graphs = self._graphs
        if run is not None:
            seat, action, size = run
            columns = graphs.sizes.num_columns
            self._give(flight.given_run[:columns], seat, len(action.ids))
            flight.given_run[:2] = seat.row.index, len(action.ids)
            flight.given_run[columns : columns + len(action.ids)] = action.ids
            self._draw(flight, seat, len(action.ids))
            graphs.run(flight.run_numbers, size)
        if num_rows:
            graphs.step(flight.numbers, num_rows, num_positions)
        flight.leave(graphs.results)
        return True

    def _goes_on(self, seat: _Seat) -> bool:
        """Whether the draw after those under way simply runs what they give."""
        return len(seat.draws) < seat.row.plan.sampling_span.num_ids

    def _give(self, numbers: Array, seat: _Seat, num_ids: int) -> None:
        """Write the columns of the row's next draw; its state too where nothing of it is under way."""
        row, ahead = seat.row, len(seat.draws)
        span = row.plan.sampling_span
        rule = span.first_rule if ahead < span.num_first else span.later_rule
        sampling = row.request.sampling or self._sampling
        numbers[DRAW:STATE] = draw_numbers(
            rule if ahead else row.plan.forbidden, row.uniform(ahead), row.request.is_greedy, sampling
        )
        numbers[:DRAW] = 1, not ahead
        if ahead:
            return
        window = self._graphs.sizes.window
        past = row.plan.history[-window:]
        action = next_action(row, self._vocabulary)
        assert isinstance(action, Run), action
        start = STATE + HISTORY + window - len(past)
        numbers[STATE : STATE + HISTORY] = 1, action.ids[-1], seat.position
        numbers[STATE + HISTORY : start] = -1
        numbers[start : STATE + HISTORY + window] = past

    def _draw(self, flight: _Flight, seat: _Seat, num_ids: int) -> None:
        draw = _Draw(seat, num_ids)
        seat.draws.append(draw)
        flight.draws.append(draw)

    def _land(self) -> list[Event]:
        """Wait for the oldest step, and tell its rows."""
        flight = self._flying[0]
        results = flight.wait()
        self._landed.append(self._flying.popleft())
        events: list[Event] = []
        for draw in flight.draws:
            seat = draw.seat
            if not seat.draws or seat.draws[0] is not draw:
                continue  # void
            seat.draws.popleft()
            seat.position += draw.num_ids
            id, logprob = int(results[seat.row.index][0]), results[seat.row.index][1]
            assert id >= -1, "a row of which a step was asked for made none"
            if not 0 <= id < self._vocabulary.num_speech_ids:
                seat.draws.clear()
            detail = TokenDetail(logprob if seat.row.request.wants_logprobs else None)
            for event in take_drawn(seat.row, id, detail, self._vocabulary):
                events.append(event if isinstance(event, Emitted) else self._stop(seat.row, event))
        return events

    def _stop(self, row: Row, reason: Ended) -> Stopped:
        self._leave(row)
        return Stopped(row, reason)

    def _leave(self, row: Row) -> None:
        seat = self._seats[row.index]
        assert seat is not None, "a row that has left"
        assert seat.row is row, "a row of another decoder"
        seat.draws.clear()
        self._seats[row.index] = None
        row.index = -1

    def _move(self, seat: _Seat) -> None:
        """Go on without graphs, with what the row has of keys and values."""
        row, index = seat.row, seat.row.index
        layers = [layer[index, :, :, : seat.position] for layer in self._graphs.keys_values]
        keys, values = ([layer[which] for layer in layers] for which in (0, 1))
        self._leave(row)
        self._others.adopt(row, keys, values)

    def _forget(self) -> None:
        """What is under way is void: the rows begin again from what is known of them."""
        for seat in self._seats:
            if seat is not None:
                seat.draws.clear()
        if self.device.type == "cuda":
            torch.cuda.synchronize()  # it may still read and write the host's memory
        self._landed.extend(self._flying)
        self._flying.clear()
