"""Chinese characters read as sounds: pinyin marks, an initial and a final with its tone, `[n][ǐ][h][ǎo]`.

By longest match from the left over a file of phrases, and one by one where no phrase is. Traditional
characters are read as simplified ones. Tones are those of the dictionary, 一 always yi1 and 不 bu4 unless
light: how they change each other is the voice's part. Behind a digit a measure word is read as behind 七.
Nothing stands between the marks of two characters, nor between them and an English word.
"""

# ruff: noqa: RUF001  Chinese punctuation is meant

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice, takewhile
from pathlib import Path
from typing import Final

from firstword.models.tokenizer.interface import TokenizerError, read_sorted_lines
from firstword.models.tokenizer.qwen2 import PINYIN_TOKENS

MANDARIN_FILE: Final = "mandarin.gz"
HAN: Final = "\u3007\u3400-\u9fff"  # what the file may hold

_NUMERAL = "七"  # looked up for digits: few phrases that begin so are more than a number and what it counts
_RUN = re.compile(f"(?P<run>[{HAN}]+)")
_RUN_WITH_BLANKS = re.compile(rf"(?:(?<![^\S\n])[^\S\n]+)?(?P<run>[{HAN}]+)[^\S\n]*")
_IS_HAN = re.compile(f"[{HAN}]")
_LINE = re.compile(rf"[{HAN}]\t(?:[{HAN}]|[a-z]+[1-5]?)|[{HAN}]{{2,}}\t(?:[a-z]+[1-5]?| )*")
_SYLLABLE = re.compile(r"(?P<initial>[zcs]h?|[bpmfdtnlgkhjqxryw])?(?P<final>[aeiouv][a-z]*)(?P<tone>[1-5])?")
_TONED = re.compile(r"[ae]|o(?=u)|[iouv](?![aeiou])")
_TONES = {"1": "\u0304", "2": "\u0301", "3": "\u030c", "4": "\u0300"}
_INSTEAD = ("1", "4", "2", "3")  # where CosyVoice has no mark for a final without a tone
_TOKENS = frozenset(unicodedata.normalize("NFC", token) for token in PINYIN_TOKENS)
_BRACKETS = "「」『』〈〉《》【】〔〕〖〗｢｣﹁﹂﹃﹄·・‧"  # and the point within names: not spoken
_PUNCTUATION = str.maketrans("，。！？、；：､｡", ",.!?,;:,.", _BRACKETS)
_UNREAD = re.compile(f"[{HAN}\u3005\uf900-\ufaff\U00020000-\U0003ffff]")
_QUOTES = re.compile("‘|(?<![A-Za-z])['’]|['’](?![A-Za-z])")  # no apostrophe
_ELLIPSES = re.compile("……+")


@lru_cache(maxsize=2000)
def pinyin_marks(syllable: str) -> tuple[str, ...]:
    """The marks of a syllable, its tone as a digit behind it, ü as v. Raises ValueError.

    Without a tone it is a light one; "er" is then the ending of a word, 儿化.

    >>> pinyin_marks("nv3"), pinyin_marks("yuan2"), pinyin_marks("er"), pinyin_marks("le")
    (('[n]', '[ǚ]'), ('[y]', '[uán]'), ('[r]',), ('[l]', '[e]'))
    """
    found = _SYLLABLE.fullmatch(syllable)
    if found is None:
        raise ValueError(f"{syllable[:20]!r} is no syllable of pinyin")
    initial, final, tone = found["initial"], found["final"], found["tone"] or ""
    if final == "er" and initial is None and tone in ("", "5"):
        return ("[r]",)
    for one in (tone, *_INSTEAD) if tone in ("", "5") else (tone,):
        mark = f"[{_with_tone(final, one)}]"
        if mark in _TOKENS:
            return (mark,) if initial is None else (f"[{initial}]", mark)
    raise ValueError(f"{syllable[:20]!r} is no syllable of pinyin: there is no mark {mark}")


def _with_tone(final: str, tone: str) -> str:
    vowel = _TONED.search(final)
    if tone in _TONES and vowel is not None:
        final = final[: vowel.end()] + _TONES[tone] + final[vowel.end() :]
    if not final.startswith("ve"):  # `[vè]` is the only mark with this letter
        final = final.replace("v", "ü")
    return unicodedata.normalize("NFC", final)


def _is_behind_digit(text: str, place: int) -> bool:
    return place > 0 and text[place - 1].isdecimal()


