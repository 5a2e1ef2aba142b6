"""In which number format a CPU computes the networks: as it is set, else as this machine is fastest."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from firstword.models.config import (
    DiTFlowConfig,
    HarmonicVocosConfig,
    ModelConfig,
    Qwen2LMConfig,
    UNetFlowConfig,
    VocoderConfig,
)
from firstword.models.runtimes.interface import BackendError, Precision
from firstword.models.runtimes.measurement import MeasurementFile, measurement_key
from firstword.models.runtimes.onnx.build import LMPrecision
from firstword.models.runtimes.onnx.hift import is_wide
from firstword.models.runtimes.onnx.speed import ProductTimes, measure_products

PRODUCTS_FILE: Final = "products.json"
FEW_BITS: Final[Mapping[str, LMPrecision]] = {"int8": "int8", "int4": "int4"}
MIN_INT4_WIDTH: Final = (
    512  # of a language model: a smaller one's weights are read from the processor's cache
)
_WORTH_IT: Final = 0.9  # of the time that more bits take


@dataclass(frozen=True, slots=True)
class CpuFormats:
    """lm: of the language model's weights. has_int8_...: whether its large products are in 8 bits."""

    lm: LMPrecision
    has_int8_flow: bool
    has_int8_vocoder: bool
    reason: str

    def __str__(self) -> str:
        in_int8 = ["flow"] * self.has_int8_flow + ["vocoder"] * self.has_int8_vocoder
        products = f"large products of {' and '.join(in_int8)} in int8" if in_int8 else "all else in float32"
        return f"language model in {self.lm}, {products}: {self.reason}"


def cpu_formats(asked: Precision, config: ModelConfig, measured: Callable[[], ProductTimes]) -> CpuFormats:
    """measured: called where ONNX Runtime shall run in few bits. What torch runs is in float32.

    Raises BackendError where ONNX Runtime cannot have what is asked for.
    """
    if asked != "auto" and asked not in FEW_BITS:
        return CpuFormats("float32", False, False, f"FIRSTWORD_PRECISION is {asked}")
    times = measured()
    if asked in FEW_BITS:
        fast: LMPrecision = FEW_BITS[asked]
        if fast not in times.token or "int8" not in times.chunk:
            raise BackendError(
                f"FIRSTWORD_PRECISION is {asked}, which the ONNX Runtime that is installed cannot compute "
                "on this machine; set FIRSTWORD_PRECISION=auto"
            )
        has_int8, reason = True, f"FIRSTWORD_PRECISION is {asked}"
    else:
        is_large = isinstance(config.lm, Qwen2LMConfig) and config.lm.qwen2.hidden_size >= MIN_INT4_WIDTH
        token = {name: time for name, time in times.token.items() if is_large or name != "int4"}
        fast = _fastest(token)
        has_int8 = _fastest(times.chunk) == "int8"
        reason = f"a product of a token takes {_shown(token)}, of a chunk {_shown(times.chunk)}"
        if missing := [name for name in FEW_BITS if name not in times.token]:
            reason += f"; the ONNX Runtime that is installed has no {' and '.join(missing)}"
    return CpuFormats(
        lm=fast if isinstance(config.lm, Qwen2LMConfig) else "float32",
        # "auto" takes int8 only for the flows whose int8 was compared on trained weights.
        has_int8_flow=has_int8
        and isinstance(config.flow, UNetFlowConfig if asked == "auto" else UNetFlowConfig | DiTFlowConfig),
        has_int8_vocoder=has_int8 and _gains_by_int8(config.vocoder),
        reason=reason,
    )


def _gains_by_int8(vocoder: VocoderConfig) -> bool:
    """Harmonic Vocos is matrix products throughout; HiFT gains where it is wide."""
    if isinstance(vocoder, HarmonicVocosConfig):
        return True
    return not vocoder.is_causal and is_wide(vocoder)


def _fastest(times: Mapping[str, float]) -> LMPrecision:
    """Fewer bits have to be worth it."""
    chosen: LMPrecision = "float32"
    for name in FEW_BITS.values():
        if times.get(name, float("inf")) < _WORTH_IT * times[chosen]:
            chosen = name
    return chosen


def stored_products(num_threads: int, data_dir: Path | None) -> ProductTimes:
    """Measured at the first start; data_dir: where that is kept, None keeps nothing."""
    if data_dir is None:
        return measure_products(num_threads)
    file = MeasurementFile(data_dir / PRODUCTS_FILE, measurement_key("products", num_threads))
    stored = file.read()
    if isinstance(stored, dict) and all(_is_times(stored.get(name)) for name in ("token", "chunk")):
        return ProductTimes(stored["token"], stored["chunk"])
    times = measure_products(num_threads)
    file.write(asdict(times))
    return times


def _is_times(stored: object) -> bool:
    return (
        isinstance(stored, dict)
        and "float32" in stored
        and all(isinstance(time, int | float) and time > 0 for time in stored.values())
    )


def _shown(times: Mapping[str, float]) -> str:
    return ", ".join(f"{time:.2f} ms in {name}" for name, time in times.items())
