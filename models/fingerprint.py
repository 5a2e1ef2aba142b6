"""Tells whether two checkpoints would make the same of a recording, without reading gigabytes."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from models.checkpoint import QWEN2_CONFIG_FILE, TOKENIZER_FILES, YAML_FILES
from models.errors import CheckpointError
from models.frontend.prompt import SPEAKER_ENCODER_FILE, SPEECH_TOKENIZER_FILES

FLOW_FILES = ("flow.safetensors", "flow.pt")
LM_FILES = ("llm.safetensors", "llm.pt")
MAX_WHOLE_BYTES = 16 << 20  # a file up to this size is hashed whole
END_BYTES = 1 << 20  # of a larger one: its head, its tail,
NUM_SAMPLES = 64  # and pieces at even distances between them
SAMPLE_BYTES = 16 << 10
_SCHEME = b"1"  # another way of hashing is another fingerprint


def fingerprint(directory: Path) -> str:
    """-> 32 hexadecimal digits, of the contents of all that a speaker's features and prompt states
    depend on: yaml, config.json, the ONNX graphs, the flow's weights, the text tokenizer.

    Names, dates and places of the files do not count, nor do language model, vocoder and speaker table.
    A file over 16 MiB is known by its size, both ends and 64 pieces between: a retrained network is
    noticed, a few numbers changed by hand in a large one may not be. It reads 3 MiB of such a file.

    Raises CheckpointError if the directory holds no known yaml or a file cannot be read.
    """
    return _fingerprint(directory, _names(directory))


def lm_fingerprint(directory: Path) -> str:
    """The same of all that the language model depends on: yaml, config.json and its weights."""
    return _fingerprint(directory, [_yaml_name(directory), QWEN2_CONFIG_FILE, *LM_FILES])


def _fingerprint(directory: Path, names: Iterable[str]) -> str:
    digest = hashlib.sha256(_SCHEME)
    try:
        for name in names:
            path = directory / name
            if path.is_file():
                digest.update(f"\0{name}\0{path.stat().st_size}\0".encode())
                digest.update(_content_hash(path))
    except OSError as error:
        raise CheckpointError(f"{directory}: cannot be read: {error}") from error
    return digest.hexdigest()[:32]


def _yaml_name(directory: Path) -> str:
    yaml_name = next((name for name in YAML_FILES if (directory / name).is_file()), None)
    if yaml_name is None:
        raise CheckpointError(f"{directory}: expected one of {', '.join(YAML_FILES)}, found none")
    return yaml_name


def _names(directory: Path) -> list[str]:
    yaml_name = _yaml_name(directory)
    speech_tokenizer = SPEECH_TOKENIZER_FILES[YAML_FILES[yaml_name]]
    return [
        yaml_name,
        QWEN2_CONFIG_FILE,
        *TOKENIZER_FILES,
        speech_tokenizer,
        SPEAKER_ENCODER_FILE,
        *FLOW_FILES,
    ]


def _content_hash(path: Path) -> bytes:
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= MAX_WHOLE_BYTES:
            return hashlib.file_digest(file, "sha256").digest()
        digest = hashlib.sha256()
        for start, length in _pieces(size):
            file.seek(start)
            digest.update(file.read(length))
        return digest.digest()


def _pieces(size: int) -> list[tuple[int, int]]:
    """(start, length) of what is read of a file of `size` bytes, more than MAX_WHOLE_BYTES."""
    step = (size - 2 * END_BYTES) // NUM_SAMPLES
    samples = [(END_BYTES + number * step, SAMPLE_BYTES) for number in range(NUM_SAMPLES)]
    return [(0, END_BYTES), *samples, (size - END_BYTES, END_BYTES)]
