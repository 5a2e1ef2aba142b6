"""Mandarin by the built-in voice, beside English, through the real server."""

# ruff: noqa: RUF001  Chinese punctuation is meant

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.e2e.server import Server
from tests.support.service_client import client, in_pieces, spoken

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

RATE_HZ = 24_000
TEXT = "今天的天气很好，我们一起去公园散步。"
QUESTION = "请问，去火车站怎么走？"  # short enough to be one segment however it comes
MIXED = "我用 Python 写代码，then I go home，明天见。"
WORDS = [*"我用", "Python", *"写代码", "then", "I", "go", "home", *"明天见"]


def alike(one: NDArray[np.int16], other: NDArray[np.int16]) -> bool:
    return len(one) == len(other) and np.abs(one.astype(int) - other).max() <= 2


def seconds_of_a_character(samples: NDArray[np.int16], text: str) -> float:
    return len(samples) / RATE_HZ / sum(character.isalpha() for character in text)


async def test_chinese_is_spoken_by_its_own_speaker_unless_another_is_named(server: Server) -> None:
    async with client(server) as http:
        can = (await http.get("/v1/capabilities")).json()
        answer = await http.post("/tts", json={"text": TEXT, "format": "pcm", "seed": 7})
    assert (can["languages"], can["default_speakers"]) == (["en", "zh"], {"zh": "lotus"})
    assert "X-Firstword-Warnings" not in answer.headers
    unnamed = np.frombuffer(answer.content, "<i2")
    assert alike(unnamed, await spoken(server, text=TEXT, speaker="lotus"))
    english = await spoken(server, text=TEXT, speaker="wren")
    assert not alike(unnamed, english)
    assert 0.12 < seconds_of_a_character(english, TEXT) < 0.45


@pytest.mark.parametrize("speaker", ["lotus", "bamboo", "crane", "plum"])
async def test_a_speech_is_as_long_as_people_take(server: Server, speaker: str) -> None:
    for text in (TEXT, QUESTION):
        samples = await spoken(server, text=text, speaker=speaker)
        assert 0.12 < seconds_of_a_character(samples, text) < 0.45, text
        assert np.abs(samples).max() > 3000, text
    assert 0.3 < len(await spoken(server, text="你好。", speaker=speaker)) / RATE_HZ < 1.5


async def test_traditional_characters_are_spoken_as_simplified_ones(server: Server) -> None:
    assert alike(
        await spoken(server, text="我去銀行還錢，他們睡著了。"),
        await spoken(server, text="我去银行还钱，他们睡着了。"),
    )


@pytest.mark.parametrize("mode", ["segments", "continuous"])
async def test_text_that_comes_word_by_word_is_as_long_as_whole(server: Server, mode: str) -> None:
    """A long one is cut at other places, and each cut is a pause."""
    for text, may_differ in ((QUESTION, 0.05), (f"{TEXT}{QUESTION}", 0.3)):
        whole = await spoken(server, text=text)
        samples, messages = await in_pieces(server, *text, mode=mode)
        assert messages[-1]["type"] == "done"
        assert len(samples) == pytest.approx(len(whole), rel=may_differ), text


async def test_words_of_both_languages_in_one_sentence_sound_in_their_order(server: Server) -> None:
    body: dict[str, Any] = {"text": MIXED, "seed": 7, "format": "pcm", "stream": False, "timestamps": "word"}
    async with client(server) as http:
        answer = await http.post("/tts", json=body)
    told = json.loads(answer.content)
    words = told["words"]
    assert told["word_times"] == "aligned"
    assert [word["text"] for word in words] == WORDS
    assert [MIXED[word["char_start"] : word["char_end"]] for word in words] == WORDS
    assert all(word["start_ms"] <= word["end_ms"] for word in words)
    assert all(one["end_ms"] <= other["start_ms"] + 1 for one, other in pairwise(words))
    took_ms = {word["text"]: word["end_ms"] - word["start_ms"] for word in words}
    assert took_ms["Python"] > took_ms["用"]


async def test_how_characters_are_read_is_told_and_may_be_said_otherwise(server: Server) -> None:
    async with client(server) as http:
        read = (await http.post("/v1/text", json={"text": "银行行长有3只猫。"})).json()
        names = {"text": "单先生。", "lexicon": {"单先生": "pinyin:shan4 xian1 sheng5"}}
        named = (await http.post("/v1/text", json=names)).json()
        refused = await http.post("/tts", json={"text": "こんにちは、今日はいい天気ですね。"})
    assert read["language"] == "zh"
    assert read["spoken"] == "银[h][áng][h][áng][zh][ǎng]有三[zh][ī]猫。"
    assert named["spoken"] == "[sh][àn][x][iān][sh][eng]。"
    assert refused.status_code == 400
    assert "speaks en, zh only" in refused.json()["error"]["message"]
