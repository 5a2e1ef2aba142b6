"""Natural English that Debian packages bring: WordNet's examples and definitions, and prose.

`apt-get install wordnet-base anarchism fortunes jargon-text debian-reference-en`; what is not installed is
left out. Sentences keep their capitals, which a teacher's prosody needs.
"""

import gzip
import html
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from training.text.numbers import in_words

_SHARE = Path("/usr/share")
_WORDNET = _SHARE / "wordnet"
_PROSE = (
    ("doc/anarchism/markdown", "*.md*"),
    ("games/fortunes", "*"),
    ("doc/jargon-text", "jargon.txt*"),
    ("debian-reference", "*.en.html"),
)
_MAX_WORDS = 45
_ALIKE = 6  # sentences that may begin with the same three words
_PLAIN = re.compile(r"[A-Za-z' ,.?!;:—]+")
_SENTENCE = re.compile(r"(?:(?<=[.?!] )|^ ?)[A-Z][^.?!]{8,260}[.?!](?= |$)")
_ABBREVIATED = re.compile(
    r"\b([A-Z]{2,}|[A-Z]|etc|e\.g|i\.e|[a-z])\.$|\b[A-Z]{2,}|(?<!')\b[b-hj-z]\b", re.ASCII
)
_WORD = re.compile(r"[A-Za-z']+")


def examples(rng: random.Random, limit: int) -> list[str]:
    """How WordNet's words are used."""
    return _choose(rng, limit, _of_glosses(lambda gloss: re.findall(r'"([^"]+)"', gloss)))


def definitions(rng: random.Random, limit: int) -> list[str]:
    """What WordNet's words mean."""
    return _choose(rng, limit, _of_glosses(lambda gloss: [re.split(r'; "|[;(]', gloss)[0]]))


def prose(rng: random.Random, limit: int) -> list[str]:
    """Sentences of longer texts."""
    return _choose(rng, limit, _sentences())


def names(rng: random.Random, limit: int) -> list[str]:
    """Lists and phrases with people, places and things that WordNet knows by name, and rare words."""
    proper, common = [], []
    for path in sorted(_WORDNET.glob("index.noun")):
        for line in path.read_text().splitlines():
            word = line.split(" ", 1)[0].replace("_", " ")
            if not line.startswith(" ") and re.fullmatch(r"[a-z]{3,}( [a-z]{3,})?", word):
                common.append(word)
    for line in (_WORDNET / "data.noun").read_text().splitlines() if common else []:
        parts = line.split(" ")
        if len(parts) > 5 and re.fullmatch(r"[A-Z][a-z]{2,}(_[A-Z][a-z]{2,})*", parts[4]):
            proper.append(parts[4].replace("_", " "))
    if not common or not proper:
        return []
    frames = [
        "{p}, {p} and {p}.",
        "I met {p} in {p}.",
        "Have you ever been to {p}?",
        "{p} wrote about {c}.",
        "The {c} of {p}.",
        "Is {p} a {c}?",
        "Tell me about {p}, please.",
        "It was a {c}, not a {c}!",
        "{c}, {c}, {c} and {c}.",
        "{p}?",
        "{p}.",
        "The {c} and the {c} came from {p}.",
        "What does {c} mean?",
        "There is no {c} in {p}.",
        "{c}.",
        "{c}?",
    ]

    def fill(match: re.Match[str]) -> str:
        return rng.choice(proper if match[1] == "p" else common)

    texts: dict[str, None] = {}
    while len(texts) < limit:
        text = re.sub(r"\{(\w)\}", fill, rng.choice(frames))
        texts[text[0].upper() + text[1:]] = None
    return list(texts)


def readable(text: str) -> str | None:
    """A sentence of plain words, numbers in words; None for what is not one."""
    text = re.sub('[\u201c\u201d"`*_]', "", text.replace("\u2019", "'").replace("\u2018", "'"))
    text = re.sub(r"\b\d{1,4}\b", lambda match: _number(int(match[0])), text)
    text = re.sub(r"\s*(--+|\u2014|\u2013| - )\s*", " — ", text)
    text = re.sub(r"[()]", ", ", text).replace("-", " ")
    text = re.sub(r"\s+([,.?!;:])", r"\1", re.sub(r"\s+", " ", text))
    text = re.sub(r"[,;:—. ]+([.?!])$", r"\1", re.sub(r",(\s*,)+", ",", text)).strip(" ,;:—")
    if not text or not _PLAIN.fullmatch(text) or _ABBREVIATED.search(text):
        return None
    if not 2 <= len(_WORD.findall(text)) <= _MAX_WORDS or re.search(r"(^| )'|'( |$)|''", text):
        return None
    return text[0].upper() + text[1:] + ("" if text[-1] in ".?!" else ".")


def _number(number: int) -> str:
    """As a year is said, where it may be one."""
    century, rest = divmod(number, 100)
    if not 11 <= century <= 19:
        return in_words(number).replace(",", "")
    return in_words(century) + " " + (("oh " if rest < 10 else "") + in_words(rest) if rest else "hundred")


def _of_glosses(cut: Callable[[str], Iterable[str]]) -> Iterator[str]:
    for path in sorted(_WORDNET.glob("data.*")):
        for line in path.read_text().splitlines():
            yield from cut(line.partition(" | ")[2].strip())


def _sentences() -> Iterator[str]:
    for folder, pattern in _PROSE:
        for path in sorted((_SHARE / folder).glob(pattern)):
            if path.is_file() and path.suffix not in (".dat", ".u8"):
                for paragraph in _paragraphs(path):
                    yield from (match[0] for match in _SENTENCE.finditer(paragraph))


def _paragraphs(path: Path) -> Iterator[str]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "ignore")
    if path.suffix == ".html":
        text = re.sub(r"</?(p|li|h\d|div|pre|td)[^>]*>", "\n\n", text)
        text = html.unescape(re.sub(r"<[^>]+>", "", text))
    text = re.sub(r"\[[^\]]*\]", "", text)  # sources
    for paragraph in re.split(r"\n\s*\n|\n%\n|\n\s*-- ", text):
        yield re.sub(r"\s+", " ", paragraph)


def _choose(rng: random.Random, limit: int, candidates: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    beginnings: Counter[str] = Counter()
    pool = list(candidates)
    rng.shuffle(pool)
    for candidate in pool:
        text = readable(candidate)
        if text is None:
            continue
        beginning = " ".join(text.lower().split()[:3])
        if beginnings[beginning] < _ALIKE:
            beginnings[beginning] += 1
            found[text] = None
        if len(found) >= limit:
            break
    return list(found)
