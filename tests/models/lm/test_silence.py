import pytest

from firstword.models.lm.silence import SilentTokenFilter, silent_ids
from tests.models.lm.networks import FAMILIES


def test_at_most_five_silent_tokens_in_a_row_pass() -> None:
    silence = SilentTokenFilter(silent_ids(FAMILIES["cosyvoice3"]))
    assert silence.keep([1, 2, 28, 29, 55, 248, 494, 100, 2241]) == [1, 2, 28, 29, 55, 100, 2241]


def test_a_run_goes_on_from_call_to_call() -> None:
    silence = SilentTokenFilter(silent_ids(FAMILIES["cosyvoice3"]))
    assert [id for _ in range(8) for id in silence.keep([2322])] == [2322] * 5
    assert silence.keep([7, 2322]) == [7, 2322]


@pytest.mark.parametrize("family", ["cosyvoice1", "cosyvoice2"])
def test_of_a_family_without_a_list_nothing_is_withheld(family: str) -> None:
    assert SilentTokenFilter(silent_ids(FAMILIES[family])).keep([1] * 20) == [1] * 20
