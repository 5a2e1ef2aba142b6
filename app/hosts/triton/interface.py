"""What the Python backend's class asks of a model, and where the processes of one tritonserver meet."""

import os
import stat
import tempfile
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc

from firstword.app.surfaces.inference.models import Model
from firstword.app.surfaces.inference.tensors import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What Triton gives of a request; each input has its batch in front."""

    id: str
    inputs: Mapping[str, Tensor]
    parameters: Mapping[str, Any]


class Answering(Protocol):
    """A model that is loaded."""

    @property
    def model(self) -> Model: ...

    def run(self, given: Given) -> AsyncGenerator[Tensor, None]:
        """Yield the model's output, part by part."""
        ...

    def failure_of(self, error: Exception) -> tuple[grpc.StatusCode, str]:
        """What a client is told of an error of `run`; our own faults are logged."""
        ...


def engine_socket() -> Path:
    """A Unix socket's path, in a directory that only this user may enter.

    Raises PermissionError where somebody else has that directory.
    """
    directory = Path(tempfile.gettempdir()) / f"firstword-triton-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{directory} is not a directory of this user alone; remove it, or set TMPDIR")
    return directory / f"{os.getppid()}.sock"
