"""Batches as one surface: their routes, their store on the disk, and what speaks them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from firstword.app.http.service import Service
from firstword.app.http.surface import HttpSurface, SurfaceHealth
from firstword.app.surfaces.batches import routes
from firstword.app.surfaces.batches.options import BatchOptions
from firstword.app.surfaces.batches.queue import Batches
from firstword.app.surfaces.batches.runner import BatchRunner
from firstword.app.surfaces.batches.store import BatchStore


class BatchSurface(HttpSurface):
    def __init__(self, options: BatchOptions, directory: Path | None) -> None:
        """directory: None keeps all in memory but audio, of which there is none."""
        super().__init__("batches", routes.router.routes)
        self.options: BatchOptions = options
        self.batches = Batches(BatchStore(None, 0))  # takes none until it runs
        self._directory = directory
        self._runner: BatchRunner | None = None  # None: it does not run

    @asynccontextmanager
    async def running(self, service: Service) -> AsyncIterator[None]:
        store = await asyncio.to_thread(BatchStore, self._directory, self.options.disk_bytes)
        self.batches = Batches(store, service.metrics.worker_failures.labels("batches").inc)
        service.metrics.batch_items_waiting.set_function(lambda: float(store.num_waiting))
        self._runner = BatchRunner(service, self.batches)
        self._runner.start()
        try:
            yield
        finally:
            await self._runner.stop()
            store.close()

    def health(self) -> SurfaceHealth:
        missing = () if self.batches.store.is_in_place() else ("batches",)
        return SurfaceHealth(missing, self.batches.workers.failing)

    async def drain(self) -> None:
        """Speak no further item; what is unfinished is spoken after the next start."""
        if self._runner is not None:
            await self._runner.stop()
