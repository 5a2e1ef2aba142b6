"""Batches as one surface: their routes, their store on the disk, and what speaks them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from firstword.app.http.service import Service
from firstword.app.http.surface import HttpSurface, SurfaceHealth
from firstword.app.surfaces.batches import routes
from firstword.app.surfaces.batches.options import BatchOptions
from firstword.app.surfaces.batches.queue import Batches
from firstword.app.surfaces.batches.runner import BatchRunner
from firstword.app.surfaces.batches.store import BatchStore

if TYPE_CHECKING:
    from firstword.app.postgresql import Postgres  # psycopg is an extra


class BatchSurface(HttpSurface):
    def __init__(
        self, options: BatchOptions, directory: Path | None, postgres: "Postgres | None" = None
    ) -> None:
        """directory: None keeps all in memory but audio, of which there is none. postgres: where batches are
        kept that several servers work off."""
        super().__init__("batches", routes.router.routes)
        self.options: BatchOptions = options
        self.batches = Batches(BatchStore(None, 0))  # takes none until it runs
        self._directory = directory
        self._postgres = postgres
        self._runner: BatchRunner | None = None  # None: it does not run

    @asynccontextmanager
    async def running(self, service: Service) -> AsyncIterator[None]:
        postgres, disk_bytes = self._postgres, self.options.disk_bytes
        if postgres is None:
            store = await asyncio.to_thread(BatchStore, self._directory, disk_bytes)
        else:
            database = postgres.database("batches")
            store = BatchStore(self._directory, disk_bytes, database, postgres.replica)
        store.has_several_owners = lambda: service.auth.keys.num_names > 1
        self.batches = batches = Batches(store, service.metrics.worker_failures.labels("batches").inc)
        loop = asyncio.get_running_loop()

        def hear(subjects: frozenset[str]) -> None:
            if "batches" in subjects:
                loop.call_soon_threadsafe(batches.changed.set)
                if spoken := tuple(batches.stops):
                    loop.call_soon_threadsafe(batches.stop_items, store.unwanted(spoken))

        unsubscribe = None if postgres is None else postgres.subscribe(hear)
        service.metrics.batch_items_waiting.set_function(lambda: float(store.num_waiting))
        self._runner = BatchRunner(service, self.batches)
        self._runner.start()
        try:
            yield
        finally:
            if unsubscribe is not None:
                unsubscribe()
            await self._runner.stop()
            store.close()

    def health(self) -> SurfaceHealth:
        missing = () if self.batches.store.is_in_place() else ("batches",)
        return SurfaceHealth(missing, self.batches.workers.failing)

    async def drain(self) -> None:
        """Speak no further item; what is unfinished is spoken after the next start."""
        if self._runner is not None:
            await self._runner.stop()
