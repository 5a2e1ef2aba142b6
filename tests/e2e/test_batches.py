"""A batch whose server is killed goes on with the next one."""

import asyncio
import io
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from tests.e2e.server import serving
from tests.support.service_client import client, spoken

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

PATH = "/v1/audio/batches"
TEXTS = ["Chapter one.", "The early train leaves for the coast at seven. " * 3, "The end."]


async def done(http: httpx.AsyncClient, id: str, at_least: int) -> dict[str, Any]:
    while True:
        batch: dict[str, Any] = (await http.get(f"{PATH}/{id}")).json()
        if batch["done"] >= at_least:
            return batch
        await asyncio.sleep(0.05)


async def test_a_killed_server_leaves_a_batch_that_the_next_one_finishes(tmp_path: Path) -> None:
    items = [{"text": text, "seed": 7} for text in TEXTS]
    with serving(tmp_path, max_streams=1) as server:
        async with client(server) as http:
            id = (await http.post(PATH, json={"items": items})).json()["id"]
            await done(http, id, at_least=1)
            first = (await http.get(f"{PATH}/{id}/items/1/audio")).content
            server.process.kill()
    with serving(tmp_path, max_streams=1) as server:
        async with client(server) as http:
            batch = await done(http, id, at_least=3)
            said = await spoken(server, text=TEXTS[1])
            audio = [(await http.get(f"{PATH}/{id}/items/{n}/audio")).content for n in (1, 2, 3)]
    assert (batch["state"], batch["failed"]) == ("done", 0)
    assert audio[0] == first
    samples, _ = soundfile.read(io.BytesIO(audio[1]), dtype="int16")
    np.testing.assert_array_equal(samples, said)
