"""The models that the Open Inference Protocol shows, with the tensors of the published deployment."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version as version_of
from typing import Any, Final

from firstword.app.errors import InvalidRequest
from firstword.app.surfaces.inference.tensors import TensorSpec

VERSION: Final = "1"
PLATFORM: Final = "firstword"
EXTENSIONS: Final = ("binary_tensor_data", "model_configuration", "statistics", "generate")
REFERENCE_HZ: Final = 16_000
MEL_HZ: Final = 50
SPEECH_TOKEN_OFFSET: Final = 151_663
"""What the published deployment adds to speech tokens: the language model's size without them."""

REFERENCE_WAV: Final = TensorSpec("reference_wav", "FP32", (-1,))
REFERENCE_LENGTH: Final = TensorSpec("reference_wav_len", "INT32", (1,))
TARGET_TOKENS: Final = TensorSpec("target_speech_tokens", "INT32", (-1,))
FINALIZE: Final = TensorSpec("finalize", "BOOL", (1,), is_optional=True)
SPEECH_INPUTS: Final = (
    TensorSpec("reference_wav", "FP32", (-1,), is_optional=True),
    TensorSpec("reference_wav_len", "INT32", (1,), is_optional=True),
    TensorSpec("reference_text", "BYTES", (1,), is_optional=True),
    TensorSpec("target_text", "BYTES", (1,)),
)
TOKEN2WAV_INPUTS: Final = (
    TARGET_TOKENS,
    TensorSpec("prompt_speech_tokens", "INT32", (-1,), is_optional=True),
    TensorSpec("prompt_speech_feat", "FP16", (-1, 80), is_optional=True),
    TensorSpec("prompt_spk_embedding", "FP16", (-1,), is_optional=True),
    TensorSpec("token_offset", "INT32", (1,), is_optional=True),
    FINALIZE,
)
WAVEFORM: Final = TensorSpec("waveform", "FP32", (-1,))
MEL: Final = TensorSpec("mel", "FP32", (80, -1))


@dataclass(slots=True)
class Duration:
    count: int = 0
    ns: int = 0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.ns += round(1e9 * seconds)


@dataclass(slots=True)
class Statistics:
    """The figures of one model since the start. queue: for a slot; compute: all that is not."""

    last_inference_ms: int = 0  # since 1970
    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    queue: Duration = field(default_factory=Duration)
    compute: Duration = field(default_factory=Duration)


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model of the protocol. is_decoupled: a request may have several responses, over a stream."""

    name: str
    inputs: tuple[TensorSpec, ...]
    output: TensorSpec
    is_decoupled: bool = False
    statistics: Statistics = field(default_factory=Statistics)

    def input(self, name: str) -> TensorSpec | None:
        return next((spec for spec in self.inputs if spec.name == name), None)

    def named_input(self, name: object) -> TensorSpec:
        """Raise InvalidRequest where it has none of that name."""
        spec = self.input(name) if isinstance(name, str) else None
        if spec is None:
            known = ", ".join(spec.name for spec in self.inputs)
            raise InvalidRequest(
                f"model `{self.name}` has no input {str(name)[:64]!a}; it has {known}", "inputs"
            )
        return spec


def models_of(family: str, gives_mel: bool) -> Mapping[str, Model]:
    """Return the models by name; the first speaks texts. gives_mel: as `Stages` says."""
    models = [
        Model(family, SPEECH_INPUTS, WAVEFORM, is_decoupled=True),
        Model(
            "audio_tokenizer",
            (REFERENCE_WAV, REFERENCE_LENGTH),
            TensorSpec("prompt_speech_tokens", "INT32", (-1,)),
        ),
        Model("speaker_embedding", (REFERENCE_WAV,), TensorSpec("prompt_spk_embedding", "FP16", (-1,))),
        Model("token2wav", TOKEN2WAV_INPUTS, MEL if gives_mel else WAVEFORM),
        Model("vocoder", (MEL, FINALIZE), TensorSpec("tts_speech", "FP32", (-1,))),
    ]
    return {model.name: model for model in models}


Json = dict[str, Any]
"""What the protocol says over HTTP; over gRPC the same is a message."""


def server_metadata() -> Json:
    return {"name": PLATFORM, "version": version_of("firstword"), "extensions": EXTENSIONS}


def model_metadata(model: Model) -> Json:
    def described(spec: TensorSpec) -> Json:
        return {"name": spec.name, "datatype": spec.datatype, "shape": spec.shape}

    return {
        "name": model.name,
        "versions": [VERSION],
        "platform": PLATFORM,
        "inputs": [described(spec) for spec in model.inputs],
        "outputs": [described(model.output)],
    }


def model_config(model: Model) -> Json:
    """Return the configuration of a model as Triton shows it."""

    def described(spec: TensorSpec) -> Json:
        kind = "STRING" if spec.datatype == "BYTES" else spec.datatype
        return {"name": spec.name, "data_type": f"TYPE_{kind}", "dims": spec.dims}

    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "max_batch_size": 1,
        "input": [{**described(spec), "optional": spec.is_optional} for spec in model.inputs],
        "output": [described(model.output)],
        "model_transaction_policy": {"decoupled": model.is_decoupled},
    }


def model_statistics(model: Model) -> Json:
    statistics = model.statistics
    return {
        "name": model.name,
        "version": VERSION,
        "last_inference": statistics.last_inference_ms,
        "inference_count": statistics.success.count,
        "execution_count": statistics.success.count,
        "inference_stats": {
            "success": asdict(statistics.success),
            "fail": asdict(statistics.fail),
            "queue": asdict(statistics.queue),
            "compute_infer": asdict(statistics.compute),
        },
        "batch_stats": [],
    }


def repository_index(models: Mapping[str, Model]) -> list[Json]:
    return [{"name": name, "version": VERSION, "state": "READY", "reason": ""} for name in models]
