"""Free the networks while nobody uses them, and load them again for who comes next."""

import asyncio
import gc
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import torch

from firstword.app.core.admission import Admission, Slot
from firstword.app.core.interface import NetworksState
from firstword.app.engine.loading import LoadedNetworks, load_networks, set_threads
from firstword.app.errors import Restarting
from firstword.app.memory import give_back
from firstword.app.options import InvalidOptions, LMEngineOptions, NetworkOptions, QueueOptions
from firstword.app.speakers.enrolment import SpeakerNetworks
from firstword.models.checkpoint.open import fingerprint, lm_fingerprint
from firstword.models.config import CheckpointError
from firstword.models.lm.decoder import HasOwnDecoder

Result = TypeVar("Result")
LOAD_TIMEOUT_S = 120.0  # that a stream waits for networks; they are loaded to the end all the same
_STAYS = (int, float, str, type(None))
_log = logging.getLogger(__name__)


class Unloading:
    """Frees networks that nobody has used for a while; whoever wants them next waits until they are loaded.

    The objects stay, so that nobody who holds one need know: what is in them goes, and comes again. Numbers
    such as a sample rate stay too, which is asked for without any use of the networks.
    """

    def __init__(
        self,
        networks: Sequence[object],
        load: Callable[[], Sequence[object]],
        after_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """load: returns equal networks in the same order; blocks."""
        self.state: NetworksState = "loaded"
        self.failure = ""  # of the last load, until one succeeds
        self._networks = [*networks]
        self._load = load
        self._after_s = after_s
        self._clock = clock
        self._changing = threading.RLock()  # held while networks go or come
        self._loading: asyncio.Task[None] | None = None  # that streams wait for, all for the same
        self._num_users = 0  # beside the streams
        self._used_s = clock()

    async def run(self, admission: Admission) -> None:
        """Free the networks each time when they were not used for `after_s`; ends when it is cancelled.

        Where they could not be loaded it tries again after the same time: a server that is not ready gets no
        requests that would.
        """
        while True:
            await admission.wait_until_quiet(self._after_s)
            if self.failure:
                with suppress(Restarting):
                    await self.ensure_loaded()
                continue
            taken = self.take_weights()
            if taken:
                num_bytes = await asyncio.to_thread(_freed, taken)
                text = "the networks are unloaded after %g s without use, %d MiB of memory given back"
                _log.info(text, self._after_s, num_bytes >> 20)

    async def ensure_loaded(self) -> None:
        """Return when the networks are loaded; all who wait do so for one load, in one thread.

        Raises Restarting where they cannot be loaded, or not within LOAD_TIMEOUT_S.
        """
        self._used_s = self._clock()
        if self.state == "loaded":
            return
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(asyncio.to_thread(self.load))
            self._loading.add_done_callback(_retrieve)
        try:
            async with asyncio.timeout(LOAD_TIMEOUT_S):
                await asyncio.shield(self._loading)
        except TimeoutError:
            raise Restarting(f"the networks are not loaded after {LOAD_TIMEOUT_S:g} s; try again") from None

    def load(self) -> None:
        """Load the networks unless they are loaded; blocks its thread. Raises Restarting."""
        with self._changing:
            if self.state == "loaded":
                return
            self.state, began_s = "loading", self._clock()
            try:
                loaded = self._load()
            except Exception as error:
                self.state = "unloaded"
                self.failure = "the networks could not be loaded again; the log has the reason"
                _log.exception("the networks could not be loaded again")
                raise Restarting(self.failure) from error
            for network, again in zip(self._networks, loaded, strict=True):
                vars(network).update(vars(again))
            self._used_s = self._clock()
            self.state, self.failure = "loaded", ""
            _log.info("the networks are loaded again, in %.1f s", self._used_s - began_s)

    def using(self, work: Callable[[], Result]) -> Result:
        """Do work in this thread that needs the networks, beside the streams."""
        with self._changing:
            self._num_users += 1
        try:
            self.load()
            return work()
        finally:
            with self._changing:
                self._num_users -= 1
                self._used_s = self._clock()

    def take_weights(self) -> list[object]:
        """Take what is large out of the networks, unless they are used; never waits."""
        if not self._changing.acquire(blocking=False):
            return []
        try:
            is_used = self._num_users > 0 or self._clock() - self._used_s < self._after_s
            if self.state != "loaded" or is_used:
                return []
            self.state = "unloaded"
            taken: list[object] = []
            for network in self._networks:
                content = vars(network)
                large = [name for name, value in content.items() if not isinstance(value, _STAYS)]
                taken += [content.pop(name) for name in large]
            return taken
        finally:
            self._changing.release()


class LoadOnDemandAdmission(Admission):
    """Loads the networks for those who got a slot; others wait in line meanwhile, within its limits."""

    def __init__(
        self,
        ensure_loaded: Callable[[], Awaitable[None]],
        max_streams: int,
        queue: QueueOptions,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(max_streams, queue, clock)
        self._ensure_loaded = ensure_loaded

    async def acquire(self, is_file: bool = False, is_background: bool = False) -> Slot:
        slot = await super().acquire(is_file, is_background)
        try:
            await self._ensure_loaded()
        except BaseException:
            slot.release()
            raise
        slot.begin()
        return slot


class LoadOnDemandThreads(ThreadPoolExecutor):
    """Threads whose work finds the networks loaded."""

    def __init__(self, unloading: Unloading, num_threads: int) -> None:
        super().__init__(num_threads, "speakers")
        self._unloading = unloading

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        return super().submit(self._unloading.using, lambda: fn(*args, **kwargs))


def open_unloading(
    after_s: float,
    loaded: LoadedNetworks,
    speaker_networks: SpeakerNetworks,
    options: NetworkOptions,
    engines: LMEngineOptions,
) -> Unloading | None:
    """Return what frees these networks; None: nothing does, with `after_s` 0. Raises InvalidOptions."""
    if not after_s:
        return None
    if loaded.lm is None or isinstance(loaded.lm, HasOwnDecoder):
        raise InvalidOptions(
            "FIRSTWORD_UNLOAD_AFTER_S frees a language model that runs in this process without CUDA graphs; "
            f"here it runs in {loaded.backend.name}. Set FIRSTWORD_BACKEND=torch and "
            "FIRSTWORD_CUDA_GRAPHS=false, or FIRSTWORD_UNLOAD_AFTER_S=0"
        )
    known_lm = lm_fingerprint(loaded.checkpoint.directory)

    def load() -> list[object]:
        set_threads(options)
        again = load_networks(options, loaded.machine.data_dir, engines)
        checkpoint = again.checkpoint
        found = fingerprint(checkpoint.directory, checkpoint.traits.matches_recordings)
        found_lm = lm_fingerprint(checkpoint.directory)
        if (found, found_lm) != (speaker_networks.fingerprint, known_lm):
            raise CheckpointError(
                f"{checkpoint.directory} holds another checkpoint than the one that the server started with; "
                "restart the server"
            )
        assert again.lm is not None, "it was in this process before"
        return [again.lm, again.token2wav, again.checkpoint.load_prompt_reader(1, again.device)]

    return Unloading([loaded.lm, loaded.token2wav, speaker_networks.reader], load, after_s)


def _retrieve(loading: asyncio.Task[None]) -> None:
    """Retrieve its error, which was logged, though nobody may wait for it any more."""
    if not loading.cancelled():
        loading.exception()


def _freed(taken: list[object]) -> int:
    """Give memory back to the system; return how many bytes of this process it was, 0 where nobody knows."""
    before = _resident_bytes()
    taken.clear()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    give_back()
    return max(0, before - _resident_bytes())


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
