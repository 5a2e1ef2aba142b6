"""The batched decoder: rows in company, waiting rows, failures in the middle of a step."""

import random
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from firstword.models.config import LMConfig, SamplingConfig
from firstword.models.lm.decoder import (
    Emitted,
    Event,
    Row,
    RowRequest,
    SpeechDecoder,
    Stopped,
    Waiting,
)
from firstword.models.lm.kv_cache import CachePass, CacheShape, KeyValueCache
from firstword.models.lm.plan import (
    IGNORED,
    BistreamPlan,
    LengthRatios,
    OfflinePlan,
    Plan,
    Vocabulary,
    bistream_layout,
    offline_layout,
)
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM
from tests.models.lm.networks import COSYVOICE1, COSYVOICE2, COSYVOICE3, FAMILIES, make_model
from training.losses import teacher_forced

ALL = pytest.mark.parametrize("family", FAMILIES)
INTERLEAVED = pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])


class RecordingDecoder(SpeechDecoder):
    """Keeps the logits from which each row's ids were drawn."""

    def __init__(self, model: Qwen2LM | TransformerLM):
        super().__init__(model, model.config.sampling)
        self.recorded: dict[Row, list[Tensor]] = {}

    def _draw(self, rows: Sequence[Row], hidden: Tensor) -> tuple[list[int], list[float | None]]:
        for row, own in zip(rows, self._model.logits(hidden), strict=True):
            self.recorded.setdefault(row, []).append(own)
        return super()._draw(rows, hidden)


class ScriptedLM:
    """Always the same logits, for any ids; not a number where it has read `bad_id`."""

    alignment_heads = ()

    def __init__(self, config: LMConfig, favoured: Sequence[int] = (), bad_id: int = -1):
        self.vocabulary = Vocabulary.of(config)
        self._bad_id = bad_id
        self._logits = torch.zeros(self.vocabulary.num_classes)
        self._logits[list(favoured)] = 50.0
        self.num_read: list[int] = []
        self.fails = False

    def new_cache(self) -> KeyValueCache:
        return KeyValueCache(CacheShape(1, 1, 2), torch.float32, torch.device("cpu"))

    def prompt_embeddings(self, ids: Sequence[int], speaker: Tensor | None) -> Tensor:
        return self.embed(torch.tensor([[*ids]]))

    def embed(self, ids: Tensor) -> Tensor:
        return ids[..., None].float()

    def __call__(self, x: Tensor, context: CachePass) -> Tensor:
        if self.fails and x.shape[1] > 1:
            raise RuntimeError("out of memory")
        self.num_read.append(x.shape[1])
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        return torch.where(hidden == self._bad_id, torch.nan, self._logits)


def make_plan(family: str, index: int) -> OfflinePlan:
    """Utterances of different lengths: 3 to 6 text tokens, with and without a prompt."""
    text = [(3 * index + i) % 40 for i in range(3 + index % 4)]
    prompt = [(index + i) % 60 for i in range(7 * (index % 3))]
    ratios = LengthRatios(minimum=1, maximum=4)
    return OfflinePlan(Vocabulary.of(FAMILIES[family]), text, [index], prompt, ratios)


def make_request(family: str, index: int, plan: Plan | None = None) -> RowRequest:
    speaker = torch.ones(192).cumsum(0) if family == "cosyvoice1" else None
    return RowRequest(plan or make_plan(family, index), seed=1000 + index, speaker=speaker)


def speak(decoder: SpeechDecoder) -> list[Event]:
    """Steps until every row has left or waits."""
    events: list[Event] = []
    while decoder.rows:
        news = decoder.step()
        events += news
        if all(isinstance(event, Waiting) for event in news):
            break
    return events


def of_row(events: Sequence[Event], row: Row) -> list[int]:
    return [event.speech_id for event in events if isinstance(event, Emitted) and event.row is row]


@ALL
def test_rows_that_join_and_leave_change_no_other_row(family: str) -> None:
    model = make_model(family, sharpness=3.0)
    together = RecordingDecoder(model)
    chance = random.Random(5)
    rows: list[Row] = []
    left: set[Row] = set()
    while len(rows) < 9 or together.rows:
        for _ in range(chance.choice([0, 0, 1, 3]) if len(rows) < 9 else 0):
            rows.append(together.add(make_request(family, len(rows))))
        if len(together.rows) > 2 and chance.random() < 0.1:
            left.add(row := chance.choice(together.rows))
            together.remove(row)
        together.step()
    assert left
    for index, row in enumerate(rows):
        alone = RecordingDecoder(model)
        own = alone.add(make_request(family, index))
        speak(alone)
        length = len(row.plan.speech_ids) if row in left else None
        assert list(row.plan.speech_ids) == list(own.plan.speech_ids)[:length]
        pairs = zip(together.recorded.get(row, []), alone.recorded[own], strict=row not in left)
        for a, b in pairs:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@ALL
