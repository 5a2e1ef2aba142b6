"""The table of docs/operations.md with the limits of every door is made of the limits themselves."""

from pathlib import Path

from firstword.app.bounded_json import MAX_FIELDS, MAX_VALUES
from firstword.app.http import connection_limits as limits
from firstword.app.http.forms import MAX_URLENCODED_BYTES
from firstword.app.http.held_bytes import MIN_BODY_BYTES, PART_OF_HELD, SMALL_BYTES
from firstword.app.http.limits import FORM_BYTES
from firstword.app.http.rpc.door import Door
from firstword.app.http.rpc.fields import LARGE_MESSAGE_BYTES
from firstword.app.http.rpc.fields import MAX_FIELDS as MAX_MESSAGE_FIELDS
from firstword.app.surfaces.grpc.speech import SpeechService
from firstword.app.surfaces.inference.http import MAX_LISTS, MAX_NUMBERS
from firstword.app.surfaces.inference.rpc import MAX_REQUESTS, MAX_UNANSWERED_BYTES
from tests.support.serving import make_services

PAGE = Path(__file__).parent.parent / "docs/operations.md"

_FRACTIONS = {
    3 / 4: "three quarters",
    1 / 2: "half",
    3 / 8: "three eighths",
    1 / 3: "a third",
    1 / 4: "a quarter",
    1 / 8: "an eighth",
}


def _kib(num_bytes: int) -> str:
    return f"{num_bytes >> 20} MiB" if num_bytes % (1 << 20) == 0 else f"{num_bytes / 1024:.0f} KiB"


