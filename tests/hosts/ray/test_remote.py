"""A server whose engines are in other processes: what passes between them, and what a death does."""

import asyncio
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firstword.app.clients import ANYBODY
from firstword.app.core.interface import Audio, EngineStatus, Flushed, NetworksState, SpeechPrompt
from firstword.app.core.request import Delivery, SynthesisRequest, VoiceChoice
from firstword.app.errors import (
    Draining,
    InvalidRequest,
    Overloaded,
    Restarting,
    SpeakerNotFound,
    TextTooLong,
)
from firstword.app.hosts.ray.messages import Description, EngineGone
from firstword.app.hosts.ray.remote import SILENT_ROUNDS, STUCK_ROUNDS, RemoteEngine, ask
from firstword.app.hosts.ray.remote_parts import RemoteStages
from firstword.app.options import Sampling
from firstword.app.speakers.interface import SentRecording
from firstword.app.text.marks import Reading
from tests.hosts.ray.local_link import LocalLink, copied, linked
from tests.support.fake_engine import FakeEngine, speech
from tests.support.fake_speakers import FakeSpeakers
from tests.support.toy_engine import ToyEngine, asked, asked_in_pieces, heard, samples_of

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def remote(*engines: FakeEngine) -> AsyncIterator[tuple[RemoteEngine, LocalLink]]:
    async with linked(*engines) as link:
        yield RemoteEngine(link, FakeSpeakers(), await link.describe()), link


