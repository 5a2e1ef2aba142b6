"""How requests come: so many at a time, after listening, or out of nowhere."""

import asyncio
import time
from itertools import pairwise

import pytest

from firstword.bench.client import Ask, Outcome
from firstword.bench.data_set import Item
from firstword.bench.load import Load, LoadKind, asks, poisson_times, run_load
from firstword.bench.texts import LANGUAGES, sentences, spoken_in
from tests.bench.outcomes import outcome

pytestmark = pytest.mark.anyio
TEXTS = [Item("one", "One.", seed=0), Item("two", "Two.", seed=1)]


class Server:
    """Speaks at once what lasts `audio_s`; notes how many ask at a time."""

    def __init__(self, audio_s: float = 0.0) -> None:
        self.audio_s = audio_s
        self.num_now = self.num_most = 0
        self.asked_s: list[float] = []

    async def speak(self, ask: Ask) -> Outcome:
        self.num_now += 1
        self.num_most = max(self.num_most, self.num_now)
        self.asked_s.append(now_s := time.perf_counter())
        await asyncio.sleep(0.005)
        self.num_now -= 1
        return outcome(asked_s=now_s, ttfa_s=0.0, audio_s=self.audio_s, total_s=0.005)


async def run(kind: LoadKind, amount: float, seconds: float, server: Server) -> list[Outcome]:
    return await run_load(Load(kind, amount, seconds), asks(TEXTS, "http"), server.speak)


def test_poisson_times_are_those_of_their_seed_and_rate() -> None:
    times = poisson_times(20, 100, seed=1)
    assert times == poisson_times(20, 100, seed=1)
    assert times != poisson_times(20, 100, seed=2)
    assert times == sorted(times)
    assert 0 < times[0] < times[-1] < 100
    assert 1800 < len(times) < 2200  # 2000, four and a half deviations to each side
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert sum(gap > 0.05 for gap in gaps) / len(gaps) == pytest.approx(0.3679, abs=0.04)  # 1 / e


async def test_closed_loop_asks_so_many_at_a_time() -> None:
    server = Server()
    outcomes = await run("closed", 3, 0.1, server)
    assert server.num_most == 3
    assert len(outcomes) >= 6
    assert [one.asked_s for one in outcomes] == sorted(one.asked_s for one in outcomes)


async def test_listener_asks_again_when_it_has_played_what_it_got() -> None:
    server = Server(audio_s=0.1)
    await run("listeners", 1, 0.35, server)
    gaps = [later - earlier for earlier, later in pairwise(server.asked_s)]
    assert gaps
    assert min(gaps) >= 0.099


async def test_poisson_does_not_wait_for_answers() -> None:
    server = Server()
    outcomes = await run("poisson", 400, 0.1, server)
    assert len(outcomes) == len(poisson_times(400, 0.1, seed=0))
    assert server.num_most > 1


def test_same_text_has_the_same_seed_every_time() -> None:
    coming = asks(TEXTS, "ws")
    first = [next(coming) for _ in TEXTS]
    assert [next(coming) for _ in TEXTS] == first
    assert len({ask.seed for ask in first}) == len(TEXTS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_there_are_a_hundred_sentences_from_short_to_long(language: str) -> None:
    texts = sentences(language)
    lengths = [len(text) for text in texts]
    assert len(set(texts)) == 100
    assert lengths == sorted(lengths)
    assert lengths[0] <= 4
    assert lengths[-1] >= 60


def test_texts_are_of_the_languages_that_the_server_speaks() -> None:
    assert {language for language, _ in spoken_in(("en",))} == {"en"}
    both = spoken_in(("zh", "en", "ja"))
    assert len(both) == 200
    assert [language for language, _ in both[:4]] == ["en", "zh", "en", "zh"]
    assert max(len(text) for _, text in both[:20]) > 3 * min(len(text) for _, text in both[:20])
    with pytest.raises(ValueError, match="no sentences for ja"):
        spoken_in(("ja",))
