"""The settings of batches."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Their variables begin with FIRSTWORD_BATCH_."""

    disk_mb: Annotated[
        int,
        Field(
            ge=0,
            description="Disk for the audio of batches, and for what waits in them; 0 takes no batches",
        ),
    ] = 2048

    @property
    def disk_bytes(self) -> int:
        return self.disk_mb << 20
