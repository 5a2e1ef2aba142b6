"""The engines of a checkpoint: which files they are, and the networks that run them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from firstword.models.checkpoint.open import Checkpoint, token2wav_fingerprint
from firstword.models.config import ESTIMATOR_FILE, CosyVoice1FlowConfig, Dtype
from firstword.models.flow.flow import Flow
from firstword.models.flow.incremental import FlowNetworks
from firstword.models.flow.solver import time_steps
from firstword.models.harmonic_vocos.network import HarmonicVocos
from firstword.models.hift.hift import Generate, HiFT
from firstword.models.runtimes.tensorrt.contexts import Engine, load_engine
from firstword.models.runtimes.tensorrt.library import Library, Part, Ranges, TensorRTError, find_library
from firstword.models.runtimes.tensorrt.networks import (
    TensorRTCausalGenerator,
    TensorRTEstimator,
    TensorRTGenerator,
)
from firstword.models.runtimes.tensorrt.parts import part_ranges, parts_of
from firstword.models.runtimes.tensorrt.plans import PlanDirectory, gpu_name


@dataclass(frozen=True, slots=True, eq=False)
class EnginePlans:
    """What a checkpoint needs, and where it is. directory: of the plans of all checkpoints."""

    checkpoint: Checkpoint
    library: Library
    dtype: Dtype
    window_s: float | None
    directory: Path

    @property
    def plans(self) -> PlanDirectory:
        version = f"{self.library.name}-{self.library.version}"
        fingerprint = token2wav_fingerprint(self.checkpoint.directory)
        return PlanDirectory(self.directory, gpu_name(), version, self.dtype, fingerprint)

    @property
    def ranges(self) -> dict[str, Ranges]:
        """Raises TensorRTError for a CosyVoice 1."""
        config = self.checkpoint.config
        if isinstance(config.flow, CosyVoice1FlowConfig):
            raise TensorRTError(
                "there are engines of CosyVoice 2 and 3 only, and the checkpoint is a CosyVoice 1"
            )
        return part_ranges(config.flow, config.vocoder, self.window_s)

    def parts(self, flow: Flow, vocoder: HiFT | HarmonicVocos) -> list[Part]:
        published = self.checkpoint.directory / ESTIMATOR_FILE
        return parts_of(flow, vocoder, self.dtype, self.window_s, published)

    def check(self) -> None:
        """Raises TensorRTError where a file is missing."""
        missing = self.plans.missing(self.ranges)
        if missing:
            raise TensorRTError(
                f"{self.directory} has no engines {', '.join(missing)} of this checkpoint for {gpu_name()}, "
                f"{self.library.name} {self.library.version}, {self.dtype} and this window; build them: "
                f"firstword tensorrt {self.checkpoint.directory} --precision {self.dtype}"
            )


def find_plans(checkpoint: Checkpoint, dtype: Dtype, window_s: float | None, directory: Path) -> EnginePlans:
    """Raises TensorRTError where TensorRT or a plan is missing."""
    found = EnginePlans(checkpoint, find_library(), dtype, window_s, directory)
    found.check()
    return found


def load_engines(found: EnginePlans, names: Collection[str], num_contexts: int) -> dict[str, Engine]:
    """names: of the parts. num_contexts: runs of one engine at once. Raises TensorRTError and OSError."""
    plans = found.plans
    return {
        name: load_engine(found.library, plans.path(name, ranges), num_contexts)
        for name, ranges in found.ranges.items()
        if name in names
    }


FLOW_PARTS = ("estimator_chunk", "estimator")
VOCODER_PARTS = ("generator", "generator_start", "generator_next")


def flow_networks(engines: Mapping[str, Engine], flow: Flow) -> FlowNetworks:
    """engines: by the names of their parts."""
    steps = [t for t, _ in time_steps(flow.config.cfm.num_steps)]
    estimator = TensorRTEstimator(flow.estimator, steps, engines["estimator_chunk"], engines["estimator"])
    return FlowNetworks(flow.front, estimator)


def vocoder_network(engines: Mapping[str, Engine], hift: HiFT) -> Generate:
    """engines: as of `flow_networks`."""
    if not hift.config.is_causal:
        return TensorRTGenerator(hift.generator, engines["generator"])
    return TensorRTCausalGenerator(hift.generator, engines["generator_start"], engines["generator_next"])
