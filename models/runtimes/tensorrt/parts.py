"""The parts of a checkpoint that TensorRT runs: their graphs, and the sizes that their inputs take.

The sizes come from how streams are cut: a stream brings a chunk of the flow's grid at most, sees its prompt
and its window, and is solved beside so many others. What is larger than a profile runs in torch.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import onnx

from firstword.models.config import (
    FRAME_RATE_HZ,
    FRAMES_PER_TOKEN,
    CheckpointError,
    DiTFlowConfig,
    Dtype,
    HiFTConfig,
    UNetFlowConfig,
    VocoderConfig,
)
from firstword.models.flow.flow import Flow
from firstword.models.frontend.prompt_reader import MAX_RECORDING_S
from firstword.models.harmonic_vocos.network import HarmonicVocos
from firstword.models.hift.hift import HiFT
from firstword.models.hift.streaming import LEFT_FRAMES, RIGHT_FRAMES
from firstword.models.runtimes.tensorrt.graphs import chunk_graph, estimator_graph, generator_graph
from firstword.models.runtimes.tensorrt.library import Part, Range, Ranges

PUBLISHED_INPUTS: Final = frozenset({"x", "mask", "mu", "t", "spks", "cond"})
WHOLE_FRAMES: Final[Range] = (4, 500, 3000)  # as published: a minute at most
MAX_STREAMS: Final = 8  # solved together
PINNED_CHUNKS: Final = 2  # that hold the rest of a prompt
UNBOUNDED_WINDOW_CHUNKS: Final = 60
GROWTH: Final = 1.5  # by which a buffer without a bound is larger than what is in it
GROWTH_CHUNKS: Final = 4


def part_ranges(
    flow: UNetFlowConfig | DiTFlowConfig, vocoder: VocoderConfig, window_s: float | None
) -> dict[str, Ranges]:
    """Return the sizes of each part's inputs, by its name; there are no engines of Harmonic Vocos.

    window_s: of its own past, what a stream attends to; None: all.
    """
    rows, chunk = flow.cfm.rows_per_stream, flow.estimator.chunk
    ranges: dict[str, Ranges] = {
        "estimator": {"rows": (rows, rows, rows), "length": WHOLE_FRAMES},
        "estimator_chunk": chunk_ranges(rows, chunk, window_s),
    }
    if isinstance(vocoder, HiFTConfig):
        is_causal = vocoder.is_causal
        starts = {"generator_start": True, "generator_next": False} if is_causal else {"generator": True}
        ranges |= {name: generator_ranges(vocoder, chunk, is_start) for name, is_start in starts.items()}
    return ranges


def parts_of(
    flow: Flow,
    vocoder: HiFT | HarmonicVocos,
    dtype: Dtype,
    window_s: float | None,
    published: Path | None = None,
) -> list[Part]:
    """dtype: of the engines. window_s: as of `part_ranges`.

    published: the estimator's ONNX file of a model directory, whose numbers are float32; an engine of other
    numbers is made of the flow's own weights. Raises CheckpointError if it is something else.
    """
    graphs: dict[str, Callable[[], bytes]] = {
        "estimator": partial(estimator_graph, flow.estimator, dtype),
        "estimator_chunk": partial(chunk_graph, flow.estimator, dtype),
    }
    if isinstance(vocoder, HiFT):
        generator = vocoder.generator
        graphs |= {
            "generator": partial(generator_graph, generator, dtype),
            "generator_start": partial(generator_graph, generator, dtype),
            "generator_next": partial(generator_graph, generator, dtype, False),
        }
    if published is not None and published.is_file() and dtype == "float32":
        check_published(published)
        graphs["estimator"] = published.read_bytes
    ranges = part_ranges(flow.config, vocoder.config, window_s)
    return [Part(name, sizes, graphs[name]) for name, sizes in ranges.items()]


def check_published(path: Path) -> None:
    """Raises CheckpointError unless `path` is an estimator with the published inputs."""
    try:
        names = {given.name for given in onnx.load(path, load_external_data=False).graph.input}
    except Exception as error:  # protobuf's errors have no base of their own
        raise CheckpointError(f"{path}: not an ONNX file: {error}") from error
    if names != PUBLISHED_INPUTS:
        raise CheckpointError(
            f"{path}: has the inputs {', '.join(sorted(names))}, not those of the published estimator: "
            f"{', '.join(sorted(PUBLISHED_INPUTS))}; remove it, and the engine is made of the flow's weights"
        )


def chunk_ranges(rows: int, chunk: int, window_s: float | None) -> dict[str, Range]:
    """Sizes of the chunks of up to MAX_STREAMS streams, and of what lies before them. rows: of a stream."""
    chunk_s = chunk / FRAME_RATE_HZ
    prompt = round(MAX_RECORDING_S / chunk_s)
    window = UNBOUNDED_WINDOW_CHUNKS if window_s is None else round(window_s / chunk_s)
    usual = prompt // 3 + window + PINNED_CHUNKS + 1
    growing = round(GROWTH * prompt) + GROWTH_CHUNKS  # while the prompt itself is solved
    greatest = max(growing, prompt + window + PINNED_CHUNKS + 1)
    return {
        "rows": (rows, rows, rows * MAX_STREAMS),
        "length": (FRAMES_PER_TOKEN, chunk, chunk),
        "past": (chunk, chunk * usual, chunk * greatest),
    }


def generator_ranges(config: HiFTConfig, chunk: int, is_start: bool) -> dict[str, Range]:
    """Sizes of a piece of mel, a `chunk` of frames at most, with what the vocoder adds; of its spectrum."""
    added = config.lookahead_frames if config.is_causal else LEFT_FRAMES + RIGHT_FRAMES
    least, greatest = FRAMES_PER_TOKEN, chunk + added
    per_frame = config.samples_per_frame // config.istft_hop_samples

    def sized(factor: int, more: int) -> Range:
        return factor * least + more, factor * chunk + more, factor * greatest + more

    return {
        "rows": (1, 1, MAX_STREAMS),
        "frames": sized(1, 0),
        "given": sized(1, config.lookahead_frames),
        "spectra": sized(per_frame, int(is_start)),
    }
