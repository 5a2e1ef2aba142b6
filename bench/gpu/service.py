"""The real service with a random checkpoint under the loads of the published table."""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from firstword.bench.client import Client
from firstword.bench.data_set import own_sentences, read_items
from firstword.bench.gpu.measured import LoadRow, OnRow, ProbeRow
from firstword.bench.levels import SHARES, Goal, Level, level_of
from firstword.bench.load import Load, asks, run_load, watched_lag
from firstword.bench.random_checkpoint import Size, write_random_checkpoint
from firstword.bench.random_checkpoint.networks import PROMPT_SPEAKER
from firstword.bench.server import ServerDidNotStart, own_server
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.checkpoint.traits import default_traits, write_traits
from firstword.models.config import TOKEN_RATE_HZ, TRAITS_FILE, Family
from firstword.models.runtimes.tensorrt.library import TensorRTError, find_library

CHARACTERS_PER_S = 15  # of English as it is spoken
MAX_STREAMS = 32  # so that the highest load of the published table waits for the GPU, not for a slot
SHARED_MEMORY = Path("/dev/shm")
MIN_SHARED_BYTES = 12 << 30  # a full-size checkpoint, and room
GPU_SETTINGS = {"cuda_graphs": True, "window_s": 4, "first_hop_tokens": 5}

Runner = Literal["torch", "vllm", "tensorrt"]


class Missing(Exception):
    """What is asked for is not installed here."""


@dataclass(frozen=True, slots=True)
class Loads:
    """num_alone: requests one at a time, at most `alone_s`. rates_hz: Poisson. concurrency: at a time.

    seconds: of each. warm_s: of the same load before each, which is not counted.
    """

    num_alone: int
    rates_hz: tuple[float, ...]
    concurrency: tuple[int, ...]
    seconds: float
    warm_s: float
    alone_s: float = 30.0

    def all(self) -> Iterator[Load]:
        """In the order of what one wants to know first."""
        yield Load("closed", 1, self.alone_s, max_requests=self.num_alone)
        for rate in self.rates_hz:
            yield Load("poisson", rate, self.seconds)
        for amount in self.concurrency:
            yield Load("closed", amount, self.seconds)


def measure_service(
    family: Family,
    size: Size,
    runner: Runner,
    settings: Mapping[str, object],
    loads: Loads,
    on_row: OnRow,
) -> None:
    """Start a server with these settings, device and precision among them, and ask it by HTTP.

    A speaker with a prompt speaks: the published figures are those of a cloned voice. A server that does not
    start with CUDA graphs is a fault, and then it is measured without. Raises Missing, ServerDidNotStart, and
    httpx.HTTPError where it does not answer any more.
    """
    device, precision = str(settings["device"]), str(settings["precision"])
    _require(runner, device)
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as folder:
        checkpoint = Path(folder) / f"random-{family}-{size}"
        write_random_checkpoint(checkpoint, family, size, weights_format="safetensors", device=device)
        texts = write_texts(Path(folder) / "texts.jsonl")
        speak_as_long_as_people(checkpoint, texts)
        own: dict[str, object] = {
            "checkpoint": checkpoint,
            "data_dir": Path(folder) / "data",
            "backend": "vllm" if runner == "vllm" else "torch",
            "max_streams": MAX_STREAMS,
            "default_speaker": PROMPT_SPEAKER,
            "log_level": "info",
        }
        own |= GPU_SETTINGS if device == "cuda" else {}
        if runner == "tensorrt":
            own |= {"flow_backend": "tensorrt", "cuda_graphs": False}
            _build_engines(checkpoint, Path(folder) / "data", precision)
        own |= dict(settings)

        def on_level(level: Level) -> None:
            on_row(row_of(level, family, precision))

        def measured(given: Mapping[str, object]) -> None:
            with own_server(given) as server:
                asyncio.run(_drive(server.url, texts, loads, on_level))

        try:
            measured(own)
        except ServerDidNotStart as error:
            if not own.get("cuda_graphs"):
                raise
            on_row(ProbeRow("start with CUDA graphs", family, {"then": "without them"}, str(error)))
            measured(own | {"cuda_graphs": False})


async def _drive(url: str, texts: Path, loads: Loads, on_level: Callable[[Level], None]) -> None:
    async with Client(url, judges_speech=False) as client:
        client.sample_rate_hz = (await client.describe())["default_sample_rate"]
        wanted = asks(read_items(texts), "http")
        for load in loads.all():
            await run_load(replace(load, seconds=loads.warm_s), wanted, client.speak)
            async with watched_lag() as lag:
                outcomes = await run_load(load, wanted, client.speak)
            on_level(level_of(load, outcomes, Goal(), lag.worst_s))


def missing(runner: Runner, device: str) -> str:
    """Return what `runner` lacks here, as far as that is seen without loading it; "" for nothing."""
    if device == "pretended":
        return "a server is a process of its own, which is on the CPU or on a GPU"
    if runner == "vllm" and find_spec("vllm") is None:
        return "vllm is not installed"
    return "tensorrt needs a GPU" if runner == "tensorrt" and device == "cpu" else ""


def _require(runner: Runner, device: str) -> None:
    """Raises Missing."""
    if what := missing(runner, device):
        raise Missing(what)
    if runner == "tensorrt":
        try:
            find_library()
        except TensorRTError as error:
            raise Missing(str(error)) from error


def _fast_folder() -> Path | None:
    """Return memory for files, where it has room for a checkpoint; None: a folder on the disk."""
    is_roomy = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > MIN_SHARED_BYTES
    return SHARED_MEMORY if is_roomy else None


def _build_engines(checkpoint: Path, data_dir: Path, precision: str) -> None:
    words = ["tensorrt", str(checkpoint), "--data-dir", str(data_dir), "--precision", precision]
    program = "from firstword.app.cli import main; main()"
    subprocess.run([sys.executable, "-c", program, *words], check=True)


def write_texts(path: Path) -> Path:
    """Our own English sentences, as the measurement reads them."""
    lines = [json.dumps({"text": item.text}) for item in own_sentences(("en",))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def speak_as_long_as_people(directory: Path, texts: Path) -> None:
    """Bound the speech tokens of a text such that a random language model takes a speaker's time for it."""
    checkpoint = open_checkpoint(directory)
    tokenizer = checkpoint.load_tokenizer()
    lines = [item.text for item in read_items(texts)]
    num_tokens = sum(len(tokenizer.encode(line)) for line in lines)
    ratio = TOKEN_RATE_HZ * sum(map(len, lines)) / CHARACTERS_PER_S / num_tokens
    traits = asdict(default_traits(checkpoint.config.family))
    traits |= {"min_token_ratio": 0.95 * ratio, "max_token_ratio": ratio}
    write_traits(directory / TRAITS_FILE, type(checkpoint.traits)(**traits))


def row_of(level: Level, family: str, precision: str) -> LoadRow:
    quantiles = dict(zip(SHARES, level.quantiles.ttfb, strict=False))
    p50, p95 = (1000 * quantiles[share].value if share in quantiles else None for share in (0.5, 0.95))
    return LoadRow(
        family,
        precision,
        level.load.kind,
        level.load.amount,
        level.counts.num_asked,
        level.counts.num_refused,
        level.counts.num_failed,
        level.counts.num_stalled,
        p50,
        p95,
        level.realtime,
        "; ".join(level.counts.faults),
    )
