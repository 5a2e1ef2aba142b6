"""Audio files: the format that a suffix asks for, and in plain words why one cannot be written."""

from pathlib import Path

from firstword.app.audio.dsp import Samples
from firstword.app.audio.encode import encode_whole
from firstword.app.audio.formats import SUFFIXES, FileFormat, Tags
from firstword.files import write_whole


def format_of(path: Path) -> FileFormat:
    """Raise ValueError for a suffix that is no format's."""
    format = SUFFIXES.get(path.suffix.lower())
    if format is None:
        raise ValueError(
            f"{path}: no format has the suffix {path.suffix!r}; use one of {', '.join(SUFFIXES)}"
        )
    return format


def check_place(path: Path) -> None:
    """Raise FileNotFoundError or IsADirectoryError where no file can be, before anything is spoken for it."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: {path.parent} is no directory; make it first")
    if path.is_dir():
        raise IsADirectoryError(f"{path} cannot be written: it is a directory; name a file in it")


def write_file(
    path: Path, samples: Samples, sample_rate_hz: int, speed: float = 1.0, tags: Tags | None = None
) -> None:
    """Write samples (n,) in the format of the suffix, with true sizes. Raises OSError."""
    write_whole(path, encode_whole(format_of(path), samples, sample_rate_hz, speed=speed, tags=tags))
