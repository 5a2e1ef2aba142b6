"""Batched decoding of speech tokens: utterances join and leave one language model at any step.

`SpeechLM` is what the decoder and the training loss ask of a language model.
"""

import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from firstword.models.config import AlignmentHeads, SamplingConfig
from firstword.models.cuda import integers_to_device, to_device
from firstword.models.lm.alignment import AlignmentObserver
from firstword.models.lm.kv_cache import CachePass, KeyValueCache
from firstword.models.lm.plan import (
    Action,
    ForceFill,
    Plan,
    Run,
    Stop,
    StopReason,
    TextKeys,
    TextQuery,
    TokenDetail,
    Vocabulary,
    WaitForText,
)
from firstword.models.lm.sampling import class_masks, log_probabilities, sample


class SpeechLM(Protocol):
    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def alignment_heads(self) -> AlignmentHeads:
        """Heads that look at the text being spoken; () where none is known."""
        ...

    def new_cache(self) -> KeyValueCache:
        """An empty cache in the network's dtype, on its device."""
        ...

    def prompt_embeddings(self, ids: Sequence[int], speaker: Tensor | None) -> Tensor:
        """Embed the ids an utterance begins with, sos first. -> (1, T, C).

        speaker (192,): adds one position where the network has a use for it, else it is ignored.
        """
        ...

    def embed(self, ids: Tensor) -> Tensor:
        """ids (B, T) of the joint vocabulary -> (B, T, C). For CosyVoice 1 no text ids."""
        ...

    def __call__(self, x: Tensor, context: CachePass) -> Tensor:
        """x (B, T, C) -> hidden (B, T, C) after the final norm."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden (..., C) -> (..., V)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RowRequest:
    plan: Plan
    seed: int
    is_greedy: bool = False
    speaker: Tensor | None = None  # (192,), for CosyVoice 1
    sampling: SamplingConfig | None = None  # None: that of the decoder
    owner: object = None  # the caller's own, to be found again from an event's row
    wants_logprobs: bool = False
    wants_attention: bool = False  # where the model has alignment heads


_AHEAD = 8  # numbers drawn at once, the same as one by one


@dataclass(slots=True, eq=False)
class Row:
    """One utterance in a decoder. Its draws do not depend on the other rows."""

    request: RowRequest
    index: int  # its cache row; -1 once it has left
    arrival: int  # how many joined before it
    plan: Plan = field(init=False)
    wants_attention: bool = field(init=False)
    generator: torch.Generator = field(init=False)
    uniforms: deque[float] = field(default_factory=deque, init=False)  # of draws that were only asked for
    text_keys: TextKeys | None = field(default=None, init=False)  # kept by `AlignmentObserver`

    def __post_init__(self) -> None:
        self.plan = self.request.plan
        self.wants_attention = self.request.wants_attention
        self.generator = torch.Generator().manual_seed(self.request.seed)

    def uniform(self, ahead: int = 0) -> float:
        """Return the number of the next draw, or of a later one; a draw that failed gets the same again."""
        while len(self.uniforms) <= ahead:
            self.uniforms.extend(torch.rand(_AHEAD, generator=self.generator, dtype=torch.float64).tolist())
        return self.uniforms[ahead]


@dataclass(frozen=True, slots=True)
class Emitted:
    row: Row
    speech_id: int
    detail: TokenDetail


@dataclass(frozen=True, slots=True)
class Waiting:
    """The row waits until its plan gets more text."""

    row: Row


@dataclass(frozen=True, slots=True)
class Stopped:
    """The row has left the decoder. "not_finite": its logits were not finite, nothing could be drawn."""

    row: Row
    reason: "Ended"


Ended = StopReason | Literal["not_finite"]
Event = Emitted | Waiting | Stopped


class Decoder(Protocol):
    """Utterances on their way; used by one thread. Text may be pushed to a row's plan between two steps."""

    @property
    def rows(self) -> Sequence[Row]: ...

    @property
    def device(self) -> torch.device: ...

    def add(self, request: RowRequest) -> Row: ...

    def remove(self, row: Row) -> None:
        """Free the row; does nothing for a row that has left already."""
        ...

    def step(self) -> list[Event]:
        """Advance the rows. -> what they did, and which wait. If it raises, none has advanced."""
        ...


@runtime_checkable
class HasOwnDecoder(Protocol):
    """A language model that is not decoded by `SpeechDecoder`."""

    def new_decoder(self, sampling: SamplingConfig) -> Decoder: ...


