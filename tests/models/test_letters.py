"""Words that are not in ASCII reach the sounds, and what is no token is read."""

from pathlib import Path

import pytest

from firstword.app.options import BUILTIN_CHECKPOINT
from firstword.models.tokenizer import PRONUNCIATION_FOLDER
from firstword.models.tokenizer.pronunciation import Pronunciation, plain_letters


@pytest.fixture(scope="module")
def pronunciation() -> Pronunciation:
    return Pronunciation(Path(BUILTIN_CHECKPOINT) / PRONUNCIATION_FOLDER)


@pytest.mark.parametrize(
    ("word", "plain"),
    [
        ("Łódź", "Lodz"),
        ("Straße", "Strasse"),
        ("Þór", "Thor"),
        ("smørrebrød", "smorrebrod"),
        ("œuvre", "oeuvre"),
        ("æon", "aeon"),
        ("đak", "dak"),
        ("café", "cafe"),
        ("привет", "привет"),
    ],
)
def test_latin_letters_become_plain_ones(word: str, plain: str) -> None:
    assert plain_letters(word) == plain


def test_strokes_and_ligatures_are_sounded(pronunciation: Pronunciation) -> None:
    for word in ("Łódź", "Straße", "Þór", "smørrebrød", "œuvre", "đak"):
        assert pronunciation.write(word).isascii()
        assert pronunciation.write(word).startswith("[")


def test_only_tokens_of_the_language_model_stay(pronunciation: Pronunciation) -> None:
    assert pronunciation.write("<Enter>") == pronunciation.write("Enter")
    assert pronunciation.write("<strong>") == "<strong>"
    assert pronunciation.write("[AH0]") == "[AH0]"


def test_a_word_may_have_any_number_of_endings(pronunciation: Pronunciation) -> None:
    written = pronunciation.write("cat" + "'s" * 3000)
    assert written.startswith(pronunciation.write("cat's") + "[IH0][Z]")
    assert written.count("[Z]") == 2999


@pytest.mark.parametrize("sign", ["'", "[", "<", "['", "[<'"])
def test_many_signs_take_no_time_by_their_square(pronunciation: Pronunciation, sign: str) -> None:
    text = sign * 300_000
    assert pronunciation.write(f"{text} cat") == f"{text} {pronunciation.write('cat')}"
