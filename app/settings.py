"""Every setting of the service, read once from the environment or `.env`, and validated."""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

PREFIX: Final = "FIRSTWORD_"
CLIENT_VARIABLES: Final = frozenset({f"{PREFIX}CLIENT_URL", f"{PREFIX}CLIENT_API_KEY"})
"""Read by the commands that talk to a running server; no settings of the server."""
BUILTIN_CHECKPOINT: Final = Path(__file__).parent.parent / "models" / "builtin"
OPENAI_VOICES: Final = (
    *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable"),
    *("marin", "nova", "onyx", "sage", "shimmer", "verse"),
)
_MIB = 1024 * 1024


class InvalidSettings(Exception):
    """What is set cannot be served; the message names each variable. It never shows a key."""


def _split(given: object) -> object:
    """ "a, b" -> ("a", "b"). What is no text goes on to be judged by its type."""
    if not isinstance(given, str):
        return given
    return tuple(part.strip() for part in given.split(",") if part.strip())


def _pairs(given: object) -> object:
    """ "a=b, c=d" -> {"a": "b", "c": "d"}."""
    if not isinstance(given, str):
        return given
    pairs: dict[str, str] = {}
    for part in filter(str.strip, given.split(",")):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not (name and sign and value) or "=" in value:
            raise ValueError("expected name=speaker pairs with commas between, such as alloy=slt,onyx=rms")
        pairs[name] = value
    return pairs


def _lower(given: object) -> object:
    return given.lower() if isinstance(given, str) else given


TextList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
SecretList = Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(_split)]
TextMap = Annotated[dict[str, str], NoDecode, BeforeValidator(_pairs)]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)]


