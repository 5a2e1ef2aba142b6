import pytest
import torch

from firstword.models.lm.plan import Forbidden, Vocabulary
from firstword.models.lm.sampling import class_masks
from tests.models.lm.networks import (
    COSYVOICE1,
    COSYVOICE2,
    COSYVOICE3,
    FAMILIES,
    NUM_SPEECH_IDS,
    NUM_TEXT_IDS,
)

S = NUM_SPEECH_IDS


def test_speech_rows_come_first_then_the_special_ids_then_text() -> None:
    one, two, three = (Vocabulary.of(config) for config in (COSYVOICE1, COSYVOICE2, COSYVOICE3))

    assert (one.sos, one.task, one.first_text) == (S, S + 1, S + 2)
    assert (two.sos, two.task, two.first_text) == (S + 3, S + 4, S + 5)
    assert (three.sos, three.task, three.first_text) == (S, S + 2, S + 200)
    assert [names.num_ids - names.first_text for names in (one, two, three)] == [NUM_TEXT_IDS] * 3


def test_output_classes_are_the_published_ones() -> None:
    one, two, three = (Vocabulary.of(config) for config in (COSYVOICE1, COSYVOICE2, COSYVOICE3))

    assert (one.num_classes, one.eos, one.fill) == (S + 1, S, None)
    assert (two.num_classes, two.eos, two.fill) == (S + 3, S, S + 2)
    assert (three.num_classes, three.eos, three.fill) == (S + 200, S + 1, S + 3)


@pytest.mark.parametrize("family", FAMILIES)
def test_masks_forbid_what_the_rule_says_and_never_a_speech_token(family: str) -> None:
    names = Vocabulary.of(FAMILIES[family])
    masks = class_masks(names)

    assert not masks[:, :S].any()
    assert not masks[Forbidden.NOTHING].any()
    assert masks[Forbidden.STOPS, S:].all()
    assert (~masks[Forbidden.ALL_BUT_EOS]).nonzero().flatten().tolist() == [*range(S), names.eos]
    fills = [] if names.fill is None else [names.fill]
    assert (~masks[Forbidden.ALL_BUT_FILL]).nonzero().flatten().tolist() == [*range(S), *fills]
    assert masks.dtype is torch.bool


def test_ids_outside_the_tables_are_refused() -> None:
    names = Vocabulary.of(COSYVOICE2)

    assert names.text([0, NUM_TEXT_IDS - 1]) == (names.first_text, names.num_ids - 1)
    assert names.speech([S - 1]) == (S - 1,)
    with pytest.raises(ValueError, match=f"text token {NUM_TEXT_IDS} came; this model has 0 to"):
        names.text([1, NUM_TEXT_IDS])
    with pytest.raises(ValueError, match=f"speech token {S} came"):
        names.speech([S])
    with pytest.raises(ValueError, match="speech token -1 came"):
        names.speech([-1])
