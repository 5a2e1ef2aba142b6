"""Texts as the service reads them: normalized, sounds and marks written, then text tokens."""

from firstword.app.budget import DEFAULT_LIMITS, Work
from firstword.app.engine.text_frontend import text_frontend
from firstword.app.text.marks import Reading
from firstword.app.text.segment import Segment
from firstword.finetune.errors import FinetuneError
from firstword.models.checkpoint.open import Checkpoint
from firstword.models.frontend.modes import ASSISTANT
from firstword.models.tokenizer.qwen2 import END_OF_PROMPT


class TextReader:
    """The text step of a checkpoint, for whole utterances: nothing is cut."""

    def __init__(self, checkpoint: Checkpoint, language: str | None = None, instruct: str | None = None):
        """language: None, it is detected. instruct: CosyVoice 3's, before the text; None: as usual."""
        self._tokenizer = checkpoint.load_tokenizer()
        self._frontend = text_frontend(self._tokenizer, checkpoint, "warn")
        self._language = language
        self.instruct_ids: tuple[int, ...] = ()
        if checkpoint.config.family == "cosyvoice3":
            self.instruct_ids = tuple(self._tokenizer.encode((instruct or ASSISTANT) + END_OF_PROMPT))
        elif instruct is not None:
            raise FinetuneError(
                f"--instruct is for CosyVoice 3; {checkpoint.directory} is a {checkpoint.config.family}"
            )

    def read(self, text: str) -> tuple[int, ...]:
        """-> the text tokens of what is spoken. Raises FinetuneError for a text without words."""
        feed = self._frontend.open("whole", self._language, Reading(), [], Work(DEFAULT_LIMITS))
        segments = [item for item in feed.read(text, flushes=True) if isinstance(item, Segment)]
        if not segments:
            raise FinetuneError(f"nothing in the text {text[:60]!a} can be spoken")
        return tuple(self._frontend.marks.encode(" ".join(segment.spoken for segment in segments)))
