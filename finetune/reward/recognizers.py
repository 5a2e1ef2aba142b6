"""Speech recognizers by name: faster-whisper, SenseVoice and pocketsphinx, and those of other packages."""

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import soxr
from numpy.typing import NDArray

from firstword.finetune.errors import FinetuneError

RATE_HZ: Final = 16_000
GROUP: Final = "firstword.recognizers"
"""Entry points of other packages: a callable that takes (directory or None, language) -> Recognizer."""
_MARGIN_S: Final = 0.25
_NOISE: Final = 3e-4  # a little, always the same: pocketsphinx's estimate of the channel fails on silence

Samples = NDArray[np.float32]


class Recognizer(Protocol):
    """Not to be shared between threads."""

    def __call__(self, samples: Samples) -> str:
        """samples (n,) within ±1 at 16 kHz -> what was heard, as the recognizer writes it."""
        ...


Opener = Callable[[Path | None, str], Recognizer]


def open_recognizer(spec: str, language: str = "en") -> Recognizer:
    """spec: NAME or NAME:DIRECTORY, such as `faster-whisper:/models/large-v3`.

    Raises FinetuneError for an unknown name, a missing directory or package.
    """
    name, _, directory = spec.partition(":")
    opener = OPENERS.get(name) or _of_other_packages(name)
    if directory and not Path(directory).is_dir():
        raise FinetuneError(f"{directory}: not a directory; expected the files of {name}")
    try:
        return opener(Path(directory) if directory else None, language)
    except ModuleNotFoundError as error:
        raise FinetuneError(
            f"the recognizer {name} needs {error.name}; pip install {PACKAGES.get(name, name)}"
        ) from None


def at_recognizer_rate(samples: Samples, sample_rate_hz: int) -> Samples:
    """At the recognizers' rate, within full scale."""
    return np.clip(soxr.resample(samples, sample_rate_hz, RATE_HZ), -1, 1).astype(np.float32)


class FasterWhisper:
    """Any Whisper that CTranslate2 runs, from its directory."""

    def __init__(self, directory: Path | None, language: str) -> None:
        from faster_whisper import WhisperModel

        if directory is None:
            raise FinetuneError("faster-whisper needs a CTranslate2 directory: faster-whisper:DIRECTORY")
        self._model = WhisperModel(str(directory), device="auto", compute_type="auto", cpu_threads=1)
        self._language = language

    def __call__(self, samples: Samples) -> str:
        segments, _ = self._model.transcribe(
            samples, language=self._language, beam_size=5, condition_on_previous_text=False
        )
        return " ".join(segment.text.strip() for segment in segments)


class SenseVoice:
    """SenseVoice by sherpa-onnx: a directory with model.onnx or model.int8.onnx, and tokens.txt."""

    def __init__(self, directory: Path | None, language: str) -> None:
        import sherpa_onnx

        if directory is None:
            raise FinetuneError("sensevoice needs a directory of sherpa-onnx's: sensevoice:DIRECTORY")
        model = next((p for n in ("model.int8.onnx", "model.onnx") if (p := directory / n).is_file()), None)
        if model is None or not (directory / "tokens.txt").is_file():
            raise FinetuneError(f"{directory}: expected model.onnx or model.int8.onnx, and tokens.txt")
        self._recognizer = sherpa_onnx.OfflineRecognizer.from_sense_voice(
            model=str(model),
            tokens=str(directory / "tokens.txt"),
            language=language if language in ("zh", "en", "ja", "ko", "yue") else "auto",
            use_itn=False,
        )

    def __call__(self, samples: Samples) -> str:
        stream = self._recognizer.create_stream()
        stream.accept_waveform(RATE_HZ, samples)
        self._recognizer.decode_stream(stream)
        return str(stream.result.text)


class Pocketsphinx:
    """US English with the model that its package brings."""

    def __init__(self, directory: Path | None, language: str) -> None:
        import pocketsphinx

        if language != "en":
            raise FinetuneError(
                f"pocketsphinx hears English; for {language} take faster-whisper or sensevoice"
            )
        given: dict[str, Any] = {} if directory is None else {"hmm": str(directory)}
        self._decoder = pocketsphinx.Decoder(loglevel="FATAL", **given)

    def __call__(self, samples: Samples) -> str:
        margin = np.zeros(int(_MARGIN_S * RATE_HZ), np.float32)
        wide = np.concatenate([margin, samples, margin])
        wide = wide / max(1e-6, float(np.abs(wide).max())) * 0.5
        wide = wide + np.random.default_rng(0).standard_normal(len(wide)) * _NOISE
        self._decoder.start_utt()
        self._decoder.process_raw((wide * 32767).astype("<i2").tobytes(), full_utt=True)
        self._decoder.end_utt()
        hypothesis = self._decoder.hyp()
        return hypothesis.hypstr if hypothesis else ""


OPENERS: Final[dict[str, Opener]] = {
    "pocketsphinx": Pocketsphinx,
    "faster-whisper": FasterWhisper,
    "sensevoice": SenseVoice,
}
PACKAGES: Final = {
    "pocketsphinx": "pocketsphinx",
    "faster-whisper": "faster-whisper",
    "sensevoice": "sherpa-onnx",
}


def _of_other_packages(name: str) -> Opener:
    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        raise FinetuneError(f"no recognizer is named {name!r}; expected {', '.join([*OPENERS, *found])}")
    opener: Opener = found[name].load()
    return opener
