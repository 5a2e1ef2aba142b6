import pytest

from firstword.models.lm.plan import IGNORED, Vocabulary, bistream_layout, offline_layout, training_layout
from tests.models.lm.networks import COSYVOICE1, COSYVOICE2, COSYVOICE3

TWO, THREE = Vocabulary.of(COSYVOICE2), Vocabulary.of(COSYVOICE3)


def test_one_way_layout() -> None:
    layout = offline_layout(THREE, [1, 2], [5, 6, 7], instruct_ids=[9])
    assert layout.input_ids == (THREE.sos, *THREE.text([9, 1, 2]), THREE.task, 5, 6, 7)
    assert layout.targets == (*[IGNORED] * 4, 5, 6, 7, THREE.eos)


def test_interleaved_layout_with_text_left_over() -> None:
    speech = [*range(20)]
    layout = bistream_layout(THREE, [1, 2, 3, 4, 5, 6], speech, instruct_ids=[9])
    first, rest = THREE.text([1, 2, 3, 4, 5]), THREE.text([6])
    assert layout.input_ids == (
        *(THREE.sos, *THREE.text([9])),
        *(*first, *speech[:15]),
        *(*rest, THREE.task, *speech[15:]),
    )
    assert layout.targets == (
        *[IGNORED] * 2,
        *(*[IGNORED] * 4, *speech[:15], THREE.fill),
        *(IGNORED, *speech[15:], THREE.eos),
    )


def test_interleaved_layout_of_whole_blocks_ends_with_an_empty_text() -> None:
    speech = [*range(17)]
    layout = bistream_layout(TWO, [1, 2, 3, 4, 5], speech)
    assert layout.input_ids[-4:] == (14, TWO.task, 15, 16)
    assert layout.targets[-4:] == (TWO.fill, 15, 16, TWO.eos)
    assert len(layout.input_ids) == len(layout.targets)


@pytest.mark.parametrize(("num_speech_ids", "is_interleaved"), [(14, False), (15, False), (16, True)])
def test_interleaving_needs_more_than_three_speech_tokens_a_text_token(
    num_speech_ids: int, is_interleaved: bool
) -> None:
    text, speech = [1, 2, 3, 4, 5], [*range(num_speech_ids)]
    wanted = training_layout(TWO, text, speech, wants_bistream=True)
    assert wanted == (bistream_layout if is_interleaved else offline_layout)(TWO, text, speech)
    assert training_layout(TWO, text, speech) == offline_layout(TWO, text, speech)


def test_what_cannot_be_interleaved_is_refused() -> None:
    with pytest.raises(ValueError, match="5 text and 14 speech tokens cannot alternate in blocks of 5 : 15"):
        bistream_layout(TWO, [1] * 5, [2] * 14)
    with pytest.raises(ValueError, match="fill class is None"):
        bistream_layout(Vocabulary.of(COSYVOICE1), [1], [2] * 14)
