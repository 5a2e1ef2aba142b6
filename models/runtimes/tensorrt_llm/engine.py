"""TensorRT-LLM as the language model's engine: a server of completions, started here or found running."""

import asyncio
import json
import logging
import re
import shutil
import socket
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import torch

from firstword.models.checkpoint.open import lm_fingerprint
from firstword.models.config import Dtype, Qwen2LMConfig, SamplingConfig
from firstword.models.lm.alignment_reader import AlignmentReader
from firstword.models.lm.plan import Forbidden, Vocabulary
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.sampling import class_masks
from firstword.models.lm.tokens import GenerationFailed
from firstword.models.networks import TokenEvents
from firstword.models.runtimes.engines.decode_engine import DecodeRequest, EngineDied, EngineSupervisor
from firstword.models.runtimes.engines.generator import EngineTokenGenerator
from firstword.models.runtimes.engines.sampling_state import KEY
from firstword.models.runtimes.interface import BackendError, TorchNetworks
from firstword.models.runtimes.tensorrt_llm.export import MergedIds, export
from firstword.models.runtimes.tensorrt_llm.options import TrtllmSettings
from firstword.models.tokenizer.qwen2 import Qwen2Tokenizer

MODELS_DIRECTORY: Final = "trtllm"  # of merged language models, within the data directory
SERVER: Final = "firstword.app.hosts.trtllm.server"
OWNER: Final = "firstword"  # of the model, where the server draws as this program does
START_TIMEOUT_S: Final = 900.0
STOP_TIMEOUT_S: Final = 10.0  # then it is killed
POLL_S: Final = 1.0
_ANSWER_TIMEOUT_S: Final = 60.0  # between two pieces of a completion
_LIFT: Final = 50.0  # of the logits of classes over those of text, which a plain server might draw
_MAX_BIAS: Final = 100.0  # that the protocol allows
_MARK: Final = re.compile(r"<\|(s_(\d+)|eos(\d+))\|>")
_log = logging.getLogger(__name__)


async def start_trtllm(
    networks: TorchNetworks, options: TrtllmSettings, events: TokenEvents
) -> EngineTokenGenerator:
    """Start the server of the language model, or find the one at `options.url`.

    Raises BackendError and CheckpointError.
    """
    checkpoint, device = networks.checkpoint, networks.machine.device
    config, tokenizer = checkpoint.config.lm, checkpoint.load_tokenizer()
    assert isinstance(config, Qwen2LMConfig), config
    assert isinstance(tokenizer, Qwen2Tokenizer), tokenizer
    lm = await asyncio.to_thread(
        checkpoint.load_lm, torch.float32 if device == "cpu" else torch.bfloat16, device
    )
    assert isinstance(lm, Qwen2LM), lm
    bias = None if lm.head.bias is None else lm.head.bias.detach().float().cpu()
    ids = MergedIds.of(lm.vocabulary, tokenizer.vocab_size)
    names = MergedNames(lm.vocabulary, ids, bias, config.sampling)
    if options.url:
        url = options.url.rstrip("/")
        supervisor = EngineSupervisor(
            lambda: CompletionsEngine.open(url, names), on_restart=events.on_restart
        )
    else:
        merged = await asyncio.to_thread(_merged_model, networks, options)
        supervisor = EngineSupervisor(
            lambda: StartedServer.open(server_command(merged, options), names), on_restart=events.on_restart
        )
    await supervisor.start()
    alignment = AlignmentReader(lm) if config.alignment_heads else None
    return EngineTokenGenerator(supervisor, config, options.max_model_len, alignment=alignment)


def _merged_model(networks: TorchNetworks, options: TrtllmSettings) -> Path:
    """Write the language model as the server reads it, where that was not done yet."""
    machine, checkpoint = networks.machine, networks.checkpoint
    assert machine.data_dir is not None, "nowhere to write the language model"
    dtype: Dtype = machine.dtype if options.dtype == "auto" else options.dtype
    merged = machine.data_dir / MODELS_DIRECTORY / f"{lm_fingerprint(checkpoint.directory)}-{dtype}"
    unfinished = merged.with_suffix(".unfinished")
    if not merged.exists():
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            export(checkpoint.directory, unfinished, dtype)
            unfinished.rename(merged)
        except OSError as error:
            raise BackendError(f"{merged}: the language model cannot be written there: {error}") from error
    return merged


