"""What a client may call a speaker and say about it."""

import re
import unicodedata

from app.engine.interface import InvalidRequest

MAX_TRANSCRIPT_CHARS = 1000  # of 30 s: a fast reader of English comes to 750
MAX_LANGUAGE_CHARS = 35

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*", re.ASCII)  # BCP 47, its usual part


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def checked_name(name: str) -> str:
    if not is_name(name):
        raise InvalidRequest(
            f"name {_shown(name)}; expected 1 to 64 of the characters A-Z a-z 0-9 _ and -", param="name"
        )
    return name


def checked_transcript(transcript: str) -> str:
    """Without the blanks at its ends and with every run of blanks and line breaks as one blank."""
    text = " ".join(transcript.split())
    if len(text) > MAX_TRANSCRIPT_CHARS:
        raise InvalidRequest(
            f"a transcript of {len(text)} characters; expected {MAX_TRANSCRIPT_CHARS} at most, what is said "
            "in the recording",
            param="transcript",
        )
    foreign = next((c for c in text if unicodedata.category(c) in ("Cc", "Cs")), None)
    if foreign is not None:
        raise InvalidRequest(
            f"the transcript holds the character {foreign!a}; expected readable text", param="transcript"
        )
    return text


def checked_language(language: str | None) -> str | None:
    """None and an empty one are none."""
    if not language:
        return None
    if len(language) > MAX_LANGUAGE_CHARS or not _LANGUAGE.fullmatch(language):
        raise InvalidRequest(
            f"language {_shown(language)}; expected a tag such as en, zh or pt-BR", param="language"
        )
    return language


def _shown(text: str) -> str:
    """In ASCII and short, so that any error body can carry it."""
    return ascii(text) if len(text) <= 80 else f"{text[:80]!a} and more"
