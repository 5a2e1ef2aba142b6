"""A server with one of the surfaces, for each surface; what a wire cannot do stands in one table."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest

from firstword.app.core.interface import Engine
from firstword.app.http.keys import KeyRing
from firstword.app.server_options import Limits
from firstword.app.service import surfaces_running
from firstword.app.surfaces.batches.options import BatchOptions
from firstword.app.surfaces.batches.surface import BatchSurface
from tests.support.fake_engine import FakeEngine
from tests.support.serving import LIMITS, make_services, make_surfaces, serving
from tests.surfaces.contract.cannot import CANNOT
from tests.surfaces.contract.surfaces import ALL, SpeakingSurface


class Serve(Protocol):
    """over: another engine than a FakeEngine."""

    def __call__(
        self,
        engine: FakeEngine | None = None,
        keys: KeyRing | None = None,
        limits: Limits = LIMITS,
        over: Engine | None = None,
    ) -> AbstractAsyncContextManager[SpeakingSurface]: ...


@pytest.fixture(params=ALL, ids=[surface.name for surface in ALL])
def kind(request: pytest.FixtureRequest) -> type[SpeakingSurface]:
    found: type[SpeakingSurface] = request.param
    reason = CANNOT.get(request.function.__name__, {}).get(found.name)
    if reason is not None:
        pytest.skip(reason)
    return found


@pytest.fixture
def serve(kind: type[SpeakingSurface], tmp_path: Path) -> Serve:
    @asynccontextmanager
    async def served(
        engine: FakeEngine | None = None,
        keys: KeyRing | None = None,
        limits: Limits = LIMITS,
        over: Engine | None = None,
    ) -> AsyncIterator[SpeakingSurface]:
        engine = engine or FakeEngine()
        service = make_services(over or engine, keys=keys or (), limits=limits)
        batches = BatchSurface(BatchOptions(disk_mb=1), tmp_path / "batches")
        surfaces = [batches if isinstance(one, BatchSurface) else one for one in make_surfaces()]
        surfaces += kind.own(surfaces, tmp_path)
        async with surfaces_running(surfaces, service), serving(service, surfaces=surfaces) as url:
            yield kind(url, service, engine, surfaces)

    return served
