"""Set up logging: one line for each record, which no client can forge."""

import json
import logging
import logging.config
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

LogFormat = Literal["text", "json"]

# `message` is set by other formatters, `color_message` is uvicorn's message once more.
NO_EXTRAS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def configure_logging(level: str, format: LogFormat) -> None:
    """Log everything to stderr, uvicorn's loggers too; its access log is off.

    level: a name of the standard library's, in any case; ValueError for another. Start uvicorn with
    `log_config=None`, or it sets up its own. Its loggers stay at INFO or above: below that they show
    what a WebSocket's frames hold, which is the text people speak.
    """
    levels = logging.getLevelNamesMapping()
    if level.upper() not in levels:
        raise ValueError(f"log level {level!r}, expected one of {', '.join(levels)}")
    server_level = max(levels[level.upper()], logging.INFO)
    formatter = {"text": TextFormatter, "json": JsonFormatter}[format]
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"line": {"()": formatter}},
            "filters": {"no_access_lines": {"()": lambda: _is_no_access_line}},
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
            "root": {"level": level.upper(), "handlers": ["stderr"]},
            "loggers": {
                "uvicorn": {"level": server_level, "handlers": [], "propagate": True},
                "uvicorn.error": {
                    "level": server_level,
                    "handlers": [],
                    "propagate": True,
                    "filters": ["no_access_lines"],
                },
                "uvicorn.access": {"level": server_level, "handlers": [], "propagate": False},
                "websockets": {"level": server_level, "handlers": [], "propagate": True},
            },
        }
    )


class TextFormatter(logging.Formatter):
    """`TIME LEVEL LOGGER MESSAGE key=value …`; a value that could be taken for more than one is quoted."""

    def format(self, record: logging.LogRecord) -> str:
        fields = [f"{key}={_text_value(value)}" for key, value in _extras(record)]
        head = f"{_time(record)} {record.levelname} {record.name} {_printable(record.getMessage())}"
        return " ".join([head, *fields])


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, logger, message, and the extra fields beside them."""

    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, object] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **dict(_extras(record)),
        }
        return json.dumps(fields).replace("\x7f", "\\u007f")  # the one control character json leaves


def _extras(record: logging.LogRecord) -> Iterator[tuple[str, str | int | float]]:
    """Plain values given by `extra`, then the traceback. None and objects, such as sockets, are left out."""
    for key, value in vars(record).items():
        if key not in NO_EXTRAS and isinstance(value, str | int | float):
            yield key, value
    if record.exc_info:
        yield "exception", logging.Formatter().formatException(record.exc_info)
    if record.stack_info:
        yield "stack", record.stack_info


def _text_value(value: str | int | float) -> str:
    text = str(value)
    if text and text.isprintable() and not set(text) & set(' ="\\'):
        return text
    return _printable(json.dumps(text, ensure_ascii=False))


def _printable(text: str) -> str:
    """The text with control, format and surrogate characters as escapes; line breaks are such."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _time(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
        + "Z"
    )


def _is_no_access_line(record: logging.LogRecord) -> bool:
    """Drop uvicorn's lines of WebSocket paths with their queries, which hold a browser's API key."""
    return record.levelno >= logging.WARNING or "protocols" not in Path(record.pathname).parts