def new_decoder(model: SpeechLM, sampling: SamplingConfig) -> Decoder:
    """Return the language model's own decoder, or a `SpeechDecoder` of it."""
    return model.new_decoder(sampling) if isinstance(model, HasOwnDecoder) else SpeechDecoder(model, sampling)


def next_action(row: Row, vocabulary: Vocabulary) -> Action:
    """Return what the row's plan asks for, fills aside: those it is given at once."""
    while isinstance(action := row.plan.next_action(), ForceFill):
        assert vocabulary.fill is not None, "a fill in a model without one"
        row.plan.accept(vocabulary.fill)
    return action


def take_drawn(row: Row, id: int, detail: TokenDetail, vocabulary: Vocabulary) -> "list[Emitted | Ended]":
    """Tell the row's plan what was drawn; -1: nothing could be. -> what that means to the row."""
    row.uniforms.popleft()
    row.plan.mark_run()
    if id < 0:
        return ["not_finite"]
    row.plan.accept(id)
    events: list[Emitted | Ended] = [Emitted(row, id, detail)] if id < vocabulary.num_speech_ids else []
    following = row.plan.next_action()
    return [*events, following.reason] if isinstance(following, Stop) else events


def float_bits(number: float) -> int:
    """As an integer, which can be copied beside others and is seen as a float64 where it arrives."""
    bits: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return bits


