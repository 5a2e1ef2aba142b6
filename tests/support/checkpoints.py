"""Small checkpoints with random weights, written once in a test run; copy one before damaging it."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import torch

from firstword.bench.random_checkpoint import WeightsFormat, write_random_checkpoint
from firstword.models.checkpoint.open import Checkpoint, open_checkpoint
from firstword.models.config import Family

FAMILIES: tuple[Family, ...] = ("cosyvoice1", "cosyvoice2", "cosyvoice3")
FORMATS: tuple[WeightsFormat, ...] = ("pt", "safetensors")


def small_checkpoint(family: Family, weights_format: WeightsFormat = "pt") -> Path:
    """The directory is for reading only: all tests share it."""
    return _written_once(family, weights_format)


def copied_checkpoint(
    parent: Path, family: Family = "cosyvoice2", weights_format: WeightsFormat = "pt"
) -> Path:
    """A copy under `parent` that the test may change."""
    return Path(shutil.copytree(small_checkpoint(family, weights_format), parent / "model"))


def load_everything(directory: Path, dtype: torch.dtype = torch.float32) -> Checkpoint:
    """Opens a checkpoint and loads all it has. Raises CheckpointError."""
    checkpoint = open_checkpoint(directory)
    checkpoint.load_tokenizer()
    checkpoint.load_prompt_reader(num_threads=1)
    checkpoint.load_speakers()
    checkpoint.load_lm(dtype)
    checkpoint.load_flow(dtype)
    checkpoint.load_hift(dtype)
    return checkpoint


@cache
def _written_once(family: Family, weights_format: WeightsFormat) -> Path:
    directory = _directory_of_this_run() / f"{family}-{weights_format}"
    write_random_checkpoint(directory, family, "small", weights_format=weights_format)
    return directory


@cache
def _directory_of_this_run() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="firstword-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
