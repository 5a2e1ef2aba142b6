# ruff: noqa: RUF001  Chinese punctuation is meant
"""How Chinese is read, and that other languages are left alone."""

import pytest

from firstword.app.text.normalize import Normalizer, unread_numbers

CHINESE = [
    ("我有3个苹果", "我有三个苹果"),
    ("1234567", "一百二十三万四千五百六十七"),
    ("第3名，1/2杯", "第三名，二分之一杯"),
    ("3-5天，30～40人", "三到五天，三十到四十人"),
    ("今天是2024年6月5日。", "今天是二零二四年六月五日。"),
    ("2024-06-05", "二零二四年六月五日"),
    ("我花了5.20元", "我花了五点二零元"),
    ("$5.20和€3，¥500", "五点二零美元和三欧元，五百元"),
    ("下午7:30出发", "下午七点三十分出发"),
    ("比分3:1", "比分三比一"),
    ("5km，2.5kg，25°C，10%的人", "五公里，二点五千克，二十五摄氏度，百分之十的人"),
    ("5平方米和m²", "五平方米和平方米"),
    ("打电话13812345678", "打电话幺三八幺二三四五六七八"),
    ("010-12345678", "零幺零幺二三四五六七八"),
    ("邮箱a@b.com", "邮箱a艾特b点com"),
    ("iPhone 15 很好", "iPhone十五很好"),
    ("GPT-4很好", "GPT四很好"),
    ("Hello world 你好", "Hello world你好"),
    ("**你好**😀`世界`", "你好世界"),
    ("《三体》“你好”，几点了？", "《三体》“你好”，几点了？"),
    ("1" * 20, "一" * 20),
]
OTHERS = [
    ("pt", "São 5 km, não é?"),
    ("uk", "Привіт, світ: 5 км!"),
    ("ar", "مرحبا بالعالم، كيف حالك؟ ١٢٣"),
    ("he", "שלום עולם, 5 ק״מ"),
    ("fa", "می‌روم به خانه"),
    ("hi", "नमस्ते दुनिया, क्‍या हाल है?"),
    ("th", "สวัสดีชาวโลก"),
]


@pytest.mark.parametrize(("text", "spoken"), CHINESE)
def test_chinese_is_read(text: str, spoken: str, normalizer: Normalizer) -> None:
    assert normalizer(text, "zh") == spoken


def test_numbers_that_are_left_as_they_are_are_told() -> None:
    assert "Portuguese were not written out" in unread_numbers("São 5 km", "pt-BR")
    assert unread_numbers("fünf Kilometer", "de") == ""


@pytest.mark.parametrize(("language", "text"), OTHERS)
def test_other_languages_are_left_alone(language: str, text: str, normalizer: Normalizer) -> None:
    assert normalizer(text, language) == text
    assert normalizer(f"**{text}** 😀", language) == text
