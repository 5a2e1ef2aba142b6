# ruff: noqa: RUF001  Chinese punctuation is meant
"""What the CosyVoice checkpoints expect of a segment, beyond being readable."""

import re
from dataclasses import dataclass

from app.text.chinese import CHINESE
from app.text.language import primary_language

_CLOSING = "\"'”’」』）》】)]"
_DROPPED = re.compile("[（）【】`]")
_LAST_COMMAS = re.compile("[，,、]+$")
_STOPPED = re.compile(rf"[.?!…。？！][{re.escape(_CLOSING)}\s]*$")
_LOOSE_END = re.compile(r"[\s,;:—–-]+$")
_CHINESE_STOP = re.compile(r"(?<=[\u4e00-\u9fff])\.(?!\w)")


@dataclass(frozen=True, slots=True)
class FamilyRules:
    """adds_final_stop: after a last word. plain_chinese_marks: the published replacements. stops_cuts: a
    segment ends in a stop wherever its sentence was cut, for a language model that has read no other end.
    """

    adds_final_stop: bool = True
    plain_chinese_marks: bool = True
    stops_cuts: bool = False

    def apply(self, spoken: str, language: str, is_whole: bool) -> str:
        """spoken: with a word in it. is_whole: a sentence that was not cut in the middle."""
        is_chinese = primary_language(language) in CHINESE
        if is_chinese and self.plain_chinese_marks:
            spoken = _DROPPED.sub("", spoken).replace("——", " ")
            spoken = _CHINESE_STOP.sub("。", spoken)
            spoken = _LAST_COMMAS.sub("。", spoken) if is_whole else spoken
        if is_whole and self.adds_final_stop and _ends_in_word(spoken):
            spoken += "。" if is_chinese or language == "ja" else "."
        return spoken

    def ended(self, spoken: str) -> str:
        """spoken: of a whole segment, in a language with Latin marks."""
        if not self.stops_cuts or _STOPPED.search(spoken):
            return spoken
        return _LOOSE_END.sub("", spoken) + "."


def _ends_in_word(spoken: str) -> bool:
    return spoken.rstrip(_CLOSING)[-1:].isalnum()
