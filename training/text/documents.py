"""Finds English sentences in the documentation of the machine: manual pages, package notes, docstrings."""

import gzip
import html
import random
import re
import sysconfig
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from training.text.lexicon import known_words
from training.text.numbers import in_words

_STDLIB = sysconfig.get_paths()["stdlib"]
_PLACES = (
    ("/usr/share/perl", "*.pod"),
    ("/usr/share/perl", "*.pm"),
    ("/usr/share/man", "*.gz"),
    ("/usr/share/doc", "*"),
    ("/usr/share/info", "*.gz"),
    ("/usr/share/common-licenses", "*"),
    ("/usr/share/vim", "*.txt"),
    (_STDLIB, "*.py"),
    (sysconfig.get_paths()["purelib"], "*.py"),
    (sysconfig.get_paths()["purelib"], "*.md"),
)
_MAX_BYTES = 2_000_000
_MAX_FILES = 3000  # a place
_SENTENCE = re.compile(r"(?:(?<=[.?!] )|^ ?)[A-Z][^.?!]{12,160}[.?!](?= |$)")
_ALIKE = 8  # sentences that may begin with the same three words


def sentences(rng: random.Random, limit: int) -> list[str]:
    """Up to `limit` different sentences of 3 to 20 words of the lexicon, in small letters."""
    words = known_words()
    found: dict[str, None] = {}
    beginnings: Counter[str] = Counter()
    for path in _files(rng):
        for paragraph in _paragraphs(path):
            for match in _SENTENCE.finditer(paragraph):
                sentence = plain(match[0])
                said = re.findall(r"[a-z']+", sentence)
                if (
                    re.search(r"[^a-z' ,.?!]", sentence)
                    or not 3 <= len(said) <= 20
                    or not words.issuperset(said)
                ):
                    continue
                beginning = " ".join(said[:3])
                if sentence not in found and beginnings[beginning] < _ALIKE:
                    beginnings[beginning] += 1
                    found[sentence] = None
        if len(found) >= 3 * limit:
            break
    chosen = list(found)
    rng.shuffle(chosen)
    return chosen[:limit]


def plain(text: str) -> str:
    """Small letters, numbers in words, and of the punctuation only commas and ends."""
    text = re.sub('[\u201c\u201d"`*]', "", text.replace("\u2019", "'"))
    text = re.sub(r"\b\d{1,4}\b", lambda match: in_words(int(match[0])), text)
    text = re.sub(r" - |;|:|[()]", ", ", text).replace("-", " ")
    text = re.sub(r"[\s,]*,[\s,]*", ", ", text)
    return re.sub(r"\s+", " ", re.sub(r"[, ]+([.?!])", r"\1", text)).lower().strip(" ,")


def _files(rng: random.Random) -> Iterator[Path]:
    everything = []
    for folder, pattern in _PLACES:
        files = [
            path
            for path in Path(folder).rglob(pattern)
            if path.is_file() and path.stat().st_size < _MAX_BYTES
        ]
        files.sort()
        rng.shuffle(files)
        everything += files[:_MAX_FILES]
    rng.shuffle(everything)
    yield from everything


def _paragraphs(path: Path) -> Iterator[str]:
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)[:_MAX_BYTES]
    except (OSError, EOFError, zlib.error):
        return  # unreadable, or not compressed as its name says: there is other text
    text = data.decode("utf-8", "ignore")
    if "/man/" in str(path):
        text = re.sub(r"(?m)^\.[A-Z]+.*$", "\n", re.sub(r"\\f[BIRP]", "", text)).replace("\\-", "-")
    if path.suffix in (".html", ".htm"):
        text = re.sub(
            r"</?(p|li|h\d|div|pre|td)[^>]*>", "\n\n", re.sub(r"(?s)<(script|style).*?</\1>", "", text)
        )
        text = html.unescape(re.sub(r"<[^>]+>", "", text))
    text = re.sub(r"(?m)^\s*(#+|//+|\*)\s?", "", re.sub(r"[A-Z]<([^<>]*)>", r"\1", text))
    for paragraph in re.split(r"\n\s*\n|\"\"\"", text):
        yield re.sub(r"\s+", " ", paragraph)
