import logging
from collections.abc import Iterator

import pytest

CONFIGURED = ["", "uvicorn", "uvicorn.error", "uvicorn.access", "websockets"]


@pytest.fixture
def _loggers_as_before() -> Iterator[None]:
    """Undoes configure_logging."""
    loggers = [logging.getLogger(name) for name in CONFIGURED]
    before = [(it, it.level, it.handlers[:], it.filters[:], it.propagate) for it in loggers]
    yield
    for logger, level, handlers, filters, propagate in before:
        logger.setLevel(level)
        logger.handlers, logger.filters, logger.propagate = handlers, filters, propagate
