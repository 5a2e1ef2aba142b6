"""Text and speech in turn behind a whole prompt: the first speech comes after one block of text.

CosyVoice 2 lays the prompt's own speech into blocks as well; a prompt has more speech than its text fills
blocks for, so new text is used up for the rest of it before anything new is said. Here the prompt stands in
front as it does in a request with all its text: sos, prompt text, task, prompt speech; then the blocks.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from firstword.models.lm.plan import IGNORED, BistreamPlan, Layout, Vocabulary, bistream_layout

TRAITS_FILE = "reading.json"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a checkpoint reads; one without a file for it reads as the published ones do."""

    has_marks: bool = False  # words as ARPAbet, by the front end in `pronunciation`
    has_prompt_first: bool = False  # in front of the blocks of text and speech

    @classmethod
    def of(cls, directory: Path) -> "Reading":
        path = directory / TRAITS_FILE
        return cls(**json.loads(path.read_text())) if path.exists() else cls()

    def write(self, directory: Path) -> None:
        (directory / TRAITS_FILE).write_text(json.dumps(asdict(self), indent=2) + "\n")


def prompt_first_layout(
    vocabulary: Vocabulary,
    prompt: tuple[Sequence[int], Sequence[int]],
    text_ids: Sequence[int],
    speech_ids: Sequence[int],
    mix_ratio: tuple[int, int],
) -> Layout:
    """prompt: its text and its speech tokens, answered too. Raises ValueError as bistream_layout does."""
    prompt_text, prompt_speech = vocabulary.text(prompt[0]), vocabulary.speech(prompt[1])
    blocks = bistream_layout(vocabulary, text_ids, speech_ids, (), mix_ratio)
    inputs = (vocabulary.sos, *prompt_text, vocabulary.task, *prompt_speech, *blocks.input_ids[1:])
    targets = (*[IGNORED] * (1 + len(prompt_text)), *prompt_speech, IGNORED, *blocks.targets[1:])
    return Layout(inputs, targets)


class PromptFirstPlan(BistreamPlan):
    """A BistreamPlan that begins with its first block of text, whatever the prompt."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        prompt_text_ids: Sequence[int],
        prompt_speech_ids: Sequence[int],
        *,
        mix_ratio: tuple[int, int],
    ) -> None:
        super().__init__(vocabulary, mix_ratio=mix_ratio)
        prompt_text, prompt_speech = vocabulary.text(prompt_text_ids), vocabulary.speech(prompt_speech_ids)
        self._pending += [*prompt_text, vocabulary.task, *prompt_speech]
