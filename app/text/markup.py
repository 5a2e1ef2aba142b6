"""Clean a phrase: drop what cannot be spoken, markdown, HTML and pictures, and part what they parted."""

import html
import re

from firstword.app.text.addresses import CAPITAL_FILE, FILE
from firstword.app.text.english.units import UNITS
from firstword.app.text.latex import plain_formula

# ruff: noqa: RUF001  typographic marks are meant

PICTURE = "\u2190-\u21ff\u2300-\u23ff\u2500-\u27bf\u2b00-\u2bff\ufe0e\ufe0f\u20e3\U0001f000-\U0001faff"
_PICTURES = re.compile(f"(?![★⭐](?<=[0-9].)|△[A-Z]{{3}})[{PICTURE}][{PICTURE}\u200d\U000e0020-\U000e007f]*")
_BETWEEN_WORDS = re.compile(rf"(?<=\w){_PICTURES.pattern}(?=\w)")
# Controls, lone surrogates, private use, marks of direction and of byte order.
_UNSPEAKABLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff"
    "\ue000-\uf8ff\ufeff\ufff0-\uffff\U000e0000-\U000e007f\U000f0000-\U000fffff]"
)
_CHECKPOINT_MARKS = re.compile(
    r"\[[a-z][a-z_-]*\](?!\()|</?[a-z]+>|<\|[A-Za-z_]+\|>"
)  # a checkpoint's own marks
_CITATION = re.compile(
    r"(?:(?<=[^\W\d][.,;!?])|(?<=[0-9)%\"”’][.,;]))(?:\[[1-9][0-9]?\])+|(?<=\S)\[\^\w{1,8}\](?!:)"
)
"""Of a source, behind a mark: "tall.[1][2]", "noted[^1]"."""
_LINK_TARGET = re.compile(r"(?<=\])\([^()\s]*\)")
_MARKDOWN = re.compile(
    r"!(?=\[)|[][`™®©]|~~|(?<![0-9)])(?<![0-9)]\s)(?<![0-9][mgLl米克升])(?<![0-9][cdkm][mglL])(?<![0-9][厘毫千][米克升])\*|\*(?!\s?[0-9(])"
    r"|\^(?![-−(\w])|(?<![\w)])\^|(?<!\w)_+|_+(?!\w)|(?<!\w)#+(?=\s|$|(?![A-Z]{1,2}-?\d{3}|[A-Z]{1,4}-\d)[^\W\d])"
)
_PARTING = re.compile(r"\\(?=\w)|(?<=\w)\|(?=\w)")
_LOST = re.compile(r"[\\|]")
_FILE_NAME = re.compile(rf"[A-Za-z0-9]_[\w.-]*\.(?:{FILE}|{CAPITAL_FILE}|com|org|net)\b")
_INNER_UNDERSCORE = re.compile(r"(?<=\w)_+(?=\w)")
_CLEAN = re.compile("[A-Za-z0-9\u4e00-\u9fff][A-Za-z0-9\u4e00-\u9fff .,:;!?'\"()%/+@-]*")  # as most are
_RULE = re.compile(r"[-=_+~|:]{3,}|>{3,}")
_FENCE = re.compile(r"(?:```|~~~)[\w+#.-]*")
_BULLETS = re.compile(r"[•◦▪‣●○■□▶►∙⁃✓✔☐☑☒]+")
_HASHTAG = re.compile(r"#(?=[A-Za-z])")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FULL_WIDTH = {
    code: code - 0xFEE0
    for code in range(0xFF01, 0xFF5F)
    if chr(code).isalnum() or chr(code) in "％＋－＝／．＃＆＠＊＜＞"
}
_HTML = (
    "a|abbr|article|aside|b|big|blockquote|body|br|button|caption|center|cite|code|dd|del|details|dfn|div|dl|dt|em"
    "|figcaption|figure|font|footer|form|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|kbd|label|li|link|main"
    "|mark|meta|nav|ol|option|p|picture|pre|q|s|samp|script|section|select|small|span|strike|style|sub|summary|sup"
    "|svg|table|tbody|td|textarea|tfoot|th|thead|time|title|tr|tt|u|ul|var|video"
)
_HTML_TAG = re.compile(rf"</?(?:{_HTML})(?:\s[^<>]*)?/?>", re.IGNORECASE)
_LINK = re.compile(r"<((?:https?://|mailto:)[^<>\s]+|[\w.+-]+@[\w-]+\.[\w.-]+)>")
_KEY = re.compile(r"<([A-Z][\w+ -]{0,20})>")
_EMOTICON = re.compile(r"[:;]['’]?-?[()DPpO/|]{1,3}|XD|xD|\^_+\^")
_KEYS = re.compile(
    r"(?P<keys>\*(?:[0-9]{2,4}#?)?|#|#[0-9]{2,4}[*#])(?P<end>[.,;:!?]*|(?<=[0-9#])[\u3400-\u9fff]+)"
)
_PRESSING = re.compile(
    r"\b(?:[Pp]ress|[Dd]ial)(?:e[sd]|ing|s)?\b[^.!?。\n]*$|\b(?:[Hh]it|[Pp]ush)(?: the(?: key)?)?\s*$"
    r"|(?:按(?![照揭时期理劳摩])|拨(?!款))[^.!?。\n]{0,12}$"
)
_COMPARED = re.compile(
    r"(?:is|are|was|were|be|if|to|under|over|of|at|by|from|than|when|where|and|or|[A-HJ-TV-Za-hj-tv-z]|\S*[0-9]\S*)"
)
"""Before "<3" where it compares; "I" and "u" are people."""
_NUMBER_OR_VERB = re.compile(
    r"[0-9%=<>].*|percent|is|are|was|were|then|and|or|times|years?|days?|hours?|minutes?"
)
_ENTITY = re.compile(r"&(?:#\d{1,6}|#x[0-9A-Fa-f]{1,5}|[A-Za-z]{2,8});")
HTML_OPENING = re.compile(rf"<(?:{_HTML})$", re.IGNORECASE)
"""A tag whose attributes come as the next words."""