@torch.inference_mode()
def test_decoding_equals_one_forward_pass_over_the_training_layout(family: str) -> None:
    model = make_model(family)
    decoder = RecordingDecoder(model)
    plan = OfflinePlan(model.vocabulary, [1, 2, 3, 4], [5], [6, 7, 8], LengthRatios(2, 6))
    request = make_request(family, 0, plan)
    row = decoder.add(request)
    speak(decoder)
    layout = offline_layout(model.vocabulary, [5, 1, 2, 3, 4], [6, 7, 8, *plan.speech_ids])
    logits, _ = teacher_forced(model, [layout], [request.speaker])
    ours = torch.stack(decoder.recorded[row])
    start = logits.shape[1] - len(plan.speech_ids) - 1
    torch.testing.assert_close(ours, logits[0, start : start + len(ours)], rtol=1e-4, atol=1e-4)


@INTERLEAVED
@torch.inference_mode()
def test_interleaved_rows_in_a_batch_equal_one_forward_pass_over_the_training_layout(family: str) -> None:
    model = make_model(family, seed=2)
    decoder = RecordingDecoder(model)
    plans = [
        BistreamPlan(model.vocabulary, [1, 2], [3] * num_prompt, mix_ratio=(5, 15), ratios=LengthRatios(2, 4))
        for num_prompt in (0, 4, 7)
    ]
    rows = [decoder.add(make_request(family, index, plan)) for index, plan in enumerate(plans)]
    decoder.add(make_request(family, 9))
    texts = [[(i * 7 + j) % 40 for j in range(11 + i)] for i in range(3)]
    for start in range(0, 14, 2):
        for plan, text in zip(plans, texts, strict=True):
            plan.push_text(text[start : start + 2])
        for _ in range(4):
            decoder.step()
    for plan in plans:
        plan.finish_text()
    speak(decoder)
    num_compared = 0
    for row, plan, text, num_prompt in zip(rows, plans, texts, (0, 4, 7), strict=True):
        if model.vocabulary.fill in plan.history and not has_whole_blocks(plan, num_prompt):
            continue  # a fill drawn early: the training layout knows none
        layout = bistream_layout(model.vocabulary, [1, 2, *text], [3] * num_prompt + plan.speech_ids)
        logits, targets = teacher_forced(model, [layout])
        is_answer = (targets[0] != IGNORED) & (targets[0] != model.vocabulary.fill)
        expected = logits[0, is_answer][num_prompt:]
        ours = torch.stack(decoder.recorded[row])
        torch.testing.assert_close(ours, expected[: len(ours)], rtol=1e-4, atol=1e-4)
        num_compared += 1
    assert num_compared >= 2


def has_whole_blocks(plan: BistreamPlan, num_prompt: int) -> bool:
    assert plan._vocabulary.fill is not None
    first = plan.history.index(plan._vocabulary.fill)
    fills = [index for index, id in enumerate(plan.history) if id == plan._vocabulary.fill]
    return fills == [*range(first, fills[-1] + 1, 16)] and first == 15 - num_prompt


def test_a_row_that_waits_for_text_says_so_and_holds_up_nobody() -> None:
    model = make_model("cosyvoice2")
    decoder = SpeechDecoder(model, SamplingConfig())
    plan = BistreamPlan(model.vocabulary, mix_ratio=(5, 15))
    waiting = decoder.add(make_request("cosyvoice2", 0, plan))
    other = decoder.add(make_request("cosyvoice2", 1))
    events = decoder.step()
    assert Waiting(waiting) in events
    assert of_row(events, other)
    plan.push_text([1, 2, 3, 4, 5])
    assert of_row(decoder.step(), waiting)


@ALL
@pytest.mark.parametrize("is_greedy", [False, True])
def test_the_minimum_length_is_enforced_though_a_stop_is_far_more_probable(
    family: str, is_greedy: bool
) -> None:
    names = Vocabulary.of(FAMILIES[family])
    decoder = SpeechDecoder(ScriptedLM(FAMILIES[family], favoured=names.stop_ids), SamplingConfig())
    plan = OfflinePlan(names, [1, 2, 3])
    row = decoder.add(RowRequest(plan, seed=4, is_greedy=is_greedy))
    events = speak(decoder)
    assert len(of_row(events, row)) == 6
    assert events[-1] == Stopped(row, "eos")


@pytest.mark.parametrize("config", [COSYVOICE2, COSYVOICE3], ids=["cosyvoice2", "cosyvoice3"])
def test_an_interleaved_minimum_is_enforced_and_no_other_stop_is_drawn(config: LMConfig) -> None:
    names = Vocabulary.of(config)
    favoured = [id for id in names.stop_ids if id != names.fill]
    decoder = SpeechDecoder(ScriptedLM(config, favoured), SamplingConfig())
    plan = BistreamPlan(names, mix_ratio=(5, 15))
    plan.push_text([1, 2, 3, 4, 5, 6, 7, 8, 9])
    plan.finish_text()
    row = decoder.add(RowRequest(plan, seed=4))
    events = speak(decoder)
    assert len(of_row(events, row)) == 18
    assert events[-1] == Stopped(row, "eos")


