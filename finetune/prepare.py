"""`firstword train prepare`: recordings become tokens, mels and embeddings in Parquet shards."""

import hashlib
import json
import multiprocessing
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from firstword.app.audio.decode import RecordingTooLong, UndecodableAudio, decode_recording
from firstword.finetune.errors import FinetuneError
from firstword.finetune.reward.formula import Unit, error_rate
from firstword.finetune.reward.recognizers import Recognizer, at_recognizer_rate, open_recognizer
from firstword.finetune.sources import Source
from firstword.finetune.text import TextReader
from firstword.finetune.utterance import pack_mel, write_shard
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.frontend.features import FrontendError, frame_powers
from firstword.models.frontend.prompt_reader import MAX_RECORDING_S, PromptReader

SHARDS: Final = 64  # at least, so that many processes have work, but for the bounds of their rows
MIN_SHARD_ROWS, MAX_SHARD_ROWS = 16, 256
INFO_FILE, REPORT_FILE = "data.json", "report.json"
MISFIT_DEVIATIONS: Final = 5.0  # median deviations of the logarithm beyond which text and audio do not fit
LEAST_DEVIATION: Final = 0.1
MISFIT_ERRORS: Final = 0.5  # the same, by a recognizer
MIN_SNR_DB: Final = 10.0
MIN_LIKENESS: Final = 0.3  # to the mean of the speaker
_FRAME_MS: Final = 20

Shard = tuple[Path, Sequence[Source]]


@dataclass(frozen=True, slots=True)
class PrepareSettings:
    """language: None, of each text. recognizer: hears whether text and audio fit; None: lengths tell."""

    checkpoint: Path
    language: str | None = None
    instruct: str | None = None
    recognizer: str | None = None
    workers: int = 1

    @property
    def unit(self) -> Unit:
        return "characters" if self.language in ("zh", "ja", "yue") else "words"


@dataclass(frozen=True, slots=True)
class Skipped:
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """What is in the data; `skipped` is not. `suspects`: id to what is odd; they are in it."""

    utterances: int
    hours: float
    duration_s: dict[str, float]  # min, median, max
    snr_db: dict[str, float]
    speakers: dict[str, int]
    skipped: list[Skipped]
    duplicates: list[list[str]]  # ids of equal samples
    suspects: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    done: int
    total: int


