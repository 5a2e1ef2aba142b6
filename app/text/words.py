"""Which words of a text its text tokens say, through normalization and marks."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate, pairwise

from firstword.app.text.marks import Span
from firstword.app.text.phrases import SILENT_MARKS, SOUND_MARKS, UNSPACED

_EDGES = re.escape(".,;:!?…\"'“”‘’()[]{}«»*_`|~—–。，、！？；：（）《》「」『』")  # noqa: RUF001  Chinese ones too
_EDGES += f"{SILENT_MARKS}-\U0010ffff"
_SAYS = rf"[^\W_{_EDGES}]|[{SOUND_MARKS}-\U00107fff]|[$€£¥%&@#+=<>°]"  # with one of these it is a word
_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
_SAYS_SOMETHING = re.compile(_SAYS)
_AT_START, _AT_END = re.compile(f"[{_EDGES}]+"), re.compile(f"[{_EDGES}]+$")

Bounds = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Word:
    """start, end: in characters of the source, the punctuation around it left out.

    num_ids: how many text tokens say it, those of the punctuation beside it included. num_before: how many
    say the pause before it, where a blank is a text token of its own.
    """

    start: int
    end: int
    num_ids: int
    num_before: int = 0


def find_words(written: str, spoken: str, num_ids: int, encode: Callable[[str], Sequence[int]]) -> list[Word]:
    """Return the words of `written`, in order, each with its share of the `num_ids` that say `spoken`.

    One that is not spoken by itself goes with the word before it. [] where nothing is spoken.
    """
    sources, says = _words(written), _words(spoken)
    if not sources or not says:
        return []
    blanks = [(spoken.rfind(" ", end, start), start) for (_, end), (start, _) in pairwise(says)]
    cuts = [start if blank < 0 else blank for blank, start in blanks]
    parts = [encode(spoken[cut:next]) for cut, next in pairwise([0, *cuts, len(spoken)])]
    blank_ids = [*encode(" ")]
    total = [*accumulate(map(len, parts))]
    if not total[-1]:
        return []
    ends = [0, *(round(length * num_ids / total[-1]) for length in total)]
    pauses = [
        int(end > begin and len(blank_ids) == 1 and [*part[:1]] == blank_ids)
        for part, (begin, end) in zip(parts, pairwise(ends), strict=True)
    ]
    return [
        Word(
            sources[first][0],
            sources[last - 1][1],
            ends[spoken_last] - ends[spoken_first] - pauses[spoken_first],
            pauses[spoken_first],
        )
        for (first, last), (spoken_first, spoken_last) in _paired(
            [written[start:end].casefold() for start, end in sources],
            [spoken[start:end].casefold() for start, end in says],
        )
    ]


def in_source(words: Iterable[Word], spans: Sequence[Span]) -> list[Word]:
    """words: of what the spans have written, one behind the other -> of their sources, as one text.

    Those of one replacement are one word, which has the whole of its source. One whose source came before
    the spans is left out.
    """
    written = [0, *accumulate(len(span.written) for span in spans)]
    sources = [0, *accumulate(len(span.source) for span in spans)]

    def span_at(position: int) -> int:
        return next(number for number, end in enumerate(written[1:]) if position < end)

    found: list[Word] = []
    for word in words:
        first, last = span_at(word.start), span_at(word.end - 1)
        start, end = sources[first], sources[last + 1]
        if spans[first].is_plain:
            start += word.start - written[first]
        if spans[last].is_plain:
            end -= written[last + 1] - word.end
        num_ids, num_before = word.num_ids, word.num_before
        if found and start < found[-1].end:
            begun = found.pop()
            num_ids += num_before + begun.num_ids
            start, num_before = begun.start, begun.num_before
        if start < end:
            found.append(Word(start, end, num_ids, num_before))
    return found


def _words(text: str) -> list[Bounds]:
    """Where each word stands, the punctuation around it left out."""
    words: list[Bounds] = []
    for match in _WORD.finditer(text):
        if _SAYS_SOMETHING.search(match[0]):
            start, end = match.span()
            if edge := _AT_START.match(match[0]):
                start += len(edge[0])
            if edge := _AT_END.search(match[0]):
                end -= len(edge[0])
            words.append((start, end))
    return words


def _paired(written: list[str], spoken: list[str]) -> Iterator[tuple[Bounds, Bounds]]:
    """Which written words, from and to, are which spoken ones: all of both, in order."""
    matches = SequenceMatcher(None, written, spoken, autojunk=False).get_matching_blocks()
    equal = [(block.a + index, block.b + index) for block in matches for index in range(block.size)]
    pairs: list[tuple[Bounds, Bounds]] = []
    a = b = 0
    for next_a, next_b in [*equal, (len(written), len(spoken))]:
        if (next_a > a) != (next_b > b) and pairs:  # of one side only: it goes with the pair before it
            before = pairs.pop()
            pairs.append(((before[0][0], next_a), (before[1][0], next_b)))
        elif next_a > a and next_b > b:
            pairs += _shared(range(a, next_a), range(b, next_b), written)
        pairs.append(((next_a, next_a + 1), (next_b, next_b + 1)))
        a, b = next_a + 1, next_b + 1
    pairs.pop()  # behind the ends
    first, *others = pairs
    yield ((0, first[0][1]), (0, first[1][1]))
    yield from others


def _shared(words: range, spoken: range, written: list[str]) -> Iterator[tuple[Bounds, Bounds]]:
    """Divide the spoken words among the written ones, more to those with more digits."""
    if len(words) > len(spoken):
        for number in range(len(spoken)):
            first, last = (words.start + (number + one) * len(words) // len(spoken) for one in (0, 1))
            yield (first, last), (spoken.start + number, spoken.start + number + 1)
        return
    sizes = [max(1, sum(character.isdigit() for character in written[word])) for word in words]
    begin = spoken.start
    for number, word in enumerate(words):
        end = spoken.start + round(sum(sizes[: number + 1]) * len(spoken) / sum(sizes))
        end = min(max(end, begin + 1), spoken.stop - (len(words) - number - 1))
        yield (word, word + 1), (begin, end)
        begin = end
