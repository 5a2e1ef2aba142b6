"""The service's start: what is slow to load is loaded while the rest is imported."""

import threading
from collections.abc import Callable

from firstword.app.settings import Settings
from firstword.app.text import language


async def serve(settings: Settings, announce: Callable[[str], None], on_drained: Callable[[], None]) -> None:
    """As `firstword.app.service.serve`."""
    threading.Thread(target=language.warm_up, name="languages").start()
    from firstword.app.engine.startup import load_in_thread  # torch

    loading = load_in_thread(settings.networks, settings.engine, settings.speakers.data_dir)
    from firstword.app import service  # FastAPI and all routes, beside the loading

    await service.serve(settings, announce, on_drained, loading)
