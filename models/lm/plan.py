"""The ids a language model reads, and the decoding plans: what an utterance does next, as pure decisions.

All ids share one space, so that a request is a plain list of ids. The rows of the speech table come first:
a speech token and the output class that draws it are one number. Then sos and task, where they have a
table of their own; then the text ids. The classes of the stop set are drawn and never read: in CosyVoice 1
class S is the eos while id S is the sos.

A plan is driven by asking `next_action` (asking again changes nothing), doing it, and reporting: `mark_run`
after a Run, `accept` with the drawn id after a Sample, with the fill class after a ForceFill.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from firstword.models.config import LMConfig, TransformerLMConfig

NUM_COSYVOICE3_ROWS = 200  # rows of its speech table behind the S speech tokens


class Forbidden(IntEnum):
    """Which classes of the stop set may not be drawn; the value is a row of `sampling.class_masks`."""

    NOTHING = 0  # whichever is drawn ends the utterance
    STOPS = 1  # below the minimum length. Published code masks class S alone, which in CosyVoice 3 is no eos
    ALL_BUT_EOS = 2  # behind the last text of a bistream utterance
    ALL_BUT_FILL = 3  # while a bistream utterance may still get text


@dataclass(frozen=True, slots=True)
class Vocabulary:
    num_speech_ids: int  # S
    num_speech_rows: int  # S, and what the speech table has behind them
    num_classes: int  # V, of the output
    num_text_ids: int
    sos: int
    task: int  # the turn from text to speech
    first_text: int
    eos: int  # an output class
    fill: int | None  # the output class that asks for more text; CosyVoice 1 has none

    @classmethod
    def of(cls, config: LMConfig) -> "Vocabulary":
        size = config.speech_token_size
        if isinstance(config, TransformerLMConfig):
            tables = {"sos": size, "task": size + 1, "first_text": size + 2}
            return cls(size, size, size + 1, config.text_token_size, **tables, eos=size, fill=None)
        num_text_ids = config.qwen2.vocab_size
        if config.has_cosyvoice3_vocabulary:
            rows = size + NUM_COSYVOICE3_ROWS
            tables = {"sos": size, "task": size + 2, "first_text": rows}
            return cls(size, rows, rows, num_text_ids, **tables, eos=size + 1, fill=size + 3)
        rows = size + 3
        tables = {"sos": rows, "task": rows + 1, "first_text": rows + 2}
        return cls(size, rows, rows, num_text_ids, **tables, eos=size, fill=size + 2)

    @property
    def num_ids(self) -> int:
        return self.first_text + self.num_text_ids

    @property
    def stop_ids(self) -> range:
        """The classes that are no speech token."""
        return range(self.num_speech_ids, self.num_classes)

    def text(self, ids: Iterable[int]) -> tuple[int, ...]:
        """The tokenizer's ids -> ours. Raises ValueError for one outside the model's text table."""
        ours = []
        for id in ids:
            if not 0 <= id < self.num_text_ids:
                raise ValueError(f"text token {id} came; this model has 0 to {self.num_text_ids - 1}")
            ours.append(self.first_text + id)
        return tuple(ours)

    def speech(self, ids: Iterable[int]) -> tuple[int, ...]:
        """Speech tokens -> ours, the same numbers. Raises ValueError for one that is no speech token."""
        ours = tuple(ids)
        for id in ours:
            if not 0 <= id < self.num_speech_ids:
                raise ValueError(f"speech token {id} came; this model has 0 to {self.num_speech_ids - 1}")
        return ours


IGNORED = -1  # the target of a position at which nothing is learned


@dataclass(frozen=True, slots=True)
class Layout:
    """A training utterance: ids of the joint vocabulary, and the output class to predict behind each."""

    input_ids: tuple[int, ...]
    targets: tuple[int, ...]


def offline_layout(
    vocabulary: Vocabulary,
    text_ids: Sequence[int],
    speech_ids: Sequence[int],
    instruct_ids: Sequence[int] = (),
) -> Layout:
    """sos, instruction, text, task, speech; the targets from task on are speech, eos."""
    text = vocabulary.text([*instruct_ids, *text_ids])
    speech = vocabulary.speech(speech_ids)
    targets = (*[IGNORED] * (1 + len(text)), *speech, vocabulary.eos)
    return Layout((vocabulary.sos, *text, vocabulary.task, *speech), targets)


def bistream_layout(
    vocabulary: Vocabulary,
    text_ids: Sequence[int],
    speech_ids: Sequence[int],
    instruct_ids: Sequence[int] = (),
    mix_ratio: tuple[int, int] = (5, 15),
) -> Layout:
    """Blocks of N text and M speech tokens, each followed by the target fill; then text, task, speech.

    Raises ValueError where the speech is too short for its blocks, or the model has no fill class.
    """
    block_text, block_speech = mix_ratio
    num_blocks = len(text_ids) // block_text
    if vocabulary.fill is None or len(speech_ids) < num_blocks * block_speech:
        raise ValueError(
            f"{len(text_ids)} text and {len(speech_ids)} speech tokens cannot alternate in blocks of "
            f"{block_text} : {block_speech} for a model whose fill class is {vocabulary.fill}"
        )
    text, speech = vocabulary.text(text_ids), vocabulary.speech(speech_ids)
    inputs = [vocabulary.sos, *vocabulary.text(instruct_ids)]
    targets = [IGNORED] * len(inputs)
    for block in range(num_blocks):
        answer = speech[block * block_speech : (block + 1) * block_speech]
        inputs += [*text[block * block_text : (block + 1) * block_text], *answer]
        targets += [*[IGNORED] * (block_text - 1), *answer, vocabulary.fill]
    rest = text[num_blocks * block_text :]
    answer = speech[num_blocks * block_speech :]
    inputs += [*rest, vocabulary.task, *answer]
    targets += [*[IGNORED] * len(rest), *answer, vocabulary.eos]
    return Layout(tuple(inputs), tuple(targets))


def training_layout(
    vocabulary: Vocabulary,
    text_ids: Sequence[int],
    speech_ids: Sequence[int],
    instruct_ids: Sequence[int] = (),
    mix_ratio: tuple[int, int] = (5, 15),
    wants_bistream: bool = False,
) -> Layout:
    """The bistream layout where wanted (the recipe wants it for half of all) and the speech is long enough.

    Long enough: more than M / N speech tokens per text token.
    """
    block_text, block_speech = mix_ratio
    if wants_bistream and len(speech_ids) * block_text > len(text_ids) * block_speech:
        return bistream_layout(vocabulary, text_ids, speech_ids, instruct_ids, mix_ratio)
    return offline_layout(vocabulary, text_ids, speech_ids, instruct_ids)


StopReason = Literal["eos", "max_tokens"]


@dataclass(frozen=True, slots=True)
class Run:
    """Run these ids of the joint vocabulary; a Sample from the logits of the last one follows."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    forbidden: Forbidden


