"""Reads what `torch.save` wrote, if it is tensors in plain containers; nothing in the file is executed."""

import zipfile
from pathlib import Path
from typing import Any

import torch

from models.pickle_scan import check_pickle

MAX_PICKLE_BYTES = 16 << 20  # the tensors' names and shapes; a published file has about 200 kB


class TorchFileError(ValueError):
    """The message names the file and says what is wrong with it."""


def read_torch_file(path: Path) -> Any:
    """Tensors on the CPU, mapped from the file, in lists and dicts of any depth.

    Raises:
        TorchFileError: not readable, cut short, compressed, of the format before PyTorch 1.6, or holding
            anything that could act or take more memory than the file has bytes.
    """
    try:
        check_pickle(_pickle(path))
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except OSError as error:
        raise TorchFileError(f"{path}: cannot be read: {error}") from error
    except Exception as error:  # a damaged archive makes its readers raise almost any type
        reason = " ".join(str(error).split())[:200]
        raise TorchFileError(f"{path}: not a file of tensors that torch.save wrote: {reason}") from error


def _pickle(path: Path) -> bytes:
    """The one pickle of the archive. Raises ValueError for an archive that torch.save does not write."""
    if not zipfile.is_zipfile(path):
        raise ValueError(
            "no zip archive, so cut short, or older than PyTorch 1.6: load it there with a newer PyTorch "
            "and save it again"
        )
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        _check_entries(archive, entries)
        pickles = [entry for entry in entries if entry.filename.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise ValueError(f"{len(pickles)} entries named data.pkl; expected 1")
        if pickles[0].file_size > MAX_PICKLE_BYTES:
            raise ValueError(
                f"data.pkl has {pickles[0].file_size} bytes; expected {MAX_PICKLE_BYTES} at most"
            )
        return archive.read(pickles[0])


def _check_entries(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo]) -> None:
    """All stored as they are, and no two readers of the archive see different entries under a name."""
    packed = [entry.filename for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
    if packed:
        raise ValueError(f"entry {packed[0]!r:.80} is compressed, which torch.save never does")
    names = {entry.filename.casefold() for entry in entries}
    folders = {name.partition("/")[0] for name in names}
    starts_at_0 = any(entry.header_offset == 0 for entry in entries)
    if len(names) != len(entries) or len(folders) != 1 or archive.comment or not starts_at_0:
        raise ValueError("the archive has entries of one name, several folders, or something around it")
