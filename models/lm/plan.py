"""What an utterance does next, as pure decisions: one object per utterance, no tensors.

A plan is driven by asking `next_action` (which may be asked again), doing it, and reporting: `mark_run`
after a Run, `accept` with the drawn id after a Sample, with the fill class after a ForceFill.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from models.lm.vocabulary import Forbidden, Vocabulary

StopReason = Literal["eos", "max_tokens"]


@dataclass(frozen=True, slots=True)
class Run:
    """Run these ids of the joint vocabulary; a Sample from the last one's logits follows."""

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
class Stretch:
    """The draws up to the next turn, where each drawn id is simply run, for an engine that draws by itself.

    A turn comes after `num_ids` of them at the latest, and at once after a class of the stop set. The
    first `num_first` are under the rule `first`, the others under `later`.
    """

    num_ids: int
    first: Forbidden
    num_first: int
    later: Forbidden


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
    def forbidden(self) -> Forbidden:
        """What may not be drawn next, known before what is pending has run."""
        ...

    @property
    def stretch(self) -> Stretch:
        """What lies ahead, asked after a Run."""
        ...

    def next_action(self) -> Action: ...

    def mark_run(self) -> None: ...

    def accept(self, id: int) -> None: ...


@dataclass(frozen=True, slots=True)
class LengthRatios:
    """Speech tokens per target text token: the fewest that may end an utterance, the most it may have."""

    minimum: float = 2.0
    maximum: float = 20.0


DEFAULT_RATIOS = LengthRatios()


class OneWayPlan:
    """All text first, then speech to the end. Any class of the stop set ends it.

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
        self._reason: StopReason | None = None
        self.speech_ids: list[int] = []

    @property
    def history(self) -> Sequence[int]:
        return self.speech_ids

    @property
    def forbidden(self) -> Forbidden:
        return Forbidden.STOPS if len(self.speech_ids) < self._min_tokens else Forbidden.NOTHING

    @property
    def stretch(self) -> Stretch:
        num_spoken = len(self.speech_ids)
        num_first = max(0, self._min_tokens - num_spoken)
        return Stretch(self._max_tokens - num_spoken, Forbidden.STOPS, num_first, Forbidden.NOTHING)

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
        if id in self._vocabulary.stop_ids:
            self._reason = "eos"
            return
        self.speech_ids.append(id)
        self._pending = (id,)
