"""Speech while the text is still coming: N text tokens, then M speech tokens, in turn
(CosyVoice 2, arXiv 2412.10117, its streaming mode).
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum, auto

from models.lm.plan import (
    DEFAULT_RATIOS,
    Action,
    ForceFill,
    LengthRatios,
    Run,
    Sample,
    Stop,
    StopReason,
    Stretch,
    WaitForText,
)
from models.lm.vocabulary import Forbidden, Vocabulary


class _Phase(Enum):
    TEXT = auto()  # the next block's text is not laid yet
    SPEECH = auto()  # the block's speech tokens follow, up to a fill
    LAST = auto()  # all text is laid, and task behind it: speech tokens follow up to the eos


class InterleavedPlan:
    """CosyVoice 2 and 3. Which ids are run does not depend on the pieces in which the text arrives.

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
        ratios: LengthRatios = DEFAULT_RATIOS,
    ):
        """prefix_text_ids: CosyVoice 3's instruction up to and including `<|endofprompt|>`, right after sos.

        mix_ratio: text : speech tokens of a block, as the model's config has it.

        Raises ValueError for a model without a fill class, and for ids that the model does not have.
        """
        if vocabulary.fill is None:
            raise ValueError("this model has no fill class; only CosyVoice 2 and 3 speak while text comes")
        self._vocabulary = vocabulary
        self._block_text, self._block_speech = mix_ratio
        self._ratios = ratios
        self._text = deque(vocabulary.text(prompt_text_ids))
        self._prompt_speech = deque(vocabulary.speech(prompt_speech_ids))
        self._pending = [vocabulary.sos, *vocabulary.text(prefix_text_ids)]  # laid, not run yet
        num_prompt = len(self._prompt_speech)
        self._next_fill = (num_prompt // self._block_speech + 1) * self._block_speech - num_prompt
        self._phase = _Phase.TEXT
        self._num_text_ids = 0
        self._is_text_finished = False
        self._reason: StopReason | None = None
        self.history: list[int] = []
        self.speech_ids: list[int] = []

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
            self._lay_text()
        if self._phase is _Phase.TEXT:
            return WaitForText()
        if self._is_block_full:
            return ForceFill()
        return Run(tuple(self._pending)) if self._pending else Sample(self.forbidden)

    def mark_run(self) -> None:
        self._pending.clear()

    def accept(self, id: int) -> None:
        assert self._phase is not _Phase.TEXT, "accept while text is missing"
        assert self._is_block_full or not self._pending, "accept before the pending ids were run"
        assert 0 <= id < self._vocabulary.num_classes, id
        assert id not in self._vocabulary.forbidden_ids(self.forbidden), id
        if id == self._vocabulary.eos:
            self._reason = "eos"
            return
        if id == self._vocabulary.fill:
            self._phase = _Phase.TEXT
            self._next_fill = len(self.history) + 1 + self._block_speech
        else:
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
    def stretch(self) -> Stretch:
        num_spoken = len(self.speech_ids)
        num_left = self._scaled(self._ratios.maximum) - num_spoken
        if self._phase is _Phase.SPEECH:
            num_ids = self._next_fill - len(self.history)
            num_ids = min(num_ids, num_left) if self._is_text_finished else num_ids
            return Stretch(num_ids, Forbidden.ALL_BUT_FILL, num_ids, Forbidden.ALL_BUT_FILL)
        num_first = max(0, self._scaled(self._ratios.minimum) - num_spoken)
        return Stretch(num_left, Forbidden.STOPS, num_first, Forbidden.ALL_BUT_EOS)

    def _lay_text(self) -> None:
        """Lays the blocks whose text is there, the prompt's speech into them; ends TEXT if speech follows."""
        had_prompt = bool(self._prompt_speech)
        while self._prompt_speech and len(self._text) >= self._block_text:
            self._lay(self._text, self._block_text)
            self._lay(self._prompt_speech, self._block_speech)
        if had_prompt and not self._prompt_speech:
            self._phase = _Phase.SPEECH
        elif len(self._text) >= self._block_text:
            self._lay(self._text, self._block_text)
            self._phase = _Phase.SPEECH
        elif self._is_text_finished:
            self._lay(self._text, self._block_text)
            self._pending.append(self._vocabulary.task)
            self._lay(self._prompt_speech, len(self._prompt_speech))
            self._phase = _Phase.LAST

    def _lay(self, source: deque[int], count: int) -> None:
        """Moves up to `count` ids from the front of `source` to the ids to be run."""
        for _ in range(min(count, len(source))):
            self._pending.append(source.popleft())

    def _scaled(self, ratio: float) -> int:
        return int(self._num_text_ids * ratio)
