"""A disk that takes no more of any file: what was kept is there, and all goes on once there is room."""

import asyncio
import resource
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from firstword.app.surfaces.batches import runner
from firstword.app.surfaces.batches.options import BatchOptions
from firstword.app.surfaces.batches.surface import BatchSurface
from tests.speakers.recordings import recording
from tests.speakers.servers import Servers
from tests.support.serving import error_of, in_process, make_services, make_surfaces

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60), pytest.mark.chaos]

ROOM_BYTES = 256 * 1024  # of each file: less than a long recording, a book, or its audio
SENTENCE = "A sentence of a long book. "


@contextmanager
def full_disk() -> Iterator[None]:
    """Writes behind the first kilobytes of any file of this process fail, as root's too; no file is lost."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_speakers_and_batches_outlive_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "RETRY_AFTER_S", 0.1)
    async with AsyncExitStack() as stack:
        registry = await Servers(tmp_path / "speakers.sqlite", stack).open()
        services = make_services(speakers=registry)  # type: ignore[arg-type]
        batches = BatchSurface(BatchOptions(disk_mb=64), tmp_path / "batches")
        surfaces = [batches if isinstance(one, BatchSurface) else one for one in make_surfaces()]
        await stack.enter_async_context(batches.running(services))
        client = await stack.enter_async_context(in_process(services, surfaces=surfaces))

        async def enrol(name: str) -> Any:
            return await client.post("/speakers", data={"name": name}, files={"audio": recording(8.0)})

        async def order(num_items: int, num_sentences: int) -> Any:
            items = [{"text": SENTENCE * num_sentences, "format": "pcm_f32"}] * num_items
            return await client.post("/v1/audio/batches", json={"items": items})

        await registry.enrol("mia", recording())
        with full_disk():
            refused = [await enrol("eva"), await order(9, 3000)]
            waiting = (await order(1, 12)).json()
            await asyncio.sleep(0.3)  # it is tried again and again
            batch = (await client.get(f"/v1/audio/batches/{waiting['id']}")).json()
            assert batch["failed"] == batch["done"] == 0
            assert (await client.get("/speakers/mia")).status_code == 200
            assert (await client.post("/tts", json={"text": "Hi."})).status_code == 200
        for answer in refused:
            assert answer.status_code in (503, 507), answer.text
            assert error_of(answer)["code"] in ("store_full", "store_unavailable")
        assert [(await enrol("eva")).status_code, (await order(1, 1)).status_code] == [201, 201]
        path = f"/v1/audio/batches/{waiting['id']}"
        while not (await client.get(path)).json()["done"]:  # noqa: ASYNC110  of the disk there are no events
            await asyncio.sleep(0.02)
        listed = (await client.get("/speakers")).json()["speakers"]
    assert {"mia", "eva"} <= {one["name"] for one in listed}
    assert not list((tmp_path / "batches").rglob("*.part"))
