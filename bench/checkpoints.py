"""Opens the model directory that a measurement runs on."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firstword.bench.random_checkpoint import Size, write_random_checkpoint
from firstword.models.config import Family


@contextmanager
def checkpoint_at(directory: Path, family: Family | None, size: Size) -> Iterator[Path]:
    """Yield `directory`, or, if a family is named, one with random weights that is removed at the end."""
    if family is None:
        yield directory
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"random-{family}-{size}"
        write_random_checkpoint(path, family, size, weights_format="safetensors")
        yield path
