"""The settings of an engine as groups of plain values: what each of its parts is given whole.

`app.settings` reads them from the environment. A group's fields carry their description and their bounds,
which only a reading checks; code that builds a group itself gives it what it wants.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, SecretStr

from firstword.app.budget import DEFAULT_LIMITS, WorkLimits
from firstword.app.option_values import HomePath

if TYPE_CHECKING:
    from firstword.app.audio.watermark import Watermark  # numpy

BUILTIN_CHECKPOINT: Final = Path(__file__).parent.parent / "models" / "builtin"
_MIB = 1024 * 1024


class InvalidOptions(ValueError):
    """Options that this machine or this checkpoint cannot serve; the message says what to set instead."""


BackendChoice = Literal["auto", "torch", "vllm", "trtllm"]
FlowBackendChoice = Literal["auto", "torch", "onnx", "tensorrt"]
DeviceChoice = Literal["auto", "cpu", "cuda"]
PrecisionChoice = Literal["auto", "float32", "bfloat16", "float16", "int8", "int4"]
StatePrecisionChoice = Literal["auto", "float32", "int8"]
HopStrategy = Literal["fixed", "growing", "time_based"]
OtherLanguagesChoice = Literal["refuse", "warn"]
FEW_BITS: Final[dict[str, Literal["int8", "int4"]]] = {"int8": "int8", "int4": "int4"}  # a CPU's


@dataclass(frozen=True, slots=True)
class StateOptions:
    """What flow and vocoder keep of a stream."""

    window_s: Annotated[
        float,
        Field(ge=0, description="How much of its own past a stream attends to; 0 is all, and costs grow"),
    ] = 10
    state_precision: Annotated[
        StatePrecisionChoice,
        Field(
            description="Format of keys and values in a CPU's flow; auto: int8 where a large flow is in int8"
        ),
    ] = "auto"
    max_state_mb: Annotated[
        int | None,
        Field(ge=1, description="Memory of one stream, its window shortened to fit; empty is no budget"),
    ] = None

    @property
    def max_state_bytes(self) -> int | None:
        return None if self.max_state_mb is None else self.max_state_mb * _MIB


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """Which networks are loaded, and how they run."""

    checkpoint: Annotated[
        HomePath,
        Field(description="Model directory of CosyVoice 1, 2 or 3; empty is the built-in voice"),
    ] = BUILTIN_CHECKPOINT
    backend: Annotated[
        BackendChoice,
        Field(
            description="What runs the language model; auto is vLLM where it and a GPU are there, else torch"
        ),
    ] = "auto"
    flow_backend: Annotated[
        FlowBackendChoice,
        Field(
            description="What runs flow and vocoder; auto is ONNX Runtime on a CPU, but for bfloat16, else "
            "torch; tensorrt needs engines that `firstword tensorrt` built"
        ),
    ] = "auto"
    device: Annotated[
        DeviceChoice, Field(description="Where the networks run; auto takes a GPU if torch finds one")
    ] = "auto"
    precision: Annotated[
        PrecisionChoice,
        Field(
            description="float32, bfloat16, float16 (a GPU's), or a CPU's int8 and int4: large products in 8 "
            "bits, or the language model's in 4; auto is bfloat16 on a GPU, or float16; on a CPU what it "
            "multiplies fastest by, as `firstword doctor` tells, but CosyVoice 3's flow in float32"
        ),
    ] = "auto"
    cuda_graphs: Annotated[
        bool,
        Field(
            description="Run the language model with its draws, the flow and the vocoder of CosyVoice 2 and "
            "3 as CUDA graphs, padded to few shapes; needs a GPU"
        ),
    ] = False
    exports: Annotated[
        HomePath | None,
        Field(
            description="Directory of `firstword export`, whose programs run instead of the networks' own "
            "where they can; only one that you made yourself; empty is none"
        ),
    ] = None
    first_hop_tokens: Annotated[
        int,
        Field(
            ge=0,
            le=25,
            description="Speech tokens, 25 a second, before the first audio; fewer start sooner; 0 is 10, "
            "and 5 on a GPU, which makes the next second before those are heard",
        ),
    ] = 0
    state: StateOptions = StateOptions()
    solver_steps: Annotated[
        int,
        Field(
            ge=0,
            le=100,
            description="Steps of the flow's solver; fewer are faster and change the sound; 0 is the "
            "checkpoint's own: 2 of the built-in voice, 10 of the published ones",
        ),
    ] = 0
    num_threads: Annotated[
        int,
        Field(
            ge=0,
            description="Threads of one network's arithmetic; 0 shares the cores among the workers",
        ),
    ] = 0
    num_workers: Annotated[
        int,
        Field(ge=0, description="Threads that turn speech tokens into sound; 0 chooses by the machine"),
    ] = 0


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """How many requests wait for a slot, and how long."""

    max_queued: Annotated[
        int, Field(ge=0, description="Requests that wait for a slot; more are refused with 503")
    ] = 16
    queue_timeout_s: Annotated[
        float, Field(gt=0, description="How long a request waits for a slot before its 503")
    ] = 0.5
    max_queued_files: Annotated[
        int,
        Field(
            ge=0,
            description='Requests with "stream": false that wait for a slot; more are refused with 503',
        ),
    ] = 64
    file_queue_timeout_s: Annotated[
        float, Field(gt=0, description='How long a request with "stream": false waits before its 503')
    ] = 60


@dataclass(frozen=True, slots=True)
class PacingOptions:
    """How far streams run ahead of their listeners and their writers."""

    listener_buffer_s: Annotated[
        float, Field(gt=0, description="Audio made ahead of one listener before its stream pauses")
    ] = 10
    hop_strategy: Annotated[
        HopStrategy,
        Field(
            description="Speech made at once behind a stream's first piece: fixed, a second; growing, 1, 2, "
            "4 seconds; time_based, half of what its listener has ahead, 4 at most. The sound is the same"
        ),
    ] = "fixed"
    writer_pause_ms: Annotated[
        int,
        Field(
            ge=0,
            description="How long text that is still being written may pause before the words that came are "
            "spoken to their end, if the listener has no more audio; 0 waits for the rest of the sentence",
        ),
    ] = 700

    @property
    def writer_pause_s(self) -> float:
        return self.writer_pause_ms / 1000


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How many streams speak at once, and how they are delivered."""

    max_streams: Annotated[
        int,
        Field(
            ge=0,
            description="Streams that speak at once, more of them wait; 0 is what the machine was found at "
            "its first start to speak in real time",
        ),
    ] = 0
    remeasure: Annotated[
        bool,
        Field(
            description="Measure anew how many streams run at once and what the machine multiplies fastest "
            "by; else an earlier start's figures count"
        ),
    ] = False
    queue: QueueOptions = QueueOptions()
    pacing: PacingOptions = PacingOptions()
    lexicon: Annotated[
        HomePath | None,
        Field(description="File of pronunciations, JSON or PLS, read again when it changes; empty is none"),
    ] = None
    other_languages: Annotated[
        OtherLanguagesChoice,
        Field(
            description="What becomes of a text most of which is in a language that the checkpoint does not "
            "speak: refuse, with the command that helps, or warn, and speak it as it can"
        ),
    ] = "refuse"
    phrase_cache_mb: Annotated[
        int,
        Field(
            ge=0,
            description="Memory of finished speech for equal requests with a seed or `cache`; 0 keeps none",
        ),
    ] = 0
    unload_after_s: Annotated[
        float,
        Field(
            ge=0,
            description="Time without use after which the networks' memory is given back; the next request "
            "waits until they are loaded again; 0 keeps them",
        ),
    ] = 0
    trim_silence: Annotated[
        bool, Field(description="Cut the silence before a stream's first sound, 30 ms of it kept")
    ] = True


