"""The settings of what stands around an engine: a server's sockets, limits, marks of origin and logs."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from firstword.app.option_values import Digits, HomePath, LogLevel, SecretList, TextList

_MIB = 1024 * 1024


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
            description="Bodies, messages and recordings being received, of all doors together; beyond it "
            "late ones and those of clients with most make room, or more is refused",
        ),
    ] = 64 * _MIB
    max_message_bytes: Annotated[int, Field(ge=1, description="One message of a WebSocket")] = 128 * 1024
    max_contexts: Annotated[int, Field(ge=1, description="Contexts of one WebSocket at once")] = 8


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
    ] = 0.27
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
