"""A server process that registers one speaker after the other, to be killed: `-m` with the store's path.

It says a name on its standard output once the registration has returned.
"""

import asyncio
import sys
from pathlib import Path

from firstword.app.speakers.registry import SpeakerRegistry
from firstword.app.speakers.store import SpeakerStore
from tests.app.speakers.fakes import FakeNetworks
from tests.app.speakers.recordings import recording

DURATION_S = 3.0  # 144 kB: many pages, so that there is a middle to be killed in


async def enrol_for_ever(path: Path, first: int) -> None:
    upload = recording(DURATION_S)
    store = await asyncio.to_thread(SpeakerStore, path)
    async with SpeakerRegistry(store, FakeNetworks(), max_cache_bytes=1000) as registry:  # type: ignore[arg-type]
        number = first
        while True:
            await registry.enrol(f"s{number}", upload, f"Number {number}.")
            sys.stdout.write(f"s{number}\n")
            sys.stdout.flush()
            number += 1


if __name__ == "__main__":
    asyncio.run(enrol_for_ever(Path(sys.argv[1]), int(sys.argv[2])))
