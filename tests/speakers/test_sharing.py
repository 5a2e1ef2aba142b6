"""Several servers, several checkpoints, one speaker: a shared store, and bundles."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firstword.app.errors import (
    BadAudio,
    InvalidRequest,
    SpeakerExists,
    SpeakerIncompatible,
    SpeakerNotFound,
    StoreFull,
)
from firstword.app.speakers.bundle import pack, unpack
from firstword.app.speakers.interface import SpeakerChange
from firstword.app.speakers.store import SpeakerStore
from firstword.app.speakers.tables import StoredSpeaker
from tests.speakers.fakes import FakeNetworks
from tests.speakers.recordings import recording
from tests.speakers.servers import Servers

pytestmark = pytest.mark.anyio


async def test_registries_of_one_store_see_each_other_at_once(servers: Servers) -> None:
    one, other = await servers.open(), await servers.open()
    assert len(other.list()) == 2

    await one.enrol("mia", recording(seed=1), "Hello.")
    assert [speaker.name for speaker in other.list()] == ["ann", "bob", "mia"]
    assert (await other.prepared("mia")).transcript == "Hello."

    await one.update("mia", SpeakerChange("Good day."))
    assert (await other.prepared("mia")).transcript == "Good day."
    assert (await other.prepared("mia")).transcript == "Good day."

    before = (await other.prepared("mia")).features
    await one.delete("mia")
    with pytest.raises(SpeakerNotFound):
        await other.prepared("mia")

    await one.enrol("mia", recording(seed=2), "Good day.")
    after = (await other.prepared("mia")).features
    assert after.prompt_tokens.tolist() != before.prompt_tokens.tolist()


async def test_of_two_who_want_one_name_exactly_one_wins(servers: Servers) -> None:
    registries = [await servers.open(networks=FakeNetworks()) for _ in range(2)]

    results = await asyncio.gather(
        *(r.enrol("mia", recording(seed=seed)) for seed in range(3) for r in registries),
        return_exceptions=True,
    )

    won = [result for result in results if not isinstance(result, BaseException)]
    lost = [result for result in results if isinstance(result, SpeakerExists)]
    assert (len(won), len(lost)) == (1, 5)
    assert registries[0].get("mia") == replace(won[0], cached=registries[0].get("mia").cached)


async def test_a_speaker_of_another_checkpoint_is_read_again_once(servers: Servers) -> None:
    await (await servers.open()).enrol("mia", recording(), "Hello.")
    networks = FakeNetworks(checkpoint=2)
    registry = await servers.open(networks)

    prepared = await registry.prepared("mia")
    assert (prepared.features.checkpoint, prepared.transcript) == (2, "Hello.")
    assert networks.reads == 1

    later = FakeNetworks(checkpoint=2)
    await (await servers.open(later)).prepared("mia")
    assert later.reads == 0


async def test_a_speaker_of_another_checkpoint_speaks_though_the_disk_is_full(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await servers.open()).enrol("mia", recording())
    registry = await servers.open(FakeNetworks(checkpoint=2))

    def full(store: SpeakerStore, stored: StoredSpeaker) -> None:
        raise StoreFull("the disk is full")

    monkeypatch.setattr(SpeakerStore, "replace_features", full)
    assert (await registry.prepared("mia")).features.checkpoint == 2


async def test_two_checkpoints_at_one_store_do_not_throw_each_other_out(servers: Servers) -> None:
    all_networks = [FakeNetworks(checkpoint=1), FakeNetworks(checkpoint=2)]
    one, other = [await servers.open(networks) for networks in all_networks]
    await one.enrol("mia", recording())

    for _ in range(3):
        assert (await one.prepared("mia")).features.checkpoint == 1
        assert (await other.prepared("mia")).features.checkpoint == 2

    assert [networks.reads for networks in all_networks] == [1, 1]


async def test_a_speaker_that_cannot_be_read_again_is_kept_and_says_why(servers: Servers) -> None:
    await (await servers.open()).enrol("mia", recording())

    class Strict(FakeNetworks):
        def read_features(self, *_: Any) -> Any:
            raise BadAudio("too short for this checkpoint")

    registry = await servers.open(Strict(checkpoint=2))
    with pytest.raises(SpeakerIncompatible, match=r"'mia' does not fit .* too short for this checkpoint"):
        await registry.prepared("mia")

    assert registry.get("mia").name == "mia"


async def test_damaged_features_are_made_anew_from_the_recording(servers: Servers) -> None:
    await (await servers.open()).enrol("mia", recording())
    store = SpeakerStore(servers.path)
    (row,) = store.rows()
    stored = await asyncio.to_thread(store.read, row.id)
    assert stored is not None
    await asyncio.to_thread(store.replace_features, replace(stored, features=b"damaged"))
    store.close()
    networks = FakeNetworks()

    prepared = await (await servers.open(networks)).prepared("mia")

    assert len(prepared.features.prompt_tokens) == 50
    assert networks.reads == 1


async def test_a_bundle_makes_the_same_speaker_elsewhere(servers: Servers, tmp_path: Path) -> None:
    registry = await servers.open()
    info = await registry.enrol("mia", recording(), "Grüße, 你好", "de")
    bundle = await registry.export("mia")

    copy = await registry.import_bundle(bundle, "mia-2")
    await registry.delete("mia")
    servers.path = tmp_path / "other.sqlite"
    elsewhere = await servers.open()
    moved = await elsewhere.import_bundle(bundle)

    assert replace(copy, name="mia", created_at=info.created_at) == info
    assert replace(moved, created_at=info.created_at) == info
    one, other = await registry.prepared("mia-2"), await elsewhere.prepared("mia")
    assert one.features.prompt_tokens.tolist() == other.features.prompt_tokens.tolist()


async def test_an_export_is_of_the_running_checkpoint(servers: Servers) -> None:
    await (await servers.open()).enrol("mia", recording())
    registry = await servers.open(FakeNetworks(checkpoint=2))

    bundle = await registry.export("mia")

    await registry.delete("mia")
    assert (await registry.import_bundle(bundle)).name == "mia"


def rebuilt(bundle: bytes, change: Callable[[dict[str, Any], dict[str, str]], None]) -> bytes:
    tensors, metadata = unpack(bundle)
    change(tensors, metadata)
    return pack(tensors, metadata)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda t, m: m.update(name="../x"), InvalidRequest),
        (lambda t, m: m.update(name="ann"), SpeakerExists),
        (lambda t, m: m.update(name="mia"), SpeakerExists),
        (lambda t, m: m.update(transcript="x" * 1001), InvalidRequest),
        (lambda t, m: m.update(language="no language"), InvalidRequest),
        (lambda t, m: m.update(fingerprint="checkpoint-9"), SpeakerIncompatible),
        (lambda t, m: t.update(recording=np.arange(100, dtype=np.uint8)), InvalidRequest),
        (lambda t, m: t.update(surplus=np.zeros(1, np.float32)), InvalidRequest),
        (lambda t, m: t.pop("prompt_tokens"), InvalidRequest),
    ],
)
async def test_a_tampered_bundle_leaves_nothing(
    servers: Servers, change: Callable[..., None], error: type[Exception]
) -> None:
    registry = await servers.open()
    await registry.enrol("mia", recording())
    bundle = rebuilt(await registry.export("mia"), lambda t, m: m.update(name="eva"))

    with pytest.raises(error):
        await registry.import_bundle(rebuilt(bundle, change))

    assert [speaker.name for speaker in registry.list()] == ["ann", "bob", "mia"]
    assert (await registry.import_bundle(bundle)).name == "eva"
