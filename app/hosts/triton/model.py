"""The class that tritonserver's Python backend loads: requests in, responses as the engine gives them."""

import asyncio
import json
import logging
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np
import triton_python_backend_utils as backend

from firstword.app.hosts.triton.interface import Answering, Given
from firstword.app.hosts.triton.repository import BUILTIN, parameters_of
from firstword.app.surfaces.inference.tensors import DTYPES, Tensor

CANCEL_LOOK_S: Final = 0.02
CODES: Final = {
    grpc.StatusCode.INVALID_ARGUMENT: "INVALID_ARG",
    grpc.StatusCode.NOT_FOUND: "NOT_FOUND",
    grpc.StatusCode.ALREADY_EXISTS: "ALREADY_EXISTS",
    grpc.StatusCode.UNAVAILABLE: "UNAVAILABLE",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "UNAVAILABLE",
    grpc.StatusCode.CANCELLED: "CANCELLED",
}
"""By the status over gRPC; others are INTERNAL. `backend` has them once the model is loaded."""

logger = logging.getLogger(__name__)


class TritonPythonModel:
    """One model of the repository. Its event loop runs in a thread; another talks to Triton."""

    def initialize(self, args: dict[str, str]) -> None:
        """Wait until it is loaded. Raises what loading raises."""
        config = json.loads(args["model_config"])
        parameters = parameters_of(config)
        self._is_decoupled = bool(config.get("model_transaction_policy", {}).get("decoupled", False))
        opened: AbstractAsyncContextManager[Answering]
        if "model_dir" in parameters:
            from firstword.app.hosts.triton.engine import opened_engine  # with torch behind it

            folder = None if parameters["model_dir"] == BUILTIN else Path(parameters["model_dir"])
            is_first = args["model_instance_name"].endswith("_0_0")
            opened = opened_engine(parameters["family"], folder, has_stages=is_first)
        else:
            from firstword.app.hosts.triton.stage import opened_stage

            opened = opened_stage(parameters["family"], config["name"])
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._run_loop, args=(opened, started), name="engine")
        self._thread.start()
        self._loop, self._stop = started.result()
        self._responder = Responder(self._loop)

    def execute(self, requests: Sequence[Any]) -> list[None] | None:
        """Begin the requests of a batch; each is answered by itself, when it is ready."""
        for request in requests:
            inputs = {tensor.name(): np.array(tensor.as_numpy()) for tensor in request.inputs()}
            given = Given(request.request_id(), inputs, json.loads(request.parameters() or "{}"))
            self._loop.call_soon_threadsafe(self._begin, given, request.get_response_sender())
        return None if self._is_decoupled else [None] * len(requests)

    def finalize(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._responder.close()

    def _run_loop(
        self,
        opened: AbstractAsyncContextManager[Answering],
        started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]",
    ) -> None:
        async def run() -> None:
            stop = asyncio.Event()
            self._tasks: set[asyncio.Task[None]] = set()
            async with opened as self._answering:
                started.set_result((asyncio.get_running_loop(), stop))
                await stop.wait()
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

        try:
            asyncio.run(run())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    def _begin(self, given: Given, sender: Any) -> None:
        task = asyncio.create_task(self._answer(given, sender))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._responder.watch(sender, task)

    async def _answer(self, given: Given, sender: Any) -> None:
        """Send the output, and at the end the final flag: of a stream in an empty response of its own.

        The published client stops at the flag before it reads what is with it.
        """
        last = None
        try:
            async with aclosing(self._answering.run(given)) as outputs:
                if self._is_decoupled:
                    async for output in outputs:
                        await self._responder.send(sender, self._response(output))
                else:
                    last = self._response(np.concatenate([output async for output in outputs], axis=-1))
        except asyncio.CancelledError:
            last = self._error(grpc.StatusCode.CANCELLED, "cancelled")
            raise
        except Exception as error:
            last = self._error(*self._answering.failure_of(error))
        finally:
            if self._is_decoupled:
                self._responder.finish(sender, *(() if last is None else (last,)), None)
            else:
                self._responder.finish(sender, last)

    def _error(self, code: grpc.StatusCode, words: str) -> Any:
        kind = getattr(backend.TritonError, CODES.get(code, "INTERNAL"))
        return backend.InferenceResponse(error=backend.TritonError(words, kind))

    def _response(self, output: Tensor) -> Any:
        spec = self._answering.model.output
        array = np.ascontiguousarray(output, DTYPES[spec.datatype])
        return backend.InferenceResponse([backend.Tensor(spec.name, array)])


class Responder:
    """The one thread that sends to Triton, and asks it whose clients have left: it tells nobody by itself.

    A request must not be asked for after its final response, so both are done in turn.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()  # bounded by the requests: each has one
        self._open: dict[Any, asyncio.Task[None]] = {}
        self._thread = threading.Thread(target=self._run, name="responses")
        self._thread.start()

    def watch(self, sender: Any, task: "asyncio.Task[None]") -> None:
        """Cancel the task when the client has left."""
        self._jobs.put(partial(self._open.__setitem__, sender, task))

    async def send(self, sender: Any, response: Any) -> None:
        sent: Future[None] = Future()

        def job() -> None:
            if not sent.set_running_or_notify_cancel():
                return
            try:
                sender.send(response)
            except BaseException as error:
                sent.set_exception(error)
            else:
                sent.set_result(None)

        self._jobs.put(job)
        await asyncio.wrap_future(sent)

    def finish(self, sender: Any, *responses: Any) -> None:
        """Send the last responses; None is an empty one. Waits for nothing."""

        def job() -> None:
            self._open.pop(sender, None)
            *before, last = responses
            for response in before:
                sender.send(response)
            final = backend.TRITONSERVER_RESPONSE_COMPLETE_FINAL
            if last is None:
                sender.send(flags=final)
            else:
                sender.send(last, flags=final)

        self._jobs.put(job)

    def close(self) -> None:
        """Send what is left, then end."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        look_s = time.monotonic()
        while True:
            try:
                job = self._jobs.get(timeout=max(0.0, look_s - time.monotonic()) if self._open else None)
                if job is None:
                    return
                job()
            except queue.Empty:
                pass
            except Exception:
                logger.exception("Triton took no response")
            if self._open and time.monotonic() >= look_s:
                for sender, task in self._open.items():
                    if sender.is_cancelled():
                        with suppress(RuntimeError):  # the loop has ended, and the task with it
                            self._loop.call_soon_threadsafe(task.cancel)
                look_s = time.monotonic() + CANCEL_LOOK_S
