"""Words of an accent: what is read otherwise, and in front of what."""

# ruff: noqa: RUF001
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from firstword.app.options import BUILTIN_CHECKPOINT
from firstword.models.tokenizer import PRONUNCIATION_FOLDER, TokenizerError
from firstword.models.tokenizer.accents import AccentedWords, AccentTokens, accent_file, accent_tokens
from firstword.models.tokenizer.heteronyms import HETERONYMS_FILE, read_heteronyms
from firstword.models.tokenizer.pronunciation import DICTIONARY_FILE, SOUNDS, read_dictionary
from training.pronunciation.british import british_marks, said

FOLDER = BUILTIN_CHECKPOINT / PRONUNCIATION_FOLDER


def shipped() -> AccentedWords:
    return AccentedWords(FOLDER / accent_file("british"), read_heteronyms(FOLDER / HETERONYMS_FILE))


class Marks:
    """A tokenizer of nothing but marks: the place of each in a list is its id."""

    vocab_size = 200
    end_of_prompt_id = None
    speech_marks = SOUNDS

    def __init__(self, *tokens: str) -> None:
        self.tokens = [" ", *SOUNDS, *tokens]

    def encode(self, text: str) -> list[int]:
        return [self.tokens.index(one) for one in re.findall(r"\[[^\]]*\]| ", text) if one in self.tokens]

    encode_text = encode

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.tokens[id] for id in ids)


def read(text: str) -> dict[str, str]:
    """Words that are read otherwise, and their sounds."""
    return {text[start:end]: "".join(sounds) for start, end, sounds in shipped().find(text)}


@pytest.mark.parametrize(
    ("usual", "british"),
    [
        ("[K][AA1][R]", "[K]{AA1+R}{+R}"),
        ("[HH][AA1][R][D]", "[HH]{AA1+R}{+R}[D]"),
        ("[V][EH1][R][IY0]", "[V][EH1][R][IY0]"),
        ("[R][EH1][D]", "[R][EH1][D]"),
        ("[R]", "{+R}"),
        ("", ""),
        ("[B][ER1][D][ER0]", "[B]{ER1}[D]{ER0}"),
    ],
)
def test_an_r_is_said_before_a_vowel_of_its_word(usual: str, british: str) -> None:
    marks = Marks(*accent_tokens("british"))
    tokens = AccentTokens(marks, "british")
    wanted = british.replace("{", "[british:").replace("}", "]")
    assert marks.decode(tokens.read(marks.encode(usual))) == wanted
    followed = marks.decode(tokens.read(marks.encode(f"{usual} [AA1]")))
    assert followed == f"{wanted} [AA1]"


def test_every_token_of_an_accent_has_a_usual_one() -> None:
    marks = Marks(*accent_tokens("british"))
    tokens = AccentTokens(marks, "british")
    own = [marks.encode(one)[0] for one in accent_tokens("british")]
    assert len(set(own)) == len(tokens.usual_ids)
    for token, usual in zip(accent_tokens("british"), tokens.usual_ids, strict=True):
        (name,) = re.findall(r"\[british:(\w*)", token)
        nearest = {"[british:ER0]": "[AH0]", "[british:+R]": "[R]"}.get(token, f"[{name}]")
        assert marks.decode([usual]) == nearest


def test_a_tokenizer_without_the_accent_is_refused() -> None:
    with pytest.raises(TokenizerError, match=r"no token \[british:\+R\]"):
        AccentTokens(Marks(*accent_tokens("british")[:-1]), "british")


def test_words_that_differ_are_found_and_others_are_left() -> None:
    assert read("Ask the class to water a plant, the tomato\u2019s.") == {
        "Ask": "[AA1][R][S][K]",
        "class": "[K][L][AA1][R][S]",
        "plant": "[P][L][AA1][R][N][T]",
        "tomato\u2019s": "[T][AH0][M][AA1][R][T][OW0][Z]",
    }


def test_a_word_may_have_any_number_of_endings() -> None:
    word = "tomato" + "'s" * 3000
    assert read(word)[word].count("[Z]") == 3000


def test_words_that_are_read_in_two_ways_still_are() -> None:
    assert read("to record it")["record"] == "[R][AH0][K][AO1][R][D]"
    assert "record" not in read("a record")


def test_written_out() -> None:
    assert shipped().write("The class, asleep.") == "The [K][L][AA1][R][S], asleep."


def test_no_word_of_the_table_comes_to_the_same_as_the_dictionary_s() -> None:
    usual, british = read_dictionary(FOLDER / DICTIONARY_FILE), read_dictionary(FOLDER / "british.gz")
    assert len(british) > 20_000
    assert not [word for word, sounds in british.items() if said(sounds) == said(usual[word])]
    assert not british.keys() & {"the", "a", "to", "and"}  # as they are said in a sentence


@pytest.mark.parametrize(
    ("symbols", "marks", "american"),
    [
        ("kˈɑː", "K AA1 R", "K AA1 R"),
        ("stˈɔːɹi", "S T AO1 R IY0", "S T AO1 R IY0"),
        ("nˈɔːθ", "N AO1 TH", "N AO1 R TH"),
        ("lˈɛtə", "L EH1 T AH0", "L EH1 T ER0"),
        ("skwˈɛː", "S K W EH1 R", "S K W EH1 R"),
        ("nˈɪə", "N IH1 R", "N IH1 R"),
        ("bˈɜːd", "B ER1 D", "B ER1 D"),
        ("ɡˈQt", "G OW1 T", "G OW1 T"),
        ("lˈɒt", "L AA1 T", "L AA1 T"),
        ("dˈɒɡ", "D AA1 G", "D AO1 G"),
    ],
)
def test_sounds_that_the_accent_itself_tells_are_alike(symbols: str, marks: str, american: str) -> None:
    written = british_marks(symbols)
    assert written == tuple(f"[{one}]" for one in marks.split())
    assert said(written) == said(tuple(f"[{one}]" for one in american.split()))


@pytest.mark.parametrize(("symbols", "american"), [("bˈɑːθ", "B AE1 TH"), ("təmˈɑːtQ", "T AH0 M EY1 T OW0")])
def test_others_are_not(symbols: str, american: str) -> None:
    written = british_marks(symbols)
    assert written is not None
    assert said(written) != said(tuple(f"[{one}]" for one in american.split()))


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=str(tmp_path / "british.gz")):
        AccentedWords(tmp_path / "british.gz")
