"""The corpus' text: grammar, numbers, what is kept out; and how the voice's tokenizer reads."""

import gzip
import random
import re
import sysconfig
from pathlib import Path

import pytest

from firstword.models.tokenizer.qwen2 import Qwen2Tokenizer, special_tokens
from training.settings import DEFAULT, CorpusSettings, MandarinCorpusSettings, SettingsError, read_settings
from training.text import corpus, documents, mandarin, numbers, prose
from training.text.drills import drills
from training.text.grammar import Grammar, GrammarError
from training.text.lexicon import lexicon
from training.text_tokenizer import write_tokenizer


@pytest.mark.parametrize("has_prose", [True, False])
def test_the_same_seed_gives_the_same_texts_and_none_of_the_evaluation(
    has_prose: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not has_prose:  # as on a machine without those packages
        monkeypatch.setattr(prose, "_SHARE", tmp_path)
        monkeypatch.setattr(prose, "_WORDNET", tmp_path)
    stdlib = sysconfig.get_paths()["stdlib"]  # to look through the whole machine four times takes long
    monkeypatch.setattr(documents, "_PLACES", ((f"{stdlib}/asyncio", "*.py"), (f"{stdlib}/email", "*.py")))
    settings = CorpusSettings(
        everyday=200,
        examples=30,
        definitions=10,
        prose=30,
        names=10,
        documents=5,
        words=50,
        drills=20,
        short=20,
        long=10,
        shard=10,
    )
    texts = corpus.make_texts(settings, random.Random(3))
    assert texts == corpus.make_texts(settings, random.Random(3))
    assert len(texts) >= 280
    kept_out = [*corpus.evaluation_sentences(), *corpus.hard_sentences(), corpus.LONG_SENTENCE]
    runs = {
        tuple(words[i : i + 4]) for words in map(corpus.read_words, kept_out) for i in range(len(words) - 3)
    }
    for text in texts:
        words = corpus.read_words(text)
        assert 1 <= len(words) <= 60, text
        assert runs.isdisjoint(tuple(words[i : i + 4]) for i in range(len(words) - 3)), text
        assert text == text.strip()
        assert not any(mark in text for mark in "{}[]|\u0001"), text


def test_drills_differ_and_their_initials_are_no_words() -> None:
    texts = drills(random.Random(1), 300)
    assert len(set(texts)) == 300
    initials = [word for text in texts for word in re.findall(r"\b[A-Z]{2,}\b", text)]
    assert len(initials) > 50
    assert not {letters.lower() for letters in initials} & set(lexicon())
    assert any("five" in text for text in texts)
    for text in texts:
        assert re.fullmatch(r"[A-Z][A-Za-z', ]*[.?!]", text), text


def test_there_are_two_hundred_different_sentences_to_evaluate_and_forty_hard_ones() -> None:
    assert len(set(corpus.evaluation_sentences())) == 200
    assert len(set(corpus.hard_sentences())) == 40


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ("cause to be calm (or quiet)", "Cause to be calm, or quiet."),
        ("He was born in 1805--or so", "He was born in eighteen oh five — or so."),
        ("\u201cIt\u2019s a well-known fact!\u201d", "It's a well known fact!"),
        ("there were 120 of them", "There were one hundred twenty of them."),
        ("the NASA plan", None),
        ("e.g. this", None),
        ("word", None),
        ("café au lait", None),
    ],
)
def test_prose_is_read_as_plain_sentences(found: str, text: str | None) -> None:
    assert prose.readable(found) == text


def test_what_is_not_installed_gives_no_prose(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(prose, "_SHARE", tmp_path)
    monkeypatch.setattr(prose, "_WORDNET", tmp_path / "wordnet")
    rng = random.Random(0)
    assert [give(rng, 5) for give in (prose.examples, prose.definitions, prose.prose, prose.names)] == [
        []
    ] * 4


def test_a_short_sentence_of_the_evaluation_is_kept_out_too() -> None:
    kept_out = corpus.KeptOut(["her favorite color is green.", "nice day."])
    assert not kept_out.allows("Nice day!")
    assert not kept_out.allows("I think her favorite color is red.")
    assert kept_out.allows("her color is green.")


@pytest.mark.parametrize("rule", ["sentence", "mixed"])
def test_mandarin_is_made_without_the_evaluations_and_without_digits(rule: str) -> None:
    texts = mandarin.make_texts(500, random.Random(2), rule)
    assert texts == mandarin.make_texts(500, random.Random(2), rule)
    kept_out = [*mandarin.evaluation_sentences(), *mandarin.mixed_sentences()]
    assert (len(set(texts)), len(set(kept_out))) == (500, 240)
    runs = {
        tuple(words[i : i + 5])
        for words in map(mandarin.read_characters, kept_out)
        for i in range(len(words) - 4)
    }
    latin = " a-zA-Z" if rule == "mixed" else ""
    for text in texts:
        words = mandarin.read_characters(text)
        assert runs.isdisjoint(tuple(words[i : i + 5]) for i in range(len(words) - 4)), text
        assert re.fullmatch(rf"[\u4e00-\u9fff，。！？、；：“”.,!?{latin}]+", text), text  # noqa: RUF001


def test_phrases_are_words_of_a_dictionary_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mandarin, "_dictionary", lambda: (["苹果", "矛盾", "图书馆"], [1.0, 2.0, 3.0]))
    none = dict.fromkeys(("sentences", "joined", "mixed", "words", "english"), 0)
    texts = mandarin.make_corpus(MandarinCorpusSettings(**none, phrases=200, shard=1), (), random.Random(3))
    assert len(set(texts)) == 200
    word = "(苹果|矛盾|图书馆)"
    assert all(re.fullmatch(f"({word}[，、]?){{1,7}}{word}[。！？]", text) for text in texts)  # noqa: RUF001
    assert {"，", "、"} <= set("".join(texts))  # noqa: RUF001


