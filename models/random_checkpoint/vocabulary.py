"""A small byte-level vocabulary: the 256 bytes, and English words built up byte by byte.

It needs no training and no data, and is the same everywhere.
"""

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
_TEXT = " ".join(_WORDS.split())


def _merges() -> tuple[tuple[bytes, bytes], ...]:
    """Each word from its left end, with the blank in front of it and without; the shortest first."""
    found: dict[tuple[bytes, bytes], None] = {}
    words = sorted(
        {*_TEXT.split(), *(f" {word}" for word in _TEXT.split())}, key=lambda word: (len(word), word)
    )
    for word in (word.encode() for word in words):
        for end in range(2, len(word) + 1):
            found.setdefault((word[: end - 1], word[end - 1 : end]))
    return tuple(found)


MERGES = _merges()
"""Pairs of entries, in the order of their precedence; each makes the entry that joins them."""

ENTRIES = (*(bytes([byte]) for byte in range(256)), *(left + right for left, right in MERGES))
"""All different, in the order of their ids."""

BASE_SIZE = len(ENTRIES)
