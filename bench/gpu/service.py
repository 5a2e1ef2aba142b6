"""The real service with a random checkpoint under the loads of the published table."""

import asyncio
import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from firstword.bench.data_set import own_sentences
from firstword.bench.gpu.measured import LoadRow, OnRow
from firstword.bench.latency import Plan, measure
from firstword.bench.levels import SHARES, Level
from firstword.bench.random_checkpoint import Size, write_random_checkpoint
from firstword.bench.server import own_server
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.checkpoint.traits import default_traits, write_traits
from firstword.models.config import TOKEN_RATE_HZ, TRAITS_FILE, Family

CHARACTERS_PER_S = 15  # of English as it is spoken
MAX_STREAMS = 32  # so that the highest load of the published table waits for the GPU, not for a slot


@dataclass(frozen=True, slots=True)
class Loads:
    """concurrency: requests at a time. rates_hz: Poisson; None: by the capacity. seconds: of each load."""

    concurrency: tuple[int, ...]
    rates_hz: tuple[float, ...] | None
    seconds: float


def measure_service(
    family: Family, size: Size, settings: Mapping[str, object], loads: Loads, on_row: OnRow
) -> None:
    """Start a server with these settings, device and precision among them, and ask it by HTTP.

    Raises ServerDidNotStart, and httpx.HTTPError where it does not answer any more.
    """
    device, precision = str(settings["device"]), str(settings["precision"])
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / f"random-{family}-{size}"
        write_random_checkpoint(checkpoint, family, size, weights_format="safetensors", device=device)
        texts = write_texts(Path(folder) / "texts.jsonl")
        speak_as_long_as_people(checkpoint, texts)
        own = {"checkpoint": checkpoint, "backend": "torch", "max_streams": MAX_STREAMS}
        with own_server(own | dict(settings)) as server:
            plan = Plan(
                server.url,
                concurrency=loads.concurrency,
                rates_hz=loads.rates_hz,
                seconds=loads.seconds,
                judges_speech=False,
                data=texts,
            )
            asyncio.run(measure(plan, lambda level: on_row(row_of(level, family, precision))))


def write_texts(path: Path) -> Path:
    """Our own English sentences, as the measurement reads them."""
    lines = [json.dumps({"text": item.text}) for item in own_sentences(("en",))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def speak_as_long_as_people(directory: Path, texts: Path) -> None:
    """Bound the speech tokens of a text such that a random language model takes a speaker's time for it."""
    checkpoint = open_checkpoint(directory)
    tokenizer = checkpoint.load_tokenizer()
    lines = [json.loads(line)["text"] for line in texts.read_text(encoding="utf-8").splitlines()]
    num_tokens = sum(len(tokenizer.encode(line)) for line in lines)
    ratio = TOKEN_RATE_HZ * sum(map(len, lines)) / CHARACTERS_PER_S / num_tokens
    traits = asdict(default_traits(checkpoint.config.family))
    traits |= {"min_token_ratio": 0.95 * ratio, "max_token_ratio": ratio}
    write_traits(directory / TRAITS_FILE, type(checkpoint.traits)(**traits))


def row_of(level: Level, family: str, precision: str) -> LoadRow:
    quantiles = dict(zip(SHARES, level.ttfb, strict=False))
    p50, p95 = (1000 * quantiles[share].value if share in quantiles else None for share in (0.5, 0.95))
    return LoadRow(
        family,
        precision,
        level.load.kind,
        level.load.amount,
        level.num_asked,
        level.num_refused,
        level.num_failed,
        level.num_stalled,
        p50,
        p95,
        level.realtime,
        "; ".join(level.faults),
    )
