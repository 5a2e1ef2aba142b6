"""The service's start: what is slow to load is loaded while the rest is imported."""

import gc
import threading
from collections.abc import Callable

from firstword.app.settings import InvalidSettings, Settings
from firstword.app.text import language


def begin_loading() -> None:
    """Load what needs no torch, in a thread, while the caller goes on to import torch.

    Garbage is not collected until the service listens: what is imported and loaded stays.
    """
    gc.disable()
    threading.Thread(target=language.warm_up, name="languages").start()


async def serve(settings: Settings, announce: Callable[[str], None], on_drained: Callable[[], None]) -> None:
    """As `firstword.app.service.serve`, after `begin_loading`."""

    def announce_start(line: str) -> None:
        gc.freeze()
        gc.enable()
        announce(line)

    from firstword.app.engine.loading import load_in_thread  # torch

    loading = load_in_thread(
        settings.networks, settings.engine, settings.lm_engines, settings.speakers.data_dir
    )
    from firstword.app import service  # FastAPI and all routes, beside the loading

    await service.serve(settings, announce_start, on_drained, loading)


async def serve_over_ray(
    settings: Settings, announce: Callable[[str], None], on_drained: Callable[[], None]
) -> None:
    """As `serve`, with the engines of Ray Serve. Raises InvalidSettings.

    on_drained: is not called: nothing computes here, and Ray's processes are to be ended.
    """
    try:
        from firstword.app.hosts.ray.serving import cluster, opening_of
    except ImportError as error:
        raise InvalidSettings(f"--ray needs Ray Serve ({error}): pip install 'firstword[ray]'") from None
    from firstword.app import service

    with cluster(settings) as handle:
        await service.serve(settings, announce, lambda: None, opening=opening_of(handle, settings))
