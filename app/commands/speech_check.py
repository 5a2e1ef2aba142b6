"""`firstword doctor CHECKPOINT`: speaks with a checkpoint, and says how fast and whether it can be speech."""

import time
from pathlib import Path
from typing import Final

import numpy as np

from firstword.app.commands.doctor import Finding
from firstword.app.settings import Settings

TEXTS: Final = {
    "en": "The train to London leaves at seven thirty, and nobody is on it yet.",
    "zh": "去上海的火车七点半开，现在车上还没有人。",  # noqa: RUF001  Chinese punctuation is meant
}
_MIN_S, _MAX_S = 1.5, 15.0  # that any voice needs for one of the texts


def speech_findings(settings: Settings, heard: Path) -> list[Finding]:
    """Speak one sentence and write it to `heard`. Loads the networks as `serve` does."""
    from firstword.app.audio.files import write_file
    from firstword.app.errors import TtsError
    from firstword.app.synthesizer import Synthesizer
    from firstword.models.checkpoint.open import open_checkpoint

    languages = open_checkpoint(settings.networks.checkpoint).traits.languages
    language = next((one for one in TEXTS if one in languages), "en")
    try:
        with Synthesizer.open(settings.networks.checkpoint) as synthesizer:
            began_s = time.perf_counter()
            pieces, first_s = [], 0.0
            for samples in synthesizer.speak(TEXTS[language], language=language, seed=1):
                first_s = first_s or time.perf_counter() - began_s
                pieces.append(samples)
            took_s, rate_hz = time.perf_counter() - began_s, synthesizer.sample_rate_hz
    except (TtsError, RuntimeError, ValueError, OSError) as error:
        return [Finding("speech", "wrong", f"it cannot speak: {type(error).__name__}: {error}")]
    sound = np.concatenate(pieces)
    write_file(heard, sound, rate_hz)
    duration_s, peak = len(sound) / rate_hz, float(np.abs(sound).max())
    speed = Finding(
        "speed",
        "ok" if took_s < duration_s else "note",
        f"{duration_s:.1f} s of speech in {took_s:.1f} s (real-time factor {took_s / duration_s:.2f}), the "
        f"first after {1000 * first_s:.0f} ms",
        "" if took_s < duration_s else "slower than it is heard: docs/performance.md, or a GPU",
    )
    if not _MIN_S <= duration_s <= _MAX_S or peak < 0.01 or not np.isfinite(sound).all():
        message = f"a sentence became {duration_s:.1f} s with a peak of {peak:.3f}: that is no speech"
        return [speed, Finding("speech", "wrong", message, f"listen to {heard}; are all files complete?")]
    message = f"a sentence in {language} is in {heard}: whether it is *right*, only listening tells"
    return [speed, Finding("speech", "ok", message)]
