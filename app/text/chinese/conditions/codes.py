"""Where codes, telephone numbers, rooms and names with numbers are meant."""

import re

from firstword.app.text.chinese import contexts
from firstword.app.text.chinese.conditions.condition import (
    CODES,
    Match,
    behind,
    is_whole,
    text_ahead,
    text_before,
)
from firstword.app.text.phrases import Phrase

# ruff: noqa: RUF001, RUF002  Chinese punctuation is meant


def is_key(found: Match, phrase: Phrase) -> bool:
    """ "按2转人工", not "按2次"."""
    before = text_before(found, phrase).rstrip()
    return before.endswith("按") and not text_ahead(found, phrase).startswith(tuple(contexts.PRESSED))


def is_area(found: Match, phrase: Phrase) -> bool:
    """The code of an area or a land in brackets that are phrases by themselves: "（010）8888-6666"."""
    return text_before(found, phrase)[-1:] == "（" and phrase.following[:1] == "）"


def is_behind_area(found: Match, phrase: Phrase) -> bool:
    return re.search(r"（(?:0\d{2,3}|\+\d{1,3})）\s?$", text_before(found, phrase)) is not None


def is_farewell(found: Match, phrase: Phrase) -> bool:
    """ "我先走了，88"."""
    before = text_before(found, phrase).rstrip(" ，,。.！!~～")
    is_apart = (
        not text_ahead(found, phrase)[:1].isalnum() and text_before(found, phrase)[-1:] not in before[-1:]
    )
    return is_apart and before.endswith(tuple(contexts.FAREWELLS.split("|")))


def is_before_title(found: Match, phrase: Phrase) -> bool:
    """ "86版《西游记》"."""
    return phrase.following.startswith("《")


def is_port(found: Match, phrase: Phrase) -> bool:
    """ "127.0.0.1:8080" and "ISO9001:2015"."""
    return _is_in_address(found) or re.search(r"(?:ISO|IEC|GB)\S*:$", text_before(found, phrase)) is not None


def is_mask(found: Match, phrase: Phrase) -> bool:
    """ "10.0.0.1/24"."""
    return _is_in_address(found)


def _is_in_address(found: Match) -> bool:
    return re.search(r"\d(?:\.\d{1,3}){3}:?$", found.string[: found.start()]) is not None


def is_registered(found: Match, phrase: Phrase) -> bool:
    """ "沪ICP备12345678号-1"."""
    return re.search(r"备\d+号$", text_before(found, phrase)) is not None


def is_house_and_room(found: Match, phrase: Phrase) -> bool:
    """ "8-302", not "8-302天"."""
    return not text_ahead(found, phrase).lstrip()[:1].isalnum()


def is_cited_year(found: Match, phrase: Phrase) -> bool:
    """ "王某等(2019,第14页)" and "(王某,2019)"."""
    before = text_before(found, phrase)
    return re.search(r"等\s?[(（]$|[(（][^()（）\d]*[,，]\s?$", before) is not None


def is_behind_house(found: Match, phrase: Phrase) -> bool:
    """ "3号楼1205" and "B座1205", "我住1801" and "12号302" where nothing is counted."""
    before = text_before(found, phrase).rstrip(" -")
    if re.search(r"住在?$|\d[层楼]$|(?<![月\d])\d{1,2}号$", before):
        return not text_ahead(found, phrase)[:1].isalnum()
    return re.search("(?:单元|[栋幢]|号楼|[A-Za-z]座)$", before) is not None


def is_extension(found: Match, phrase: Phrase) -> bool:
    before = found.string[: found.start()][-8:] or phrase.before[-8:]
    return before[-1:] == "转" and re.search(r"\d\s?转$", phrase.before[-8:] + before) is not None


def is_standard(found: Match, phrase: Phrase) -> bool:
    """ "ISO 9001" and "GB/T 19001-2016", in one phrase or two."""
    return (
        re.search(r"(?<![\dA-Za-z])(?:ISO|IEC|GB(?:/T)?|[A-Z]{2}/T)\s*$", text_before(found, phrase))
        is not None
    )


def is_plate(found: Match, phrase: Phrase) -> bool:
    before = text_before(found, phrase).rstrip(" .-")
    return re.search(f"[{contexts.PROVINCES}][A-Z]{{1,3}}$", before) is not None


def is_masked(found: Match, phrase: Phrase) -> bool:
    """ "138****8000", whose stars are not said."""
    return f"{found[0]}***" in phrase.source or f"{found[0][:3]}***" in phrase.source


def is_range_of_codes(found: Match, phrase: Phrase) -> bool:
    """ "编号10001-10050", two that begin alike and rise."""
    low, high = found["low"], found["high"]
    if len(low) != len(high) or low >= high:
        return False
    half = (len(low) + 1) // 2
    is_round = low.endswith(("00", "01")) and high.endswith("0")
    return (low[:half] == high[:half] or is_round) and behind(contexts.CODES)(found, phrase)


def is_code_of_length(found: Match, phrase: Phrase) -> bool:
    """ "验证码6位：482913"."""
    before = text_before(found, phrase)
    length = _LENGTH_OF_CODE.search(before[-8:])
    return length is not None and before.removesuffix(length[0]).endswith(CODES)


_LENGTH_OF_CODE = re.compile(r"[\d一-十]{1,2}位(?:数字?)?[是为:：]\s?$")