@dataclass(frozen=True, slots=True)
class _Pending:
    row: Row
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one step runs: groups of rows that run together, and the rows of all of them in that order."""

    groups: list[list[_Pending]]
    rows: list[Row]


class SpeechDecoder:
    """Used by one thread at a time. Text may be pushed to a row's plan between two steps."""

    def __init__(self, model: SpeechLM, sampling: SamplingConfig):
        self._model = model
        self._sampling = sampling
        self._cache = model.new_cache()
        self._masks = class_masks(model.vocabulary, self._cache.device)  # (4, V)
        self._alignment = AlignmentObserver(self._cache, model.alignment_heads)
        self._num_arrivals = 0
        self.rows: list[Row] = []  # row i owns row i of the cache

    @property
    def device(self) -> torch.device:
        return self._cache.device

    @property
    def num_cache_bytes(self) -> int:
        return self._cache.num_bytes

    @torch.inference_mode()
    def add(self, request: RowRequest) -> Row:
        row = Row(request, index=-1, arrival=self._num_arrivals)
        row.index = self._cache.add_row()
        self._num_arrivals += 1
        self.rows.append(row)
        return row

    @torch.inference_mode()
    def adopt(self, row: Row, keys: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        """Go on with another decoder's row: of each layer what it has of keys and values, (H, T, D)."""
        row.index = self._cache.add_row()
        self._cache.fill_row(row.index, keys, values)
        self.rows.append(row)

    @torch.inference_mode()
    def remove(self, row: Row) -> None:
        """Free the row; does nothing for a row that has left already."""
        if row.index < 0:
            return
        assert self.rows[row.index] is row, "a row of another decoder"
        self._cache.remove_row(row.index)
        last = self.rows.pop()
        if last is not row:
            self.rows[row.index] = last
            last.index = row.index
        row.index = -1

    @torch.inference_mode()
    def step(self) -> list[Event]:
        """Advance every row that can go on by a token, and prefill the oldest new one. -> what the rows did.

        Only one new row a step, since all others wait for its prefill. If a run of the network or the draw
        raises, nothing has advanced: the step can be repeated.
        """
        actions = [(row, next_action(row, self._model.vocabulary)) for row in self.rows]
        batch = self._plan_batch(
            [_Pending(row, action.ids) for row, action in actions if isinstance(action, Run)]
        )
        ids: list[int] = []
        details: list[TokenDetail] = []
        if batch.rows:
            with self._cache.all_or_nothing():
                hidden, queries = self._run(batch)
                ids, logprobs = self._draw(batch.rows, hidden)
            details = [TokenDetail(*detail) for detail in zip(logprobs, queries, strict=True)]
        events: list[Event] = []
        for row, action in actions:
            if isinstance(action, WaitForText):
                events.append(Waiting(row))
            elif isinstance(action, Stop):
                events.append(self._stop(row, action.reason))
        for row, id, detail in zip(batch.rows, ids, details, strict=True):
            for event in take_drawn(row, id, detail, self._model.vocabulary):
                events.append(event if isinstance(event, Emitted) else self._stop(row, event))
        return events

    def _plan_batch(self, pending: Sequence[_Pending]) -> _Batch:
        """Run together are the oldest new row alone, the rows with one id, and those with several."""
        lengths = self._cache.lengths
        new = [one for one in pending if lengths[one.row.index] == 0]
        oldest = sorted(new, key=lambda one: one.row.arrival)[:1]
        going_on = [one for one in pending if lengths[one.row.index] > 0]
        single = [one for one in going_on if len(one.ids) == 1]
        several = [one for one in going_on if len(one.ids) > 1]
        groups = [group for group in (oldest, single, several) if group]
        return _Batch(groups, [one.row for group in groups for one in group])

    def _run(self, batch: _Batch) -> tuple[Tensor, list[TextQuery | None]]:
        """Run the network. -> of each row's last id the hidden state (R, C), and what it looked for."""
        made: list[Tensor] = []
        queries: list[TextQuery | None] = []
        for group in batch.groups:
            hidden, cache_pass, lasts = self._run_group(group)
            made.append(hidden)
            queries += self._alignment.after_run([one.row for one in group], cache_pass, lasts)
        return torch.cat(made), queries

    def _run_group(self, group: Sequence[_Pending]) -> tuple[Tensor, CachePass, list[int]]:
        """-> hidden states (rows of the group, C), the pass, and where in it each row's last id stands."""
        indices = [one.row.index for one in group]
        rows = range(min(indices), max(indices) + 1)  # the pass covers all from first to last
        is_prompt = self._cache.lengths[rows.start] == 0 and len(group) == 1
        ids: list[list[int]] = []
        if is_prompt:
            (one,) = group
            prompt = self._model.prompt_embeddings(one.ids, one.row.request.speaker)  # (1, T, C)
            counts = [prompt.shape[1]]
        else:
            counts = [0] * len(rows)
            width = max(len(one.ids) for one in group)
            ids = [[0] * width for _ in rows]  # padded on the right
            for one in group:
                counts[one.row.index - rows.start] = len(one.ids)
                ids[one.row.index - rows.start][: len(one.ids)] = one.ids
        cache_pass = self._cache.open_pass(rows, counts)
        lasts = [counts[index - rows.start] - 1 for index in indices]
        places, steps, *given = integers_to_device(
            self._cache.device,
            [[index - rows.start for index in indices], lasts],
            [cache_pass.starts, counts],
            *([] if is_prompt else [ids]),
        )
        cache_pass.take(steps)
        x = prompt if is_prompt else self._model.embed(given[0])  # (B, T, C)
        hidden = self._model(x, cache_pass)  # (B, T, C)
        cache_pass.commit()
        return hidden[places[0], places[1]], cache_pass, lasts

    def _draw(self, rows: Sequence[Row], hidden: Tensor) -> tuple[list[int], list[float | None]]:
        """hidden (R, C) -> an id for each row, -1 where there is none, and its log-probability if wanted."""
        device = self._cache.device
        logits = self._model.logits(hidden)  # (R, V)
        window = max((row.request.sampling or self._sampling).win_size for row in rows)
        pasts = [[-1] * window + [*row.plan.history[-window:]] if window else [] for row in rows]
        rule, bits, greedy, history = integers_to_device(
            device,
            [row.plan.forbidden for row in rows],
            [float_bits(row.uniform()) for row in rows],
            [row.request.is_greedy for row in rows],
            [past[len(past) - window :] for past in pasts],
        )
        forbidden, uniforms, is_greedy = self._masks[rule], bits.view(torch.float64), greedy > 0
        alike: dict[SamplingConfig, list[int]] = {}  # rows that are drawn together; mostly all
        for number, row in enumerate(rows):
            alike.setdefault(row.request.sampling or self._sampling, []).append(number)
        drawn = torch.empty(len(rows), dtype=torch.long, device=device)
        for config, numbers in alike.items():
            which = to_device(numbers, device) if len(alike) > 1 else slice(None)
            drawn[which] = sample(
                logits[which],
                forbidden=forbidden[which],
                history=history[which, window - config.win_size :],
                uniforms=uniforms[which],
                is_greedy=is_greedy[which],
                config=config,
            )
        ids = drawn.tolist()  # the one wait for the device in a step, but for log-probabilities
        wanted = [number for number, row in enumerate(rows) if row.request.wants_logprobs]
        return ids, log_probabilities(logits, forbidden, drawn, wanted)

    def _stop(self, row: Row, reason: Ended) -> Stopped:
        self.remove(row)
        return Stopped(row, reason)
