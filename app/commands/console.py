"""What the commands share: where they write, and how they report an error in one line."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from typer import Exit
from typer.core import TyperGroup


class CommandFailed(Exception):
    """The message says what came, what was expected, what to do; it is all that the user sees."""


class CommandGroup(TyperGroup):
    """Ends with one line and exit code 1 on what the world can break; a bug keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            causes = list(_leaves(error))
            if not all(_is_of_the_world(cause) for cause in causes):
                raise
            line = "; ".join(" ".join(_message_of(cause).split()) for cause in causes)
            to_stderr().print(
                f"firstword: {line}", style="red", markup=False, highlight=False, soft_wrap=True
            )
            raise Exit(1) from None


def to_stdout() -> Console:
    return Console()


def to_stderr() -> Console:
    return Console(stderr=True)


@contextmanager
def waiting(what: str) -> Iterator[Callable[[], None]]:
    """Show on a terminal that something is being done, and for how long. Gives what ends it sooner."""
    console = to_stderr()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task(what, total=None)
        yield progress.stop


def end_at_first_log_line(end: Callable[[], None]) -> None:
    """Call `end` before anything is logged: two writers of a terminal's line would mix."""

    def note(record: logging.LogRecord) -> bool:
        end()
        return True

    for handler in logging.getLogger().handlers:
        handler.addFilter(note)


def _message_of(error: Exception) -> str:
    """Return an error's message; of one of the system's, the file and the reason without its number."""
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, str):
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _leaves(error: Exception) -> Iterator[Exception]:
    """The errors that a group of tasks gathered, however deep; of a single one, itself."""
    if not isinstance(error, ExceptionGroup):
        yield error
        return
    for inner in error.exceptions:
        yield from _leaves(inner)


def _is_of_the_world(error: Exception) -> bool:
    # Imported when something failed: they would slow down every start.
    from firstword.app.database import DatabaseError
    from firstword.app.errors import TtsError
    from firstword.app.options import InvalidOptions
    from firstword.models.config import CheckpointError
    from firstword.models.runtimes.tensorrt.library import TensorRTError

    known = (CommandFailed, InvalidOptions, TtsError, DatabaseError, CheckpointError, TensorRTError, OSError)
    if isinstance(error, known):
        # A broken pipe is no error here: whoever read our output has enough.
        return not isinstance(error, BrokenPipeError)
    if "torch" not in sys.modules:  # which takes seconds; what comes of networks comes with it
        return False
    from firstword.app.engine.backend import BackendError
    from firstword.models.frontend.features import FrontendError

    return isinstance(error, (BackendError, FrontendError))
