"""What the instruments are given in words."""

import pytest

from firstword.bench.arguments import BadArgument, amount, count, counts, protocols, rates


def test_what_is_right_is_read() -> None:
    assert count("3") == 3
    assert counts("1, 2,4") == (1, 2, 4)
    assert counts("") == rates("") == ()
    assert amount("0.5") == 0.5
    assert rates("auto") is None
    assert rates("0.5, 2") == (0.5, 2.0)
    assert protocols("ws,http") == ("http", "ws")
    assert protocols("kserve-grpc, grpc") == ("grpc", "kserve-grpc")


@pytest.mark.parametrize("word", ["0", "-1", "1.5", "x", ""])
def test_what_is_no_count_is_refused(word: str) -> None:
    with pytest.raises(BadArgument, match="expected a count from 1 on"):
        count(word)


@pytest.mark.parametrize("word", ["0", "-1", "nan", "inf", "much", ""])
def test_what_is_no_amount_is_refused(word: str) -> None:
    with pytest.raises(BadArgument, match="expected a number over 0"):
        amount(word)


def test_what_is_no_protocol_is_refused() -> None:
    with pytest.raises(BadArgument, match="'smtp' is no protocol"):
        protocols("http,smtp")
