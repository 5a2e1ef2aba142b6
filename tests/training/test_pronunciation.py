"""The front end that writes words as sounds: marks, dictionary, network, and text word by word."""

# ruff: noqa: RUF001

from pathlib import Path

import pytest
import torch

from firstword.models.tokenizer.qwen2 import Qwen2Tokenizer, special_tokens
from tests.training.recipe import tiny_settings, write_words
from training import trainer
from training.pronunciation import stage
from training.pronunciation.dictionary import read_dictionary, write_dictionary
from training.pronunciation.front_end import FrontEnd
from training.pronunciation.letters import LetterReader, collapse, letters_of
from training.text.arpabet import MARKS, marks_of
from training.text_tokenizer import write_tokenizer

WORDS = {
    "hello": "həlˈO",
    "world": "wˈɜɹld",
    "Ann": "ˈæn",
    "cat": "kˈæt",
    "bus": "bˈʌs",
    "dog": "dˈɔɡ",
    "F": "ˈɛf",
    "B": "bˈi",
    "I": "ˈI",
}

# torch.onnx.export speaks of itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def front_end(tmp_path_factory: pytest.TempPathFactory) -> FrontEnd:
    settings = tiny_settings(tmp_path_factory.mktemp("voice"))
    write_words(settings, WORDS)
    stage.run(settings)
    return FrontEnd(stage.folder(settings))


def test_symbols_become_marks() -> None:
    assert marks_of("həlˈO") == ("[HH]", "[AH0]", "[L]", "[OW1]")
    assert marks_of("wˈɜɹld") == ("[W]", "[ER1]", "[L]", "[D]")
    assert marks_of("bˈʌTəɹ") == ("[B]", "[AH1]", "[T]", "[ER0]")
    assert marks_of("fˌYɹ") == ("[F]", "[OY2]", "[R]")
    assert marks_of("") is None
    assert marks_of("x!") is None


def test_a_dictionary_is_read_as_it_was_written(tmp_path: Path) -> None:
    words = {"b": (MARKS[0], MARKS[-1]), "a": (MARKS[5],)}
    write_dictionary(tmp_path / "one.gz", words)
    write_dictionary(tmp_path / "two.gz", dict(reversed(words.items())))
    assert read_dictionary(tmp_path / "one.gz") == words
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Hello, world!", "[HH][AH0][L][OW1], [W][ER1][L][D]!"),
        ("HELLO", "[HH][AH0][L][OW1]"),
        ("the ann's cat\u2019s", None),
        ("[HH][AH0] world <strong>cat</strong>", "[HH][AH0] [W][ER1][L][D] <strong>[K][AE1][T]</strong>"),
        ("FBI 7", "[EH1][F][B][IY1][AY1] 7"),
        ("Ann's dog's bus's cat's", "[AE1][N][Z] [D][AO1][G][Z] [B][AH1][S][IH0][Z] [K][AE1][T][S]"),
        ("'cat'", "[K][AE1][T]"),
    ],
)
def test_words_become_marks_and_the_rest_stays(front_end: FrontEnd, text: str, written: str | None) -> None:
    if written is not None:
        assert front_end(text) == written
    assert " ".join(front_end(word) for word in text.split(" ")) == front_end(text)


def test_an_unknown_word_is_read_by_the_network(front_end: FrontEnd) -> None:
    marks = front_end.pronounce("zyzzyva")
    assert set(marks) <= set(MARKS)
    assert front_end.pronounce("zyzzyva") is marks


def test_the_graph_answers_as_the_network(front_end: FrontEnd, tmp_path: Path) -> None:
    settings = tiny_settings(tmp_path)
    torch.manual_seed(0)
    model = LetterReader(settings.pronunciation.width, settings.pronunciation.layers).eval()
    with torch.no_grad():
        alone = model(torch.tensor([letters_of("cat")]))
        padded = model(torch.tensor([[*letters_of("cat"), 0, 0]]))
    torch.testing.assert_close(alone, padded[:, : alone.shape[1]])


def test_repetitions_and_blanks_are_collapsed() -> None:
    assert collapse([0, 3, 3, 0, 3, 5, 0]) == (MARKS[2], MARKS[2], MARKS[4])
    assert collapse([0, 0]) == ()


def test_words_that_have_no_slots_are_not_learned() -> None:
    words = {"ok": ("[OW2]", "[K]", "[EY1]"), "x": ("[EH1]", "[K]", "[S]"), "id": ("[AY1]",) * 4}
    assert [len(marks) for _, marks in stage.readable(words)] == [3]


def test_a_trained_stage_is_not_trained_again(front_end: FrontEnd, tmp_path: Path) -> None:
    settings = tiny_settings(tmp_path)
    assert not trainer.is_trained(settings, stage.STAGE, settings.pronunciation.train)


def test_marks_are_tokens_and_their_words_are_known(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, (), 0, MARKS)
    tokenizer = Qwen2Tokenizer.from_folder(tmp_path, special_tokens("cosyvoice2"))
    text = "[HH][AH0][L][OW1], [W][ER1][L][D]."
    ids = tokenizer.encode(text)
    assert len(ids) == 11
    assert tokenizer.decode(ids) == text
    from training.language_model import words_of_ids

    pieces = [tokenizer.decode([id]) for id in ids]
    assert words_of_ids(pieces).tolist() == [0, 0, 0, 0, -1, -1, 1, 1, 1, 1, -1]
