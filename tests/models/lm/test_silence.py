import pytest

from firstword.models.lm.silence import SilentTokenFilter, silent_ids
from tests.models.lm.networks import FAMILIES


def kept(silence: SilentTokenFilter, ids: list[int]) -> list[int]:
    return [id for id in ids if silence.lets_through(id)]


def test_at_most_five_silent_tokens_in_a_row_pass() -> None:
    silence = SilentTokenFilter(silent_ids(FAMILIES["cosyvoice3"]))
    assert kept(silence, [1, 2, 28, 29, 55, 248, 494, 100, 2241]) == [1, 2, 28, 29, 55, 100, 2241]


def test_a_run_goes_on_from_call_to_call() -> None:
    silence = SilentTokenFilter(silent_ids(FAMILIES["cosyvoice3"]))
    assert kept(silence, [2322] * 8) == [2322] * 5
    assert kept(silence, [7, 2322]) == [7, 2322]


@pytest.mark.parametrize("family", ["cosyvoice1", "cosyvoice2"])
def test_of_a_family_without_a_list_nothing_is_withheld(family: str) -> None:
    assert kept(SilentTokenFilter(silent_ids(FAMILIES[family])), [1] * 20) == [1] * 20
