"""Recordings to shards, and what is said of those that do not fit."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from firstword.finetune.dataset import Dataset
from firstword.finetune.errors import FinetuneError
from firstword.finetune.prepare import PrepareSettings, prepare, report_of
from firstword.finetune.sources import find_sources
from firstword.models.checkpoint.open import open_checkpoint
from tests.support.checkpoints import small_checkpoint
from tests.support.training_data import RATE_HZ, prepared, write_recordings


def english(**options: Any) -> PrepareSettings:
    return PrepareSettings(small_checkpoint("cosyvoice2"), "en", **options)


def prepare_all(recordings: Path, out: Path, settings: PrepareSettings | None = None) -> list[int]:
    return [progress.done for progress in prepare(find_sources(recordings), out, settings or english())]


def test_pairs_in_folders_tell_the_speaker(tmp_path: Path) -> None:
    found = find_sources(write_recordings(tmp_path, 2, "bob"))
    assert [(one.id, one.speaker, one.text) for one in found] == [
        ("bob/000", "bob", "Hello there."),
        ("bob/001", "bob", "One two three."),
    ]


def test_ljspeech_libritts_and_json_lines_are_read(tmp_path: Path) -> None:
    lj = tmp_path / "lj"
    lj.mkdir()
    (lj / "metadata.csv").write_text('LJ1|Dr. "A"|Doctor A\nLJ2|Only\n')
    found = find_sources(lj, "linda")
    assert [(one.id, one.text, one.speaker) for one in found] == [
        ("LJ1", "Doctor A", "linda"),
        ("LJ2", "Only", "linda"),
    ]
    assert found[0].audio == lj / "wavs" / "LJ1.wav"
    libri = tmp_path / "libri" / "84" / "121"
    libri.mkdir(parents=True)
    for name in ("84_121_0.wav", "84_121_1.wav"):
        (libri / name).touch()
    (libri / "84_121_0.normalized.txt").write_text("Go.\n")
    (one,) = find_sources(tmp_path / "libri")
    assert (one.speaker, one.text) == ("84", "Go.")
    lines = tmp_path / "data.jsonl"
    lines.write_text(json.dumps({"audio": "a.wav", "text": "Hi.", "speaker": "eve"}) + "\n")
    (one,) = find_sources(lines)
    assert (one.audio, one.text, one.speaker) == (tmp_path / "a.wav", "Hi.", "eve")


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FinetuneError, match=r"expected a \.jsonl file"):
        find_sources(tmp_path)
    lines = tmp_path / "data.jsonl"
    lines.write_text('{"audio": "a.wav"}\n')
    with pytest.raises(FinetuneError, match=r"data.jsonl:1: expected an object"):
        find_sources(lines)
    lines.write_text('{"audio": "a.wav", "text": "a"}\n' * 2)
    with pytest.raises(FinetuneError, match="comes twice"):
        find_sources(lines)


def test_a_line_ends_where_the_file_says_so(tmp_path: Path) -> None:
    text = "One.\u2028Two.\x85Three."
    lines = tmp_path / "data.jsonl"
    lines.write_text(
        json.dumps({"audio": "a.wav", "text": text}, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    assert [one.text for one in find_sources(lines)] == [text]


def test_a_text_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.wav").touch()
    (tmp_path / "a.txt").write_bytes("café".encode("latin-1"))
    with pytest.raises(FinetuneError, match=r"a\.txt is not in UTF-8, from byte 3 on"):
        find_sources(tmp_path)


def test_a_prepared_row_is_what_enrolment_reads(tmp_path: Path) -> None:
    data = prepared("cosyvoice2")
    checkpoint = open_checkpoint(small_checkpoint("cosyvoice2"))
    dataset = Dataset(data, checkpoint, has_mels=True)
    recordings = write_recordings(tmp_path, 2)
    samples, rate_hz = soundfile.read(recordings / "ann" / "001.wav", dtype="float32")
    wanted = checkpoint.load_prompt_reader(1).read_speaker(samples, rate_hz)
    row = dataset.read(dataset.ids.index("ann/001"))
    assert list(row.speech_ids) == wanted.prompt_tokens.tolist()
    assert row.mel.shape == wanted.prompt_mel.shape
    assert float((row.mel - wanted.prompt_mel).abs().max()) < 0.005
    assert row.embedding.tolist() == pytest.approx(wanted.embedding.tolist(), rel=1e-6)
    assert len(row.mel) == 2 * len(row.speech_ids)


def test_a_damaged_recording_is_reported_and_skipped(tmp_path: Path) -> None:
    recordings = write_recordings(tmp_path / "recordings", 12)
    (recordings / "ann" / "001.wav").write_bytes(b"RIFF nothing")
    soundfile.write(recordings / "ann" / "002.wav", np.zeros(RATE_HZ * 2, np.float32), RATE_HZ)
    (recordings / "ann" / "003.txt").write_text("... !")
    shutil.copy(recordings / "ann" / "004.wav", recordings / "ann" / "020.wav")
    (recordings / "ann" / "020.txt").write_text("Hello " * 150)
    prepare_all(recordings, tmp_path / "out")
    report = report_of(tmp_path / "out")
    reasons = {one.id: one.reason for one in report.skipped}
    assert reasons.keys() == {"ann/001", "ann/002", "ann/003"}
    assert "no audio file" in reasons["ann/001"]
    assert "silent" in reasons["ann/002"]
    assert "can be spoken" in reasons["ann/003"]
    assert report.utterances == 10
    assert report.duplicates == [["ann/004", "ann/020"]]
    assert any("speech tokens for a text token" in why for why in report.suspects["ann/020"])
    assert json.loads((tmp_path / "out" / "report.json").read_text())["utterances"] == 10


def test_preparing_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    recordings = write_recordings(tmp_path / "recordings", 40)
    out = tmp_path / "out"
    assert prepare_all(recordings, out) == [0, 16, 32, 40]
    first = (out / "shard-00000.parquet").stat()
    (out / "shard-00001.parquet").unlink()
    (out / "shard-00002.partial").write_bytes(b"cut")
    assert prepare_all(recordings, out) == [24, 40]
    assert (out / "shard-00000.parquet").stat().st_mtime_ns == first.st_mtime_ns
    assert report_of(out).utterances == 40


def test_what_was_prepared_in_part_is_not_learned_from(tmp_path: Path) -> None:
    recordings, out = write_recordings(tmp_path / "recordings", 17), tmp_path / "out"
    progress = prepare(find_sources(recordings), out, english())
    assert [next(progress).done for _ in range(2)] == [0, 16]
    progress.close()
    checkpoint = open_checkpoint(small_checkpoint("cosyvoice2"))
    with pytest.raises(FinetuneError, match="not to the end"):
        Dataset(out, checkpoint, has_mels=False)
    prepare_all(recordings, out)
    assert len(Dataset(out, checkpoint, has_mels=False)) == 17


def test_other_data_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    recordings = write_recordings(tmp_path / "recordings", 2)
    prepare_all(recordings, tmp_path / "out")
    write_recordings(tmp_path / "recordings", 3)
    with pytest.raises(FinetuneError, match="prepared with other sources"):
        prepare_all(recordings, tmp_path / "out")


def test_processes_that_cannot_load_end_it(tmp_path: Path) -> None:
    recordings = write_recordings(tmp_path / "recordings", 1)
    settings = english(recognizer="nobody", workers=2)
    with pytest.raises(FinetuneError, match="no recognizer is named 'nobody'"):
        prepare_all(recordings, tmp_path / "out", settings)


@pytest.mark.slow
def test_several_processes_prepare_the_same(tmp_path: Path) -> None:
    recordings = write_recordings(tmp_path / "recordings", 18)
    prepare_all(recordings, tmp_path / "one")
    prepare_all(recordings, tmp_path / "two", english(workers=2))
    checkpoint = open_checkpoint(small_checkpoint("cosyvoice2"))
    one, two = (Dataset(tmp_path / name, checkpoint, has_mels=False) for name in ("one", "two"))
    assert [one.read(row).speech_ids for row in range(18)] == [two.read(row).speech_ids for row in range(18)]


def test_cosyvoice3_is_given_its_instruction() -> None:
    dataset = Dataset(prepared("cosyvoice3"), open_checkpoint(small_checkpoint("cosyvoice3")), has_mels=False)
    tokenizer = open_checkpoint(small_checkpoint("cosyvoice3")).load_tokenizer()
    assert dataset.read(0).instruct_ids[-1] == tokenizer.end_of_prompt_id
