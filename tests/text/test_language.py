"""Languages are told by script, then by words."""

# ruff: noqa: RUF001  Chinese punctuation is meant

from pathlib import Path

import pytest
from py3langid import langid

from firstword.app.text import language
from firstword.app.text.language import NAMES, detect_language, primary_language, unspoken_languages
from tests.text.examples import SENTENCES

EXAMPLES = [
    ("", "en"),
    ("123 😀 ...", "en"),
    ("no", "en"),
    ("Guten Tag", "en"),
    ("It was a bright cold day in April.", "en"),
    ("OK GO NASA USA FBI CIA HTML CSS JSON", "en"),
    ("Visit Barcelona, Madrid, Valencia and Sevilla", "en"),
    ("Hello Hello Hello Hello Hello", "en"),
    ("Bonjour tout le monde, comment allez-vous ?", "fr"),
    ("Das ist ein kurzer Test für die Sprache.", "de"),
    ("Hola amigos, ¿cómo están ustedes hoy?", "es"),
    ("你好", "zh"),
    ("我有3个apple", "zh"),
    ("iPhone 15 Pro 很好用", "zh"),
    ("I love 北京 very much", "en"),
    ("こんにちは世界", "ja"),
    ("漢字とかな", "ja"),
    ("안녕하세요", "ko"),
    ("Привет, мир", "ru"),
    ("Привіт, як справи", "uk"),
    ("مرحبا بالعالم", "ar"),
    ("سلام، چطوری", "fa"),
    ("שלום עולם", "he"),
    ("\ud800", "en"),
]


def test_languages_are_ranked_as_by_py3langid_itself() -> None:
    theirs = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE)
    theirs.set_languages(language.LATIN)
    for text in [text for texts in SENTENCES.values() for text in texts]:
        assert language._identifier().rank(text) == theirs.rank(text)


@pytest.mark.parametrize(("text", "expected"), EXAMPLES)
def test_the_language_is_found(text: str, expected: str) -> None:
    assert detect_language(text) == expected


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("COVID-19疫情，iPhone 15 Pro Max", "zh"),
        ("PM2.5为35μg/m³。", "zh"),
        ("见 https://example.com/a?b=c 或发邮件到 abc@example.com。", "zh"),
        ("I love 北京 very much", "en"),
        ("The dish is called 麻婆豆腐, and it is very spicy.", "en"),
        ("Happy New Year, or 新年快乐, as we say at home.", "en"),
        ("3.5kg，100ml。", "zh"),
        ("2024-01-15，", "zh"),
        ("2024-01-15,", "en"),
        ("Hello, world.", "en"),
    ],
)
def test_names_among_characters_make_no_english_text_where_chinese_is_spoken(
    text: str, language: str
) -> None:
    assert detect_language(text, ("en", "zh")) == language
    assert detect_language(text, ("en",)) in ("en", language), "elsewhere as before"


@pytest.mark.parametrize(
    ("text", "spoken", "unspoken"),
    [
        ("Привет, мир", "en", ["ru"]),
        ("Привіт, як справи", "en", ["uk"]),
        ("Привіт, як справи", "en ru", ["uk"]),
        ("Say Привет and 你好 now", "en", ["ru", "zh"]),
        ("Say Привет and 你好 now", "en zh ru", []),
        ("漢字とかな", "en", ["ja"]),
        ("漢字とかな", "zh", ["ja"]),
        ("漢字とかな", "ja", []),
        ("漢字", "ja", []),
        ("我有3个apple", "yue en", []),
        ("Say 你好 now", "en yue", []),
        ("Das ist ein kurzer Test für die Sprache.", "en", ["de"]),
        ("Das ist ein kurzer Test für die Sprache.", "en de", []),
        ("naïve café, Ångström", "en", []),
        ("1 2 3 ...", "en", []),
    ],
)
def test_languages_that_are_not_spoken_are_found(text: str, spoken: str, unspoken: list[str]) -> None:
    assert unspoken_languages(text, detect_language(text), spoken.split()) == unspoken


@pytest.mark.parametrize("file", ["training/text/evaluation.txt", "bench/texts/en.txt"])
def test_no_beginning_of_an_english_sentence_counts_as_foreign(file: str) -> None:
    for line in (Path(__file__).parents[2] / file).read_text(encoding="utf-8").splitlines():
        words = line.split()
        for count in range(1, len(words) + 1):
            text = " ".join(words[:count])
            assert unspoken_languages(text, detect_language(text), ["en"]) == [], text


def test_every_language_that_is_found_has_a_name() -> None:
    assert {language for _, language in EXAMPLES} <= set(NAMES)


def test_a_region_is_no_language() -> None:
    assert [primary_language(tag) for tag in ("en", "en-GB", "zh_CN", "EN")] == ["en", "en", "zh", "en"]


ALL = ("zh", "en", "ja", "ko", "de", "es", "fr", "it", "ru")


@pytest.mark.parametrize(
    ("text", "before", "expected"),
    [
        ("Der Preis ist 3,50 Euro.", "", "de"),
        ("Guten Tag", "", "de"),
        ("Hola", "", "es"),
        ("La casa es grande", "", "es"),
        ("C'est la vie", "", "fr"),
        ("Il prezzo è 3 euro", "", "it"),
        ("The price is 3", "de", "en"),
        ("Paris", "", "en"),
        ("Paris", "fr", "fr"),
        ("123", "de", "de"),
        ("No problem", "", "en"),
    ],
)
def test_a_short_text_is_in_the_spoken_language_of_its_small_words(
    text: str, before: str, expected: str
) -> None:
    assert detect_language(text, ALL, before) == expected
    assert detect_language(text, ("en",), before) == "en"
