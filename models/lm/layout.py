"""How a training utterance is laid out: what the model reads, and what it learns to answer at each place."""

from collections.abc import Sequence
from dataclasses import dataclass

from models.lm.vocabulary import Vocabulary

IGNORED = -1  # the target of a place that nothing is learned at


@dataclass(frozen=True, slots=True)
class Layout:
    """input_ids of the joint vocabulary; targets[i], an output class, is the answer at input_ids[i]."""

    input_ids: tuple[int, ...]
    targets: tuple[int, ...]


def one_way_layout(
    vocabulary: Vocabulary,
    text_ids: Sequence[int],
    speech_ids: Sequence[int],
    instruct_ids: Sequence[int] = (),
) -> Layout:
    """sos, instruction, text, task, speech; the answers from task on: speech, eos."""
    text = vocabulary.text([*instruct_ids, *text_ids])
    speech = vocabulary.speech(speech_ids)
    targets = (*[IGNORED] * (1 + len(text)), *speech, vocabulary.eos)
    return Layout((vocabulary.sos, *text, vocabulary.task, *speech), targets)


def interleaved_layout(
    vocabulary: Vocabulary,
    text_ids: Sequence[int],
    speech_ids: Sequence[int],
    instruct_ids: Sequence[int] = (),
    mix_ratio: tuple[int, int] = (5, 15),
) -> Layout:
    """Blocks of N text and M speech tokens, each answered by a fill; then the rest: text, task, speech.

    Raises ValueError where the speech is too short for its blocks, or the model has no fill class.
    """
    block_text, block_speech = mix_ratio
    num_blocks = len(text_ids) // block_text
    if vocabulary.fill is None or len(speech_ids) < num_blocks * block_speech:
        raise ValueError(
            f"{len(text_ids)} text and {len(speech_ids)} speech tokens cannot be interleaved "
            f"{block_text} : {block_speech} by a model whose fill class is {vocabulary.fill}"
        )
    text, speech = vocabulary.text(text_ids), vocabulary.speech(speech_ids)
    inputs = [vocabulary.sos, *vocabulary.text(instruct_ids)]
    targets = [IGNORED] * len(inputs)
    for block in range(num_blocks):
        said = speech[block * block_speech : (block + 1) * block_speech]
        inputs += [*text[block * block_text : (block + 1) * block_text], *said]
        targets += [*[IGNORED] * (block_text - 1), *said, vocabulary.fill]
    rest, said = text[num_blocks * block_text :], speech[num_blocks * block_speech :]
    inputs += [*rest, vocabulary.task, *said]
    targets += [*[IGNORED] * len(rest), *said, vocabulary.eos]
    return Layout(tuple(inputs), tuple(targets))


def training_layout(
    vocabulary: Vocabulary,
    text_ids: Sequence[int],
    speech_ids: Sequence[int],
    instruct_ids: Sequence[int] = (),
    mix_ratio: tuple[int, int] = (5, 15),
    wants_interleaved: bool = False,
) -> Layout:
    """Interleaved where wanted (the recipe wants it for half of all) and the speech is long enough for it.

    Long enough: more than M / N speech tokens per text token.
    """
    block_text, block_speech = mix_ratio
    if wants_interleaved and len(speech_ids) * block_text > len(text_ids) * block_speech:
        return interleaved_layout(vocabulary, text_ids, speech_ids, instruct_ids, mix_ratio)
    return one_way_layout(vocabulary, text_ids, speech_ids, instruct_ids)
