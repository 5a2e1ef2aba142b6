"""Text and speech in turn behind a whole prompt: the first speech comes after one block of text.

CosyVoice 2 lays the prompt's own speech into blocks as well; a prompt has more speech than its text fills
blocks for, so new text is used up for the rest of it before anything new is said. Here the prompt stands in
front as it does in a request with all its text: sos, prompt text, task, prompt speech; then the blocks.
"""

from collections.abc import Sequence

from firstword.models.lm.plan import IGNORED, Layout, Vocabulary, bistream_layout


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
