"""Speak the items of batches, one after the other, while clients that listen leave slots free."""

import asyncio
import logging
import os
from contextlib import aclosing, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from firstword.app.audio.dsp import wav_header
from firstword.app.audio.formats import OutputFormat, tags_of
from firstword.app.clients import ANYBODY, Client
from firstword.app.database import DatabaseError
from firstword.app.errors import InvalidApiKey, Refused, StoreFull, TtsError
from firstword.app.http.encoding import MIN_AUDIO_S, EncodedChunk, StreamEncoder
from firstword.app.http.errors import INTERNAL, error_body
from firstword.app.http.service import Service
from firstword.app.http.session import StreamSession
from firstword.app.http.streaming import resolve_output_format
from firstword.app.surfaces.batches.queue import Batches
from firstword.app.surfaces.batches.schemas import ItemFields
from firstword.app.surfaces.batches.store import Job
from firstword.files import write_whole

SLOTS_PER_ITEM = 8  # as of files: beside all slots there is room for so few
LOOK_AGAIN_S = 5.0  # for items of a server that died, where several share the batches
RETRY_AFTER_S = 30.0  # where the disk, or its share for batches, is full
MAX_STARTS = 3  # of an item that ends the server, or its worker, each time

logger = logging.getLogger(__name__)


class BatchRunner:
    """Takes items from the store and writes their audio; several at once where there are many slots."""

    def __init__(self, service: Service, batches: Batches) -> None:
        self._service = service
        self._batches = batches
        # Taken, and to be released once the store can be written; each with whether its start counts.
        self._unspoken: list[tuple[Job, bool]] = []

    def start(self) -> None:
        for number in range(max(1, self._service.engine.max_streams // SLOTS_PER_ITEM)):
            self._batches.workers.start(f"batches-{number}", self._work)

    async def stop(self) -> None:
        """Stop speaking; what is unfinished is spoken again after the next start."""
        await self._batches.workers.stop()
        with suppress(Refused, StoreFull, DatabaseError):  # else at the next start, and this one counts
            await self._release()

    async def _work(self) -> None:
        batches = self._batches
        while True:
            batches.changed.clear()
            try:
                await self._release()
                job = await asyncio.to_thread(batches.store.take)
            except StoreFull as error:
                logger.warning("batches wait: %s", error.message)
                await self._wait(RETRY_AFTER_S)
                continue
            except Refused:  # the store cannot be used, and has logged why
                await self._wait(RETRY_AFTER_S)
                continue
            if job is None:
                await self._wait(LOOK_AGAIN_S if batches.store.is_shared else None)
                continue
            try:
                wait_s = await self._speak(job)
            except (asyncio.CancelledError, Refused, StoreFull):
                self._unspoken.append((job, False))
                raise
            except Exception:
                self._unspoken.append((job, True))
                raise
            if wait_s:
                self._unspoken.append((job, False))
                await self._release()
                await self._wait(wait_s)

    async def _release(self) -> None:
        while self._unspoken:
            job, has_failed = self._unspoken.pop(0)  # first: another worker may release meanwhile
            try:
                await asyncio.to_thread(self._batches.store.release, job, has_failed)
            except BaseException:
                self._unspoken.append((job, has_failed))
                raise

    async def _wait(self, seconds: float | None) -> None:
        """Wait until something changes, or so long; None: however long that takes."""
        try:
            async with asyncio.timeout(seconds):
                await self._batches.changed.wait()
        except TimeoutError:
            return

    async def _speak(self, job: Job) -> float:
        """Return 0 once the item has ended, else after how many seconds it is to be tried again."""
        batches, metrics = self._batches, self._service.metrics
        unfinished = job.path.with_name(f"{job.path.name}.part")
        try:
            if job.num_starts > MAX_STARTS:
                await self._give_up(job)
                return 0.0
            audio_s = await self._write(job, unfinished)
            if audio_s is None:
                return 0.0  # it was cancelled
            num_bytes = unfinished.stat().st_size
            unfinished.replace(job.path)
            if await asyncio.to_thread(batches.store.finish, job, num_bytes, audio_s):
                metrics.batch_items.labels(outcome="done").inc()
            else:
                job.path.unlink(missing_ok=True)
        except Refused as error:  # full, restarting, or about to stop
            return float(error.retry_after_s)
        except (OSError, StoreFull) as error:
            logger.error("%s cannot be written: %s; batches wait", unfinished, error)
            return RETRY_AFTER_S
        except Exception as error:
            if not isinstance(error, TtsError):
                logger.exception("an item of a batch failed")
            metrics.batch_items.labels(outcome="failed").inc()
            content = error_body(error)["error"]
            await asyncio.to_thread(batches.store.fail, job, str(content["code"]), str(content["message"]))
        finally:
            unfinished.unlink(missing_ok=True)
            batches.store.stopped_writing(job)
        return 0.0

    async def _give_up(self, job: Job) -> None:
        message = (
            f"the server, or its worker, ended {MAX_STARTS} times while it spoke this item; try a shorter "
            "text, and see the server's log"
        )
        logger.error("item %d of %s is given up: %s", job.number, job.batch, message)
        self._service.metrics.batch_items.labels(outcome="failed").inc()
        await asyncio.to_thread(self._batches.store.fail, job, INTERNAL.code, message)

    async def _write(self, job: Job, path: Path) -> float | None:
        """Return the seconds of audio; None: it was cancelled. Raises TtsError and OSError."""
        service = self._service
        session: StreamSession | None = None
        is_cancelled = False

        def stop() -> None:
            nonlocal is_cancelled
            is_cancelled = True
            if session is not None:
                session.cancel("client_cancel")

        self._batches.stops[job.batch, job.number] = stop  # first: from now on it may be cancelled
        try:
            fields = await asyncio.to_thread(ItemFields.model_validate_json, job.request)
            client = await self._client(job.owner)
            output = resolve_output_format(fields.format, fields.sample_rate, fields.speed, service)
            reference = await fields.reference(service.limits.max_reference_bytes)
            delivery = fields.delivery(is_played=False, is_background=True, context=fields.context)
            if is_cancelled:
                return None
            request = fields.request(uuid4().hex, "batch", client, reference, delivery)
            session = StreamSession(service, request)
            async with session:
                with path.open("wb") as file:  # not in a thread, whose file a cancel would leave open
                    num_samples = await self._encode(job, session, output, file)
                    await asyncio.to_thread(_complete, file, session, output, num_samples)
                if service.provenance.signer is not None:
                    await asyncio.to_thread(_sign, path, service, output)
        finally:
            del self._batches.stops[job.batch, job.number]
        return None if is_cancelled else num_samples / output.sample_rate_hz

    async def _encode(self, job: Job, session: StreamSession, output: OutputFormat, file: BinaryIO) -> int:
        """Return how many samples went to the file. Raises StoreFull, InvalidRequest for more than may be."""
        num_samples = 0

        def write(data: bytes) -> None:
            self._batches.store.wrote(job, len(data))
            file.write(data)

        with StreamEncoder(session.stream, output, session.record.encoded) as encoder:
            async with aclosing(encoder.events(MIN_AUDIO_S)) as events:
                async for event in events:
                    if isinstance(event, EncodedChunk):
                        await asyncio.to_thread(write, event.data)
                        num_samples += event.num_samples
                        session.record.audio_went(event.num_samples, output.sample_rate_hz)
                    await self._service.engine.wait_for_free_slot()
        return num_samples

    async def _client(self, owner: str) -> Client:
        """Raises InvalidApiKey where the key that made a batch is gone, or may not speak any more."""
        keys = self._service.auth.keys
        await keys.refresh()
        if keys.is_open:
            return ANYBODY
        found = next((client for client in keys.named(owner) if client.may("speak")), None)
        if found is None:
            raise InvalidApiKey(
                f"the key {owner!a}, which made this batch, is gone or may not speak any more"
            )
        return found


def _complete(file: BinaryIO, session: StreamSession, output: OutputFormat, num_samples: int) -> None:
    """Write a WAV's header again, now that its length is known, and all of the file to the disk."""
    if output.format == "wav":
        stream = session.stream
        tags = tags_of(output, stream.speaker, stream.request.request_id)
        file.seek(0)
        file.write(wav_header(output.sample_rate_hz, num_samples, tags))
    file.flush()
    os.fsync(file.fileno())


def _sign(path: Path, service: Service, output: OutputFormat) -> None:
    """Write the signed file to the disk: an item that is done is not spoken again after a power failure."""
    write_whole(path, service.provenance.signed(path.read_bytes(), output.format))
