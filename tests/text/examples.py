# ruff: noqa: RUF001  Chinese punctuation is meant
"""Texts with everything that is read in an unusual way, and texts that no one should send."""

import random

SENTENCES = {
    "en": [
        "It costs $5.20, not $5 million, since June 5, 2024. Dr. Smith said so at 7:30 p.m. in St. Paul.",
        "Call +1 (555) 123-4567 or mail joe.bloggs@example.co.uk, e.g. today; see https://example.com/a?b=1.",
        "10-20 km at 72°F on the 4th of July... Did he? “Yes!” she said. No. 5 is on Main St. Now go.",
        "Mr. J. R. Brown — 3 1/2 years in the 1990s — paid 5 USD, i.e. 3.5% of US$ 1,000.50, in May 2001",
        "**Bold**, `code` and _more_ 😀 text:\n\n# Title\n- one\n- two 🎉🎉 ... !!\n\nThe end  ",
        "No. That was in May. I know 192.168.0.1, v2.0 and COVID-19 - or 19:05 - 20:15 and 2 + 2 = 4",
        "I love 北京 and 3个苹果。 It is 5 km away.",
    ],
    "zh": [
        "今天是2024年6月5日，下午7:30出发。我花了5.20元！“好的。”他说。",
        "我有3个apple和2.5kg的rice，打电话13812345678，邮箱a@b.com。",
        "iPhone 15 很好用，10%的人在3-5天内买了它……气温25°C，30～40平方米。",
        "Hello world 你好！ 这是 GPT-4 的 2 个例子 — 好吗?\n\n**标题**\n- 一 😀\n- 二",
    ],
    "de": ["Das sind 5 km, z. B. am 3.10. um 7:30 Uhr. Schön *war* es!"],
}
HOSTILE = [
    "1",
    "$",
    "(",
    "[",
    "[](",
    "1,",
    "1.",
    "1-",
    "1:",
    "1/",
    "*",
    "_",
    "#",
    ".",
    " ",
    "\n",
    "a",
    "a@",
    "a.",
    "a-",
    "http://",
    "www.",
    "你",
    "1年",
    "$5 ",
    "June 5 ",
    "😀",
    "\ud800",
    "\x00",
    "a, ",
    "1 ",
    "7:30 p.m. ",
    "+1 ",
    "- ",
    "٣",
    "½",
    "²",
    "①",
    "’",
    "-",
    "0x",
    "v1.",
    "e.g. ",
    "。",
    "\u200b",
    "</a",
    "[a]",
    "<|",
    "1e",
    "(555) ",
    "72F/",
    ".[1]",
    "Na2",
    "12/25 at ",
    "· ",
    "满9-",
    "第138****",
    "́",
]
ALPHABET = "aB 5$.,:;!?-/()[]\"'\n%€é你好。，“”年月😀\ud800\x00٣*_#@+½²Ⅳ"
CHINESE_PIECES = (
    *"0123456789年月日号点分秒元块第零个人次度处局周万亿负转按拨至到数满",
    *"-–—~～/／.:：,，、+*×÷=^%‰℃°′″'\"()（）$¥€²³⁴⁻₂½Ⅳ①· ",
    *("138****", "1/3", "12-08", "2024", "10001", "km", "kg", "PM", "XII", "BC", "60W", "k", "Q3", "ISO "),
    *("电话", "密码", "验证码6位：", "公元前", "今年", "价格", "比分", "血压", "元/(人·天)", "……"),
)
"""What the rules of Chinese look for."""


def random_texts(count: int, length: int = 60) -> list[str]:
    chooser = random.Random(0)
    return ["".join(chooser.choices(ALPHABET, k=chooser.randrange(length))) for _ in range(count)]


def chinese_texts(count: int, num_pieces: int) -> list[str]:
    chooser = random.Random(1)
    return ["".join(chooser.choices(CHINESE_PIECES, k=num_pieces)) for _ in range(count)]


def random_cuts(text: str, seed: int) -> list[str]:
    chooser = random.Random(seed)
    places = sorted(chooser.choices(range(len(text) + 1), k=chooser.randrange(1, 12)))
    return [text[start:stop] for start, stop in zip([0, *places], [*places, len(text)], strict=True)]


def codes(text: str) -> list[int]:
    """Stands for a tokenizer: a token for each character."""
    return [ord(character) for character in text]
