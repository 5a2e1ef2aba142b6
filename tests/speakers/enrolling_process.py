"""What a process does that registers one speaker after the other, to be killed."""

import asyncio
from multiprocessing.connection import Connection
from pathlib import Path

from firstword.app.speakers.registry import SpeakerRegistry
from firstword.app.speakers.store import SpeakerStore
from tests.speakers.fakes import FakeNetworks
from tests.speakers.recordings import recording

DURATION_S = 3.0  # 144 kB: many pages, so that there is a middle to be killed in


def enroll_forever(path: Path, first: int, said: "Connection[str, str]") -> None:
    """said: gets a name once its registration has returned."""
    asyncio.run(_enroll_forever(path, first, said))


async def _enroll_forever(path: Path, first: int, said: "Connection[str, str]") -> None:
    upload = recording(DURATION_S)
    store = await asyncio.to_thread(SpeakerStore, path)
    async with SpeakerRegistry(store, FakeNetworks(), max_cache_bytes=1000) as registry:  # type: ignore[arg-type]
        number = first
        while True:
            await registry.enrol(f"s{number}", upload, f"Number {number}.")
            said.send(f"s{number}")
            number += 1