@dataclass(frozen=True, slots=True)
class ForceFill:
    """The block is full: the fill class follows without a draw."""


@dataclass(frozen=True, slots=True)
class WaitForText:
    pass


@dataclass(frozen=True, slots=True)
class Stop:
    reason: StopReason


Action = Run | Sample | ForceFill | WaitForText | Stop


@dataclass(frozen=True, slots=True)
class SamplingSpan:
    """The draws ahead in which each drawn id is simply run next, for an engine that samples by itself.

    The span ends after `num_ids` draws at the latest, and at once after a class of the stop set. Its first
    `num_first` draws are under `first_rule`, the others under `later_rule`.
    """

    num_ids: int
    first_rule: Forbidden
    num_first: int
    later_rule: Forbidden


class Plan(Protocol):
    @property
    def history(self) -> Sequence[int]:
        """All classes accepted so far except the one that stopped: the repetition window is its end."""
        ...

    @property
    def speech_ids(self) -> Sequence[int]:
        """The speech tokens among them."""
        ...

    @property
    def text_positions(self) -> Sequence[int]:
        """Where the target's text tokens stand among all ids that are run, those that are queued included."""
        ...

    @property
    def forbidden(self) -> Forbidden:
        """What may not be drawn next; known before the pending ids have run."""
        ...

    @property
    def sampling_span(self) -> SamplingSpan:
        """The draws ahead; asked after a Run."""
        ...

    def next_action(self) -> Action: ...

    def mark_run(self) -> None: ...

    def accept(self, id: int) -> None: ...


TextAttention = npt.NDArray[np.float32]  # (heads, text tokens run so far); each head's sum to 1


TextKeys = npt.NDArray[np.float32]  # (heads, text tokens run so far, D)


class TextQuery(NamedTuple):
    """What alignment heads look for in the text: queries (heads, D), keys that tokens drawn meanwhile share.

    rotation: (2, D), the cosines and signed sines by which the queries are still to be turned; None: by none.
    """

    queries: npt.NDArray[np.float32]
    keys: TextKeys
    rotation: npt.NDArray[np.float32] | None = None


class TokenDetail(NamedTuple):
    """What is known of a drawn speech token beside its id.

    logprob: by the model's distribution over what it may draw, where it was asked for. query: by
    which `text_attention` finds what text it is about, where that was asked for and the model has such heads.
    """

    logprob: float | None = None
    query: TextQuery | None = None


@dataclass(frozen=True, slots=True)
class LengthRatios:
    """Speech tokens per target text token: the fewest that may end an utterance, the most it may have."""

    minimum: float = 2.0
    maximum: float = 20.0


