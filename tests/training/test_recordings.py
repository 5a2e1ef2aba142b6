"""Recordings of a teacher that `firstword train prepare` and `training.new_speaker` take."""

from pathlib import Path

import numpy as np
import soundfile

from firstword.finetune.sources import find_sources
from training.new_speaker import NUM_SENTENCES, read_recordings
from training.recordings import record
from training.teachers.spoken import SAMPLE_RATE_HZ, STEP_RATE_HZ, STEP_SAMPLES, Spoken
from training.text.corpus import evaluation_sentences

SECONDS = 3


class Silent:
    knows_phase = False

    def speak(self, text: str) -> Spoken:
        steps = SECONDS * STEP_RATE_HZ
        return Spoken(
            samples=np.zeros(steps * STEP_SAMPLES, np.int16),
            phones=np.array([1], np.uint8),
            ends_s=np.array([SECONDS], np.float32),
            words=np.array([0], np.int32),
            num_words=1,
            f0_hz=np.zeros(steps, np.float32),
            cycles=np.zeros(steps),
            says="",
        )


def test_what_judges_and_what_is_learned_are_other_sentences(tmp_path: Path) -> None:
    record(Silent(), tmp_path, learned_s=30.0)
    judged = read_recordings(tmp_path / "judged")
    learned = [source.text for source in find_sources(tmp_path / "learned", "nova")]
    assert list(judged) == evaluation_sentences()[:NUM_SENTENCES]
    assert len(learned) == 10
    prompt = (tmp_path / "prompt" / "prompt.txt").read_text()
    assert not set(learned) & set(judged)
    assert not any(text in prompt for text in [*learned, *judged])
    assert 10 <= soundfile.info(tmp_path / "prompt" / "prompt.wav").duration <= 10 + 2 * SECONDS
    assert len(next(iter(judged.values()))) == SECONDS * SAMPLE_RATE_HZ