def test_the_maximum_length_ends_a_row() -> None:
    model = ScriptedLM(COSYVOICE1, favoured=range(60))
    decoder = SpeechDecoder(model, SamplingConfig())
    row = decoder.add(make_request("cosyvoice1", 0))
    events = speak(decoder)
    assert len(of_row(events, row)) == 12
    assert events[-1] == Stopped(row, "max_tokens")
    assert model.num_read == [6, *[1] * 11]


def test_logits_that_are_no_numbers_end_their_own_row_only() -> None:
    names = Vocabulary.of(COSYVOICE2)
    decoder = SpeechDecoder(ScriptedLM(COSYVOICE2, favoured=[7, 8, 9], bad_id=13), SamplingConfig())
    bad = decoder.add(RowRequest(OfflinePlan(names, [1], prompt_speech_ids=[13]), seed=0))
    good = decoder.add(RowRequest(OfflinePlan(names, [1]), seed=0))
    events = speak(decoder)
    assert Stopped(bad, "not_finite") in events
    assert len(of_row(events, good)) == 20


def test_one_new_row_a_step_the_one_that_came_first() -> None:
    decoder = SpeechDecoder(ScriptedLM(COSYVOICE2, favoured=range(60)), SamplingConfig())
    rows = [decoder.add(make_request("cosyvoice2", index)) for index in range(4)]
    decoder.remove(rows[0])  # the last one moves into its place, not to the head of the queue
    for number in (1, 2, 3):
        events = decoder.step()
        assert [bool(of_row(events, row)) for row in rows[1:]] == [i < number for i in range(3)]


def test_a_row_leaves_once_and_gives_its_place_back() -> None:
    model = make_model("cosyvoice2")
    decoder = SpeechDecoder(model, SamplingConfig())
    rows = [decoder.add(make_request("cosyvoice2", index)) for index in range(3)]
    num_bytes = decoder.num_cache_bytes
    decoder.remove(rows[0])
    decoder.remove(rows[0])
    assert decoder.rows == [rows[2], rows[1]]
    assert [row.index for row in rows] == [-1, 1, 0]
    decoder.add(make_request("cosyvoice2", 3))
    assert decoder.num_cache_bytes == num_bytes


@ALL
def test_a_seed_gives_its_own_utterance(family: str) -> None:
    model = make_model(family)

    def ids(seed: int) -> list[int]:
        decoder = SpeechDecoder(model, SamplingConfig())
        decoder.add(RowRequest(plan := make_plan(family, 3), seed=seed, speaker=torch.ones(192)))
        speak(decoder)
        return list(plan.speech_ids)

    assert ids(1) == ids(1)
    assert ids(1) != ids(2)


@ALL
def test_bfloat16_rows_are_decoded(family: str) -> None:
    model = make_model(family).bfloat16()
    decoder = SpeechDecoder(model, SamplingConfig())
    rows = [decoder.add(make_request(family, index)) for index in range(3)]
    events = speak(decoder)
    assert all(of_row(events, row) for row in rows)
    assert {event.reason for event in events if isinstance(event, Stopped)} <= {"eos", "max_tokens"}


def test_a_run_that_fails_can_be_stepped_again() -> None:
    model = ScriptedLM(COSYVOICE2, favoured=range(60))
    decoder = SpeechDecoder(model, SamplingConfig())
    old = decoder.add(make_request("cosyvoice2", 0))
    decoder.step()
    new = decoder.add(make_request("cosyvoice2", 1))
    model.fails = True
    with pytest.raises(RuntimeError, match="out of memory"):
        decoder.step()
    assert (len(old.plan.speech_ids), len(new.plan.speech_ids)) == (1, 0)
    decoder.remove(new)
    assert len(of_row(decoder.step(), old)) == 1


@ALL
def test_a_draw_that_fails_can_be_repeated_and_is_the_same(
    monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    model = make_model(family)

    def ids(failing_steps: Sequence[int]) -> list[list[int]]:
        decoder = SpeechDecoder(model, SamplingConfig())
        rows = [decoder.add(make_request(family, index)) for index in range(3)]
        for number in range(8):
            if number in failing_steps:
                with monkeypatch.context() as patch:
                    patch.setattr("firstword.models.lm.decoder.sample", raise_out_of_memory)
                    with pytest.raises(RuntimeError, match="out of memory"):
                        decoder.step()
            decoder.step()
        return [list(row.plan.speech_ids) for row in rows]

    assert ids([0, 1, 5]) == ids([])


def raise_out_of_memory(*_: object, **__: object) -> None:
    raise RuntimeError("out of memory")


def test_a_row_that_cannot_be_made_leaves_nothing_behind() -> None:
    decoder = SpeechDecoder(ScriptedLM(COSYVOICE2, favoured=range(60)), SamplingConfig())
    with pytest.raises(ValueError, match="Overflow"):
        decoder.add(RowRequest(make_plan("cosyvoice2", 0), seed=1 << 70))
    row = decoder.add(make_request("cosyvoice2", 0))
    assert (row.index, decoder.rows) == (0, [row])
    assert of_row(decoder.step(), row)
