"""What a plan says lies ahead is what then happens."""

import pytest

from firstword.models.lm.plan import BistreamPlan, OfflinePlan, Plan, Run, Stop, Vocabulary

NAMES = Vocabulary(100, 103, 103, 50, sos=103, task=104, first_text=105, eos=100, fill=102)
MIX_RATIO = (5, 15)


def drawn_up_to_the_turn(plan: Plan) -> list[object]:
    """Draws ordinary ids until the plan wants something else; -> the rule before each draw."""
    action = plan.next_action()
    assert isinstance(action, Run)
    rules: list[object] = []
    while isinstance(action, Run) and (not rules or action.ids == (7,)):
        plan.mark_run()
        rules.append(plan.forbidden)
        plan.accept(7)
        action = plan.next_action()
    return rules


def foreseen(plan: Plan) -> list[object]:
    span = plan.sampling_span
    num_first = min(span.num_first, span.num_ids)
    return [span.first_rule] * num_first + [span.later_rule] * (span.num_ids - num_first)


def test_a_whole_text_is_one_stretch() -> None:
    plan = OfflinePlan(NAMES, [1, 2, 3])
    expected = foreseen(plan)
    assert drawn_up_to_the_turn(plan) == expected
    assert len(expected) == 60
    assert isinstance(plan.next_action(), Stop)


@pytest.mark.parametrize("num_prompt_ids", [0, 4, 15])
def test_pushed_text_is_a_stretch_for_each_block(num_prompt_ids: int) -> None:
    plan = BistreamPlan(NAMES, [1] * 5, [9] * num_prompt_ids, mix_ratio=MIX_RATIO)
    plan.push_text([1] * 12)
    plan.finish_text()
    num_spans = 0
    while not isinstance(plan.next_action(), Stop):
        if not isinstance(plan.next_action(), Run):
            plan.accept(NAMES.fill or -1)
            continue
        expected = foreseen(plan)
        assert drawn_up_to_the_turn(plan) == expected
        num_spans += 1
    assert num_spans >= 3
