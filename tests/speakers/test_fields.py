import pytest

from firstword.app.errors import InvalidRequest
from firstword.app.speakers.interface import (
    MAX_TRANSCRIPT_CHARS,
    checked_language,
    checked_name,
    checked_transcript,
)
from tests.support.bad_names import BAD_NAMES


@pytest.mark.parametrize("name", ["a", "A-Z_0-9", "-", "_", "con", "a" * 64])
def test_a_name_of_the_alphabet_is_taken(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: ascii(name[:12]))
def test_any_other_name_is_refused_in_few_ascii_words(name: str) -> None:
    with pytest.raises(InvalidRequest, match="expected 1 to 64 of the characters") as caught:
        checked_name(name)

    assert caught.value.param == "name"
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("  Hello,\r\n\tworld. ", "Hello, world."),
        ("Grüße aus Köln", "Grüße aus Köln"),
        ("你好,世界", "你好,世界"),
        ("👩‍🚀 e\u0301", "👩‍🚀 e\u0301"),
        ("x" * MAX_TRANSCRIPT_CHARS, "x" * MAX_TRANSCRIPT_CHARS),
    ],
)
def test_a_transcript_keeps_its_words(given: str, kept: str) -> None:
    assert checked_transcript(given) == kept


@pytest.mark.parametrize(
    ("transcript", "reason"),
    [
        ("x" * (MAX_TRANSCRIPT_CHARS + 1), "1001 characters; expected 1000"),
        ("a\0b", r"'\\x00'"),
        ("half a pair \ud83d", r"'\\ud83d'"),
        ("bell \x07", r"'\\x07'"),
    ],
)
def test_a_transcript_that_nobody_can_read_is_refused(transcript: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        checked_transcript(transcript)

    assert caught.value.param == "transcript"


@pytest.mark.parametrize("language", ["en", "zh", "yue", "pt-BR", "zh-Hant-TW", "de-1996"])
def test_a_language_tag_is_taken(language: str) -> None:
    assert checked_language(language) == language


@pytest.mark.parametrize("language", [None, ""])
def test_no_language_is_none(language: str | None) -> None:
    assert checked_language(language) is None


@pytest.mark.parametrize(
    "language", ["e", "english", "en_US", "en-", "-en", "en US", "é", "../en", "en" + "-abc" * 20]
)
def test_what_is_no_language_tag_is_refused(language: str) -> None:
    with pytest.raises(InvalidRequest, match="expected a tag such as en") as caught:
        checked_language(language)

    assert caught.value.param == "language"
