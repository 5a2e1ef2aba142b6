"""The batches of a server for its event loop: the store, and who is to hear of a change."""

import asyncio
from collections.abc import Callable, Iterable

from firstword.app.supervisor import Supervisor
from firstword.app.surfaces.batches.store import BatchStore


class Batches:
    """What routes and runner share."""

    def __init__(self, store: BatchStore, on_failure: Callable[[], None] = lambda: None) -> None:
        """on_failure: called each time that a worker fails and is started again."""
        self.store = store
        self.workers = Supervisor(lambda _: on_failure())
        self.changed = asyncio.Event()  # there may be something to speak, or room for it
        self.stops: dict[tuple[str, int], Callable[[], None]] = {}  # of items that are spoken

    def stop_items(self, items: Iterable[tuple[str, int]]) -> None:
        """Stop items that another server cancelled, by batch and number."""
        for item in items:
            if stop := self.stops.get(item):
                stop()

    def stop(self, id: str) -> None:
        """Stop what is spoken of a batch, and let the runner look again."""
        for (batch, _), stop in list(self.stops.items()):
            if batch == id:
                stop()
        self.changed.set()
