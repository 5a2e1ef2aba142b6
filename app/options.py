"""The settings as groups of plain values: what each part of the service is given whole.

`app.settings` reads them from the environment. A group's fields carry their description and their bounds,
which only a reading checks; code that builds a group itself gives it what it wants.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, SecretStr

from firstword.app.option_values import Digits, HomePath, LogLevel, SecretList, TextList

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
class ServerOptions:
    """Sockets, access and shutdown."""

    host: Annotated[str, Field(description="Address to listen on; 0.0.0.0 is every one of the machine's")] = (
        "127.0.0.1"
    )
    port: Annotated[
        int, Field(ge=0, le=65535, description="TCP port of HTTP and WebSocket; 0 takes a free one")
    ] = 8000
    metrics_port: Annotated[
        int | None,
        Field(ge=1, le=65535, description="TCP port of /metrics alone; empty leaves it on the main port"),
    ] = None
    api_keys: Annotated[
        SecretList,
        Field(
            description="Clients' keys, name:key or name:sha256 with commas between, which may do "
            "everything; without any, and without a file of keys, everybody is let in"
        ),
    ] = ()
    api_keys_file: Annotated[
        HomePath | None,
        Field(description="TOML file of keys with scopes, read again whenever it changes; empty is none"),
    ] = None
    public_lists: Annotated[
        bool, Field(description="List models, voices and speakers without a key, as Open WebUI asks for them")
    ] = False
    cors_origins: Annotated[
        TextList,
        Field(
            description="Origins whose web pages may call the server, with commas between; * is all",
        ),
    ] = ()
    allowed_hosts: Annotated[
        TextList,
        Field(
            description="Names in the Host header that are answered, with commas between; empty is every "
            "one, or loopback names alone where the server listens on a loopback address"
        ),
    ] = ()
    tag_audio: Annotated[
        bool,
        Field(description="Mark wav, mp3, opus and flac as synthetic, with the speaker and the request's id"),
    ] = True
    drain_timeout_s: Annotated[
        float,
        Field(gt=0, description="How long streams may go on after SIGTERM before they are cancelled"),
    ] = 30

    @property
    def plain_keys(self) -> tuple[str, ...]:
        """The API keys as text."""
        return tuple(key.get_secret_value() for key in self.api_keys)

    @property
    def is_loopback(self) -> bool:
        """Whether this machine alone reaches the server."""
        return self.host == "localhost" or self.host.startswith("127.") or self.host == "::1"

    @property
    def checked_hosts(self) -> tuple[str, ...] | None:
        """The names in Host that are answered besides loopback ones; None: every name."""
        return self.allowed_hosts if self.allowed_hosts or self.is_loopback else None


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may ask of the transport."""

    requests_per_minute: Annotated[int, Field(ge=0, description="Requests of one key; 0 is unlimited")] = 0
    streams_per_key: Annotated[int, Field(ge=0, description="Streams of one key at once; 0 is unlimited")] = 0
    slow_listener_timeout_s: Annotated[
        float,
        Field(gt=0, description="How long a listener may take nothing before its stream is cancelled"),
    ] = 30
    idle_timeout_s: Annotated[
        float,
        Field(gt=0, description="How long a WebSocket, or a call of gRPC that takes messages, may be silent"),
    ] = 300
    body_timeout_s: Annotated[
        float,
        Field(gt=0, description="How long a request's body, or its message of gRPC, may take to arrive"),
    ] = 30
    max_body_bytes: Annotated[int, Field(ge=1, description="JSON body of one request")] = 256 * 1024
    max_upload_bytes: Annotated[
        int, Field(ge=1, description="One recording of a speaker; a bundle may be 2 MiB larger")
    ] = 10 * _MIB
    max_reference_bytes: Annotated[
        int, Field(ge=1, description="One recording within a request, whose voice it borrows or converts")
    ] = 6 * _MIB
    max_batch_bytes: Annotated[
        int, Field(ge=1, description="JSON body of POST /v1/audio/batches, recordings included")
    ] = 16 * _MIB
    max_bodies_bytes: Annotated[
        int,
        Field(
            ge=1,
            description="Bodies and messages being received, of HTTP and gRPC together; more is refused",
        ),
    ] = 64 * _MIB
    max_message_bytes: Annotated[int, Field(ge=1, description="One message of a WebSocket")] = 128 * 1024
    max_contexts: Annotated[int, Field(ge=1, description="Contexts of one WebSocket at once")] = 8


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
            "checkpoint's own: 3 of the built-in voice, 10 of the published ones",
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
class ProvenanceOptions:
    """How speech is marked as synthetic for machines. docs/provenance.md says what each level gives."""

    provenance: Annotated[
        Literal["off", "metadata", "watermark"],
        Field(
            description="Marks of origin: metadata names the source in IPTC's terms in wav, mp3, opus and "
            "flac; watermark lays an inaudible one into all speech as well"
        ),
    ] = "off"
    provenance_key_file: Annotated[
        HomePath | None,
        Field(
            description="File of the watermark's secret key, 16 bytes or more; empty makes one in the data "
            "directory; servers whose marks are looked for together share it"
        ),
    ] = None
    provenance_payload: Annotated[
        int, Field(ge=0, lt=2**32, description="What the watermark says: a number of the operator's choice")
    ] = 0
    provenance_bits: Annotated[
        Literal[24, 32],
        Digits,
        Field(description="Bits of the watermark's number; 32 are found less often in short or coded speech"),
    ] = 24
    provenance_strength: Annotated[
        float,
        Field(
            ge=0.1, le=0.4, description="Of the watermark; more is found more often, and is nearer to audible"
        ),
    ] = 0.25
    provenance_manifest: Annotated[
        bool,
        Field(
            description="Sign whole files (wav, mp3, flac) with a C2PA manifest; needs the extra provenance "
            "and FIRSTWORD_PROVENANCE"
        ),
    ] = False
    provenance_certificate: Annotated[
        HomePath | None,
        Field(
            description="PEM chain that signs them, the signer first; empty makes one in the data directory"
        ),
    ] = None
    provenance_certificate_key: Annotated[
        HomePath | None,
        Field(description="PEM key of that certificate; empty goes with an empty certificate"),
    ] = None


@dataclass(frozen=True, slots=True)
class LogOptions:
    log_level: Annotated[
        LogLevel, Field(description="debug, info, warning or error; never shows spoken text")
    ] = "info"
    log_format: Annotated[
        Literal["text", "json"], Field(description="Log lines for people or for machines")
    ] = "text"
    tracing: Annotated[
        Literal["off", "otlp"],
        Field(
            description="A trace of each stream by OpenTelemetry, to where OTEL_EXPORTER_OTLP_ENDPOINT says; "
            "needs the extra otel"
        ),
    ] = "off"


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
