"""Prepared data, read shard by shard: lengths of all rows at once, rows of a shard when they are needed."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from firstword.finetune.errors import FinetuneError
from firstword.finetune.prepare import INFO_FILE, REPORT_FILE
from firstword.finetune.recipe import Recipe
from firstword.finetune.utterance import Utterance, utterance_of
from firstword.models.checkpoint.open import Checkpoint
from firstword.models.frontend.speaker import SpeakerFeatures

_KEPT_SHARDS: Final = 32  # decoded at a time
_PROMPT_S: Final = (3.0, 12.0)
_HELD_RANGE: Final = 10_000


class Dataset:
    """All utterances of a folder; row numbers are those of its shards, in order. has_mels: they are read."""

    def __init__(self, folder: Path, checkpoint: Checkpoint, *, has_mels: bool) -> None:
        """Raises FinetuneError for a folder that is not prepared, or for another family."""
        path = folder / INFO_FILE
        if not path.is_file() or not (folder / REPORT_FILE).is_file():
            raise FinetuneError(
                f"{folder}: not prepared, or not to the end; run `firstword train prepare DATA -o {folder}` "
                "first"
            )
        info = json.loads(path.read_text(encoding="utf-8"))
        if (
            info["family"] != checkpoint.config.family
            or info["reads_sounds"] != checkpoint.traits.reads_sounds
        ):
            raise FinetuneError(
                f"{folder} was prepared with a {info['family']}, whose text or speech tokens are others than "
                f"those of {checkpoint.directory}; prepare the data again with it"
            )
        self._paths = sorted(folder.glob("shard-*.parquet"))
        lengths = [
            "id",
            "speaker",
            "num_frames",
            "duration_s",
            "snr_db",
            "text_ids",
            "speech_ids",
            "embedding",
        ]
        tables = [pq.read_table(shard, columns=lengths) for shard in self._paths]
        table = pa.concat_tables(tables) if tables else pa.table({name: [] for name in lengths})
        self.ids: list[str] = table["id"].to_pylist()
        self.speakers: list[str] = table["speaker"].to_pylist()
        self.num_frames = _numbers(table["num_frames"])
        self.num_text = _list_lengths(table["text_ids"])
        self.num_speech = _list_lengths(table["speech_ids"])
        self.duration_s, self.snr_db = (np.array(table[n].to_pylist()) for n in ("duration_s", "snr_db"))
        self.shard_of = np.repeat(np.arange(len(tables)), [len(one) for one in tables])
        self._starts = np.cumsum([0, *(len(one) for one in tables)])
        self._embeddings = np.array(table["embedding"].to_pylist(), np.float32).reshape(len(self.ids), -1)
        columns = ["id", "speaker", "text_ids", "instruct_ids", "speech_ids", "embedding"]
        self._columns = [*columns, "mel"] if has_mels else columns
        self._rows = lru_cache(_KEPT_SHARDS)(self._read_shard)

    def __len__(self) -> int:
        return len(self.ids)

    def read(self, row: int) -> Utterance:
        shard = int(self.shard_of[row])
        return utterance_of(self._rows(shard)[row - int(self._starts[shard])])

    def _read_shard(self, shard: int) -> list[dict[str, Any]]:
        return pq.read_table(self._paths[shard], columns=self._columns).to_pylist()

    def held_out(self, share: float, most: int) -> list[int]:
        """Rows that are not learned from, chosen by their ids alone; the same in every run."""
        chance = [int(sha256(id.encode()).hexdigest()[:12], 16) % _HELD_RANGE for id in self.ids]
        ordered = sorted(range(len(self)), key=lambda row: (chance[row], self.ids[row]))
        return sorted(ordered[: min(most, round(share * len(self)))])

    def mean_embeddings(self) -> Mapping[str, Tensor]:
        """(192,) of each speaker: the mean of the utterances' directions, as long as they are on average."""
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for row, speaker in enumerate(self.speakers):
            groups[speaker].append(row)
        means = {}
        for speaker, rows in groups.items():
            vectors = torch.from_numpy(self._embeddings[rows])
            mean = torch.nn.functional.normalize(vectors, dim=1).mean(0)
            means[speaker] = torch.nn.functional.normalize(mean, dim=0) * vectors.norm(dim=1).mean()
        return means

    def prompt_of(self, speaker: str) -> SpeakerFeatures:
        """Return a speaker as `spk2info.pt` keeps one: a clear recording of 3 to 12 s, the mean embedding.

        Of the utterances in that range, the one nearest to the speaker's mean among the half with more SNR;
        where none is in it, the longest.
        """
        mean = self.mean_embeddings()[speaker]
        rows = [row for row, name in enumerate(self.speakers) if name == speaker]
        fit = [row for row in rows if _PROMPT_S[0] <= self.duration_s[row] <= _PROMPT_S[1]]
        if fit:
            clear = sorted(fit, key=lambda row: -self.snr_db[row])[: max(1, len(fit) // 2)]
            vectors = torch.from_numpy(self._embeddings[clear])
            best = clear[int(torch.nn.functional.cosine_similarity(vectors, mean[None]).argmax())]
        else:
            best = max(rows, key=lambda row: self.duration_s[row])
        shard = int(self.shard_of[best])
        row = pq.read_table(self._paths[shard]).slice(best - int(self._starts[shard]), 1).to_pylist()[0]
        one = utterance_of(row)
        tokens = torch.tensor(one.speech_ids)
        return SpeakerFeatures(
            row["text"], tokens, one.mel, mean, prompt_text_ids=one.instruct_ids + one.text_ids
        )


def _numbers(column: Any) -> NDArray[np.int64]:
    return np.array(column.to_pylist(), np.int64)


def _list_lengths(column: Any) -> NDArray[np.int64]:
    return np.array([len(one) for one in column.to_pylist()], np.int64)


def rows_within(dataset: Dataset, rows: Sequence[int], recipe: Recipe) -> list[int]:
    """Return those that pass the recipe's filter: text tokens, of these a frame of 10 ms, and such frames."""
    lowest, highest = recipe.frames
    kept = []
    for row in rows:
        text, length = int(dataset.num_text[row]), 100 * float(dataset.duration_s[row])
        if (
            1 <= text <= recipe.max_text
            and lowest <= length <= highest
            and text <= recipe.max_text_share * length
        ):
            kept.append(row)
    return kept
