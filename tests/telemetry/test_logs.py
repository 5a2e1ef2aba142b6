import json
import logging
import re

import pytest

from firstword.app.events import StreamEvents
from firstword.app.telemetry.logs import LogFormat, configure_logging
from firstword.app.telemetry.metrics import Metrics
from firstword.app.telemetry.stream_record import StreamRecord
from firstword.app.telemetry.stream_stats import StreamStats
from tests.support.clock import Clock

pytestmark = pytest.mark.usefixtures("_loggers_as_before")

FORMATS: list[LogFormat] = ["text", "json"]


class Lines:
    """What was written to stderr since the last look."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self) -> list[str]:
        captured = self._capsys.readouterr()
        assert captured.out == ""
        return captured.err.splitlines()  # splits at every line break that Unicode knows


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    return Lines(capsys)


def test_text_line_has_time_level_logger_message_and_fields(lines: Lines) -> None:
    configure_logging("info", "text")
    logging.getLogger("a.b").warning("took %d", 3, extra={"id": "r-1", "rtf": 0.25, "reason": None})
    [line] = lines()
    time, rest = line.split(" ", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    assert rest == "WARNING a.b took 3 id=r-1 rtf=0.25"


def test_json_line_has_the_same_as_keys(lines: Lines) -> None:
    configure_logging("info", "json")
    logging.getLogger("a.b").warning("took %d", 3, extra={"id": "r-1", "rtf": 0.25, "reason": None})
    [line] = lines()
    fields = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields.pop("time"))
    expected = {"level": "WARNING", "logger": "a.b", "message": "took 3", "id": "r-1", "rtf": 0.25}
    assert fields == expected


@pytest.mark.parametrize("format", FORMATS)
def test_time_is_utc(lines: Lines, format: LogFormat) -> None:
    configure_logging("info", format)
    record = logging.makeLogRecord({"name": "a", "msg": "m", "levelno": logging.INFO, "created": 86400.9996})
    logging.getLogger().handle(record)
    assert "1970-01-02T00:00:00.999Z" in lines()[0]


FORGERIES = [
    "lena\n2030-01-01T00:00:00.000Z INFO app admin logged in",
    "lena\r\nx",
    "lena\x0bx\x0cx\x1cx\x1dx\x1ex\x85x\u2028x\u2029x",
    "lena\x1b[2K\x1b[1Ax\x07\x00\x7f\x9b",
    "lena\u202eoutcome",
    "lena\ud800",
    'lena outcome=ok "reason"=none \\',
    "",
]


@pytest.mark.parametrize("forgery", FORGERIES)
@pytest.mark.parametrize("format", FORMATS)
def test_client_cannot_forge_a_line(lines: Lines, format: LogFormat, forgery: str) -> None:
    configure_logging("info", format)
    logging.getLogger("a").info("no speaker %s", forgery, extra={"speaker": forgery, "outcome": "failed"})
    [line] = lines()
    assert line.isprintable()
    if format == "json":
        fields = json.loads(line)
        assert fields["message"] == f"no speaker {forgery}"
        assert (fields["speaker"], fields["outcome"]) == (forgery, "failed")


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("lena", "lena"),
        ("莉娜", "莉娜"),
        ("", '""'),
        ("a b", '"a b"'),
        ("x outcome=ok", '"x outcome=ok"'),
        ('say "x"', r'"say \"x\""'),
        ("a\nb", r'"a\nb"'),
        ("a\\nb", r'"a\\nb"'),
        ("a\x85b", r'"a\x85b"'),
    ],
)
def test_text_value_cannot_be_taken_for_two(lines: Lines, given: str, written: str) -> None:
    configure_logging("info", "text")
    logging.getLogger("a").info("m", extra={"speaker": given, "outcome": "ok"})
    assert lines()[0].endswith(f" INFO a m speaker={written} outcome=ok")


@pytest.mark.parametrize("format", FORMATS)
def test_traceback_stays_on_the_line(lines: Lines, format: LogFormat) -> None:
    configure_logging("info", format)
    try:
        raise ValueError("bad\nvalue")
    except ValueError:
        logging.getLogger("a").exception("broken", stack_info=True)
    [line] = lines()
    assert "Traceback" in line
    assert "ValueError: bad" in line
    assert "Stack (most recent call last)" in line


@pytest.mark.parametrize("format", FORMATS)
def test_objects_and_uvicorns_second_message_are_left_out(lines: Lines, format: LogFormat) -> None:
    configure_logging("info", format)
    extra = {"websocket": object(), "color_message": "\x1b[1mup\x1b[0m"}
    logging.getLogger("uvicorn.error").info("up", extra=extra)
    [line] = lines()
    assert "websocket" not in line
    assert "color_message" not in line


def test_level_is_kept_and_the_last_call_holds(lines: Lines) -> None:
    configure_logging("DEBUG", "json")
    configure_logging("warning", "text")
    logging.getLogger("a").info("quiet")
    logging.getLogger("a").warning("loud")
    [line] = lines()
    assert line.endswith(" WARNING a loud")


def test_unknown_level_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"log level 'loud', expected one of .*INFO"):
        configure_logging("loud", "text")


def test_uvicorns_events_come_once_and_its_access_log_never(lines: Lines) -> None:
    logging.getLogger("uvicorn").addHandler(logging.StreamHandler())
    logging.getLogger("uvicorn.access").addHandler(logging.StreamHandler())
    configure_logging("info", "text")
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("uvicorn.access").info("GET /tts?text=secret")
    [line] = lines()
    assert line.endswith(" INFO uvicorn.error Started server process")
    assert not logging.getLogger("uvicorn.access").hasHandlers()  # which is how uvicorn knows


@pytest.mark.parametrize("name", ["uvicorn.error", "uvicorn.asgi", "websockets.server"])
def test_frames_of_a_websocket_are_not_shown_even_when_debugging(lines: Lines, name: str) -> None:
    configure_logging("debug", "text")
    logging.getLogger(name).debug("< TEXT '%s'", "what somebody speaks")
    logging.getLogger("a").debug("shown")
    [line] = lines()
    assert line.endswith(" DEBUG a shown")


@pytest.mark.parametrize("format", FORMATS)
def test_stream_is_one_line_without_its_text(lines: Lines, format: LogFormat) -> None:
    configure_logging("debug", format)
    clock = Clock()
    record = StreamRecord(Metrics(), StreamEvents(clock), "http")
    record.named("r-1", "lena\nmalory")
    clock.pass_s(0.1)
    record.audio_went(2400, 24000)
    record.end("ok", stats=StreamStats(characters=12, compute_s=0.02))
    [line] = lines()
    if format == "text":
        fields = r'id=r-1 speaker="lena\nmalory" characters=12 audio_ms=100 ttfb_ms=100.0 rtf=0.2'
        fields += " queue_ms=0.0 outcome=ok"
        assert line.endswith(f" INFO firstword.app.telemetry.stream_record stream ended {fields}")
    else:
        keys = "time level logger message id speaker characters audio_ms ttfb_ms rtf queue_ms outcome"
        assert list(json.loads(line)) == keys.split()
