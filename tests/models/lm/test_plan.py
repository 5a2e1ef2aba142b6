import pytest

from firstword.models.lm.plan import (
    Forbidden,
    LengthRatios,
    OfflinePlan,
    Run,
    Sample,
    Stop,
    Vocabulary,
    offline_layout,
)
from tests.models.lm.networks import COSYVOICE1, COSYVOICE2, COSYVOICE3, FAMILIES

ALL = pytest.mark.parametrize("family", FAMILIES)


def drive(plan: OfflinePlan, eos_at: int | None = None) -> list[tuple[int, ...]]:
    """Accepts 7 again and again, the eos in place of token `eos_at`; -> the ids of every run."""
    runs, eos = [], plan._vocabulary.eos
    while not isinstance(action := plan.next_action(), Stop):
        if isinstance(action, Run):
            runs.append(action.ids)
            plan.mark_run()
        else:
            assert isinstance(action, Sample)
            plan.accept(eos if len(plan.speech_ids) == eos_at else 7)
    return runs


@ALL
def test_run_ids_are_the_training_layout(family: str) -> None:
    names = Vocabulary.of(FAMILIES[family])
    plan = OfflinePlan(names, [3, 4, 5], [1, 2], [50, 51])
    runs = drive(plan, eos_at=20)
    layout = offline_layout(names, [1, 2, 3, 4, 5], [50, 51, *[7] * 20])
    assert tuple(id for run in runs for id in run) == layout.input_ids
    assert runs[1:] == [(7,)] * 20
    assert plan.next_action() == Stop("eos")
    assert plan.speech_ids == list(plan.history) == [7] * 20


@ALL
def test_no_class_of_the_stop_set_ends_it_below_the_minimum(family: str) -> None:
    names = Vocabulary.of(FAMILIES[family])
    plan = OfflinePlan(names, [3, 4], ratios=LengthRatios(minimum=1.5))
    rules = []
    for _ in range(5):
        assert isinstance(plan.next_action(), Run)
        plan.mark_run()
        action = plan.next_action()
        assert isinstance(action, Sample)
        rules.append(action.forbidden)
        plan.accept(7)
    assert rules == [Forbidden.STOPS] * 3 + [Forbidden.NOTHING] * 2


def test_every_class_of_the_stop_set_ends_it_after_the_minimum() -> None:
    names = Vocabulary.of(COSYVOICE2)
    for stop in names.stop_ids:
        plan = OfflinePlan(names, [3])
        plan.mark_run()
        plan.accept(stop)
        assert plan.next_action() == Stop("eos")
        assert plan.speech_ids == []


@pytest.mark.parametrize("text", [[3], [3, 4, 5]])
def test_the_maximum_ends_it_without_another_run(text: list[int]) -> None:
    plan = OfflinePlan(Vocabulary.of(COSYVOICE1), text, prompt_text_ids=[9] * 30)
    runs = drive(plan)
    assert plan.next_action() == Stop("max_tokens")
    assert len(plan.speech_ids) == 20 * len(text)
    assert len(runs) == 20 * len(text)


def test_asking_again_changes_nothing() -> None:
    plan = OfflinePlan(Vocabulary.of(COSYVOICE3), [3, 4])
    assert plan.next_action() == plan.next_action()
    plan.mark_run()
    assert plan.next_action() == plan.next_action() == Sample(Forbidden.STOPS)


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(ValueError, match="0 text tokens came; expected at least 1"):
        OfflinePlan(Vocabulary.of(COSYVOICE2), [], prompt_text_ids=[1, 2])
