"""Opens the model directory that a measurement runs on."""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from firstword.bench.random_checkpoint import Size, write_random_checkpoint
from firstword.models.config import Family


def add_checkpoint_arguments(parser: argparse.ArgumentParser) -> None:
    """Ask which checkpoint runs, and how: --checkpoint, or --random and --size; --device, --precision."""
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--random", choices=get_args(Family), help="a checkpoint with random weights instead")
    parser.add_argument("--size", choices=get_args(Size), default="full", help="of the random one")
    parser.add_argument("--device", help="auto, cpu or cuda")
    parser.add_argument("--precision", help="auto, float32, bfloat16, int8 or int4")


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
