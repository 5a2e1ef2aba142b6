"""Write web and e-mail addresses in words."""

import re
from collections.abc import Mapping

_TOP = (
    "com|org|net|edu|gov|mil|int|io|ai|dev|app|info|biz|tv|me|co|xyz|cloud|tech|online|site|"
    "uk|de|fr|es|it|nl|ch|at|be|se|no|dk|fi|pl|ru|cn|jp|kr|in|us|ca|au|nz|br|eu|hk|tw|sg"
)
_ADDRESS = re.compile(
    r"(?:mailto:)?(?P<user>[A-Za-z0-9][\w.+-]{0,63}@)?(?P<scheme>(?:https?|ftp)://)?"
    rf"(?P<host>(?:[A-Za-z0-9-]{{1,63}}\.){{1,8}}(?:{_TOP})|(?<=//)[\w.-]{{1,128}})(?::\d{{1,5}})?"
    r"(?P<path>/[^\s?#\"'<>()]*)?(?P<rest>[?#][^\s\"'<>()]*)?(?![\w@])"
)
_TRAILING = re.compile(r"[.,;:!?]+$")
_MARK = re.compile(r"[./@_+~%=&:-]")

ENGLISH_MARKS = {
    ".": "dot",
    "/": "slash",
    "@": "at",
    "-": "dash",
    "_": "underscore",
    "+": "plus",
    "~": "tilde",
    "%": "percent",
    "=": "equals",
    "&": "and",
    ":": "colon",
}
CHINESE_MARKS = {
    ".": "点",
    "/": "斜杠",
    "@": "艾特",
    "-": "杠",
    "_": "下划线",
    "+": "加",
    "~": "波浪号",
    "%": "百分号",
    "=": "等于",
    "&": "和",
    ":": "冒号",
}


def spell_addresses(text: str, marks: Mapping[str, str]) -> str:
    """Write addresses word by word, their marks named, without scheme, port, query and fragment."""
    if "." not in text and "//" not in text:
        return text
    spelled = ""
    end = 0
    for found in _ADDRESS.finditer(text):
        whole = (found["user"] or "") + found["host"] + (found["path"] or "")
        ending = _TRAILING.search(found[0])
        whole = _TRAILING.sub("", whole).rstrip("/")
        if whole.startswith("www."):
            whole = "w w w" + whole[3:]
        spoken = _MARK.sub(lambda mark: f" {marks[mark[0]]} ", whole)
        spelled += text[end : found.start()] + " ".join(spoken.split()) + (ending[0] if ending else "")
        end = found.end()
    return spelled + text[end:]