def prepare(sources: Sequence[Source], folder: Path, settings: PrepareSettings) -> Iterator[Progress]:
    """Write the shards that are not there yet, then the report; yields how far it is.

    Raises FinetuneError where the folder holds other data, and where no recording can be used.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_info(folder, sources, settings)
    size = min(MAX_SHARD_ROWS, max(MIN_SHARD_ROWS, len(sources) // SHARDS))
    shards = [
        (folder / f"shard-{start // size:05}.parquet", sources[start : start + size])
        for start in range(0, len(sources), size)
    ]
    done = sum(len(rows) for path, rows in shards if _has(path))
    todo = [shard for shard in shards if not _has(shard[0])]
    yield Progress(done, len(sources))
    for count in _prepared(todo, settings):
        done += count
        yield Progress(done, len(sources))
    report = report_of(folder)
    _write_json(folder / REPORT_FILE, asdict(report))
    if not report.utterances:
        first = report.skipped[0]
        raise FinetuneError(
            f"no recording of {len(sources)} could be used; the first, {first.id}: {first.reason}"
        )


def prepare_one(source: Source, reader: PromptReader, text: TextReader) -> dict[str, Any]:
    """A row of a shard. Raises FinetuneError, FrontendError, OSError, and what decoding raises."""
    samples, rate_hz = decode_recording(source.audio.read_bytes(), MAX_RECORDING_S)
    speaker = reader.read_speaker(samples, rate_hz)
    return {
        "id": source.id,
        "speaker": source.speaker,
        "text": source.text,
        "text_ids": list(text.read(source.text)),
        "instruct_ids": list(text.instruct_ids),
        "speech_ids": speaker.prompt_tokens.tolist(),
        "mel": pack_mel(speaker.prompt_mel),
        "num_frames": len(speaker.prompt_mel),
        "embedding": speaker.embedding.tolist(),
        "duration_s": len(samples) / rate_hz,
        "snr_db": snr_db(samples, rate_hz),
        "error_rate": float("nan"),
        "digest": hashlib.sha256(samples.tobytes()).hexdigest(),
    }


def snr_db(samples: NDArray[np.float32], rate_hz: int) -> float:
    """Of the loud frames over the quiet ones: 90th and 10th percentile of the power; 0 to 100."""
    powers = frame_powers(samples, rate_hz * _FRAME_MS // 1000) + 1e-10
    quiet, loud = np.percentile(powers, (10, 90))
    return float(10 * np.log10(loud / quiet))


def report_of(folder: Path) -> Report:
    """Of all shards that are there."""
    columns = [
        *("id", "speaker", "text_ids", "speech_ids", "embedding", "duration_s", "snr_db", "error_rate"),
        "digest",
    ]
    rows: list[dict[str, Any]] = []
    skipped: list[Skipped] = []
    for path in sorted(folder.glob("shard-*.parquet")):
        rows += pq.read_table(path, columns=columns).to_pylist()
        for line in _skipped_file(path).read_text(encoding="utf-8").splitlines():
            skipped.append(Skipped(**json.loads(line)))
    durations = [row["duration_s"] for row in rows]
    by_digest: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        by_digest[row["digest"]].append(row["id"])
    return Report(
        utterances=len(rows),
        hours=sum(durations) / 3600,
        duration_s=_spread(durations),
        snr_db=_spread([row["snr_db"] for row in rows]),
        speakers=dict(Counter(row["speaker"] for row in rows)),
        skipped=skipped,
        duplicates=[ids for ids in by_digest.values() if len(ids) > 1],
        suspects=_suspects(rows),
    )


def _suspects(rows: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    if not rows:
        return {}
    ratios = np.array([max(1, len(row["speech_ids"])) / len(row["text_ids"]) for row in rows])
    middle = float(np.median(ratios))
    away = np.abs(np.log(ratios / middle))
    bound = MISFIT_DEVIATIONS * max(LEAST_DEVIATION, float(np.median(away)))
    groups: defaultdict[str, list[int]] = defaultdict(list)
    vectors = np.array([row["embedding"] for row in rows])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9
    for number, (row, ratio) in enumerate(zip(rows, ratios, strict=True)):
        groups[row["speaker"]].append(number)
        if away[number] > bound:
            found[row["id"]].append(f"{ratio:.1f} speech tokens for a text token, {middle:.1f} are usual")
        if row["error_rate"] > MISFIT_ERRORS:
            found[row["id"]].append(f"the recognizer's error rate is {row['error_rate']:.2f}")
        if row["snr_db"] < MIN_SNR_DB:
            found[row["id"]].append(f"SNR of {row['snr_db']:.0f} dB")
    for speaker, numbers in groups.items():
        mean = vectors[numbers].mean(0)
        for number in numbers:
            likeness = float(vectors[number] @ mean / (np.linalg.norm(mean) + 1e-9))
            if likeness < MIN_LIKENESS:
                found[rows[number]["id"]].append(f"sounds like somebody else than {speaker}: {likeness:.2f}")
    return dict(found)


def _spread(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    low, middle, high = np.percentile(values, (0, 50, 100))
    return {"min": float(low), "median": float(middle), "max": float(high)}


def _write_info(folder: Path, sources: Sequence[Source], settings: PrepareSettings) -> None:
    """Name what the shards are made of, or compare with it."""
    listed = "\n".join(f"{one.id}|{one.audio}|{one.speaker}|{one.text}" for one in sources)
    opened = open_checkpoint(settings.checkpoint)
    info = {
        "family": opened.config.family,
        "reads_sounds": opened.traits.reads_sounds,
        "language": settings.language,
        "instruct": settings.instruct,
        "recognizer": settings.recognizer,
        "sources": hashlib.sha256(listed.encode()).hexdigest(),
    }
    path = folder / INFO_FILE
    if path.exists() and (before := json.loads(path.read_text(encoding="utf-8"))) != info:
        other = ", ".join(name for name in info if before.get(name) != info[name])
        raise FinetuneError(f"{folder} was prepared with other {other}; give another -o, or remove it")
    _write_json(path, info)


def _write_json(path: Path, values: object) -> None:
    partial_path = path.with_suffix(".partial")
    partial_path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    partial_path.replace(path)


def _skipped_file(shard: Path) -> Path:
    return shard.with_suffix(".skipped.jsonl")


def _has(shard: Path) -> bool:
    return shard.exists() and _skipped_file(shard).exists()


def _prepared(todo: Sequence[Shard], settings: PrepareSettings) -> Iterator[int]:
    """Yield how many recordings each shard was made of; one worker is this process."""
    if todo and settings.workers == 1:
        worker = _Worker.load(settings)
        for shard in todo:
            yield worker.prepare_shard(shard)
    elif todo:
        # Spawned: a fork of a process with torch's threads may hang.
        context = multiprocessing.get_context("spawn")
        # A Pool would wait for ever for a process that was killed, and for one that cannot load.
        with ProcessPoolExecutor(min(settings.workers, len(todo)), context) as pool:
            coming = [pool.submit(_prepare_shard, settings, shard) for shard in todo]
            try:
                yield from (one.result() for one in as_completed(coming))
            except BrokenProcessPool:
                raise FinetuneError(
                    "a process ended without an answer, as where memory ran out; take fewer --workers, and "
                    "run the same command again to go on"
                ) from None
            finally:
                pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Worker:
    reader: PromptReader
    text: TextReader
    recognizer: Recognizer | None
    unit: Unit

    @classmethod
    def load(cls, settings: PrepareSettings) -> "_Worker":
        checkpoint, recognizer = open_checkpoint(settings.checkpoint), settings.recognizer
        return cls(
            checkpoint.load_prompt_reader(num_threads=1),
            TextReader(checkpoint, settings.language, settings.instruct),
            None if recognizer is None else open_recognizer(recognizer, settings.language or "en"),
            settings.unit,
        )

    def prepare_shard(self, shard: Shard) -> int:
        """-> how many recordings it was given. What cannot be used is written beside the shard."""
        path, sources = shard
        rows, skipped = [], []
        for source in sources:
            try:
                row = prepare_one(source, self.reader, self.text)
                if self.recognizer is not None:
                    samples, rate_hz = decode_recording(source.audio.read_bytes(), MAX_RECORDING_S)
                    said = self.recognizer(at_recognizer_rate(samples, rate_hz))
                    row["error_rate"] = error_rate(source.text, said, self.unit)
                rows.append(row)
            except (FinetuneError, FrontendError, UndecodableAudio, RecordingTooLong) as error:
                skipped.append(Skipped(source.id, str(error)))
            except OSError as error:
                skipped.append(Skipped(source.id, f"{source.audio} cannot be read: {error.strerror}"))
        lines = "".join(json.dumps(asdict(one)) + "\n" for one in skipped)
        _skipped_file(path).write_text(lines, encoding="utf-8")
        write_shard(path, rows)
        return len(sources)


_worker: _Worker | None = None  # of a process of the pool


def _prepare_shard(settings: PrepareSettings, shard: Shard) -> int:
    global _worker
    if _worker is None:
        torch.set_num_threads(1)
        _worker = _Worker.load(settings)
    return _worker.prepare_shard(shard)
