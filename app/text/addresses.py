"""Find web and e-mail addresses, and say them in words."""

import re
from collections.abc import Callable, Iterator, Mapping

_TOP = (
    "com|org|net|edu|gov|mil|int|io|ai|dev|app|info|biz|tv|me|co|xyz|cloud|tech|online|site|"
    "uk|de|fr|es|it|nl|ch|at|be|se|no|dk|fi|pl|ru|cn|jp|kr|in|us|ca|au|nz|br|eu|hk|tw|sg|"
    "museum|photography|shop|store|blog|news|agency|academy|design|studio|space|world|club|live|life"
    "|art|games|"
    "page|wiki|email|group|media|network|systems|digital|solutions|services|software|zone|guru|link"
    "|click|top|"
    "pro|mobi|travel|jobs|bank|finance|fm|gg|ly|sh|cc|ws|ie|il|mx|ar|cl|cz|gr|hu|pt|ro|"
    "tr|ua|za|th|vn|ph|ng|ke"
)
FILE = (
    "html?|txt|py|md|pdf|jpe?g|png|gif|csv|json|docx?|xlsx?|exe|zip|mp[34]|wav|js|ts|css|xml|ya?ml"
    "|log|toml|ini|cpp|hpp|rs|go|java|rb|sql|swift|kt|[jt]sx|ipynb|lock|conf|cfg|bat|svg|webp|gz|tar|pptx?|bash|zsh"
    "|(?<=[a-z0-9_]{2}\\.)[ch]"
)
"""What a file's name ends with."""
CAPITAL_FILE = "PDF|TXT|JPE?G|PNG|GIF|DOCX?|XLSX?|PPTX?|CSV|ZIP|EXE|MP[34]|WAV|HTML?|XML|JSON"
_ADDRESS = re.compile(
    r"(?:mailto:)?(?P<user>[A-Za-z0-9][\w.+-]{0,63}@)?(?P<scheme>(?:https?|ftp|wss?|HTTPS?|FTP)://)?"
    rf"(?P<host>(?:[A-Za-z0-9_-]{{1,63}}\.){{1,8}}(?:{_TOP}|{_TOP.upper()}|(?<=[A-Za-z0-9]{{2}}\.)(?:Com|Org|Net|Edu|Gov)|{FILE}|{CAPITAL_FILE})\b"
    r"|(?(user)(?!\d+[A-Za-z]{0,3}\b)[\w.-]{1,128}|(?(scheme)[\w.-]{1,128}|(?:(?:www|WWW)\.(?:[\w-]{1,63}\.){1,4}[A-Za-z]{2,24}"
    r"|(?:[a-z0-9-]{1,63}\.){1,4}[a-z]{2,12}(?=/[a-z])|localhost(?=:\d)))))"
    r"(?::\d{1,5})?(?P<path>/[^\s?#\"'<>()]*)?(?P<rest>[?#][^\s\"'<>()]*)?(?![\w@])"
)
_FILE_OR_WORD = re.compile(
    r"(?!(?:main|[Cc]argo|yarn|poetry|[Pp]ackage|composer|nginx|config)\.)[A-Za-z][a-z]*\.(?:go|swift|bat|lock|conf)"
)
"""A missing blank rather than a file, unless a word of files stands before: "Stop.go and look"."""
_FILED = re.compile(r"\b(?:file|files|open|edit|run|in|see|called|named)\s*[\"'“(]*$", re.IGNORECASE)
_FOLDER = re.compile(r"(?<![\w:/.~-])(?:(?:~|\.{1,2}|[A-Za-z][\w-]*)?/)(?:[\w-]+/|\.\./)*$")
"""Before the name of a file: "~/", "../", "src/"."""
_FILE_END = re.compile(rf"\.(?:{FILE}|sh|{CAPITAL_FILE})$")
_TRAILING = re.compile(r"[.,;:!?]+$")
_MARK = re.compile(r"[./@_+~%=&:-]")
_PART = re.compile(r"[0-9]+|[^0-9]+")

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

Fields = dict[str, str | None]


def find_addresses(text: str, before: str = "") -> Iterator[tuple[int, int, Fields]]:
    """Yield where each address begins and ends, without punctuation behind it, and its user, host, path.

    before: the text in front, whose last word may tell that a file is named.
    """
    if "." not in text and "//" not in text and "@" not in text and "localhost" not in text:
        return
    for found in _ADDRESS.finditer(text):
        ending = _TRAILING.search(found[0])
        fields = found.groupdict()
        if not found["host"].strip(".-") or not (
            found["scheme"] or any(one.isalpha() for one in found["host"])
        ):
            continue
        is_word = _FILE_OR_WORD.fullmatch(_TRAILING.sub("", found[0]))
        if is_word and not _FILED.search(f"{before} {text[: found.start()]}"):
            continue
        start = found.start()
        if (
            not found["path"]
            and (folder := _FOLDER.search(text, 0, start))
            and _FILE_END.search(found["host"])
        ):
            start, fields["host"] = folder.start(), folder[0] + found["host"]
        yield start, found.end() - (len(ending[0]) if ending else 0), fields


def say_address(
    fields: Mapping[str, str | None], marks: Mapping[str, str], digits: Callable[[str], str]
) -> str:
    """Say an address word by word, its marks named, without scheme, port, query and fragment.

    digits: says those of a name one by one.
    """
    host = fields["host"] or ""
    if host[:4].lower() == "www.":
        host = "w w w" + host[3:]
    whole = _TRAILING.sub("", (fields["user"] or "") + host + (fields["path"] or "")).rstrip("/")
    spoken = _MARK.sub(lambda mark: f" {marks[mark[0]]} ", whole)
    return " ".join(digits(part) if part.isdecimal() and part.isascii() else part for part in _words(spoken))


def _words(spoken: str) -> Iterator[str]:
    for word in spoken.split():
        yield from _PART.findall(word)


def spell_addresses(text: str, marks: Mapping[str, str], digits: Callable[[str], str]) -> str:
    """Return a text with its addresses in words."""
    spelled, end = "", 0
    for start, stop, fields in find_addresses(text):
        spelled += text[end:start] + say_address(fields, marks, digits)
        end = stop
    return spelled + text[end:]
