"""Two hundred sentences written for these measurements, short to long, English and Chinese."""

from pathlib import Path

LANGUAGES = ("en", "zh")


def sentences(language: str) -> list[str]:
    """A hundred of them, the shortest first. language: one of LANGUAGES."""
    return Path(__file__).with_name(f"{language}.txt").read_text(encoding="utf-8").splitlines()


def spoken_in(languages: tuple[str, ...]) -> list[tuple[str, str]]:
    """(language, sentence) of every one of `languages` that there are sentences for.

    In turn short and long, so that any run of them is a mixture. Raises ValueError where there is none.
    """
    known = [language for language in LANGUAGES if language in languages]
    if not known:
        raise ValueError(f"no sentences for {', '.join(languages)}; there are some for {LANGUAGES}")
    columns = [[(language, text) for text in _mixed(sentences(language))] for language in known]
    return [pair for row in zip(*columns, strict=True) for pair in row]


def _mixed(texts: list[str]) -> list[str]:
    """The same texts in an order that is the same in every run: a step that has no divisor in common."""
    step = 37
    return [texts[index * step % len(texts)] for index in range(len(texts))]