@dataclass(frozen=True, slots=True)
class SpeakerOptions:
    """Where speakers are kept, and which of them are ready."""

    data_dir: Annotated[
        HomePath, Field(description="Directory of all that is written: registered speakers, what keys used")
    ] = Path("data")
    store: Annotated[
        SecretStr | None,
        Field(
            description="Address of a PostgreSQL, postgresql://…, that servers share for speakers, consents, "
            "batches, usage and quotas; empty is files in the data directory; needs the extra postgresql"
        ),
    ] = None
    default_speaker: Annotated[
        str | None,
        Field(
            description="Speaker of requests that name none, in whatever language; empty is the "
            "checkpoint's own, which may be another one for each language"
        ),
    ] = None
    loudness_lufs: Annotated[
        float | None,
        Field(
            ge=-40,
            le=-5,
            description="Loudness of speakers, by a constant gain for each; empty leaves it as it is",
        ),
    ] = None
    speaker_cache_mb: Annotated[
        int,
        Field(ge=0, description="Memory of speakers kept ready; 0 is 512, and a tenth of a GPU's memory"),
    ] = 0


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """The language model in vLLM. Their variables begin with FIRSTWORD_VLLM_."""

    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        Field(description="Number format in vLLM; auto is that of the precision"),
    ] = "auto"
    quantization: Annotated[
        Literal["none", "fp8"],
        Field(description="How vLLM shrinks the language model's weights; fp8 needs a GPU"),
    ] = "none"
    max_num_seqs: Annotated[
        int | None,
        Field(ge=1, description="Utterances in one step of vLLM; empty is the streams at once"),
    ] = None
    max_model_len: Annotated[
        int,
        Field(
            ge=256,
            le=32768,
            description="Tokens of one utterance in vLLM: prompt, text and speech, 25 a second, together",
        ),
    ] = 8192
    memory_share: Annotated[
        float,
        Field(
            gt=0,
            lt=1,
            description="Share of the GPU's memory, or of the machine's, that vLLM takes for weights and "
            "cache",
        ),
    ] = 0.2
    tensor_parallel_size: Annotated[
        int, Field(ge=1, description="GPUs that vLLM spreads the language model over")
    ] = 1
    eager: Annotated[
        bool | None,
        Field(
            description="No compiled graphs in vLLM: a quicker start, slower steps; empty is that on a CPU "
            "only"
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class TrtllmOptions:
    """The language model in TensorRT-LLM. Their variables begin with FIRSTWORD_TRTLLM_."""

    url: Annotated[
        str,
        Field(
            pattern=r"^(https?://\S+)?$",
            description="Address of a running trtllm-serve with the merged model; empty starts a server here",
        ),
    ] = ""
    engine: Annotated[
        HomePath | None,
        Field(description="Directory of an engine that trtllm-build made; empty is the merged model itself"),
    ] = None
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        Field(description="Number format in TensorRT-LLM; auto is that of the precision"),
    ] = "auto"
    max_model_len: Annotated[
        int,
        Field(ge=256, le=32768, description="Tokens of one utterance in TensorRT-LLM, all together"),
    ] = 8192
    memory_share: Annotated[
        float,
        Field(gt=0, lt=1, description="Share of the GPU's free memory that TensorRT-LLM takes for its cache"),
    ] = 0.2
    tensor_parallel_size: Annotated[
        int, Field(ge=1, description="GPUs that TensorRT-LLM spreads the language model over")
    ] = 1


@dataclass(frozen=True, slots=True)
class LMEngineOptions:
    """The engines in processes of their own, one of which may run the language model."""

    vllm: VllmOptions = VllmOptions()
    trtllm: TrtllmOptions = TrtllmOptions()


@dataclass(frozen=True, slots=True)
class StartOptions:
    """The settings of an engine, in their groups."""

    networks: NetworkOptions
    engine: EngineOptions
    speakers: SpeakerOptions
    lm_engines: LMEngineOptions
    work: WorkLimits = DEFAULT_LIMITS
    watermark: "Watermark | None" = None  # laid into all that is spoken


@dataclass(frozen=True, slots=True)
class Sampling:
    """How speech tokens are drawn; None leaves a value as the checkpoint has it.

    ras_window, ras_threshold: of repetition-aware sampling, the tokens looked at and the share of them from
    which on a token repeats. min_token_ratio, max_token_ratio: speech tokens per text token of an utterance.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    ras_window: int | None = None
    ras_threshold: float | None = None
    min_token_ratio: float | None = None
    max_token_ratio: float | None = None
