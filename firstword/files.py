"""Writes files whole."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is seen with all its content or not at all, also after a power cut.

    A file that is replaced has to be one that may be written, and hands on its mode; a link to it stays. A
    pipe or a device is written to. Raises OSError.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    target = Path(os.path.realpath(path))  # `resolve` raises no OSError where links go in a circle
    unfinished = target.with_name(f".{secrets.token_hex(8)}.part")
    mode = None
    try:
        if target.exists():
            with target.open("r+b") as before:
                mode = os.fstat(before.fileno()).st_mode & 0o7777
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            with suppress(OSError):  # of a file system without modes
                unfinished.chmod(mode)
        unfinished.replace(target)
    except BaseException as error:
        unfinished.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)
        raise
