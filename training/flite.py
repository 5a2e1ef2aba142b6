"""Speaks a text with one of flite's voices and tells when each phone ended and how high it was.

flite (Carnegie Mellon University, BSD-like licence) is reached through its shared library, as Debian's
`flite` package installs it, because the command gives samples only.
"""

import ctypes
from collections.abc import Iterator
from ctypes import POINTER, c_char_p, c_float, c_int, c_short, c_void_p
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SPEAKERS = ("rms", "slt", "awb", "kal16")
SAMPLE_RATE_HZ = 16_000
F0_RATE_HZ = 200
F0_STEP_S = 1 / F0_RATE_HZ
SAMPLES_PER_F0 = SAMPLE_RATE_HZ // F0_RATE_HZ  # 80

# flite's US English phones; silence is 0.
_PHONES = """
    pau aa ae ah ao aw ax ay b ch d dh eh er ey f g hh ih iy jh k l m n ng ow oy p r s sh t th uh uw v w y z
    zh
"""
PHONES = tuple(_PHONES.split())
VOICED = frozenset(PHONES) - frozenset(["pau", "ch", "f", "hh", "k", "p", "s", "sh", "t", "th"])


class FliteError(RuntimeError):
    """flite is not installed, or could not speak."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """One utterance of a teacher."""

    samples: NDArray[np.int16]  # (num_samples,), at SAMPLE_RATE_HZ
    phones: NDArray[np.uint8]  # (num_phones,), places in PHONES
    ends_s: NDArray[np.float32]  # (num_phones,)
    words: NDArray[np.int32]  # (num_phones,), which word the phone belongs to; -1 for silence
    num_words: int
    f0_hz: NDArray[np.float32]  # (num_samples / SAMPLES_PER_F0,); 0 where unvoiced

    @property
    def waveform(self) -> NDArray[np.float32]:
        """(num_samples,) within ±1."""
        return (self.samples / 32768).astype(np.float32)


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

    def __init__(self, speaker: str) -> None:
        if speaker not in SPEAKERS:
            raise ValueError(f"flite speaker {speaker!r}: expected one of {', '.join(SPEAKERS)}")
        self._lib = _load("libflite.so.1")
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self._lib, name)
            function.restype, function.argtypes = result, arguments
        self._lib.flite_init()
        register = getattr(_load(f"libflite_cmu_us_{speaker}.so.1"), f"register_cmu_us_{speaker}")
        register.restype, register.argtypes = c_void_p, [c_char_p]
        self._voice = register(None)

    def speak(self, text: str) -> Spoken:
        """Raises FliteError when nothing came out."""
        utterance = self._lib.flite_synth_text(text.encode(), self._voice)
        if not utterance:
            raise FliteError(f"flite could not speak {text!r}")
        try:
            return self._read(utterance)
        finally:
            self._lib.delete_utterance(utterance)

    def _read(self, utterance: "ctypes._Pointer[_Utterance]") -> Spoken:
        lib = self._lib
        wave = lib.utt_wave(utterance).contents
        if wave.sample_rate != SAMPLE_RATE_HZ:
            raise FliteError(f"flite speaks at {wave.sample_rate} Hz, expected {SAMPLE_RATE_HZ}")
        samples = np.ctypeslib.as_array(wave.samples, (wave.num_samples,)).copy()
        num_words = sum(1 for _ in self._items(utterance, b"Word"))
        names, ends, words = [], [], []
        for segment in self._items(utterance, b"Segment"):
            names.append(lib.item_feat_string(segment, b"name").decode())
            ends.append(lib.item_feat_float(segment, b"end"))
            parent = lib.path_to_item(segment, b"R:SylStructure.parent.parent")
            word = lib.item_as(parent, b"Word") if parent else None
            words.append(self._place(word) if word else -1)
        ends_s = np.array(ends, np.float32)
        num_steps = int(len(samples) / SAMPLE_RATE_HZ / F0_STEP_S)
        return Spoken(
            samples,
            np.array([PHONES.index(name) for name in names], np.uint8),
            ends_s,
            np.array(words, np.int32),
            num_words,
            self._f0(utterance, names, ends_s, num_steps),
        )

    def _place(self, word: int) -> int:
        place = 0
        while word := self._lib.item_prev(word):
            place += 1
        return place

    def _f0(
        self,
        utterance: "ctypes._Pointer[_Utterance]",
        names: list[str],
        ends_s: NDArray[np.float32],
        num_steps: int,
    ) -> NDArray[np.float32]:
        """The contour the voice was driven with: a track (rms, slt, awb) or targets to join (kal16)."""
        value = self._lib.feat_val(utterance.contents.features, b"param_track")
        if value:
            track = self._lib.val_track(value).contents
            f0 = np.array([track.frames[i][0] for i in range(track.num_frames)], np.float32)
            return np.pad(f0, (0, max(0, num_steps - len(f0))))[:num_steps]
        targets = list(self._items(utterance, b"Target"))
        times = (np.arange(num_steps) + 0.5) * F0_STEP_S
        f0 = np.interp(
            times,
            [self._lib.item_feat_float(item, b"pos") for item in targets],
            [self._lib.item_feat_float(item, b"f0") for item in targets],
        )
        places = np.minimum(np.searchsorted(ends_s, times), len(ends_s) - 1)
        voiced = np.array([name in VOICED for name in names])[places]
        return np.where(voiced, f0, 0.0).astype(np.float32)

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
        raise FliteError(f"{name} is missing ({error}): install it with `apt-get install flite`") from error
