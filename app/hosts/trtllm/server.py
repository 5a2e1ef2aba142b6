"""The language model in TensorRT-LLM with repetition-aware sampling: what `trtllm-serve` cannot be told.

`python -m firstword.app.hosts.trtllm.server MERGED` runs where TensorRT-LLM is installed, and answers the
streaming completions of `trtllm-serve`; a request may carry the state of its draws beside them.
"""

import argparse
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, Field
from safetensors.torch import load_file
from starlette.responses import StreamingResponse
from torch import Tensor

from firstword.models.config import SamplingConfig
from firstword.models.lm.plan import Vocabulary
from firstword.models.runtimes.engines.sampling_state import KEY, SamplingState
from firstword.models.runtimes.tensorrt_llm.export import BIAS_FILE, IDS_FILE, SAMPLING_FILE, MergedIds
from firstword.models.runtimes.tensorrt_llm.sampler import RepetitionAwareProcessor

OWNER: Final = "firstword"  # of the model in the list of models, where draws are taken


class Completion(BaseModel):
    """The fields of a completion of `trtllm-serve` that are read, and `firstword`."""

    prompt: list[int] = Field(min_length=1)
    max_tokens: int = Field(ge=1)
    stream: Literal[True]
    stop_token_ids: list[int] = []
    firstword: dict[str, Any]  # the state of the draws, as SamplingState writes it


class Piece(Protocol):
    """A `CompletionOutput` of TensorRT-LLM."""

    token_ids_diff: list[int]
    finish_reason: str | None
    stop_reason: int | str | None


class Runtime(Protocol):
    """What is used of `tensorrt_llm.LLM`."""

    def generate(
        self, prompt: list[int], max_tokens: int, stop_ids: list[int], processor: RepetitionAwareProcessor
    ) -> AsyncIterator[Piece]:
        """Closed early, it aborts the request."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class MergedModel:
    """What `firstword tensorrt-llm` wrote beside the weights."""

    ids: MergedIds
    vocabulary: Vocabulary
    sampling: SamplingConfig
    head_bias: Tensor  # (V,)

    @classmethod
    def read(cls, directory: Path) -> "MergedModel":
        """Raises OSError."""
        ids = MergedIds(**json.loads((directory / IDS_FILE).read_text(encoding="utf-8")))
        rules = json.loads((directory / SAMPLING_FILE).read_text(encoding="utf-8"))
        vocabulary = Vocabulary(**rules["vocabulary"])
        bias = load_file(directory / BIAS_FILE)["embedding_bias"]
        classes = bias[ids.speech : ids.speech + vocabulary.num_classes].clone()
        return cls(ids, vocabulary, SamplingConfig(**rules["sampling"]), classes)

    def processor(self, state: SamplingState) -> RepetitionAwareProcessor:
        return RepetitionAwareProcessor(
            state, self.sampling, self.vocabulary, self.ids.speech, self.head_bias
        )


def create_app(runtime: Runtime, model: MergedModel, name: str) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": OWNER}]}

    @app.post("/v1/completions")
    async def completions(asked: Completion) -> StreamingResponse:
        processor = model.processor(SamplingState.read({KEY: asked.firstword}))
        pieces = runtime.generate(asked.prompt, asked.max_tokens, asked.stop_token_ids, processor)
        return StreamingResponse(_events(pieces, name), media_type="text/event-stream")

    return app


async def _events(pieces: AsyncIterator[Piece], name: str) -> AsyncIterator[str]:
    async for piece in pieces:
        choice = {
            "index": 0,
            "text": "",
            "token_ids": list(piece.token_ids_diff),
            "finish_reason": piece.finish_reason,
            "stop_reason": piece.stop_reason,
        }
        yield f"data: {json.dumps({'object': 'text_completion', 'model': name, 'choices': [choice]})}\n\n"
    yield "data: [DONE]\n\n"


class TensorRtLlm:
    """The `Runtime` over `tensorrt_llm.LLM`."""

    def __init__(
        self, directory: Path, tensor_parallel_size: int, max_model_len: int, memory_share: float, eos: int
    ) -> None:
        from tensorrt_llm import LLM, SamplingParams
        from tensorrt_llm.llmapi import KvCacheConfig

        with suppress(ImportError, AttributeError):  # versions that unpickle known classes only
            from tensorrt_llm import serialization

            serialization.register_approved_class(RepetitionAwareProcessor)
        self._params, self._eos = SamplingParams, eos
        self._llm = LLM(
            model=str(directory),
            skip_tokenizer_init=True,
            tensor_parallel_size=tensor_parallel_size,
            max_seq_len=max_model_len,
            kv_cache_config=KvCacheConfig(
                free_gpu_memory_fraction=memory_share,
                enable_block_reuse=True,  # the requests of one utterance share their beginning
            ),
        )

    async def generate(
        self, prompt: list[int], max_tokens: int, stop_ids: list[int], processor: RepetitionAwareProcessor
    ) -> AsyncIterator[Piece]:
        params = self._params(
            max_tokens=max_tokens,
            end_id=self._eos,
            pad_id=self._eos,
            stop_token_ids=stop_ids,
            top_k=1,  # the processor leaves one
            detokenize=False,
            logits_processor=processor,
        )
        result = self._llm.generate_async(prompt, params, streaming=True)
        has_ended = False
        try:
            async for output in result:
                yield output.outputs[0]
            has_ended = True
        finally:
            if not has_ended:
                result.abort()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("merged", type=Path, help="what `firstword tensorrt-llm` wrote")
    parser.add_argument("--engine", type=Path, help="engine of trtllm-build; without it, the merged model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--max-model-len", type=int, default=8192)
    parser.add_argument("--memory-share", type=float, default=0.2)
    given = parser.parse_args()
    model = MergedModel.read(given.merged)
    runtime = TensorRtLlm(
        given.engine or given.merged,
        given.tensor_parallel_size,
        given.max_model_len,
        given.memory_share,
        model.ids.eos,
    )
    uvicorn.run(create_app(runtime, model, given.merged.resolve().name), host=given.host, port=given.port)


if __name__ == "__main__":
    main()