def server_command(merged: Path, options: TrtllmSettings) -> list[str]:
    """Without the port."""
    command = [sys.executable, "-m", SERVER, str(merged)]
    if options.engine is not None:
        command += ["--engine", str(options.engine)]
    return [
        *command,
        *("--tensor-parallel-size", str(options.tensor_parallel_size)),
        *("--max-model-len", str(options.max_model_len)),
        *("--memory-share", str(options.memory_share)),
    ]


@dataclass(frozen=True, slots=True, eq=False)
class MergedNames:
    """Our ids in the merged vocabulary, and the biases that keep a plain server to our rules."""

    vocabulary: Vocabulary
    ids: MergedIds
    head_bias: torch.Tensor | None  # (V,) float32
    sampling: SamplingConfig

    def merged(self, ids: Sequence[int]) -> list[int]:
        return [self.ids.merged(id, self.vocabulary) for id in ids]

    @property
    def stop_ids(self) -> list[int]:
        return self.merged(self.vocabulary.stop_ids)

    def logit_bias(self, rule: int) -> dict[str, float]:
        """The head's bias; classes that the rule forbids far below text, the others far above it."""
        bias = torch.zeros(self.vocabulary.num_classes) if self.head_bias is None else self.head_bias
        lifted = (bias + _LIFT).clamp(-_MAX_BIAS, _MAX_BIAS)
        lifted[class_masks(self.vocabulary)[rule]] = -_MAX_BIAS
        return {str(self.ids.speech + id): value for id, value in enumerate(lifted.tolist())}

    def drawn(self, choice: Mapping[str, Any]) -> list[int]:
        """Our ids of a piece of a completion, which says them as numbers or as `<|s_7|>`."""
        numbers = choice.get("token_ids")
        if numbers is None:
            ids = [self._of_mark(mark) for mark in _MARK.finditer(choice.get("text") or "")]
        else:
            ids = [self.ids.ours(id, self.vocabulary) for id in numbers]
        has_stop = any(id in self.vocabulary.stop_ids for id in ids)
        if choice.get("finish_reason") == "stop" and not has_stop:  # what stopped it is often left out
            reason = choice.get("stop_reason")
            stop = self.ids.ours(reason, self.vocabulary) if isinstance(reason, int) else self.vocabulary.eos
            ids.append(stop)
        return ids

    def _of_mark(self, mark: re.Match[str]) -> int:
        _, speech, stop = mark.groups()
        if speech is not None:
            return int(speech)
        others = [id for id in self.vocabulary.stop_ids if id != self.vocabulary.eos]
        return [self.vocabulary.eos, *others][int(stop) - 1]


