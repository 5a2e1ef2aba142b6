"""In which order engines are asked for a request, and which of them are silent."""

import pytest

from firstword.app.hosts.ray.order import Silence, ordered, session_of

ENGINES = [f"engine-{number}" for number in range(4)]
OWN = ordered(ENGINES, session_of("anna", 0, ()))


def test_each_speaker_has_an_order_of_its_own_in_which_another_engine_moves_nobody() -> None:
    sessions = [session_of(f"voice-{number}", 0, ()) for number in range(50)]
    before = [ordered(ENGINES, session) for session in sessions]
    assert {order[0] for order in before} == set(ENGINES)
    after = [ordered([*ENGINES, "engine-4"], session) for session in sessions]
    assert [[one for one in order if one != "engine-4"] for order in after] == before


@pytest.mark.parametrize("nth", [0, 1, 3])
def test_the_nth_of_those_that_answer_is_asked_first_and_the_silent_ones_last(nth: int) -> None:
    assert ordered(ENGINES, session_of("anna", nth, ())) == OWN[nth:] + OWN[:nth]
    first, second, third, fourth = OWN
    start = nth % 3
    answering = [first, third, fourth]
    expected = [*answering[start:], *answering[:start], second]
    assert ordered(ENGINES, session_of("anna", nth, [second, "gone"])) == expected
    only, *silent = OWN
    assert ordered(ENGINES, session_of("anna", nth, silent)) == [only, *silent]
    assert ordered(ENGINES, session_of("anna", nth, OWN)) == OWN[nth:] + OWN[:nth]


def test_who_has_no_key_goes_to_any_engine_that_answers() -> None:
    orders = [ordered(ENGINES, session_of("", 0, ENGINES[:1])) for _ in range(100)]
    assert {order[0] for order in orders} == set(ENGINES[1:])
    assert {order[-1] for order in orders} == {ENGINES[0]}
    assert all(sorted(order) == ENGINES for order in orders)
    assert sorted(ordered(ENGINES, "")) == ENGINES
    assert ordered([], session_of("anna", 1, ())) == []


def test_an_engine_is_silent_while_it_is_asked_in_vain_and_has_answered_before() -> None:
    silence, late, failed = Silence(), TimeoutError(), OSError()
    silence.note({"a": "one", "b": "two", "c": late})
    assert silence.replicas == ()
    for error in (late, failed):
        silence.note({"a": "one", "b": error, "c": error})
        assert silence.replicas == ("two",)
    silence.note({"a": late, "b": "two", "c": "three"})
    assert silence.replicas == ("one",)
    silence.note({"b": late, "c": failed})  # of one that ends Ray asks nothing
    assert sorted(silence.replicas) == ["three", "two"]
    assert silence.late == ("two",)
    silence.note({"b": "two", "c": "three"})
    assert (silence.replicas, silence.late) == ((), ())