def num_files() -> int:
    """Those that this process has open, where the system tells."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def test_a_request_passes_whole_to_another_process() -> None:
    request = SynthesisRequest(
        "one",
        "http",
        text="Some text.",
        pauses=frozenset({3}),
        voice=VoiceChoice("anna", mode="instruct", instruct="softly", language="en"),
        reading=Reading(lexicon={"GIF": "jif"}),
        sampling=Sampling(),
        seed=3,
        delivery=Delivery(wants_words=True),
        client=ANYBODY,
    )
    assert copied(request) == request
    recorded = replace(request, voice=VoiceChoice(reference=SentRecording(b"a sound", "Words.")))
    assert copied(recorded).voice.reference.content == b"a sound"


@pytest.mark.parametrize(
    "error",
    [
        Overloaded("full", 3),
        InvalidRequest("no", "text"),
        TextTooLong("long", "text"),
        SpeakerNotFound("who"),
    ],
)
def test_an_error_passes_with_all_that_it_says(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)


async def test_a_stream_sounds_as_in_the_engines_own_process_and_counts_the_same() -> None:
    async with ToyEngine() as toy, linked(toy.engine) as link:
        engine = RemoteEngine(link, FakeSpeakers(), await link.describe())
        request = asked("Some text. And more.", seed=1)
        async with toy.engine.open(request) as here, engine.open(request) as there:
            ours, theirs = await heard(here), await heard(there)
        assert samples_of(ours).tolist() == samples_of(theirs).tolist()
        counts = ("characters", "speech_tokens", "audio_samples", "word_times", "warnings", "networks_s")
        assert [getattr(here.stats, name) for name in counts] == [
            getattr(there.stats, name) for name in counts
        ]
        for num_samples in range(0, len(samples_of(ours)), 250):
            assert there.spoken_text(num_samples) == here.spoken_text(num_samples)


async def test_text_that_is_pushed_into_a_running_stream_reaches_its_engine_in_order() -> None:
    own = FakeEngine()
    async with remote(FakeEngine(), own) as (engine, _):
        stream = engine.open(asked_in_pieces("continuous", speaker="hum"))
        stream.push_text("be")
        async with stream:
            stream.push_text("fore")
            stream.flush()
            events = stream.__aiter__()
            first = [await anext(events) for _ in range(7)]
            stream.push_text(" and after")
            stream.finish_text()
            rest = [event async for event in events]
        assert isinstance(first[-1], Flushed)
        assert samples_of([*first, *rest]).tolist() == speech("before and after").tolist()
        assert own.streams[0].text == "before and after"  # of the engine that the name leads to


async def test_an_engine_that_dies_ends_its_streams_and_the_next_text_is_spoken_elsewhere() -> None:
    one, other = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=2), FakeEngine()
    async with remote(one, other) as (engine, link):
        async with engine.open(asked("Some text.", speaker="anna")) as stream:
            events = stream.__aiter__()
            await anext(events)
            link.dead[0].set()
            with pytest.raises(Restarting):
                [event async for event in events]
        async with engine.open(asked("Again.", speaker="anna")) as stream:
            assert samples_of(await heard(stream)).tolist() == speech("Again.").tolist()
        assert len(other.streams) == 1
        assert link.num_open == 0


async def test_two_hundred_deaths_leave_no_stream_task_or_connection() -> None:
    own = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    async with remote(own) as (engine, link):

        async def killed_one() -> None:
            async with engine.open(asked("Some text.")) as stream:
                events = stream.__aiter__()
                await anext(events)
                link.dead[0].set()
                with pytest.raises(Restarting):
                    await anext(events)
            link.dead[0].clear()

        async def settled() -> tuple[int, int]:
            """Connections are closed by the loop in its own time."""
            counts, last = [], (0, 0)
            while counts[-20:] != [last] * 20:
                await asyncio.sleep(0.01)
                last = len(asyncio.all_tasks()), num_files()
                counts.append(last)
            return last

        await killed_one()
        before = await settled()
        for _ in range(200):
            await killed_one()
        after = await settled()
        assert (link.num_open, own.open_streams, engine._streams) == (0, [], set())
        assert link.sides[0].num_streams == 0
        assert after == before


async def test_a_stream_goes_to_the_next_engine_while_its_own_has_no_room() -> None:
    class FullEngine(FakeEngine):
        async def wait_for_free_slot(self) -> None:
            await asyncio.Event().wait()

    full, other = FullEngine(), FakeEngine()
    async with remote(full, other) as (engine, _):
        async with engine.open(asked("Hi.", speaker="anna")) as stream:
            await heard(stream)
        assert (len(full.streams), len(other.streams)) == (0, 1)
    async with remote(full) as (engine, _):  # the only one: it waits there
        async with engine.open(asked("Hi.", speaker="anna")) as stream:
            await heard(stream)
        assert len(full.streams) == 1


async def test_a_stream_that_is_cancelled_or_left_is_freed_at_its_engine() -> None:
    own = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    async with remote(own) as (engine, link):
        for reason in ("client_cancel", None):
            async with engine.open(asked("Some text.")) as stream:
                await anext(stream.__aiter__())
                if reason is not None:
                    stream.cancel(reason)
                    assert await heard(stream) == []
            async with asyncio.timeout(5):
                await own.streams[-1].closed.wait()
        assert own.open_streams == []
        assert link.num_open == 0
        assert not engine._streams


async def test_a_request_that_no_engine_answers_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstword.app.hosts.ray.deadline.TICK_S", 0.001)
    monkeypatch.setattr("firstword.app.hosts.ray.remote.OPENS_WITHIN_S", 0.01)
    async with remote(FakeEngine()) as (engine, link):

        async def speak(*given: object):
            await asyncio.Event().wait()
            yield []

        link.sides[0].speak = speak
        with pytest.raises(Restarting):
            async with engine.open(asked("Hi.")):
                pass


async def test_a_call_that_no_engine_takes_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with remote(FakeEngine()) as (engine, link):
        own = link.sides[0].ask

        async def taken_late(*given: object):
            await has_room.wait()
            async for news in own(*given):
                yield news

        link.sides[0].ask = taken_late
        has_room = asyncio.Event()
        with monkeypatch.context() as soon:
            soon.setattr("firstword.app.hosts.ray.deadline.TICK_S", 0.001)
            soon.setattr("firstword.app.hosts.ray.remote.OPENS_WITHIN_S", 0.01)
            with pytest.raises(Restarting):
                await engine.read_text(asked("Hi."))
        has_room.set()
        assert (await engine.read_text(asked("Hi."))).parts[0].spoken == "Hi."
        assert link.num_open == 0


async def test_an_engine_far_ahead_of_its_listener_waits() -> None:
    own = FakeEngine(samples_per_character=12_000)  # half a second
    async with remote(own) as (engine, _), engine.open(asked("x" * 12)) as stream:
        for _ in range(100):
            await asyncio.sleep(0)
        assert own.streams[0].num_chunks <= 6
        assert len(await heard(stream)) == 12


@pytest.mark.parametrize("state", ["loaded", "loading", "unloaded"])
async def test_it_tells_whether_the_networks_are_loaded(state: NetworksState) -> None:
    async with remote(FakeEngine(status=EngineStatus(True, networks=state))) as (engine, _):
        assert (engine.status.is_ready, engine.status.networks) == (True, state)


async def test_errors_status_and_draining_are_those_of_the_engines() -> None:
    refusing = FakeEngine(refusal=Overloaded("full", 7), status=EngineStatus(False, "warming up"))
    async with remote(refusing) as (engine, _):
        assert (engine.status, engine.max_streams) == (EngineStatus(False, "warming up"), 8)
        with pytest.raises(Overloaded, match="full"):
            async with engine.open(asked("Hi.")):
                pass
        with pytest.raises(SpeakerNotFound):
            engine.open(asked("Hi.", speaker="nobody"))
        await engine.drain(0)
        with pytest.raises(Draining):
            async with engine.open(asked("Hi.")):
                pass


async def known_of(
    engine: RemoteEngine, link: LocalLink, rounds: Sequence[Sequence[Description]]
) -> list[list[str]]:
    """The engines that are known behind each round, of which each says who answers; empty: the link fails."""
    known = []
    left = iter(rounds)

    async def describe() -> Sequence[Description]:
        known.append(sorted(one.replica for one in engine.known))
        answer = next(left, None)
        if answer is None:
            watching.cancel()
            await asyncio.Event().wait()
        if not answer:
            raise EngineGone("no engine answers")
        return answer

    link.describe = describe
    watching = asyncio.create_task(engine.watch())
    await asyncio.wait([watching])
    return known[1:]


async def test_an_engine_is_known_until_it_has_missed_several_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstword.app.hosts.ray.remote.DESCRIBED_EVERY_S", 0)
    async with remote(FakeEngine(), FakeEngine()) as (engine, link):
        both = await link.describe()
        one, other = both
        names = [described.replica for described in both]
        assert await known_of(engine, link, [[one], both, [other]]) == [names] * 3
        assert engine.max_streams == 16
        turns = [[one], [other]] * SILENT_ROUNDS
        assert await known_of(engine, link, turns) == [names] * len(turns)
        lost = [names] * (SILENT_ROUNDS - 1) + [names[:1]]
        assert await known_of(engine, link, [both] + [[one]] * SILENT_ROUNDS) == [names, *lost]
        assert engine.max_streams == 8
        assert await known_of(engine, link, [both]) == [names]
        silent = [names] * (SILENT_ROUNDS - 1) + [[]]
        assert await known_of(engine, link, [[]] * SILENT_ROUNDS) == silent
        assert engine.status == EngineStatus(False, "no engine answers")
        assert await known_of(engine, link, [[other]]) == [names[1:]]


async def test_engines_are_asked_again_where_asking_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("firstword.app.hosts.ray.remote.DESCRIBED_EVERY_S", 0)
    async with remote(FakeEngine()) as (engine, link):
        has_asked_again = asyncio.Event()
        answers = iter([RuntimeError("of Ray's own")])

        async def describe() -> Sequence[Description]:
            for failure in answers:
                raise failure
            has_asked_again.set()
            return []

        link.describe = describe
        watching = asyncio.create_task(engine.watch())
        async with asyncio.timeout(5):
            await has_asked_again.wait()
        watching.cancel()
        assert "of Ray's own" in caplog.text


async def test_a_stream_ends_once_its_engine_says_nothing_in_any_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstword.app.hosts.ray.remote.DESCRIBED_EVERY_S", 0)
    own, other = (FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1) for _ in range(2))
    async with remote(own, other) as (engine, link):
        one, two = await link.describe()
        async with (
            engine.open(asked_in_pieces("continuous", speaker="anna")) as stream,
            engine.open(asked("ab", speaker="hum")) as fine,
        ):
            stream.push_text("ab")
            events = stream.__aiter__()
            assert isinstance(await anext(events), Audio)
            link.silent = link.late = ("replica-2",)  # another; the engine of `anna` ends, and is not asked
            await known_of(engine, link, [[two]] * STUCK_ROUNDS)
            link.silent = link.late = (one.replica,)
            await known_of(engine, link, [[two]] * (STUCK_ROUNDS - 1))
            link.silent = link.late = ()
            await known_of(engine, link, [[one, two]])
            link.silent = link.late = (one.replica,)
            await known_of(engine, link, [[two]] * (STUCK_ROUNDS - 1))
            link.late = ()  # Ray cannot ask it
            await known_of(engine, link, [[two]] * STUCK_ROUNDS)
            link.late = (one.replica,)
            await known_of(engine, link, [[]] * STUCK_ROUNDS)  # of none that Ray does not tell of
            own.pause.set()  # something comes
            assert isinstance(await anext(events), Audio)
            await known_of(engine, link, [[two]] * (STUCK_ROUNDS - 1))
            assert not stream._has_ended
            await known_of(engine, link, [[two]])
            with pytest.raises(Restarting):
                [event async for event in events]
            other.pause.set()
            assert len(await heard(fine)) == 2
        assert link.num_open == 0


async def test_a_stream_that_waits_for_its_slot_at_a_silent_engine_is_spoken_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("firstword.app.hosts.ray.remote.DESCRIBED_EVERY_S", 0)
    own, other = FakeEngine(), FakeEngine()

    async def for_good() -> None:
        await asyncio.Event().wait()

    own.admit = own.wait_for_free_slot = other.wait_for_free_slot = for_good  # both are full
    async with remote(own, other) as (engine, link):
        one, two = await link.describe()
        stream = engine.open(asked_in_pieces("continuous", speaker="anna"))
        stream.push_text("be")

        async def spoken() -> list[float]:
            async with stream:
                return samples_of(await heard(stream)).tolist()

        speaking = asyncio.create_task(spoken())
        while not stream.replica:  # noqa: ASYNC110  it has no event for it
            await asyncio.sleep(0)
        stream.push_text("fore")
        stream.finish_text()
        link.silent = link.late = (one.replica,)
        await known_of(engine, link, [[two]] * STUCK_ROUNDS)
        async with asyncio.timeout(5):
            assert await speaking == speech("before").tolist()
        assert len(other.streams) == 1
        assert link.num_open == 0


async def test_what_an_engine_has_taken_and_does_not_answer_ends_with_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("firstword.app.hosts.ray.deadline.TICK_S", 0.001)
    for name in ("remote", "remote_parts"):
        monkeypatch.setattr(f"firstword.app.hosts.ray.{name}.ANSWERS_WITHIN_S", 0.05)
    own = FakeEngine()

    async def for_good(*given: object) -> None:
        await asyncio.Event().wait()

    own.admit = own.read_text = for_good
    async with remote(own) as (engine, link):
        stages = RemoteStages(link, (await link.describe())[0].stages)
        session = await stages.open_tokens(None, None, ANYBODY)
        link.sides[0]._parts.stages.pause = asyncio.Event()
        for call in (engine.read_text(asked("Hi.")), session.step([1], True, 0.0)):
            with pytest.raises(Restarting, match="ask again"):
                await call
        with pytest.raises(Restarting, match="ask again"):
            [one async for one in engine.list_tokens(asked("Hi."))]
        link.sides[0]._parts.stages.open_tokens = for_good
        with pytest.raises(Restarting, match="ask again"):
            await stages.open_tokens(None, None, ANYBODY)
        session.close()
        await session._closing
        assert link.num_open == 0


async def test_what_becomes_long_sound_has_longer_for_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstword.app.hosts.ray.deadline.TICK_S", 0.001)
    for name in ("remote", "remote_parts"):
        monkeypatch.setattr(f"firstword.app.hosts.ray.{name}.ANSWERS_WITHIN_S", 0.0)
    async with remote(FakeEngine()) as (_, link):
        stages = RemoteStages(link, (await link.describe())[0].stages)
        own = link.sides[0]._parts.stages
        vocoded, may_end = own.vocode, asyncio.Event()

        async def vocode(*given: Any) -> Any:
            await may_end.wait()
            return await vocoded(*given)

        own.vocode = vocode
        with pytest.raises(Restarting):
            await stages.vocode(np.zeros((80, 0), np.float32), True, 0.0)
        asyncio.get_running_loop().call_later(0.3, may_end.set)
        assert len(await stages.vocode(np.zeros((80, 45_000), np.float32), True, 0.0)) == 480 * 45_000
        monkeypatch.setattr("firstword.app.hosts.ray.remote_parts.ANSWERS_WITHIN_S", 5.0)
        session = await stages.open_tokens(None, None, ANYBODY)
        monkeypatch.setattr("firstword.app.hosts.ray.remote_parts.ANSWERS_WITHIN_S", 0.0)
        own.pause = asyncio.Event()
        asyncio.get_running_loop().call_later(0.3, own.pause.set)
        assert len(await session.step([1] * 22_500, True, 0.0)) == 960 * 22_500
        session.close()
        await session._closing


async def test_tokens_that_no_engine_begins_to_list_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstword.app.hosts.ray.deadline.TICK_S", 0.001)
    monkeypatch.setattr("firstword.app.hosts.ray.remote.OPENS_WITHIN_S", 0.01)
    async with remote(FakeEngine()) as (engine, link):

        async def list_tokens(*given: object):
            await asyncio.Event().wait()
            yield []

        link.sides[0].list_tokens = list_tokens
        with pytest.raises(Restarting, match="ask again"):
            [one async for one in engine.list_tokens(asked("Hi."))]
        assert link.num_open == 0


async def test_tokens_texts_and_stages_are_asked_of_an_engine() -> None:
    async with remote(FakeEngine()) as (engine, link):
        listed = [one.ids async for one in engine.list_tokens(asked("Hi"))]
        assert listed == [(ord("H"),), (ord("i"),)]
        assert (await engine.read_text(asked("Hi"))).parts[0].spoken == "Hi"
        with pytest.raises(SpeakerNotFound):
            await ask(link, "", "speakers", "export", "nobody", client=ANYBODY)
        stages = RemoteStages(link, (await link.describe())[0].stages)
        prompt = SpeechPrompt(np.zeros(2, np.int64), np.zeros((4, 80), np.float32), np.zeros(192, np.float32))
        session = await stages.open_tokens(prompt, None, ANYBODY)
        assert len(await session.step([1, 2, 3, 4], True, 0.0)) > 0
        session.close()
        await session._closing
        assert link.sides[0]._parts.stages.open_sessions == []


def test_a_server_in_front_of_engines_needs_no_torch() -> None:
    modules = ("app.hosts.ray.remote", "app.hosts.ray.remote_parts", "app.service", "app.http.app")
    program = (
        "import sys; sys.modules['torch'] = None\n"
        + "\n".join(f"import firstword.{name}" for name in modules)
        + "\nfrom firstword.app.settings import load_settings"
        + "\nfirstword.app.service.surfaces_of(load_settings(grpc_port=0))"
        + "\nassert not [name for name in sys.modules if name.startswith('firstword.models')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