DEFAULT_RATIOS = LengthRatios()


class OfflinePlan:
    """Offline decoding: all text first, then speech to the end. Any class of the stop set ends it.

    CosyVoice 1, 2 and 3. The minimum length is kept by all three; published code loses CosyVoice 3's.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        text_ids: Sequence[int],
        prompt_text_ids: Sequence[int] = (),
        prompt_speech_ids: Sequence[int] = (),
        ratios: LengthRatios = DEFAULT_RATIOS,
    ):
        """Raises ValueError for an empty text, and for ids that the model does not have."""
        if not text_ids:
            raise ValueError("0 text tokens came; expected at least 1 to speak")
        self._vocabulary = vocabulary
        self._min_tokens = int(len(text_ids) * ratios.minimum)
        self._max_tokens = int(len(text_ids) * ratios.maximum)
        text = vocabulary.text([*prompt_text_ids, *text_ids])
        prompt = vocabulary.speech(prompt_speech_ids)
        self._pending: tuple[int, ...] = (vocabulary.sos, *text, vocabulary.task, *prompt)
        self.text_positions = range(1 + len(prompt_text_ids), 1 + len(text))
        self._reason: StopReason | None = None
        self.speech_ids: list[int] = []
        self.history: Sequence[int] = self.speech_ids  # the same list, which grows

    @property
    def forbidden(self) -> Forbidden:
        return Forbidden.STOPS if len(self.speech_ids) < self._min_tokens else Forbidden.NOTHING

    @property
    def sampling_span(self) -> SamplingSpan:
        num_spoken = len(self.speech_ids)
        num_first = max(0, self._min_tokens - num_spoken)
        return SamplingSpan(self._max_tokens - num_spoken, Forbidden.STOPS, num_first, Forbidden.NOTHING)

    def next_action(self) -> Action:
        if self._reason is not None:
            return Stop(self._reason)
        if len(self.speech_ids) >= self._max_tokens:
            return Stop("max_tokens")
        return Run(self._pending) if self._pending else Sample(self.forbidden)

    def mark_run(self) -> None:
        self._pending = ()

    def accept(self, id: int) -> None:
        assert not self._pending, "accept before the pending ids were run"
        assert 0 <= id < self._vocabulary.num_classes, id
        if id >= self._vocabulary.num_speech_ids:
            self._reason = "eos"
            return
        self.speech_ids.append(id)
        self._pending = (id,)


class _Phase(Enum):
    TEXT = auto()  # the next block waits for its text
    SPEECH = auto()  # the block's speech tokens follow, up to a fill
    LAST = auto()  # behind all text and task, speech tokens follow up to the eos


class BistreamPlan:
    """Bistream decoding: N text, then M speech tokens, in turn (CosyVoice 2, arXiv 2412.10117).

    CosyVoice 2 and 3. Which ids are run does not depend on the pieces in which the text arrives.

    A block's speech ends by a fill, drawn or forced; a block starts as soon as its text is there. The
    last one, with what is left of the text, starts once the text is finished. A fill is never run: the
    last speech token before a forced one is run once, in front of the next block's text.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        prompt_text_ids: Sequence[int] = (),
        prompt_speech_ids: Sequence[int] = (),
        prefix_text_ids: Sequence[int] = (),
        *,
        mix_ratio: tuple[int, int],
        prompt_before_blocks: bool = False,
        ratios: LengthRatios = DEFAULT_RATIOS,
    ):
        """prefix_text_ids: CosyVoice 3's instruction up to and including `<|endofprompt|>`, right after sos.

        mix_ratio: text : speech tokens of a block, as the model's config has it. prompt_before_blocks: the
        prompt stands whole before them, its text, task and its speech, as where all text is there; else
        its speech fills the first blocks, which takes new text for the most of it.

        Raises ValueError for a model without a fill class, and for ids that the model does not have.
        """
        if vocabulary.fill is None:
            raise ValueError("this model has no fill class; only CosyVoice 2 and 3 speak while text comes")
        self._vocabulary = vocabulary
        self._block_text, self._block_speech = mix_ratio
        self._ratios = ratios
        prompt_text, prompt_speech = vocabulary.text(prompt_text_ids), vocabulary.speech(prompt_speech_ids)
        self._pending = [vocabulary.sos, *vocabulary.text(prefix_text_ids)]  # not run yet
        if prompt_before_blocks and prompt_speech:
            self._pending += [*prompt_text, vocabulary.task, *prompt_speech]
            prompt_text = prompt_speech = ()
        self._text = deque(prompt_text)
        self._prompt_speech = deque(prompt_speech)
        num_prompt = len(self._prompt_speech)
        self._next_fill = (num_prompt // self._block_speech + 1) * self._block_speech - num_prompt
        self._phase = _Phase.TEXT
        self._num_text_ids = 0
        self._is_text_finished = False
        self._reason: StopReason | None = None
        self.history: list[int] = []
        self.speech_ids: list[int] = []
        self.text_positions: list[int] = []
        self._num_run = 0
        self._num_prompt_text = len(self._text)  # of what waits in `_text`

    def push_text(self, ids: Sequence[int]) -> None:
        """More of the target text. Raises ValueError for ids that the model does not have."""
        assert not self._is_text_finished, "text came after its end"
        self._text.extend(self._vocabulary.text(ids))
        self._num_text_ids += len(ids)

    def finish_text(self) -> None:
        """No text follows. Raises ValueError if none ever came."""
        if self._num_text_ids == 0:
            raise ValueError("the text ended with 0 text tokens; expected at least 1 to speak")
        self._is_text_finished = True

    def next_action(self) -> Action:
        if self._reason is not None:
            return Stop(self._reason)
        if self._is_text_finished and len(self.speech_ids) >= self._scaled(self._ratios.maximum):
            return Stop("max_tokens")
        if self._phase is _Phase.TEXT:
            self._queue_text()
        if self._phase is _Phase.TEXT:
            return WaitForText()
        if self._is_block_full:
            return ForceFill()
        return Run(tuple(self._pending)) if self._pending else Sample(self.forbidden)

    def mark_run(self) -> None:
        self._num_run += len(self._pending)
        self._pending.clear()

    def accept(self, id: int) -> None:
        assert self._phase is not _Phase.TEXT, "accept while text is missing"
        assert self._is_block_full or not self._pending, "accept before the pending ids were run"
        assert 0 <= id < self._vocabulary.num_classes, id
        if id == self._vocabulary.eos:
            assert self.forbidden is Forbidden.ALL_BUT_EOS, id
            self._reason = "eos"
            return
        if id == self._vocabulary.fill:
            assert self.forbidden is Forbidden.ALL_BUT_FILL, id
            self._phase = _Phase.TEXT
            self._next_fill = len(self.history) + 1 + self._block_speech
        else:
            assert id < self._vocabulary.num_speech_ids, id
            self.speech_ids.append(id)
            self._pending.append(id)
        self.history.append(id)

    @property
    def _is_block_full(self) -> bool:
        return self._phase is _Phase.SPEECH and len(self.history) == self._next_fill

    @property
    def forbidden(self) -> Forbidden:
        if self._phase is _Phase.SPEECH:
            return Forbidden.ALL_BUT_FILL
        is_short = len(self.speech_ids) < self._scaled(self._ratios.minimum)
        return Forbidden.STOPS if is_short else Forbidden.ALL_BUT_EOS

    @property
    def sampling_span(self) -> SamplingSpan:
        num_spoken = len(self.speech_ids)
        num_left = self._scaled(self._ratios.maximum) - num_spoken
        if self._phase is _Phase.SPEECH:
            num_ids = self._next_fill - len(self.history)
            num_ids = min(num_ids, num_left) if self._is_text_finished else num_ids
            return SamplingSpan(num_ids, Forbidden.ALL_BUT_FILL, num_ids, Forbidden.ALL_BUT_FILL)
        num_first = max(0, self._scaled(self._ratios.minimum) - num_spoken)
        return SamplingSpan(num_left, Forbidden.STOPS, num_first, Forbidden.ALL_BUT_EOS)

    def _queue_text(self) -> None:
        """Queue the blocks whose text is there, with the prompt's speech; ends TEXT if speech follows."""
        had_prompt = bool(self._prompt_speech)
        while self._prompt_speech and len(self._text) >= self._block_text:
            self._queue(self._text, self._block_text)
            self._queue(self._prompt_speech, self._block_speech)
        if had_prompt and not self._prompt_speech:
            self._phase = _Phase.SPEECH
        elif len(self._text) >= self._block_text:
            self._queue(self._text, self._block_text)
            self._phase = _Phase.SPEECH
        elif self._is_text_finished:
            self._queue(self._text, self._block_text)
            self._pending.append(self._vocabulary.task)
            self._queue(self._prompt_speech, len(self._prompt_speech))
            self._phase = _Phase.LAST

    def _queue(self, source: deque[int], count: int) -> None:
        """Move up to `count` ids from the front of `source` to the ids to be run."""
        for _ in range(min(count, len(source))):
            if source is self._text:
                if self._num_prompt_text:
                    self._num_prompt_text -= 1
                else:
                    self.text_positions.append(self._num_run + len(self._pending))
            self._pending.append(source.popleft())

    def _scaled(self, ratio: float) -> int:
        return int(self._num_text_ids * ratio)
