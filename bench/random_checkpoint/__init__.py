"""Write a model directory in the published layout with random weights, for tests, benchmarks and demos.

It speaks noise. Names, shapes and files are those of the published checkpoints, so that everything
that opens one can be tried without downloading one. From the command line:
`python -m firstword.bench.random_checkpoint`.
"""

import os
import shutil
from pathlib import Path

from firstword.bench.random_checkpoint.networks import (
    WeightsFormat,
    write_networks,
    write_speaker_encoder,
    write_speakers,
    write_speech_tokenizer,
)
from firstword.bench.random_checkpoint.sizes import SPEECH_VOCAB_SIZES, Size, sizes_of
from firstword.bench.random_checkpoint.tokenizer import write_tokenizer
from firstword.bench.random_checkpoint.yaml_text import qwen2_json, yaml_text
from firstword.models.checkpoint import config_parser
from firstword.models.checkpoint import yaml as hyperyaml
from firstword.models.checkpoint.open import QWEN2_CONFIG_FILE
from firstword.models.config import (
    SPEAKER_ENCODER_FILE,
    SPEAKER_TABLE_FILE,
    SPEECH_TOKENIZER_FILES,
    YAML_FILES,
    Family,
    ModelConfig,
)

__all__ = ["Size", "WeightsFormat", "write_configuration", "write_random_checkpoint"]


def write_random_checkpoint(
    directory: Path | str,
    family: Family,
    size: Size,
    seed: int = 0,
    weights_format: WeightsFormat = "pt",
    device: str = "cpu",
) -> None:
    """Write a whole model directory, or nothing: it appears under its name once it is complete.

    The same arguments give the same bytes; torch's global generator is left as it was. `full` needs
    memory for one network (CosyVoice 2 and 3: 2 GB), `small` is a few MB and runs in milliseconds.
    device: draws the weights; a GPU does it in a fraction of the time, and draws others.

    Raises:
        ValueError: a negative seed.
        FileExistsError: `directory` is there and is not an empty directory.
        ImportError: `onnx` is not installed.
    """
    if seed < 0:
        raise ValueError(f"seed is {seed}; expected 0 or more")
    directory = Path(directory)
    if directory.is_symlink() or (directory.exists() and not _is_empty_directory(directory)):
        raise FileExistsError(f"{directory}: already exists; give a new name, or an empty directory")
    directory.parent.mkdir(parents=True, exist_ok=True)
    unfinished = directory.parent / f".{directory.name}.{os.getpid()}.unfinished"
    unfinished.mkdir()
    try:
        _write(unfinished, family, size, seed, weights_format, device)
        unfinished.rename(directory)
    except BaseException:
        shutil.rmtree(unfinished)
        raise


def write_configuration(directory: Path, family: Family, size: Size) -> ModelConfig:
    """Write the yaml and, for CosyVoice 2 and 3, config.json; return what their reader makes of them."""
    sizes = sizes_of(family, size)
    path = directory / next(name for name, owner in YAML_FILES.items() if owner == family)
    path.write_text(yaml_text(family, sizes), encoding="utf-8")
    if sizes.qwen2 is not None:
        qwen2_path = directory / QWEN2_CONFIG_FILE
        qwen2_path.parent.mkdir(exist_ok=True)
        qwen2_path.write_text(qwen2_json(sizes.qwen2), encoding="utf-8")
    return config_parser.parse(hyperyaml.read(path), family, sizes.qwen2)


def _write(
    directory: Path, family: Family, size: Size, seed: int, weights_format: WeightsFormat, device: str
) -> None:
    vocab_size = SPEECH_VOCAB_SIZES[family]
    frames_per_token = 2 if family == "cosyvoice1" else 4  # of whisper's 100 a second
    write_speech_tokenizer(directory / SPEECH_TOKENIZER_FILES[family], vocab_size, frames_per_token, seed)
    write_speaker_encoder(directory / SPEAKER_ENCODER_FILE, seed)
    config = write_configuration(directory, family, size)
    write_tokenizer(directory, family, sizes_of(family, size).num_ranks)
    write_speakers(directory / SPEAKER_TABLE_FILE, family, vocab_size, seed)
    write_networks(directory, config, seed, weights_format, device)


def _is_empty_directory(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())
