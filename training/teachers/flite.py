"""Speaks a text with one of flite's voices and tells when each phone ended and how high it was.

flite (Carnegie Mellon University, BSD-like licence) is reached through its shared library, as Debian's
`flite` package installs it, because the command gives samples only.
"""

import ctypes
from collections.abc import Iterator
from ctypes import POINTER, c_char_p, c_float, c_int, c_short, c_void_p

import numpy as np
import soxr
from numpy.typing import NDArray

from training.teachers.spoken import (
    SAMPLE_RATE_HZ,
    STEP_RATE_HZ,
    STEP_SAMPLES,
    Spoken,
    TeacherError,
    as_int16,
    cycles_of_steps,
    phones_by_name,
    voiced_only,
)

VOICES = ("rms", "slt", "awb", "kal16")
_RATE_HZ = 16_000
_F0_RATE_HZ = 200
_F0_STEP_S = 1 / _F0_RATE_HZ

# US English phones of flite and festival, each beside misaki's symbol.
US_ENGLISH = """
    pau _ aa ɑ ae æ ah ʌ ao ɔ aw W ax ə ay I b b ch ʧ d d dh ð eh ɛ er ɜ ey A f f g ɡ hh h ih ɪ iy i jh ʤ k k
    l l m m n n ng ŋ ow O oy Y p p r ɹ s s sh ʃ t t th θ uh ʊ uw u v v w w y j z z zh ʒ
"""  # noqa: RUF001
_PHONE_OF = phones_by_name(US_ENGLISH)


class _Utterance(ctypes.Structure):
    _fields_ = [("features", c_void_p)]


class _Wave(ctypes.Structure):
    _fields_ = [
        ("type", c_char_p),
        ("sample_rate", c_int),
        ("num_samples", c_int),
        ("num_channels", c_int),
        ("samples", POINTER(c_short)),
    ]


class _Track(ctypes.Structure):
    _fields_ = [
        ("type", c_char_p),
        ("num_frames", c_int),
        ("num_channels", c_int),
        ("times", POINTER(c_float)),
        ("frames", POINTER(POINTER(c_float))),
    ]


# name: (what it returns, what it takes)
_FUNCTIONS = {
    "flite_init": (c_int, []),
    "flite_synth_text": (POINTER(_Utterance), [c_char_p, c_void_p]),
    "delete_utterance": (None, [POINTER(_Utterance)]),
    "utt_wave": (POINTER(_Wave), [POINTER(_Utterance)]),
    "utt_relation": (c_void_p, [POINTER(_Utterance), c_char_p]),
    "utt_relation_present": (c_int, [POINTER(_Utterance), c_char_p]),
    "relation_head": (c_void_p, [c_void_p]),
    "item_next": (c_void_p, [c_void_p]),
    "item_prev": (c_void_p, [c_void_p]),
    "item_as": (c_void_p, [c_void_p, c_char_p]),
    "path_to_item": (c_void_p, [c_void_p, c_char_p]),
    "item_feat_string": (c_char_p, [c_void_p, c_char_p]),
    "item_feat_float": (c_float, [c_void_p, c_char_p]),
    "feat_val": (c_void_p, [c_void_p, c_char_p]),
    "val_track": (POINTER(_Track), [c_void_p]),
}


class Flite:
    """One of flite's voices, loaded. Not to be shared between threads."""

    knows_phase = False

    def __init__(self, voice: str) -> None:
        if voice not in VOICES:
            raise TeacherError(f"flite voice {voice!r}: expected one of {', '.join(VOICES)}")
        self._lib = _load("libflite.so.1")
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self._lib, name)
            function.restype, function.argtypes = result, arguments
        self._lib.flite_init()
        register = getattr(_load(f"libflite_cmu_us_{voice}.so.1"), f"register_cmu_us_{voice}")
        register.restype, register.argtypes = c_void_p, [c_char_p]
        self._voice = register(None)

    def speak(self, text: str) -> Spoken:
        """Raises TeacherError when nothing came out."""
        utterance = self._lib.flite_synth_text(text.encode(), self._voice)
        if not utterance:
            raise TeacherError(f"flite could not speak {text!r}")
        try:
            return self._read(utterance)
        finally:
            self._lib.delete_utterance(utterance)

    def _read(self, utterance: "ctypes._Pointer[_Utterance]") -> Spoken:
        lib = self._lib
        wave = lib.utt_wave(utterance).contents
        if wave.sample_rate != _RATE_HZ:
            raise TeacherError(f"flite speaks at {wave.sample_rate} Hz, expected {_RATE_HZ}")
        heard = np.ctypeslib.as_array(wave.samples, (wave.num_samples,)) / 32768
        num_words = sum(1 for _ in self._items(utterance, b"Word"))
        names, ends, words = [], [], []
        for segment in self._items(utterance, b"Segment"):
            names.append(lib.item_feat_string(segment, b"name").decode())
            ends.append(lib.item_feat_float(segment, b"end"))
            parent = lib.path_to_item(segment, b"R:SylStructure.parent.parent")
            word = lib.item_as(parent, b"Word") if parent else None
            words.append(self._place(word) if word else -1)
        ends_s = np.array(ends, np.float32)
        phones = np.array([_PHONE_OF[name] for name in names], np.uint8)
        samples = soxr.resample(heard, _RATE_HZ, SAMPLE_RATE_HZ)
        num_steps = len(samples) // STEP_SAMPLES
        at = np.arange(num_steps) * _F0_RATE_HZ // STEP_RATE_HZ
        f0_hz = self._f0(utterance, num_steps * _F0_RATE_HZ // STEP_RATE_HZ + 1)[at]
        return Spoken(
            as_int16(samples[: num_steps * STEP_SAMPLES]),
            phones,
            ends_s,
            np.array(words, np.int32),
            num_words,
            voiced_only(f0_hz, phones, ends_s),
            cycles_of_steps(f0_hz),
            "",
        )

    def _place(self, word: int) -> int:
        place = 0
        while word := self._lib.item_prev(word):
            place += 1
        return place

    def _f0(self, utterance: "ctypes._Pointer[_Utterance]", num_steps: int) -> NDArray[np.float32]:
        """The contour the voice was driven with: a track (rms, slt, awb) or targets to join (kal16)."""
        value = self._lib.feat_val(utterance.contents.features, b"param_track")
        if value:
            track = self._lib.val_track(value).contents
            f0 = np.array([track.frames[i][0] for i in range(track.num_frames)], np.float32)
            return np.pad(f0, (0, max(0, num_steps - len(f0))))[:num_steps]
        targets = list(self._items(utterance, b"Target"))
        times = (np.arange(num_steps) + 0.5) * _F0_STEP_S
        f0 = np.interp(
            times,
            [self._lib.item_feat_float(item, b"pos") for item in targets],
            [self._lib.item_feat_float(item, b"f0") for item in targets],
        )
        return f0.astype(np.float32)

    def _items(self, utterance: "ctypes._Pointer[_Utterance]", relation: bytes) -> Iterator[int]:
        if not self._lib.utt_relation_present(utterance, relation):
            return
        item = self._lib.relation_head(self._lib.utt_relation(utterance, relation))
        while item:
            yield item
            item = self._lib.item_next(item)


def _load(name: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise TeacherError(f"{name} is missing ({error}): install it with `apt-get install flite`") from error