def is_next_code(found: Match, phrase: Phrase) -> bool:
    """The last of "尾号1234和5678" and "密码是0000或1234"."""
    return _CODE_BEFORE.search(text_before(found, phrase)) is not None


_CODE_BEFORE = re.compile(
    rf"(?:(?:{contexts.CODES})(?:[是为:：]|分别[是为])?\s?\d{{2,}}|码(?:[是为:：]|分别[是为])?\s?\d{{3,}})(?:[、，]\d{{3,}})*[或和与、]\s?$"
)


def is_gate(found: Match, phrase: Phrase) -> bool:
    """ "登机口由208变更为213"."""
    return _GATE_BEFORE.search(text_before(found, phrase)) is not None


_GATE_BEFORE = re.compile(r"登机口(?:[是为由从在:：])?(?:\d+)?(?:变?[更改][为到至])?\s?$")


def is_local_telephone(found: Match, phrase: Phrase) -> bool:
    """ "8888-6666" that is all of a text, and no years."""
    return is_whole(found, phrase) and found[0][:4] > found[0][-4:] and found[0][:2] not in ("19", "20")


def is_floor(found: Match, phrase: Phrase) -> bool:
    """ "12/33层", of a house, no part."""
    return 5 < int(found["pages"]) >= int(found["page"])


def is_of_series(found: Match, phrase: Phrase) -> bool:
    """ "Windows 10/11" and "iPhone 14/15"."""
    return re.search(rf"(?<![A-Za-z])(?:{contexts.SERIES})\s?$", text_before(found, phrase)) is not None


def is_done(found: Match, phrase: Phrase) -> bool:
    """ "收集5颗灵石(2/5)": of so many as are told."""
    return (
        re.search(rf"(?<!\d){found['all']}[\u4e00-\u9fff]{{1,10}}[(（]$", text_before(found, phrase))
        is not None
    )


def is_of_gauge(found: Match, phrase: Phrase) -> bool:
    """ "HP: 350/500"."""
    return re.search(rf"(?:{contexts.GAUGES})\s?[:：]?\s?$", text_before(found, phrase)) is not None


def is_behind_name(found: Match, phrase: Phrase) -> bool:
    """ "Qwen2.5-72B": the size of a model."""
    return re.search(r"[A-Za-z]{3}[ -]?[\d.]+$", text_before(found, phrase)) is not None


def is_model(found: Match, phrase: Phrase) -> bool:
    return text_before(found, phrase).endswith(tuple(contexts.MODELS.split("|")))


def is_in_building(found: Match, phrase: Phrase) -> bool:
    """ "A座-1903" and "3栋-2单元-501", not "1单元-2单元"."""
    part = re.search(r"[A-Za-z\d](?P<kind>座|[栋幢]|单元|号楼)$", text_before(found, phrase))
    return part is not None and re.match(rf"\d+{part['kind']}", text_ahead(found, phrase)) is None


def is_behind_room(found: Match, phrase: Phrase) -> bool:
    """ "教室305" and "会议室1203", not "教室有305"."""
    return re.search(rf"(?:{contexts.ROOMS})\s?[:：]?\s?$", text_before(found, phrase)) is not None


def is_room(found: Match, phrase: Phrase) -> bool:
    """ "305房间", not "有500房间" of a hotel."""
    before = text_before(found, phrase).rstrip()[-1:]
    return not found[0].endswith("00") and (not before or before not in contexts.ROOMS_COUNTING)


def is_exclaimed(found: Match, phrase: Phrase) -> bool:
    """ "666，太强了": all that stands between two marks, or a mark and an end."""
    before, following = text_before(found, phrase)[-2:], text_ahead(found, phrase)[:2]
    marks = f"{before[-1:]}{following[:1]}"
    is_answer = before[-1:] in ("？", "?") or any(char.isdigit() for char in before + following)
    is_between = marks != "" and not marks.strip("，。！？!?~～ \n") and not is_answer
    return is_between or (found[0][0] == "9" and behind(contexts.WORKED)(found, phrase))


def is_laughed(found: Match, phrase: Phrase) -> bool:
    """ "哈哈哈2333" that counts nothing."""
    is_counted = text_ahead(found, phrase).lstrip()[:1].isalnum()
    before = text_before(found, phrase)[-1:]
    is_praised = text_ahead(found, phrase).startswith(contexts.PRAISED) and not before.isalnum()
    return is_praised or (before in tuple(contexts.LAUGHED) and not is_counted)


def is_record(found: Match, phrase: Phrase) -> bool:
    """ "9秒83破纪录", not "每10秒20"."""
    return re.search(r"(?:每|冷却)\d+秒$", text_before(found, phrase)) is None


def is_year_of_entry(found: Match, phrase: Phrase) -> bool:
    """ "08级新生", not "钢琴10级学生"."""
    return not behind(contexts.GRADED)(found, phrase)


def is_quoted_reply(found: Match, phrase: Phrase) -> bool:
    """ "回复“666”领取"."""
    is_told = (
        re.search(
            rf"(?:{contexts.REPLIED}|{contexts.CODES})[是为:：]?\s?[“\"「]$", text_before(found, phrase)
        )
        is not None
    )
    return is_told and text_ahead(found, phrase)[:1] in ("”", '"', "」")
