"""Stands in for TensorRT-LLM: the merged model in torch, behind our server or one like `trtllm-serve`.

`python -m tests.support.trtllm MERGED --port PORT` serves it in a process of its own.
"""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, StreamingResponse

from firstword.app.hosts.trtllm.server import MergedModel, create_app
from firstword.models.runtimes.tensorrt_llm.sampler import RepetitionAwareProcessor
from tests.support.small_lm import GrowingContext, small_lm


@dataclass(frozen=True, slots=True)
class TorchPiece:
    token_ids_diff: list[int]
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class MergedRuntime:
    """Computes the logits of the merged vocabulary, as a Qwen2 without a bias has them."""

    def __init__(self, model: MergedModel) -> None:
        self.model = model
        self.num_running = 0
        self.num_aborted = 0
        self.goes_on = asyncio.Event()  # cleared, requests wait before their next id
        self.goes_on.set()

    @torch.inference_mode()
    def logits(self, merged: list[int], growing: GrowingContext) -> torch.Tensor:
        """growing: of this request. -> (1, 1, ids)."""
        lm, ids = small_lm(), self.model.ids
        hidden = growing.hidden_behind([ids.ours(id, lm.vocabulary) for id in merged])
        logits = torch.zeros(1, 1, ids.num_ids)
        logits[..., ids.speech : ids.speech + lm.vocabulary.num_classes] = hidden @ lm.head.weight.T
        return logits

    async def generate(
        self, prompt: list[int], max_tokens: int, stop_ids: list[int], processor: RepetitionAwareProcessor
    ) -> AsyncIterator[TorchPiece]:
        context, growing, is_over = list(prompt), GrowingContext(small_lm()), False
        self.num_running += 1
        try:
            for number in range(max_tokens):
                await asyncio.sleep(0)
                await self.goes_on.wait()
                logits = self.logits(context, growing).clone()
                processor(1, logits, [context], None, None)
                drawn = int(logits.argmax())
                if drawn in stop_ids:
                    is_over = True
                    yield TorchPiece([], "stop", drawn)
                    return
                context.append(drawn)
                is_over = number + 1 == max_tokens
                yield TorchPiece([drawn], "length" if is_over else None)
        finally:
            self.num_running -= 1
            self.num_aborted += not is_over


def plain_app(runtime: MergedRuntime, form: str) -> FastAPI:
    """Like `trtllm-serve`: form "ids" tells drawn ids, "text" only their marks; it knows no repetition."""
    app = FastAPI()
    ids = runtime.model.ids

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"data": [{"id": "merged", "owned_by": "tensorrt_llm"}]}

    @app.post("/v1/completions", response_model=None)
    async def completions(request: Request) -> StreamingResponse | JSONResponse:
        asked = await request.json()
        unknown = asked.keys() - {
            *("model", "prompt", "max_tokens", "stream", "detokenize", "stop_token_ids", "logit_bias"),
            *("seed", "top_k", "top_p", "temperature", "skip_special_tokens"),
        }
        if unknown or any(abs(bias) > 100 for bias in asked["logit_bias"].values()):
            return JSONResponse({"message": f"not permitted: {unknown}"}, 400)
        return StreamingResponse(events(asked), media_type="text/event-stream")

    async def events(asked: dict[str, Any]) -> AsyncIterator[str]:
        bias = torch.zeros(ids.num_ids)
        for id, value in asked["logit_bias"].items():
            bias[int(id)] = value
        generator = torch.Generator().manual_seed(asked["seed"])
        context, growing = list(asked["prompt"]), GrowingContext(small_lm())
        for number in range(asked["max_tokens"]):
            row = runtime.logits(context, growing)[0, 0] + bias
            values, best = row.topk(asked["top_k"])
            drawn = int(best[torch.multinomial(values.softmax(0), 1, generator=generator)])
            is_stop = drawn in asked["stop_token_ids"]
            is_last = number + 1 == asked["max_tokens"]
            choice: dict[str, Any] = {"index": 0, "text": "", "finish_reason": "length" if is_last else None}
            if is_stop:
                choice |= {"finish_reason": "stop", "stop_reason": None if drawn == ids.eos else drawn}
            if form == "ids":
                choice["token_ids"] = [] if is_stop else [drawn]
            elif not is_stop:
                choice["text"] = f"<|s_{drawn - ids.speech}|>"
            yield f"data: {json.dumps({'choices': [choice]})} \n\n"
            if is_stop:
                break
            context.append(drawn)
        yield "data: [DONE]\n\n"

    return app


async def in_time(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Waits until it is so. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - of another process or thread
            await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[str]:
    """-> its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    task = asyncio.create_task(server.serve())
    await in_time(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await task


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("merged", type=Path)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    model = MergedModel.read(given.merged)
    uvicorn.run(create_app(MergedRuntime(model), model, "merged"), port=given.port, log_level="error")


if __name__ == "__main__":
    main()
