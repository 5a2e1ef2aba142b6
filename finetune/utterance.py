"""What is kept of a prepared recording, and how it stands in a Parquet shard."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from firstword.models.config import NUM_MELS

IDS: Final = pa.list_(pa.int32())
SCHEMA: Final = pa.schema(
    {
        "id": pa.string(),
        "speaker": pa.string(),
        "text": pa.string(),
        "text_ids": IDS,
        "instruct_ids": IDS,  # of CosyVoice 3, up to `<|endofprompt|>`
        "speech_ids": IDS,
        "mel": pa.binary(),  # (F, 80) float16
        "num_frames": pa.int32(),
        "embedding": pa.list_(pa.float32()),  # (192,)
        "duration_s": pa.float32(),
        "snr_db": pa.float32(),
        "error_rate": pa.float32(),  # of what a recognizer heard; NaN where none was asked
        "digest": pa.string(),  # of the samples, to find duplicates
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """The networks' view of a recording; mel (F, 80) float32, embedding (192,) not normalized."""

    id: str
    speaker: str
    text_ids: tuple[int, ...]
    instruct_ids: tuple[int, ...]
    speech_ids: tuple[int, ...]
    mel: Tensor
    embedding: Tensor


def write_shard(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """The file has its name once it is complete. Raises OSError."""
    partial = path.with_suffix(".partial")
    try:
        pq.write_table(pa.Table.from_pylist(list(rows), SCHEMA), partial, compression="zstd")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def pack_mel(mel: Tensor) -> bytes:
    """mel (F, 80) -> its bytes in float16: log-mels are within -12 to 3, and rounded by 0.004 at most."""
    return mel.numpy().astype(np.float16).tobytes()


def unpack_mel(packed: bytes) -> Tensor:
    """-> (F, 80) float32."""
    return torch.from_numpy(np.frombuffer(packed, np.float16).astype(np.float32).reshape(-1, NUM_MELS))


def utterance_of(row: dict[str, Any]) -> Utterance:
    """A row of a shard, of any of the columns that a network needs."""
    return Utterance(
        id=row["id"],
        speaker=row["speaker"],
        text_ids=tuple(row["text_ids"]),
        instruct_ids=tuple(row["instruct_ids"]),
        speech_ids=tuple(row["speech_ids"]),
        mel=unpack_mel(row["mel"]) if "mel" in row else torch.zeros(0, NUM_MELS),
        embedding=torch.tensor(row["embedding"], dtype=torch.float32),
    )
