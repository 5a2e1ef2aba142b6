"""Tell where a long Chinese sentence without punctuation may be cut: beside a word that is surely whole."""

import re
from typing import Final

WINDOW: Final = 3  # characters on either side that decide

_ENDINGS = "(?<!目)的(?!/[确士话])|了(?!/[解结却断不])|吗(?!/啡)|吧(?!/台)|[呢嘛]|时候|[之以]后|之前"
_BEGINNINGS = (
    "但是|可是|不过|而且|并且|或者|以及|因为|所以|因此|如果|虽然|然后|于是|同时|其中|另外|就是|还是|已经|可以|没有|需要|应该"
    "|可能|通过|根据|关于|对于|为了|随着|自己|[这那][个种些样]|[我你他她它]们"
)
_LINKS = (
    "(?<![共总温缓柔饱中暖谐祥随])/和(?![平谐气睦尚服])|(?<![参赠授给赋])/与(?![其会众])"
    "|(?<![现正存实所内潜不好自])/在(?![于线职])"
)
_BREAK = re.compile(f"(?:{_ENDINGS})/|/(?:{_BEGINNINGS})|{_LINKS}")


def is_break(before: str, after: str) -> bool:
    """Whether a word ends or begins between two texts: behind 的 and 了, before 但是 and its kin.

    >>> is_break("我说的", "事情"), is_break("我说的", "确是"), is_break("走了", "但是")
    (True, False, True)
    """
    return _BREAK.search(f"{before[-WINDOW:]}/{after[:WINDOW]}") is not None