class CompletionsEngine:
    """A `DecodeEngine` over the streaming completions of `trtllm-serve`, or of our own server in its place.

    A plain server is asked for as many ids as one rule of drawing holds for, and draws without regard to
    repetition.
    """

    def __init__(self, client: httpx.AsyncClient, names: MergedNames, model: str, is_exact: bool) -> None:
        """is_exact: the server takes the state of the draws."""
        self._client, self._names, self._model, self._is_exact = client, names, model, is_exact
        self._gone = asyncio.Event()
        self._biases = {} if is_exact else {int(rule): names.logit_bias(rule) for rule in Forbidden}

    @classmethod
    async def open(cls, url: str, names: MergedNames) -> "CompletionsEngine":
        """Raises BackendError where nothing answers there as a server of completions does."""
        client = _client(url)
        try:
            answer = await client.get("/v1/models")
            answer.raise_for_status()
            model = answer.json()["data"][0]
            is_exact, name = model.get("owned_by") == OWNER, str(model["id"])
        except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
            await client.aclose()
            raise BackendError(
                f"FIRSTWORD_TRTLLM_URL is {url}, where no server of completions answers ({error!r}); start "
                "trtllm-serve there, or leave the setting empty"
            ) from error
        if not is_exact:
            _log.warning("%s draws without repetition-aware sampling: it is a plain trtllm-serve", url)
        return cls(client, names, name, is_exact)

    async def run(self, request: DecodeRequest) -> AsyncGenerator[Sequence[int], None]:
        prompt = list(request.prompt_ids)
        for asked, num_ids in self._parts(request):
            drawn: list[int] = []
            async for ids in self._completion({**asked, "prompt": self._names.merged(prompt)}):
                yield ids
                drawn += ids
            if len(drawn) < num_ids or drawn[-1] >= self._names.vocabulary.num_speech_ids:
                return
            prompt += drawn

    async def wait_until_dead(self) -> None:
        while not self._gone.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), POLL_S)
                return
            if not await _is_healthy(self._client):
                return

    async def aclose(self) -> None:
        self._gone.set()
        await self._client.aclose()

    def _parts(self, request: DecodeRequest) -> list[tuple[dict[str, Any], int]]:
        """The completions to ask for one after the other, without their prompts, and the ids of each."""
        state = request.sampling
        common = {
            "model": self._model,
            "stream": True,
            "stop_token_ids": self._names.stop_ids,
            "detokenize": False,
            "skip_special_tokens": False,  # where a server writes text all the same
        }
        if self._is_exact:
            drawing = {KEY: state.written()[KEY], "max_tokens": request.max_ids}
            return [({**common, **drawing}, request.max_ids)]
        num_first = min(state.num_first, request.max_ids)
        config = state.config or self._names.sampling
        parts = []
        for rule, num_before, num_ids in (
            (state.first_rule, 0, num_first),
            (state.later_rule, num_first, request.max_ids - num_first),
        ):
            drawing = {
                "max_tokens": num_ids,
                "logit_bias": self._biases[rule],
                "seed": (state.seed * 1_000_003 + state.num_drawn + num_before) % (1 << 31),
                "top_k": 1 if state.is_greedy else config.top_k,
                "top_p": config.top_p,
                "temperature": config.temperature,
            }
            if num_ids:
                parts.append(({**common, **drawing}, num_ids))
        return parts

    async def _completion(self, asked: dict[str, Any]) -> AsyncGenerator[list[int], None]:
        """Raises EngineDied; GenerationFailed where the server refuses."""
        try:
            async with self._client.stream("POST", "/v1/completions", json=asked) as answer:
                if answer.status_code != httpx.codes.OK:
                    answered = (await answer.aread()).decode(errors="replace")[:500]
                    _log.error("the language model's server refused: %d %s", answer.status_code, answered)
                    raise GenerationFailed("the language model's server refused the text")
                async for line in answer.aiter_lines():
                    if not line.startswith("data:") or "[DONE]" in line:
                        continue
                    for choice in json.loads(line.removeprefix("data:")).get("choices", ()):
                        if ids := self._names.drawn(choice):
                            yield ids
        except httpx.TransportError as error:
            raise EngineDied from error


class StartedServer(CompletionsEngine):
    """Our own server of TensorRT-LLM, in a process of its own."""

    process: asyncio.subprocess.Process

    @classmethod
    async def open(cls, command: Sequence[str], names: MergedNames) -> "StartedServer":
        """command: without its port. Raises BackendError where it does not come up."""
        port = _free_port()
        process = await asyncio.create_subprocess_exec(*command, "--port", str(port))
        client = _client(f"http://127.0.0.1:{port}")
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while not await _is_healthy(client):
                    if process.returncode is not None:
                        raise BackendError(
                            f"TensorRT-LLM's server ended with {process.returncode} before it answered. The "
                            "log lines above are its own"
                        )
                    await asyncio.sleep(POLL_S)
        except BaseException as error:
            await _end(process)
            await client.aclose()
            if isinstance(error, TimeoutError):
                raise BackendError(
                    f"TensorRT-LLM's server did not answer within {START_TIMEOUT_S:.0f} s; docs/nvidia.md "
                    "has what to do where importing it hangs"
                ) from error
            raise
        engine = cls(client, names, "", is_exact=True)
        engine.process = process
        return engine

    async def wait_until_dead(self) -> None:
        await self.process.wait()

    async def aclose(self) -> None:
        await super().aclose()
        await _end(self.process)


def _client(url: str) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None)  # each utterance has one
    return httpx.AsyncClient(base_url=url, timeout=_ANSWER_TIMEOUT_S, limits=limits, trust_env=False)


async def _is_healthy(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/health")).is_success
    except httpx.TransportError:
        return False


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