def clean_phrase(phrase: str) -> str:
    """Remove what cannot be spoken, controls, pictures and markup; make full-width letters plain."""
    if phrase.isalpha() and (phrase.isascii() or "\u4e00" <= phrase <= "\u9fff"):
        return phrase
    if _CLEAN.fullmatch(phrase):
        return " ".join(phrase.split())
    phrase = _PICTURES.sub("", _BETWEEN_WORDS.sub(" ", _UNSPEAKABLE.sub("", _BULLETS.sub(" ", phrase))))
    phrase = phrase.translate(_FULL_WIDTH).strip()
    if _RULE.fullmatch(phrase) or _FENCE.fullmatch(phrase) or _EMOTICON.fullmatch(phrase):
        return ""
    if "&" in phrase:
        phrase = _ENTITY.sub(lambda entity: html.unescape(entity[0]), phrase)
    if "<" in phrase:
        phrase = _LINK.sub(r"\1", phrase)
        phrase = _KEY.sub(r"\1", _HTML_TAG.sub(" ", phrase))
    if _HASHTAG.match(phrase) and not phrase.isupper():  # "#FreeBritney", not the code "#A1B2-99"
        phrase = _CAMEL.sub(" ", phrase)
    parts = [_cleaned(between) for between in _CHECKPOINT_MARKS.split(phrase)]
    marks = [*_CHECKPOINT_MARKS.findall(phrase), ""]
    return " ".join("".join(text + mark for text, mark in zip(parts, marks, strict=True)).split())


def _cleaned(text: str) -> str:
    is_address = "@" in text or "//" in text or "www." in text or ("_" in text and _FILE_NAME.search(text))
    text = _LINK_TARGET.sub("", plain_formula(_CITATION.sub("", text) if "]" in text else text))
    text = text if is_address else _INNER_UNDERSCORE.sub(" ", text)
    return _LOST.sub("", _PARTING.sub(" ", _MARKDOWN.sub("", text)))


def key_names(phrase: str, before: str, following: str, is_chinese: bool) -> str:
    """Keys of a telephone that somebody presses, with their digits apart; "" where the phrase is none."""
    keys = _KEYS.fullmatch(phrase)
    if keys is None or _PRESSING.search(before) is None:
        return ""
    sign = "" if following.startswith("号") else "号"
    names = {"*": f"星{sign}", "#": f"井{sign}"} if is_chinese else {"*": "star", "#": "pound"}
    return " ".join(names.get(key, key) for key in keys["keys"]) + keys["end"]


def is_heart(phrase: str, previous: str, following: str) -> bool:
    """Whether "<3" is a heart rather than a comparison."""
    if phrase not in ("<3", "<33", "<333"):
        return False
    following = following.rstrip(".,;:!?")
    is_compared = _COMPARED.fullmatch(previous) or _NUMBER_OR_VERB.fullmatch(following)
    return not is_compared and following not in UNITS


def is_tick_box(phrase: str, previous: str) -> bool:
    """Whether a phrase is the ticked box of a list's item."""
    return phrase in ("[x]", "[X]") and previous in ("-", "*", "+", "•")


def cell_pause(phrase: str, source: str, previous: str, following: str) -> str | None:
    """What the bar between a table's cells, or a dot between two facts, is spoken as; None: it is none."""
    is_dot = phrase in ("·", "•") and (source[0].isspace() or not previous)  # no dot within a name
    if phrase != "|" and not is_dot:
        return None
    is_at_edge = "\n" in source or not following or not previous or previous[-1] in "|·•.!?:,"
    if is_at_edge:
        return ""
    return "." if following.startswith("|") else ","
