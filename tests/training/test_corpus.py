"""Which voice says what, and what of it is kept."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.recipe import TEXTS, hum, tiny_settings
from training import corpus
from training.settings import Settings
from training.teachers.spoken import Spoken, TeacherError


def settings_with_texts(folder: Path, num_shards: int) -> Settings:
    settings = replace(tiny_settings(folder), corpus=replace(tiny_settings(folder).corpus, shard=2))
    (folder / "corpus").mkdir()
    lines = [TEXTS[i % len(TEXTS)] for i in range(2 * num_shards)]
    (folder / "corpus" / "texts.txt").write_text("\n".join(lines) + "\n")
    return settings


def test_voices_take_turns_by_their_shares(tmp_path: Path) -> None:
    settings = settings_with_texts(tmp_path, 20)
    one, two, *_ = settings.voices
    settings = replace(settings, voices=(replace(one, share=3), replace(two, share=1)))
    names = [shard.voice.name for shard in corpus.plan(settings)]
    assert names.count(one.name) == 15
    for part in range(4, 20, 4):
        assert names[:part].count(one.name) == 0.75 * part


def test_a_voice_that_is_added_changes_nothing_that_is_spoken(tmp_path: Path) -> None:
    settings = settings_with_texts(tmp_path, 12)
    before = corpus.plan(settings)
    for shard in before[:5]:
        shard.path.touch()
    added = replace(settings.voices[0], name="new", share=5)
    after = corpus.plan(replace(settings, voices=(added, *settings.voices)))
    assert after[:5] == before[:5]
    assert corpus.spoken_shards(settings) == before[:5]
    assert "new" in {shard.voice.name for shard in after[5:]}


class _Teacher:
    knows_phase = True

    def speak(self, text: str) -> Spoken:
        if "station" in text:
            raise TeacherError("too hard")
        spoken = hum(120.0, text)
        return replace(spoken, num_words=1) if "seven" in text else spoken


def test_what_a_teacher_says_in_other_words_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "_teacher", lambda _: _Teacher())
    shard = corpus.Shard(tmp_path / "0000-a.npz", tiny_settings(tmp_path).voices[0], TEXTS)
    hours = corpus.speak_shard(shard)
    kept = corpus.read_shard(shard.path)
    assert [text for text, _, _ in kept] == ["hello there, my friend.", "yes, of course."]
    assert hours == pytest.approx(sum(len(one.samples) for _, one, _ in kept) / 24_000 / 3600)
    assert all(knows_phase for _, _, knows_phase in kept)
    assert kept[0][1].num_words == 4
