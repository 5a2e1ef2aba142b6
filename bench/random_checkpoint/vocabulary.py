"""A small byte-level vocabulary: the 256 bytes, and what byte-pair encoding makes of some English words.

It needs no data beside them and is the same everywhere.
"""

from collections import Counter
from functools import cache
from itertools import pairwise

_WORDS = """
    the of and to in is it you that he was for on are with as his they be at one have this from or had by
    hot but some what there we can out other were all your when up use word how said an each she which do
    their time if will way about many then them would write like so these her long make thing see him two
    has look more day could go come did my sound no most number who over know water than call first people
    may down side been now find any new work part take get place made live where after back little only
    round man year came show every good me give our under name very through just form much great think say
    help low line before turn cause same mean differ move right boy old too does tell sentence set three
    want air well also play small end put home read hand port large spell add even land here must big high
    such follow act why ask men change went light kind off need house picture try us again animal point
    hello world voice speech listen speaker assistant helpful
"""

Merge = tuple[bytes, bytes]


@cache
def merges() -> tuple[Merge, ...]:
    """Pairs of entries in the order of their precedence, until every word is one entry.

    The most frequent pair comes first (arXiv 1508.07909, section 3.2), of several the first in the alphabet.
    """
    words = [[bytes([byte]) for byte in word.encode()] for word in sorted({*_forms()})]
    found: list[Merge] = []
    while counts := Counter(pair for word in words for pair in pairwise(word)):
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        found.append(best)
        words = [_merged(word, best) for word in words]
    return tuple(found)


@cache
def entries() -> tuple[bytes, ...]:
    """All different, in the order of their ids."""
    return (*(bytes([byte]) for byte in range(256)), *(left + right for left, right in merges()))


def _forms() -> list[str]:
    """Each word with the blank in front of it, and without."""
    words = _WORDS.split()
    return [*words, *(f" {word}" for word in words)]


def _merged(word: list[bytes], pair: Merge) -> list[bytes]:
    out: list[bytes] = []
    for part in word:
        if out and (out[-1], part) == pair:
            out[-1] += part
        else:
            out.append(part)
    return out