def test_a_grammar_chooses_articles_and_options(tmp_path: Path) -> None:
    path = tmp_path / "grammar.txt"
    path.write_text("# a comment\nsentence = {a} {thing} [and {a} {thing}] .\nthing = apple\n    | pear\n")
    grammar = Grammar(path, {})
    said = {grammar.sentence(random.Random(seed)) for seed in range(60)}
    assert {"an apple.", "a pear.", "a pear and an apple.", "an apple and an apple."} <= said
    assert len(said) == 6


@pytest.mark.parametrize(
    ("text", "message"), [("sentence = {nothing}\n", "nothing"), ("what is this\n", "name = one")]
)
def test_a_broken_grammar_says_where(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "grammar.txt"
    path.write_text(text)
    with pytest.raises(GrammarError, match=message):
        Grammar(path, {})


def test_numbers_are_words_without_hyphens() -> None:
    for name, make in numbers.WORDS.items():
        for seed in range(50):
            said = make(random.Random(seed))
            assert all(part.replace("'", "").replace(",", "").isalpha() for part in said.split()), (
                name,
                said,
            )


def test_documentation_becomes_plain_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        documents.plain("See “foo” (or bar); it's 42 - or not.") == "see foo, or bar, it's forty two, or not."
    )
    (tmp_path / "man").mkdir()
    manual = b".TH DOG 1\nThe \\fBdog\\fR waits until the last of them has left.\n"
    (tmp_path / "man/dog.1.gz").write_bytes(gzip.compress(manual))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(manual)[:20])
    script = "<script>The code of a page is not read.</script>"
    (tmp_path / "page.html").write_text(
        f"<p>The house &amp; the tree</p>{script}<li>It stands near the river."
    )
    (tmp_path / "week.py").write_text('"""A week has 7 days - or more.\n\n    Xqz fdgh jklm npqr stvw."""\n')
    monkeypatch.setattr(documents, "_PLACES", ((str(tmp_path), "*"),))
    assert sorted(documents.sentences(random.Random(0), 20)) == [
        "a week has seven days, or more.",
        "it stands near the river.",
        "the dog waits until the last of them has left.",
    ]


def test_common_words_come_first() -> None:
    assert lexicon()[:3] == ("the", "to", "i")
    assert len(lexicon()) > 100_000


def test_the_tokenizer_reads_capitals_quotes_and_dashes_as_plain_text(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, ["hello there, it's a nice day.", "hello again, twenty five."] * 5, 30)
    tokenizer = Qwen2Tokenizer.from_folder(tmp_path, special_tokens("cosyvoice2"))

    def read(text: str) -> str:
        return tokenizer.decode(tokenizer.encode(text))

    assert read("Hello THERE") == "hello there"
    assert read("\u201cit\u2019s\u201d twenty-five") == "it's twenty five"
    assert read("hello \u2014 again; there") == "hello, again, there"
    assert read("a caf\u00e9 (nice)") == "a cafe nice"
    assert tokenizer.encode("[breath]") == [tokenizer.encode("[breath]")[0]]
    assert len(tokenizer.encode("hello there")) < len("hello there") / 2


def test_settings_name_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "voice.yaml"
    path.write_text(DEFAULT.read_text().replace("shard: 100", "shards: 100"))
    with pytest.raises(SettingsError, match=r"corpus: missing \['shard'\], unknown \['shards'\]"):
        read_settings(path)
    path.write_text(DEFAULT.read_text().replace("mix_ratio: [10, 13]", "mix_ratio: [5]"))
    with pytest.raises(SettingsError, match=r"mix_ratio: expected a list of 2, got \[5\]"):
        read_settings(path)
    path.write_text(DEFAULT.read_text().replace("seed: 20261121", "seed: soon"))
    with pytest.raises(SettingsError, match="seed: expected int, got 'soon'"):
        read_settings(path)