class Settings(BaseSettings):
    """Arguments come before the environment, the environment before `.env`, `.env` before the defaults.

    An empty value means the default. Raises InvalidSettings for a variable with our prefix that is no
    setting, pydantic's ValidationError for a value that cannot be; `load_settings` makes one line of it.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=".env",
        env_file_encoding="utf-8",
        env_ignore_empty=True,
        dotenv_filtering="only_existing",  # other programs' variables in the file are theirs
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,  # an input may be a key
        allow_inf_nan=False,
    )

    host: str = Field(
        default="127.0.0.1", description="Address to listen on; 0.0.0.0 is every one of the machine's"
    )
    port: int = Field(
        default=8000, ge=0, le=65535, description="TCP port of HTTP and WebSocket; 0 takes a free one"
    )
    metrics_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="TCP port of /metrics alone; empty leaves it on the main port",
    )
    data_dir: Path = Field(
        default=Path("data"), description="Directory of all that is written: registered speakers"
    )
    checkpoint: Path = Field(
        default=BUILTIN_CHECKPOINT,
        description="Model directory of CosyVoice 1, 2 or 3; empty is the built-in voice",
    )
    backend: Literal["auto", "torch", "vllm"] = Field(
        default="auto",
        description="What runs the language model; auto is vLLM where it and a GPU are there, else torch",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="Where the networks run; auto takes a GPU if torch finds one"
    )
    precision: Literal["auto", "float32", "bfloat16", "int8"] = Field(
        default="auto",
        description="float32, bfloat16, or int8, a CPU's: language model and transformer blocks in 8 bits; "
        "auto is int8 on a CPU, but for CosyVoice 3's flow, else float32",
    )
    default_speaker: str | None = Field(
        default=None, description="Speaker of requests that name none; empty is the checkpoint's first"
    )

    api_keys: SecretList = Field(
        default=(),
        description="Clients' keys, name:key or name:sha256 with commas between; empty lets everybody in",
    )
    cors_origins: TextList = Field(
        default=(), description="Origins whose web pages may call the server, with commas between; * is all"
    )
    requests_per_minute: int = Field(default=0, ge=0, description="Requests of one key; 0 is unlimited")
    streams_per_key: int = Field(default=0, ge=0, description="Streams of one key at once; 0 is unlimited")

    max_streams: int = Field(
        default=0,
        ge=0,
        description="Streams that speak at once, more of them wait; 0 is what the machine was found at its "
        "start to speak in real time",
    )
    max_queued: int = Field(
        default=16, ge=0, description="Requests that wait for a place; more are refused with 503"
    )
    queue_timeout_s: float = Field(
        default=0.5, gt=0, description="How long a request waits for a place before its 503"
    )
    listener_buffer_s: float = Field(
        default=10, gt=0, description="Audio made ahead of one listener before its stream pauses"
    )
    slow_listener_timeout_s: float = Field(
        default=30, gt=0, description="How long a listener may take nothing before its stream is cancelled"
    )
    idle_timeout_s: float = Field(
        default=300, gt=0, description="How long a WebSocket may be silent before it is closed"
    )
    body_timeout_s: float = Field(
        default=30, gt=0, description="How long a request's body may take to arrive"
    )
    drain_timeout_s: float = Field(
        default=30, gt=0, description="How long streams may go on after SIGTERM before they are cancelled"
    )

    max_text_chars: int = Field(
        default=4096, ge=1, description="Text of one stream; more is refused with 413"
    )
    max_body_bytes: int = Field(default=256 * 1024, ge=1, description="JSON body of one request")
    max_upload_bytes: int = Field(
        default=10 * _MIB, ge=1, description="One recording of a speaker; a bundle may be 2 MiB larger"
    )
    max_message_bytes: int = Field(default=128 * 1024, ge=1, description="One message of a WebSocket")
    max_contexts: int = Field(default=8, ge=1, description="Contexts of one WebSocket at once")

    first_hop_tokens: int = Field(
        default=10,
        ge=1,
        le=25,
        description="Speech tokens, 25 a second, before the first audio; fewer start sooner",
    )
    trim_silence: bool = Field(
        default=True, description="Cut the silence before a stream's first sound, 30 ms of it kept"
    )
    window_s: float = Field(
        default=10, ge=0, description="How much of its own past a stream attends to; 0 is all, and costs grow"
    )
    max_state_mb: int | None = Field(
        default=None,
        ge=1,
        description="Memory of one stream, its window shortened to fit; empty is no budget",
    )
    speaker_cache_mb: int = Field(default=512, ge=1, description="Memory of speakers kept ready")
    num_threads: int = Field(
        default=0,
        ge=0,
        description="Threads of one network's arithmetic; 0 shares the cores among the workers",
    )
    num_workers: int = Field(
        default=0, ge=0, description="Threads that turn speech tokens into sound; 0 chooses by the machine"
    )

    vllm_dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto",
        description="Number format in vLLM; auto is bfloat16 where the precision is, else float32",
    )
    vllm_quantization: Literal["none", "fp8"] = Field(
        default="none", description="How vLLM shrinks the language model's weights; fp8 needs a GPU"
    )
    vllm_max_num_seqs: int | None = Field(
        default=None, ge=1, description="Utterances in one step of vLLM; empty is the streams at once"
    )
    vllm_max_model_len: int = Field(
        default=8192,
        ge=256,
        le=32768,
        description="Tokens of one utterance in vLLM: prompt, text and speech, 25 a second, together",
    )
    vllm_memory_share: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="Share of the GPU's memory, or of the machine's, that vLLM takes for weights and cache",
    )
    vllm_tensor_parallel_size: int = Field(
        default=1, ge=1, description="GPUs that vLLM spreads the language model over"
    )
    vllm_eager: bool | None = Field(
        default=None,
        description="No compiled graphs in vLLM: a quicker start, slower steps; empty is that on a CPU only",
    )
    openai_voices: TextMap = Field(
        default_factory=dict,
        description="OpenAI's voices as name=speaker with commas between; the others are the default speaker",
    )
    log_level: LogLevel = Field(
        default="info", description="debug, info, warning or error; never shows spoken text"
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="Log lines for people or for machines"
    )

    def voices(self, default_speaker: str) -> dict[str, str]:
        """OpenAI's names of voices -> our speakers."""
        return dict.fromkeys(OPENAI_VOICES, default_speaker) | self.openai_voices

    @property
    def plain_keys(self) -> tuple[str, ...]:
        """Of `api_keys`, as KeyRing takes them."""
        return tuple(key.get_secret_value() for key in self.api_keys)

    @field_validator("checkpoint", "data_dir")
    @classmethod
    def _expand_home(cls, path: Path) -> Path:
        return path.expanduser()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        for source, place in ((env_settings, "the environment"), (dotenv_settings, "the .env file")):
            assert isinstance(source, EnvSettingsSource), source
            _refuse_unknown({name.upper() for name in source.env_vars}, place)
        return init_settings, env_settings, dotenv_settings


_FIELDS = Settings.model_fields
LOCAL_URL: Final = f"http://{_FIELDS['host'].default}:{_FIELDS['port'].default}"
"""Where a server with the default settings is."""


def variable_of(field: str) -> str:
    return f"{PREFIX}{field.upper()}"


def load_settings(**given: object) -> Settings:
    """given: what goes before the environment; None leaves a setting to it. Raises InvalidSettings."""
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        problems = "; ".join(_problem(detail) for detail in error.errors(include_url=False))
        raise InvalidSettings(f"{problems}. `firstword settings` lists every setting.") from None


def _problem(detail: ErrorDetails) -> str:
    """`FIRSTWORD_PORT is '99999': input should be …`; a key's value is left out."""
    field = str(detail["loc"][0])
    given = (
        "" if field == "api_keys" or detail["type"] == "value_error" else f" is {str(detail['input'])[:80]!r}"
    )
    message = detail["msg"].removeprefix("Value error, ")
    return f"{variable_of(field)}{given}: {message[:1].lower()}{message[1:]}"


def _refuse_unknown(names: set[str], place: str) -> None:
    known = {variable_of(field) for field in Settings.model_fields}
    unknown = sorted(
        name for name in names if name.startswith(PREFIX) and name not in known | CLIENT_VARIABLES
    )
    if unknown:
        raise InvalidSettings("; ".join(_unknown(name, place, known) for name in unknown))


def _unknown(name: str, place: str, known: set[str]) -> str:
    (nearest,) = get_close_matches(name, known, n=1, cutoff=0)
    return f"{name} in {place} is no setting; did you mean {nearest}? Rename or remove it"
