"""The shipped voice: it opens, is complete and small, and says what it is asked."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from firstword.models.checkpoint.open import open_checkpoint
from tests.training.recipe import hum
from training import evaluate, unseen
from training.judge.recognise import Pocketsphinx
from training.judge.words import word_errors
from training.settings import BUILTIN, read_settings
from training.teachers.spoken import SAMPLE_RATE_HZ, Samples, Spoken
from training.text.corpus import read_words
from training.voice import Voice, english_speakers

ENGLISH = [
    *("alder", "aspen", "birch", "bryony", "finch", "flint", "heron"),
    *("iris", "jay", "laurel", "linnet", "rowan", "willow", "wren"),
]
MANDARIN = ["bamboo", "crane", "lotus", "plum"]
TOKEN_SAMPLES = 960
AT_ONCE = 8  # spoken as one batch


@pytest.fixture(scope="module")
def voice() -> Iterator[Voice]:
    with Voice(BUILTIN, AT_ONCE) as voice:
        yield voice


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield threads


def test_it_is_small_and_has_its_card() -> None:
    files = [path for path in BUILTIN.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 60_000_000
    assert "# " in (BUILTIN / "MODEL_CARD.md").read_text()


def test_it_has_the_speakers_of_the_recipe(voice: Voice) -> None:
    settings, checkpoint = read_settings(), open_checkpoint(BUILTIN)
    assert sorted(voice.synthesizer.speakers) == sorted(ENGLISH + MANDARIN)
    assert sorted(settings.shipped) == sorted(english_speakers(checkpoint)) == ENGLISH
    assert sorted(settings.mandarin_shipped) == MANDARIN
    assert checkpoint.traits.languages == settings.languages == ("en", "zh")
    assert all(speaker.has_prompt for speaker in checkpoint.load_speakers().values())


def test_it_is_understood(voice: Voice) -> None:
    """The rates of 400 sentences stand in docs/voice.md; fourteen show whether something was lost."""
    recogniser = Pocketsphinx()
    reader = open_checkpoint(BUILTIN).load_prompt_reader(num_threads=1)
    errors = words = 0
    texts = (
        "The weather is going to be cold and windy tomorrow.",
        "Please write your address on this piece of paper.",
        "I will be there in half an hour.",
        "Thank you very much for your help.",
    )
    for place, speaker in enumerate(ENGLISH):
        for text in texts[place % 4 :: 4]:
            samples = np.concatenate(voice.speak(text, speaker, seed=1))
            heard = recogniser(samples, SAMPLE_RATE_HZ)
            errors += word_errors(read_words(text), heard)
            words += len(read_words(text))
    tokens = reader.read_source_tokens(samples, SAMPLE_RATE_HZ)
    assert len(voice.respeak(samples, ENGLISH[-1])) == TOKEN_SAMPLES * len(tokens)
    assert not voice.faults
    assert errors <= 0.3 * words, errors / words


@pytest.mark.parametrize("word", ["No.", "Hello."])
def test_a_single_word_is_said_once(voice: Voice, threads: ThreadPoolExecutor, word: str) -> None:
    """Said twice it takes twice the time: a training without rows of one word did so in 10 of 16 draws.

    The language model knows of who speaks the accent alone: an American and a British one draw what all do.
    """
    for name in ("wren", "birch"):
        spoken = threads.map(voice.speak, repeat(word), repeat(name), range(8))
        lengths = sorted(sum(map(len, chunks)) / TOKEN_SAMPLES for chunks in spoken)
        assert lengths[0] >= 8, (name, lengths)
        assert lengths[-1] <= min(25, 1.6 * lengths[0]), (name, lengths)


class Teacher:
    def speak(self, text: str) -> Spoken:
        return hum(110.0, text)


class Judge:
    """Hears one word in everything, and one speaker."""

    def __call__(self, samples: Samples, sample_rate_hz: int) -> str:
        return "hello"

    def embed(self, samples: Samples, sample_rate_hz: int) -> torch.Tensor:
        return torch.ones(4) / 2


def test_every_path_of_the_evaluation_is_heard(
    voice: Voice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.judge.recognise.Whisper", Judge)
    monkeypatch.setattr("training.judge.recognise.Pocketsphinx", Judge)
    monkeypatch.setattr("training.judge.likeness.SpeakerJudge", Judge)
    score = SimpleNamespace(p808=3.0, overall=3.0)
    judge = SimpleNamespace(quality=lambda *sound: score)
    monkeypatch.setitem(sys.modules, "training.judge.quality", judge)  # the extra `voice` may be missing
    monkeypatch.setattr(evaluate, "open_teacher", lambda call: Teacher())
    for name, few in {"ENROLMENTS": 1, "WORD_DRAWS": 1, "FEW_DRAWS": 2, "SINGLE_WORDS": ("No.",)}.items():
        monkeypatch.setattr(evaluate, name, few)
    sentences = ["Hello there.", "Good morning to you.", "Good night."]
    monkeypatch.setattr(evaluate, "evaluation_sentences", lambda: sentences)
    monkeypatch.setattr(evaluate, "hard_sentences", lambda: ["Seven."])
    monkeypatch.setattr(evaluate, "LONG_SENTENCE", "Good night, dear friends.")
    monkeypatch.setattr(evaluate, "Voice", lambda directory: nullcontext(voice))
    settings = replace(read_settings(), folder=str(tmp_path))
    centres = evaluate.centres_of(settings, ("wren", "alder"))
    result = evaluate.examine(BUILTIN, settings, "wren", 2, centres, is_default=True)
    heard = {path: len(scores.words) for path, scores in result.paths.items()}
    every = dict.fromkeys(("teacher", "copy", "tokens", "offline", "streamed"), 2)
    assert heard == {**every, "by words": 2, "hard, teacher": 1, "hard": 2, "enrolled": 2}
    assert {path: len(scores.words) for path, scores in result.other_sentences.items()} == {
        "teacher": 1,
        "tokens": 1,
    }
    assert not result.faults  # as many samples streamed as offline, among others
    assert len(result.durations) == len(result.likeness) == 2
    assert result.enrolled_right == [True]
    assert result.single_words == {"No.": ["hello"]}
    assert (result.long_sentence, result.long_errors) == ("hello", 4)
    assert [len(result.paths[path].sphinx_errors) for path in ("streamed", "tokens")] == [2, 0]
    other = evaluate.examine(BUILTIN, settings, "alder", 2, centres, teacher_every=2)
    every = {path: len(scores.words) for path, scores in other.paths.items()}
    assert every == {**heard, **dict.fromkeys(("teacher", "copy", "tokens", "offline"), 1)}
    assert (len(other.durations), len(other.likeness)) == (1, 2)
    monkeypatch.setattr(evaluate, "Examiner", None)  # what has ended is not heard again
    assert evaluate.examine(BUILTIN, settings, "wren", 2, centres) == result


def test_unseen_voices_are_registered_and_speak(voice: Voice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.judge.likeness.SpeakerJudge", Judge)
    monkeypatch.setattr(unseen, "open_teacher", lambda call: Teacher())
    monkeypatch.setattr(unseen, "evaluation_sentences", lambda: ["Hello there.", "Good morning to you."])
    heard = unseen.listen(voice, replace(read_settings(), unseen=("one",)))
    assert heard.voices == ("one",)
    assert heard.own.tolist() == [1.0]
