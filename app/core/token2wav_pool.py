"""Worker threads that turn chunks of speech tokens into samples, the most urgent first, in batches."""

import asyncio
import heapq
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from firstword.app.audio.dsp import Samples
from firstword.app.errors import SynthesisFailed
from firstword.app.events import Stage, Subscriber, ignore
from firstword.models.cuda import own_stream, samples_to_host, wait_for_shared_work
from firstword.models.token2wav_step import RefusedStep, StepInput, StepTimes

Result = TypeVar("Result")
_log = logging.getLogger(__name__)


class StreamingToken2Wav(Protocol):
    """`firstword.models.token2wav.Token2Wav`, and `CosyVoice1Token2Wav` for CosyVoice 1."""

    sample_rate_hz: int
    lookahead_tokens: int
    hop_tokens: int  # of the hops behind the first

    def start(
        self, prompt: Any, seed: int = 0, uses_prompt: bool = True, has_full_context: bool = False
    ) -> Any: ...

    def tokens_wanted(self, state: Any) -> int: ...

    def step(self, batch: Sequence[StepInput[Any]], times: StepTimes | None = None) -> list[Tensor]: ...


@dataclass(frozen=True, slots=True, eq=False)
class SolvedChunk:
    samples: Samples
    flow_s: float  # this chunk's share of its batch, as the next
    vocoder_s: float
    started_s: float  # of its batch, as `time.perf_counter` says
    times: StepTimes  # of its whole batch


@dataclass(slots=True, order=True)
class _Job:
    deadline_s: float
    number: int  # of two equally urgent the first comes first
    given: StepInput[Any] | Callable[[], Any] = field(compare=False)
    done: asyncio.Future[Any] = field(compare=False)


class Token2WavPool:
    """Threads share the weights; a state is in one batch at a time, since its stream waits for each chunk."""

    def __init__(
        self,
        token2wav: StreamingToken2Wav,
        num_workers: int,
        max_batch: int,
        on_batch: Callable[[int, StepTimes], None] = lambda size, times: None,
        device: torch.device | None = None,
    ) -> None:
        """on_batch: called from a worker thread with the size of a batch and the time it took.

        device: of the networks; None: a CPU.
        """
        assert num_workers >= 1, num_workers
        assert max_batch >= 1, max_batch
        self.num_at_once = num_workers * max_batch  # chunks that it computes
        self.token2wav = token2wav
        self._max_batch = max_batch
        self._on_batch = on_batch
        self._device = device or torch.device("cpu")
        self._loop = asyncio.get_running_loop()
        self._jobs: list[_Job] = []
        self._num_jobs = 0
        self._wake = threading.Condition()
        self._is_closing = False
        self._threads = [
            threading.Thread(target=self._work, name=f"token2wav {number}", daemon=True)
            for number in range(num_workers)
        ]
        for thread in self._threads:
            thread.start()

    async def run(
        self, given: StepInput[Any], deadline_s: float, on_event: Subscriber = ignore
    ) -> SolvedChunk:
        """Solve one chunk. A task that is cancelled while it waits must not use its state again.

        on_event: told of the flow and the vocoder, in the event loop.

        Raises SynthesisFailed for this chunk alone.
        """
        solved: SolvedChunk = await self._put(given, deadline_s)
        flow_end_s = solved.started_s + solved.times.flow_s
        counts = {"tokens": len(given.tokens)}
        on_event(Stage("flow", solved.started_s, flow_end_s, solved.flow_s, counts))
        end_s, counts = flow_end_s + solved.times.vocoder_s, {"samples": len(solved.samples)}
        on_event(Stage("vocoder", flow_end_s, end_s, solved.vocoder_s, counts))
        return solved

    async def call(self, compute: Callable[[], Result], deadline_s: float) -> Result:
        """Compute something else of a chunk's size when its turn comes. Raises SynthesisFailed."""
        result: Result = await self._put(compute, deadline_s)
        return result

    def _put(self, given: StepInput[Any] | Callable[[], Any], deadline_s: float) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = self._loop.create_future()
        with self._wake:
            if self._is_closing:
                raise SynthesisFailed("the server stopped before the speech was finished")
            self._num_jobs += 1
            heapq.heappush(self._jobs, _Job(deadline_s, self._num_jobs, given, done))
            self._wake.notify()
        return done

    async def aclose(self) -> None:
        """Fail what still waits; what is being computed is finished first."""
        with self._wake:
            self._is_closing = True
            waiting = self._jobs
            self._jobs = []
            self._wake.notify_all()
        for job in waiting:
            _finish(job.done, SynthesisFailed("the server stopped before the speech was finished"))
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _work(self) -> None:
        with own_stream(self._device):
            while jobs := self._next_batch():
                for job, result in zip(jobs, self._solve([job.given for job in jobs]), strict=True):
                    self._loop.call_soon_threadsafe(_finish, job.done, result)
                del jobs, job, result  # an idle worker keeps no stream's state

    def _next_batch(self) -> list[_Job]:
        """Wait for the most urgent jobs; [] once the pool closes."""
        with self._wake:
            while not self._is_closing:
                batch: list[_Job] = []
                while self._jobs and len(batch) < self._max_batch:
                    if batch and (callable(batch[0].given) or callable(self._jobs[0].given)):
                        break
                    job = heapq.heappop(self._jobs)
                    if not job.done.cancelled():
                        batch.append(job)
                if batch:
                    return batch
                self._wake.wait()
            return []

    def _solve(self, given: list[Any]) -> list[Any]:
        """Solve steps together, or compute the one other thing."""
        if callable(given[0]):
            return [self._compute_alone(given[0])]
        try:
            return [*self._step(given)]
        except RefusedStep:  # nothing has changed
            _log.exception("a batch of %d chunks was refused; trying each alone", len(given))
            alone = given
        except Exception:  # one failing stream must not end the others; the states have kept their tokens
            _log.exception("a batch of %d chunks failed; trying each alone", len(given))
            alone = [replace(step, tokens=()) for step in given]
        return [self._compute_alone(step) for step in alone]

    def _compute_alone(self, given: Any) -> Any:
        try:
            wait_for_shared_work(self._device)
            return given() if callable(given) else self._step([given])[0]
        except Exception:
            _log.exception("a chunk failed alone too; its stream ends")
            return SynthesisFailed("the speech could not be computed")

    def _step(self, batch: list[StepInput[Any]]) -> list[SolvedChunk]:
        times = StepTimes()
        started_s = times.clock()
        wait_for_shared_work(self._device)
        waves = samples_to_host(self.token2wav.step(batch, times))
        times.settle()
        self._on_batch(len(batch), times)
        flow_s, vocoder_s = times.flow_s / len(batch), times.vocoder_s / len(batch)
        return [SolvedChunk(wave, flow_s, vocoder_s, started_s, times) for wave in waves]


def _finish(done: asyncio.Future[Any], result: Any) -> None:
    """A cancelled job has no one who waits for it."""
    if done.done():
        return
    if isinstance(result, SynthesisFailed):
        done.set_exception(result)
    else:
        done.set_result(result)