def limits_table() -> str:
    part, part_of_public = _FRACTIONS[limits.PART_OF_CALLS], _FRACTIONS[limits.PART_OF_PUBLIC_CALLS]
    readers = _FRACTIONS[limits.PART_OF_READERS]
    text, upload = "`FIRSTWORD_MAX_BODY_BYTES`", f"`FIRSTWORD_MAX_UPLOAD_BYTES` and {_kib(FORM_BYTES)}"
    idle, in_all = "`FIRSTWORD_IDLE_TIMEOUT_S`", "`FIRSTWORD_MAX_BODIES_BYTES`"
    http, rpc, sockets = "HTTP", "gRPC", "WebSocket"
    rows = [
        (
            "request line and headers",
            "HTTP, WebSocket, metrics",
            f"{_kib(limits.MAX_HEAD_BYTES)}, {limits.MAX_HEADERS} headers, {limits.MAX_PARAMETERS} "
            f"parameters, {limits.HEAD_TIMEOUT_S:g} s; of a "
            f"`Content-Type` {_kib(limits.MAX_CONTENT_TYPE_BYTES)}",
            "431, 414 or 408, closed",
        ),
        ("the opening of a connection", rpc, f"{limits.HEAD_TIMEOUT_S:g} s", "closed"),
        (
            "a body",
            http,
            f"{text}, or more where a recording may come; `FIRSTWORD_BODY_TIMEOUT_S`",
            "413, 408",
        ),
        (
            "chunk sizes, extensions and trailers of a body",
            "HTTP, metrics",
            f"{_kib(limits.FRAMING_BYTES)} and {_FRACTIONS[1 / limits.FRAMING_SHARE]} of the body",
            "400, closed",
        ),
        (
            "the rest of a request that is answered already",
            "HTTP, metrics",
            f"{_kib(limits.MAX_REST_BYTES)}, {limits.LINGER_S:g} s",
            "closed",
        ),
        (
            "control frames, and frames that carry nothing or a fragment under "
            f"{limits.SMALL_FRAME_BYTES} bytes",
            sockets,
            f"{limits.FRAMES_PER_S} a second, {limits.FRAME_BURST} at once",
            "1008",
        ),
        ("a message", sockets, "`FIRSTWORD_MAX_MESSAGE_BYTES`", "1009"),
        (
            "a message",
            rpc,
            f"{text}; of `RegisterSpeaker`, `ModelInfer` and `ModelStreamInfer` {upload}",
            "`INVALID_ARGUMENT`",
        ),
        (
            "the time for the one message of a call, with the wait for its turn to be received",
            rpc,
            "`FIRSTWORD_BODY_TIMEOUT_S`; "
            f"from its turn on {limits.PUBLIC_MESSAGE_TIMEOUT_S:g} s without a key",
            "`DEADLINE_EXCEEDED`",
        ),
        (
            "bytes of a call whose message is not read yet",
            rpc,
            f"{_kib(limits.WINDOW_BYTES)}; 64 KiB until its client has heard of that",
            "the client waits",
        ),
        (
            "messages being received at once",
            rpc,
            f"{_FRACTIONS[limits.QUICK_READERS]} of those that fit in {in_all}, at most {readers} of it "
            f"for one client; what is not there within {limits.QUICK_MESSAGE_S:g} s leaves that third and is "
            f"held as one of the largest; without a key {limits.NUM_PUBLIC_READERS}, {readers} of it for one "
            "address",
            "the others wait",
        ),
        (
            f"bodies and messages over {_kib(SMALL_BYTES)} that are not answered yet, together; recordings "
            "of a socket, until it speaks",
            "HTTP, WebSocket, gRPC",
            f"{in_all}, {_FRACTIONS[PART_OF_HELD]} of one client; one that is alone has its own limit",
            "503, 1013, `UNAVAILABLE`, or others make room",
        ),
        (
            "smaller ones, together",
            "HTTP, WebSocket, gRPC",
            f"as much again; a body of HTTP or a recording counts as {_kib(MIN_BODY_BYTES)} at least",
            "the same",
        ),
        (
            "values of a body of JSON; fields of an object; a URL-encoded form",
            http,
            f"{MAX_VALUES:,}, of `/v2` {MAX_NUMBERS:,}, {MAX_LISTS:,} of them lists; {MAX_FIELDS}; "
            f"{_kib(MAX_URLENCODED_BYTES)}",
            "400",
        ),
        (
            f"fields of a message over {_kib(LARGE_MESSAGE_BYTES)}",
            rpc,
            f"{MAX_MESSAGE_FIELDS}",
            "`INVALID_ARGUMENT`",
        ),
        (
            "requests of one `ModelStreamInfer` that are not answered yet",
            rpc,
            f"{MAX_REQUESTS}, {_kib(MAX_UNANSWERED_BYTES)} unless one is alone",
            "the next are not read",
        ),
        (
            "open sockets",
            sockets,
            f"{limits.MAX_SOCKETS}, or half of the file handles, {_FRACTIONS[limits.PART_OF_SOCKETS]} of one "
            "client",
            "503",
        ),
        (
            "recordings of consents and for watermarks, those that wait among them",
            http,
            f"{limits.MAX_CHECKS}, {_FRACTIONS[limits.PART_OF_CHECKS]} of one client",
            "503",
        ),
        (
            "connections without a request",
            "HTTP, WebSocket, metrics",
            f"{limits.MAX_WAITING}, or a quarter of the file handles",
            "the oldest is closed",
        ),
        (
            "connections",
            rpc,
            f"{limits.MAX_GRPC_CONNECTIONS}, or half of the file handles",
            "closed",
        ),
        ("calls", rpc, f"{limits.MAX_CALLS}, {part} of one client", "`UNAVAILABLE`"),
        (
            "calls that take one message after the other",
            rpc,
            f"{limits.MIN_STREAM_CALLS}, or {limits.STREAM_CALLS_PER_SLOT} for each stream of "
            f"`tts_max_streams`, {part} of one client",
            "`UNAVAILABLE`",
        ),
        (
            "calls without a key; and health watches and reflection",
            rpc,
            f"{limits.MAX_PUBLIC_CALLS} each, {part_of_public} of one address",
            "`UNAVAILABLE`",
        ),
        ("silence", sockets, idle, "1001"),
        (
            "silence of a call that takes messages, while nothing is spoken",
            rpc,
            idle,
            "`DEADLINE_EXCEEDED`",
        ),
        ("a connection without a call", rpc, idle, "closed"),
        (
            "a client that reads nothing",
            "all",
            "`FIRSTWORD_SLOW_LISTENER_TIMEOUT_S`",
            "the stream is cancelled",
        ),
    ]
    lines = [f"| {' | '.join(row)} |\n" for row in rows]
    return "| | of | limit | beyond it |\n|---|---|---|---|\n" + "".join(lines)


def test_the_table_of_limits_is_made_of_the_limits() -> None:
    assert limits_table() in PAGE.read_text(encoding="utf-8"), limits_table()


def test_only_the_methods_named_there_take_a_recording() -> None:
    service = make_services()
    methods = SpeechService(service).methods()
    long = [name for name, method in methods.items() if method.guard.body(service.limits).max_bytes > 1 << 20]
    assert long == ["RegisterSpeaker"]
    assert Door(service, {"firstword.v1.Speech": methods}).max_message_bytes == (10 << 20) + FORM_BYTES
