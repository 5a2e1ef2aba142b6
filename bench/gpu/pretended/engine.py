"""The whole engine on a pretended GPU: it starts, warms up, and streams join while others speak."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from firstword.app.clients import ANYBODY
from firstword.app.core.interface import Audio
from firstword.app.core.request import Delivery, Mode, SynthesisRequest
from firstword.app.engine.startup import running_engine
from firstword.app.options import EngineOptions, LMEngineOptions, NetworkOptions, SpeakerOptions, StartOptions
from firstword.app.telemetry.metrics import Metrics
from firstword.bench.gpu.pretended.device import PretendedGpu, pretended_gpu
from firstword.bench.gpu.pretended.ledger import Ledger
from firstword.bench.gpu.service import speak_as_long_as_people, write_texts
from firstword.bench.random_checkpoint import write_random_checkpoint
from firstword.bench.random_checkpoint.networks import PROMPT_SPEAKER
from firstword.models.config import Family
from firstword.models.runtimes.torch import runtime
from firstword.models.runtimes.torch.cuda_graphs import capture, flow, token_decoder, token_graphs

TEXTS = ("The quick brown fox.", "One more sentence.", "Yes.")
SOLVER_STEPS = 2
FIRST_HOP_TOKENS = 25  # a whole hop: the vocoder has two shapes fewer


@dataclass(frozen=True, slots=True)
class EngineRun:
    """audio_s: of each stream. recorded: graphs until the engine was ready, and after that.

    waits: for the device while the streams spoke, of all together; events of other work aside.
    """

    ledger: Ledger
    audio_s: tuple[float, ...]
    recorded: tuple[int, int]
    waits: int


def speak(family: Family, cuda_graphs: bool = True) -> EngineRun:
    """Start the engine with small random networks; three streams speak, one of text as it is written."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / f"random-{family}"
        write_random_checkpoint(checkpoint, family, "small", weights_format="safetensors")
        speak_as_long_as_people(checkpoint, write_texts(Path(folder) / "texts.jsonl"))
        with pretended_gpu() as gpu, _few_buckets():
            return asyncio.run(_speak(gpu, checkpoint, Path(folder) / "data", cuda_graphs))


@contextmanager
def _few_buckets() -> Iterator[None]:
    """Record as few shapes as three streams need, at once: all of them take a CPU minutes."""
    with ExitStack() as stack:
        for module, name, few in (
            (runtime, "MAX_ROWS", 4),
            (runtime, "STREAMS", (2,)),
            (flow, "STREAMS", (2,)),
            (flow, "PAGES", (8,)),
            (flow, "WARM_UPS", 0),
            (capture, "WARM_UPS", 0),
            (token_graphs, "BATCHES", (4,)),
            (token_graphs, "LENGTHS", (256,)),
            (token_decoder, "LENGTHS", (256,)),
            (token_graphs, "RUNS", ((16, 256), (128, 256))),
        ):
            stack.enter_context(patch.object(module, name, few))
        yield


async def _speak(gpu: PretendedGpu, checkpoint: Path, data_dir: Path, cuda_graphs: bool) -> EngineRun:
    networks = NetworkOptions(
        checkpoint=checkpoint,
        backend="torch",
        device="cuda",
        precision="bfloat16",
        cuda_graphs=cuda_graphs,
        solver_steps=SOLVER_STEPS,
        first_hop_tokens=FIRST_HOP_TOKENS,
    )
    speakers = SpeakerOptions(data_dir=data_dir, default_speaker=PROMPT_SPEAKER)
    given = StartOptions(networks, EngineOptions(max_streams=4), speakers, LMEngineOptions())
    async with running_engine(given, Metrics()) as running:
        at_start, waits_at_start = len(gpu.ledger.recordings), gpu.ledger.num_waits

        async def one(number: int, text: str) -> float:
            mode: Mode = "continuous" if number == 1 else "whole"
            whole = text if mode == "whole" else None
            request = SynthesisRequest(
                str(number), "cli", mode, whole, seed=number, delivery=Delivery(cache=False), client=ANYBODY
            )
            samples = 0
            async with running.engine.open(request) as stream:
                if whole is None:
                    stream.push_text(text)
                    stream.finish_text()
                async for event in stream:
                    samples += len(event.samples) if isinstance(event, Audio) else 0
            return samples / stream.sample_rate_hz

        audio_s = await asyncio.gather(*(one(number, text) for number, text in enumerate(TEXTS)))
        waits = gpu.ledger.num_waits - waits_at_start
    later = len(gpu.ledger.recordings) - at_start
    return EngineRun(gpu.ledger, tuple(audio_s), (at_start, later), waits)