class Mandarin:
    """The file of phrases. Threads may share one.

    Its lines, in the order of their characters: a character or a phrase, a tab, and its syllables with a
    blank between two. One that a phrase reads as the character by itself is left out, and all of them where
    it reads none otherwise; such a phrase tells where the next one begins. Behind a traditional character
    stands the simplified one.
    """

    def __init__(self, path: Path) -> None:
        """Raises TokenizerError."""
        self._lines = read_sorted_lines(path)
        syllables: set[str] = set()
        previous = ""
        for line in self._lines:
            phrase, _, read = line.partition("\t")
            if _LINE.fullmatch(line) is None:
                raise TokenizerError(f"{path}: expected a phrase, a tab and its syllables, got {line!a:.40}")
            if phrase == previous:
                raise TokenizerError(f"{path}: {phrase!a:.40} stands there twice")
            previous = phrase
            if _IS_HAN.match(read):
                if _IS_HAN.match(self._read_of(read) or read):
                    raise TokenizerError(f"{path}: the simplified form of {phrase!a} has no syllable")
                continue
            if read and read.count(" ") != len(phrase) - 1:
                raise TokenizerError(
                    f"{path}: {phrase!a:.40} has another number of syllables than characters"
                )
            syllables.update(read.split(" "))
        syllables.discard("")
        if not syllables:
            raise TokenizerError(f"{path}: is empty, expected a phrase, a tab and its syllables a line")
        try:
            self.marks = tuple(sorted({mark for one in syllables for mark in pinyin_marks(one)}))
        except ValueError as error:
            raise TokenizerError(f"{path}: {error}") from error
        self._max_length = max(line.index("\t") for line in self._lines)
        self._character = lru_cache(maxsize=20_000)(self._read_character)

    def find(self, text: str, before: str = "") -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Where a character begins and ends that is not read as by itself, and its marks.

        before: not looked at; the text begins where `num_open` has let it.
        """
        for run in _RUN.finditer(text):
            for index, (character, syllable) in enumerate(self._read(run), run.start()):
                if syllable is not None and syllable != self._character(character)[1]:
                    yield index, index + 1, pinyin_marks(syllable)

    def num_open(self, text: str) -> int:
        """How many characters at the end of a text may be read otherwise once more comes."""
        last = list(takewhile(_IS_HAN.match, reversed(text)))
        run = "".join(self._character(one)[0] for one in reversed(last))
        if _is_behind_digit(text, len(text) - len(run)):  # what it counts is looked up with it
            run = _NUMERAL + run
        start = 0
        while start < len(run):
            if len(run) - start < self._max_length and self._goes_on(run[start:]):
                return len(run) - start
            start += self._longest(run, start)[0]
        return 0

    def syllables(self, text: str) -> list[str]:
        """The syllables of the characters, what stands between them as it is; for whoever teaches a voice."""
        pieces: list[str] = []
        end = 0
        for run in _RUN_WITH_BLANKS.finditer(text):
            pieces += [text[end : run.start()]] if end < run.start() else []
            pieces += [syllable or character for character, syllable in self._read(run)]
            end = run.end()
        return pieces + ([text[end:]] if end < len(text) else [])

    def write(self, text: str) -> str:
        """Replace Chinese characters by their marks, as the phrases around them say."""
        return self._write(text, self._read)

    def write_characters(self, text: str) -> str:
        """Replace each by the marks that it has by itself, and leave out those that have none; Chinese
        punctuation becomes Latin."""
        text = _QUOTES.sub("", text)
        marks = self._write(text, lambda run: ((one, self._character(one)[1]) for one in run["run"]))
        return _UNREAD.sub("", marks)

    def unread(self, text: str) -> str:
        """The characters that have no reading."""
        return "".join(one for one in _UNREAD.findall(text) if self._character(one)[1] is None)

    @staticmethod
    def _write(text: str, read: Callable[[re.Match[str]], Iterator[tuple[str, str | None]]]) -> str:
        def written(run: re.Match[str]) -> str:
            return "".join(
                one if syllable is None else "".join(pinyin_marks(syllable)) for one, syllable in read(run)
            )

        return _RUN_WITH_BLANKS.sub(written, _ELLIPSES.sub("…", text)).translate(_PUNCTUATION)

    def _read(self, found: re.Match[str]) -> Iterator[tuple[str, str | None]]:
        """found: a run of characters in a text. Each with its syllable, None where it is not known."""
        run = found["run"]
        if not _is_behind_digit(found.string, found.start("run")):
            return self._read_run(run)
        return islice(self._read_run(_NUMERAL + run), 1, None)

    def _read_run(self, run: str) -> Iterator[tuple[str, str | None]]:
        simplified = "".join(self._character(one)[0] for one in run)
        start = 0
        while start < len(run):
            length, syllables = self._longest(simplified, start)
            for character, syllable in zip(run[start : start + length], syllables, strict=True):
                yield character, syllable or self._character(character)[1]
            start += length

    def _longest(self, run: str, start: int) -> tuple[int, list[str]]:
        """The number of characters of the longest phrase there, and what it says of each."""
        longest, read = 1, ""
        for end in range(start + 2, len(run) + 1):
            phrase = run[start:end]
            index = bisect_left(self._lines, phrase)
            if index == len(self._lines) or not self._lines[index].startswith(phrase):
                break
            if self._lines[index].startswith(f"{phrase}\t"):
                longest, read = end - start, self._lines[index].partition("\t")[2]
        return longest, read.split(" ") if read else [""] * longest

    def _goes_on(self, run: str) -> bool:
        """Whether there is a phrase that begins so and is longer."""
        index = bisect_left(self._lines, f"{run}\t\U0010ffff")  # behind the phrase itself
        return index < len(self._lines) and self._lines[index].startswith(run)

    def _read_character(self, character: str) -> tuple[str, str | None]:
        """The simplified one, and its syllable."""
        read = self._read_of(character)
        return (read, self._read_of(read)) if read and _IS_HAN.match(read) else (character, read)

    def _read_of(self, character: str) -> str | None:
        """What stands behind it in the file."""
        index = bisect_left(self._lines, f"{character}\t")
        if index == len(self._lines) or not self._lines[index].startswith(f"{character}\t"):
            return None
        return self._lines[index][2:]
