"""What Mandarin's teachers say without being heard."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.training.recipe import hum, tiny_settings
from training.mandarin import speech
from training.mandarin.tokens import lay
from training.settings import Settings
from training.teachers.pieces import Kind, Piece
from training.teachers.spoken import Spoken

PIECES = [Piece(Kind.INITIAL, "n", (0, 0)), Piece(Kind.FINAL, "i↓", (1, 1))]
ENGLISH = Piece(Kind.ENGLISH, "hA")


class PieceTeacher:
    """Says two seconds of what it calls 你; "hey" with it if the text has that."""

    knows_phase = True

    def speak(self, text: str) -> Spoken:
        return self.speak_pieces(text)[0]

    def speak_pieces(self, text: str, is_heard: bool = True) -> tuple[Spoken, list[Piece]]:
        pieces = [*PIECES, ENGLISH] if "hey" in text else PIECES
        spoken = hum(200.0, "one " * len(pieces))
        silent = np.zeros_like(spoken.samples)
        return replace(spoken, samples=spoken.samples if is_heard else silent), pieces


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(speech, "_teacher", lambda _: PieceTeacher())
    return tiny_settings(tmp_path)


def test_unheard_tokens_are_those_of_what_is_heard(settings: Settings) -> None:
    voice = settings.mandarin.voices[0]
    spoken, pieces = speech._say(voice, "你")
    assert spoken.samples.any()
    laid = lay(spoken, pieces, voice.median_hz, lambda _: np.zeros(0, np.int16))
    unheard = speech.tokenized(voice, "你")
    assert unheard.tokens.tolist() == laid.tokens.tolist()
    assert unheard.marks.tolist() == laid.marks.tolist()


def test_unheard_texts_are_kept_without_those_that_have_english(settings: Settings) -> None:
    folder = settings.path / "mandarin" / "unheard"
    folder.mkdir(parents=True)
    (folder / "texts.txt").write_text("你。\nhey 你。\n你你。\n", encoding="utf-8")
    (shard,) = speech.plan_unheard(settings)
    hours = speech.speak_unheard(shard)
    found = speech.read_unheard(settings)
    assert [(one.speaker, one.text) for one in found] == [("lotus", "你。"), ("lotus", "你你。")]
    assert hours == pytest.approx(sum(len(one.tokens) for one in found) / 25 / 3600)


def test_voices_take_turns_at_unheard_texts_by_shares_of_their_own(settings: Settings) -> None:
    made = replace(settings.mandarin.unheard, sentences=8, joined=0, words=2, phrases=0, shard=1)
    settings = replace(settings, mandarin=replace(settings.mandarin, unheard=made))
    shards = speech.plan_unheard(settings)
    assert [one.voice.name for one in shards[:5]] == ["lotus", "lotus", "bamboo", "lotus", "lotus"]
    assert [one.texts for one in speech.plan_unheard(settings)] == [one.texts for one in shards]
