"""Languages are told by script, then by words."""

import pytest

from firstword.app.text.language import detect_language, primary_language

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


@pytest.mark.parametrize(("text", "language"), EXAMPLES)
def test_the_language_is_found(text: str, language: str) -> None:
    assert detect_language(text) == language


def test_a_region_is_no_language() -> None:
    assert [primary_language(tag) for tag in ("en", "en-GB", "zh_CN", "EN")] == ["en", "en", "zh", "en"]
