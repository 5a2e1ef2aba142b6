"""Text and speech in turn behind a whole prompt: what is trained is what a plan runs."""

import pytest

from firstword.models.config import Qwen2Config, Qwen2LMConfig
from firstword.models.lm.plan import (
    IGNORED,
    BistreamPlan,
    ForceFill,
    Run,
    Sample,
    Stop,
    Vocabulary,
    WaitForText,
)
from training.layout import prompt_first_layout

VOCABULARY = Vocabulary.of(Qwen2LMConfig(6561, Qwen2Config(100, 32, 32, 2, 2, 1), False, (5, 13)))
PROMPT = list(range(7)), list(range(100, 140))


@pytest.mark.parametrize(("num_text", "num_speech"), [(3, 20), (5, 20), (12, 50), (20, 60)])
def test_a_plan_runs_what_was_trained(num_text: int, num_speech: int) -> None:
    text, speech = list(range(20, 20 + num_text)), list(range(200, 200 + num_speech))
    layout = prompt_first_layout(VOCABULARY, PROMPT, text, speech, (5, 13))
    plan = BistreamPlan(VOCABULARY, *PROMPT, mix_ratio=(5, 13), prompt_before_blocks=True)
    coming, saying = iter(text), iter(speech)
    run: list[int] = []
    drawn_after: list[int] = []
    while not isinstance(action := plan.next_action(), Stop):
        if isinstance(action, WaitForText):
            if (id := next(coming, None)) is None:
                plan.finish_text()
            else:
                plan.push_text([id])
        elif isinstance(action, Run):
            run += action.ids
            plan.mark_run()
            plan.accept(next(saying, VOCABULARY.eos))
            drawn_after.append(len(run))
        elif isinstance(action, ForceFill):
            assert VOCABULARY.fill is not None
            plan.accept(VOCABULARY.fill)
        else:
            assert isinstance(action, Sample)
            plan.accept(next(saying, VOCABULARY.eos))
    assert tuple(run) == layout.input_ids[: len(run)]
    assert len(layout.input_ids) - len(run) <= 1
    prompt_length = 2 + len(PROMPT[0]) + len(PROMPT[1])
    assert drawn_after[0] == prompt_length + (5 if num_text >= 5 else num_text + 1)


def test_the_first_speech_waits_for_one_block_of_text() -> None:
    plan = BistreamPlan(VOCABULARY, *PROMPT, mix_ratio=(5, 13), prompt_before_blocks=True)
    plan.push_text([1, 2, 3, 4])
    assert isinstance(plan.next_action(), WaitForText)
    plan.push_text([5])
    action = plan.next_action()
    assert isinstance(action, Run)
    assert action.ids[-5:] == VOCABULARY.text([1, 2, 3, 4, 5])


def test_the_prompt_is_answered_and_the_text_behind_it_is_not() -> None:
    layout = prompt_first_layout(VOCABULARY, PROMPT, [1] * 5, list(range(200, 220)), (5, 13))
    assert len(layout.input_ids) == len(layout.targets)
    speech = [target for target in layout.targets if 0 <= target < VOCABULARY.num_speech_ids]
    assert speech == [*PROMPT[1], *range(200, 220)]
    last = 1 + len(PROMPT[0]) + len(PROMPT[1])  # of the prompt's speech
    assert layout.targets[last] == IGNORED
    assert layout.targets[last + 5] == 200
