"""The bistream plan, driven by a model that is a pure function of the ids it has read."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

import pytest

from firstword.models.lm.plan import (
    BistreamPlan,
    Forbidden,
    ForceFill,
    LengthRatios,
    Run,
    Sample,
    Stop,
    Vocabulary,
    WaitForText,
    bistream_layout,
)
from tests.models.lm.networks import COSYVOICE1, COSYVOICE2, COSYVOICE3, NUM_SPEECH_IDS, NUM_TEXT_IDS

MIX_RATIO = (5, 15)
SEEDS = range(60)
EARLY_FILLS = pytest.mark.parametrize("has_early_fills", [False, True])
TWO, THREE = Vocabulary.of(COSYVOICE2), Vocabulary.of(COSYVOICE3)


@dataclass(frozen=True, slots=True)
class Utterance:
    vocabulary: Vocabulary
    text: list[int]
    prompt_text: list[int]
    prompt_speech: list[int]
    prefix: list[int]

    def plan(self) -> BistreamPlan:
        return BistreamPlan(
            self.vocabulary, self.prompt_text, self.prompt_speech, self.prefix, mix_ratio=MIX_RATIO
        )


@dataclass(slots=True)
class Reader:
    """Answers by a checksum of all ids it has read; draws fills where `has_early_fills`."""

    vocabulary: Vocabulary
    has_early_fills: bool
    fills_at_once: bool = False  # a prompt that fills its last block is answered by a fill
    read: list[int] = field(default_factory=list)

    def answer(self, rule: Forbidden) -> int:
        names = self.vocabulary
        value = crc32(repr(self.read).encode())
        if rule is Forbidden.ALL_BUT_EOS and value % 19 == 0:
            return names.eos
        assert names.fill is not None
        is_start = self.fills_at_once and self.read[-1] in self.prompt_end
        if rule is Forbidden.ALL_BUT_FILL and (is_start or (self.has_early_fills and value % 13 == 0)):
            return names.fill
        return value % (NUM_SPEECH_IDS - 1)

    @property
    def prompt_end(self) -> set[int]:
        return {NUM_SPEECH_IDS - 1}


Trace = list[tuple[object, ...]]


def drive(plan: BistreamPlan, reader: Reader, pieces: Sequence[Sequence[int]], eagerness: float) -> Trace:
    """Runs the plan to its stop. A piece comes when the plan waits, or with that chance before any action."""
    trace: Trace = []
    waiting = [*pieces]
    chance = random.Random(0)
    is_open = True
    while not isinstance(action := plan.next_action(), Stop):
        if is_open and (isinstance(action, WaitForText) or chance.random() < eagerness):
            if waiting:
                plan.push_text(waiting.pop(0))
            else:
                plan.finish_text()
                is_open = False
        elif isinstance(action, Run):
            reader.read += action.ids
            trace.append(("run", *action.ids))
            plan.mark_run()
        elif isinstance(action, Sample):
            id = reader.answer(action.forbidden)
            trace.append(("sample", action.forbidden, id))
            plan.accept(id)
        else:
            assert isinstance(action, ForceFill)
            trace.append(("fill",))
            plan.accept(plan._vocabulary.fill or -1)
    trace.append(("stop", action.reason))
    return trace


def random_utterance(seed: int) -> Utterance:
    chance = random.Random(seed)
    vocabulary = THREE if seed % 2 else TWO
    num_prompt = chance.choice([0, 1, 14, 15, 16, 29, 30, 31, 44, 60, 61, 100])
    return Utterance(
        vocabulary,
        [chance.randrange(NUM_TEXT_IDS) for _ in range(chance.randrange(1, 40))],
        [chance.randrange(NUM_TEXT_IDS) for _ in range(num_prompt // 4)],
        [chance.randrange(NUM_SPEECH_IDS) for _ in range(num_prompt)],
        [chance.randrange(NUM_TEXT_IDS) for _ in range(3)] if vocabulary is THREE else [],
    )


def random_pieces(text: Sequence[int], seed: int) -> list[list[int]]:
    chance = random.Random(seed)
    pieces, start = [], 0
    while start < len(text):
        length = chance.choice([0, 1, 1, 2, 3, 7, 12])
        pieces.append([*text[start : start + length]])
        start += length
    return pieces


@EARLY_FILLS
def test_the_pieces_of_the_text_change_nothing(has_early_fills: bool) -> None:
    for seed in SEEDS:
        utterance = random_utterance(seed)
        whole = drive(utterance.plan(), Reader(utterance.vocabulary, has_early_fills), [utterance.text], 1.0)
        for eagerness in (0.0, 0.1, 0.9):
            pieces = random_pieces(utterance.text, seed)
            reader = Reader(utterance.vocabulary, has_early_fills)
            assert drive(utterance.plan(), reader, pieces, eagerness) == whole, seed


@EARLY_FILLS
def test_every_id_is_run_once_and_in_order(has_early_fills: bool) -> None:
    for seed in SEEDS:
        utterance = random_utterance(seed)
        plan, names = utterance.plan(), utterance.vocabulary
        reader = Reader(names, has_early_fills)
        trace = drive(plan, reader, random_pieces(utterance.text, seed), 0.3)
        stopped_by_length = trace[-1] == ("stop", "max_tokens")
        text = [id for id in reader.read if id >= names.first_text]
        speech = [id for id in reader.read if id < names.num_speech_ids]
        spoken = plan.speech_ids[:-1] if stopped_by_length else plan.speech_ids
        assert text == [*names.text([*utterance.prefix, *utterance.prompt_text, *utterance.text])], seed
        assert speech == [*utterance.prompt_speech, *spoken], seed
        assert [id for id in reader.read if id in (names.sos, names.task)] == [names.sos, names.task], seed
        assert [id for id in plan.history if id != names.fill] == plan.speech_ids, seed


def test_what_is_run_is_the_training_layout() -> None:
    for seed in SEEDS:
        utterance = random_utterance(seed)
        plan, names = utterance.plan(), utterance.vocabulary
        if utterance.prompt_speech and len(utterance.prompt_speech) % 15 == 0:
            utterance.prompt_speech[-1] = NUM_SPEECH_IDS - 1  # drawn as a fill, as in training
            plan = utterance.plan()
        reader = Reader(names, has_early_fills=False, fills_at_once=True)
        trace = drive(plan, reader, random_pieces(utterance.text, seed), 0.3)
        spoken = plan.speech_ids
        if trace[-1] == ("stop", "max_tokens"):
            reader.read.append(spoken[-1])  # known and needed no more
        layout = bistream_layout(
            names,
            [*utterance.prompt_text, *utterance.text],
            [*utterance.prompt_speech, *spoken],
            utterance.prefix,
        )
        assert tuple(reader.read) == layout.input_ids, seed


def step(plan: BistreamPlan, id: int) -> tuple[Run, Sample]:
    """One run and one accepted id."""
    run = plan.next_action()
    assert isinstance(run, Run)
    plan.mark_run()
    action = plan.next_action()
    assert isinstance(action, Sample)
    plan.accept(id)
    return run, action


def test_the_last_token_before_a_forced_fill_is_run_once_with_the_next_text() -> None:
    plan = BistreamPlan(TWO, mix_ratio=MIX_RATIO)
    plan.push_text([1, 2, 3, 4, 5])
    runs = [step(plan, id)[0].ids for id in range(15)]
    assert runs[0] == (TWO.sos, *TWO.text([1, 2, 3, 4, 5]))
    assert runs[1:] == [(id,) for id in range(14)]
    assert plan.next_action() == ForceFill()
    plan.accept(TWO.stop_ids[2])
    assert plan.next_action() == WaitForText()
    plan.push_text([6, 7, 8, 9])
    assert plan.next_action() == WaitForText()
    plan.push_text([10, 11])
    assert plan.next_action() == Run((14, *TWO.text([6, 7, 8, 9, 10])))


def test_the_last_token_before_a_forced_fill_is_run_once_at_the_end_of_the_text() -> None:
    plan = BistreamPlan(TWO, mix_ratio=MIX_RATIO)
    plan.push_text([1, 2, 3, 4, 5])
    for id in range(15):
        step(plan, id)
    plan.accept(TWO.fill or -1)
    plan.push_text([6])
    plan.finish_text()
    assert plan.next_action() == Run((14, *TWO.text([6]), TWO.task))


def test_a_fill_drawn_early_ends_the_block_and_the_next_one_is_whole() -> None:
    plan = BistreamPlan(TWO, mix_ratio=MIX_RATIO)
    plan.push_text([1] * 10)
    step(plan, 8)
    step(plan, TWO.fill or -1)
    assert plan.next_action() == Run(TWO.text([1] * 5))
    for _ in range(15):
        assert step(plan, 9)[1] == Sample(Forbidden.ALL_BUT_FILL)
    assert plan.next_action() == ForceFill()
    assert plan.history == [8, TWO.fill, *[9] * 15]


def test_text_that_ends_within_a_block_lets_the_block_run_to_its_fill() -> None:
    plan = BistreamPlan(TWO, mix_ratio=MIX_RATIO)
    plan.push_text([1] * 6)
    step(plan, 8)
    plan.finish_text()
    for _ in range(14):
        assert step(plan, 9)[1] == Sample(Forbidden.ALL_BUT_FILL)
    assert plan.next_action() == ForceFill()


def test_text_that_ends_while_prompt_speech_remains_drops_none_of_it() -> None:
    plan = BistreamPlan(TWO, [1, 2, 3], [*range(40)], mix_ratio=MIX_RATIO)
    plan.push_text([4, 5, 6])
    plan.finish_text()
    first = (*TWO.text([1, 2, 3, 4, 5]), *range(15))
    assert plan.next_action() == Run((TWO.sos, *first, *TWO.text([6]), TWO.task, *range(15, 40)))
    plan.mark_run()
    assert plan.next_action() == Sample(Forbidden.STOPS)


def test_a_prompt_of_whole_blocks_is_answered_with_the_fill_allowed() -> None:
    plan = BistreamPlan(TWO, [1, 2, 3, 4, 5], [*range(15)], mix_ratio=MIX_RATIO)
    assert plan.next_action() == Run((TWO.sos, *TWO.text([1, 2, 3, 4, 5]), *range(15)))
    plan.mark_run()
    assert plan.next_action() == Sample(Forbidden.ALL_BUT_FILL)


def test_without_prompt_speech_decoding_waits_for_the_first_block_of_text() -> None:
    plan = BistreamPlan(THREE, prefix_text_ids=[7, 8, 9], mix_ratio=MIX_RATIO)
    assert plan.next_action() == WaitForText()
    plan.push_text([1, 2, 3, 4])
    assert plan.next_action() == WaitForText()
    plan.push_text([5])
    assert plan.next_action() == Run((THREE.sos, *THREE.text([7, 8, 9, 1, 2, 3, 4, 5])))


@pytest.mark.parametrize("names", [TWO, THREE])
def test_the_minimum_holds_in_the_last_span_and_the_maximum_ends_it(names: Vocabulary) -> None:
    plan = BistreamPlan(names, ratios=LengthRatios(minimum=2, maximum=4), mix_ratio=MIX_RATIO)
    plan.push_text([1, 2, 3])
    plan.finish_text()
    rules = [step(plan, 9)[1].forbidden for _ in range(12)]
    assert rules == [Forbidden.STOPS] * 6 + [Forbidden.ALL_BUT_EOS] * 6
    assert plan.next_action() == Stop("max_tokens")


def test_eos_ends_the_last_span() -> None:
    plan = BistreamPlan(THREE, ratios=LengthRatios(minimum=0), mix_ratio=MIX_RATIO)
    plan.push_text([1])
    plan.finish_text()
    step(plan, THREE.eos)
    assert plan.next_action() == Stop("eos")
    assert plan.history == plan.speech_ids == []


def test_a_mix_ratio_of_its_own_is_kept() -> None:
    plan = BistreamPlan(TWO, [1, 2], [3, 4, 5, 6], mix_ratio=(2, 3))
    plan.push_text([3, 4])
    assert plan.next_action() == Run((TWO.sos, *TWO.text([1, 2]), 3, 4, 5, *TWO.text([3, 4]), 6))
    step(plan, 10)
    step(plan, 11)
    assert plan.next_action() == ForceFill()


def test_a_text_that_ends_empty_is_refused() -> None:
    plan = BistreamPlan(TWO, [1, 2], [3], mix_ratio=MIX_RATIO)
    plan.push_text([])
    with pytest.raises(ValueError, match="ended with 0 text tokens; expected at least 1"):
        plan.finish_text()


def test_a_model_without_a_fill_class_is_refused() -> None:
    with pytest.raises(ValueError, match="no fill class"):
        BistreamPlan(Vocabulary.of(COSYVOICE1), mix_ratio=MIX_RATIO)
