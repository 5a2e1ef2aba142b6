"""Lay an inaudible, keyed watermark into speech while it is made: spread spectrum in the phases of an STFT.

A noise that its key decides, periodic in 1.03 s and within 200 to 7,600 Hz, turns the phase of each bin by a
small share of the bin's own magnitude: it is as loud as the speech lets it be, and silent in silence. Below
1 kHz, where harmonics stand apart and hide little between them, the share is less than half of that. It is
a sum of equal noises. The first marks where the period starts; how far each other one is shifted, in steps
of 0.5 ms, says 11 bits. Together they are the payload and its check. docs/provenance.md has the numbers.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from firstword.app.audio.dsp import Samples

PERIOD_MS: Final = 1030
DETECTOR_HZ: Final = 24_000  # the rate at which marks are found
PERIOD: Final = DETECTOR_HZ * PERIOD_MS // 1000  # in samples of the detector
SHIFT: Final = 12  # samples of the detector, 0.5 ms, between two values of a shifted noise
SHIFT_BITS: Final = 11
LOW_HZ, HIGH_HZ = 200, 7600
STRENGTH: Final = 0.27  # of a bin's magnitude, the root mean square of the turn's quadrature
QUIET_BELOW_HZ, QUIET_SHARE = 1000, 0.45  # what lies lower has that share of the strength
MIN_KEY_BYTES: Final = 16

FIRST_LINE: Final = -(-LOW_HZ * PERIOD_MS // 1000)  # of the noise's spectrum, 1 / 1.03 s apart
LAST_LINE: Final = HIGH_HZ * PERIOD_MS // 1000

# By sample rate: the hop of frames twice as long, about 10 ms, and the least periods that hops divide.
_HOPS: Final = {24_000: (240, 1), 22_050: (147, 2)}
RATES_HZ: Final = tuple(_HOPS)

Lines = NDArray[np.complex128]  # (noises, LAST_LINE - FIRST_LINE)


@dataclass(frozen=True, slots=True)
class WordLayout:
    """How many noises carry bits, and how many of those are payload; the others check it."""

    num_shifted: int
    payload_bits: int

    @property
    def check_bits(self) -> int:
        return SHIFT_BITS * self.num_shifted - self.payload_bits

    def checks(self, payloads: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the check of each payload: the highest bits of a multiplicative hash."""
        return (payloads * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - self.check_bits)

    def shifts(self, payload: int) -> list[int]:
        """Return the shift of each noise but the first, the lowest bits first."""
        check = int(self.checks(np.array([payload], np.uint64))[0])
        word = (payload << self.check_bits) | check
        return [(word >> (SHIFT_BITS * index)) % 2**SHIFT_BITS for index in range(self.num_shifted)]


LAYOUTS: Final = {24: WordLayout(3, 24), 32: WordLayout(4, 32)}
"""By bits of payload."""


def noise_lines(key: bytes, layout: WordLayout) -> Lines:
    """Return the spectra of the key's noises, of magnitude 1, their phases from SHAKE-256.

    Raises ValueError for a key that is too short to be a secret.
    """
    if len(key) < MIN_KEY_BYTES:
        raise ValueError(f"the watermark's key has {len(key)} bytes; expected {MIN_KEY_BYTES} or more")
    num_lines = LAST_LINE - FIRST_LINE
    lines = np.empty((1 + layout.num_shifted, num_lines), np.complex128)
    for index in range(len(lines)):
        label = f"firstword watermark 1, {layout.payload_bits} bits, noise {index}: ".encode()
        phases = np.frombuffer(hashlib.shake_256(label + key).digest(2 * num_lines), "<u2")
        lines[index] = np.exp(2j * np.pi / 65536 * phases.astype(np.float64))
    return lines


@dataclass(frozen=True)
class Watermark:
    """What is laid into every stream of an operator: a payload under a secret key."""

    key: bytes = field(repr=False)
    payload: int
    payload_bits: int = 24
    strength: float = STRENGTH

    def __post_init__(self) -> None:
        if self.payload_bits not in LAYOUTS:
            raise ValueError(f"a payload has {' or '.join(map(str, LAYOUTS))} bits, not {self.payload_bits}")
        if not 0 <= self.payload < 2**self.payload_bits:
            raise ValueError(f"the payload {self.payload} does not fit in {self.payload_bits} bits")
        self.frames  # noqa: B018  here, so that no stream waits for it

    @cached_property
    def frames(self) -> dict[int, tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """By sample rate: real and imaginary parts (frames, bins) of the noise's STFT, over its periods."""
        layout = LAYOUTS[self.payload_bits]
        lines = noise_lines(self.key, layout)
        numbers = np.arange(FIRST_LINE, LAST_LINE)
        shifts = SHIFT * np.array([0, *layout.shifts(self.payload)])
        summed = (lines * np.exp(-2j * np.pi / PERIOD * (shifts[:, None] * numbers))).sum(axis=0)
        return {rate_hz: _noise_frames(summed, numbers, rate_hz) for rate_hz in RATES_HZ}

    def marker(self, sample_rate_hz: int) -> "Marker":
        """Return the state of one stream. Raises ValueError for a rate that no checkpoint has."""
        if sample_rate_hz not in _HOPS:
            known = " or ".join(f"{rate_hz:,}" for rate_hz in RATES_HZ)
            raise ValueError(f"the watermark is for {known} Hz, and the checkpoint has {sample_rate_hz:,} Hz")
        hop, _ = _HOPS[sample_rate_hz]
        return Marker(*self.frames[sample_rate_hz], hop, sample_rate_hz, self.strength)


def _noise_frames(
    lines: NDArray[np.complex128], numbers: NDArray[np.int64], rate_hz: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    hop, num_periods = _HOPS[rate_hz]
    num_samples = rate_hz * PERIOD_MS * num_periods // 1000
    spectrum = np.zeros(num_samples // 2 + 1, np.complex128)
    spectrum[num_periods * numbers] = lines
    noise = np.fft.irfft(spectrum, num_samples)
    around = np.concatenate([noise[-hop:], noise])  # frame i: from hop i - 1 to i + 1
    frames = np.fft.rfft(windowed(around, hop), axis=1)[:, _bins(rate_hz, hop)]
    frames /= np.sqrt(np.mean(np.abs(frames) ** 2))
    return frames.real.astype(np.float32), frames.imag.astype(np.float32)


def _bins(rate_hz: int, hop: int) -> slice:
    width_hz = rate_hz / (2 * hop)
    return slice(int(np.ceil(LOW_HZ / width_hz)), int(HIGH_HZ / width_hz))


@cache
def window(hop: int) -> Samples:
    """Return the root of a periodic Hann window over two hops."""
    root: Samples = np.sqrt(np.hanning(2 * hop + 1)[: 2 * hop]).astype(np.float32)
    return root


def windowed(samples: NDArray[Any], hop: int) -> NDArray[Any]:
    """samples ((n + 1) hop,) -> (n, 2 hop)."""
    hops = samples.reshape(-1, hop)
    frames: NDArray[Any] = np.concatenate([hops[:-1], hops[1:]], axis=1) * window(hop)
    return frames


class Marker:
    """Marks one stream. What comes out lags 10 ms behind, and is the same however the stream is cut.

    All of it is arithmetic that rounds each result by itself, never a fused or vectorized complex product,
    whose last bit would depend on where a chunk begins. The clock of the frames starts with the stream.
    """

    def __init__(
        self,
        noise_real: NDArray[np.float32],
        noise_imaginary: NDArray[np.float32],
        hop: int,
        sample_rate_hz: int,
        strength: float,
    ) -> None:
        """noise_real, noise_imaginary (frames, bins): as `Watermark.frames` has them."""
        self._noise = noise_real, noise_imaginary
        self._hop = hop
        self._bins = _bins(sample_rate_hz, hop)
        num_quiet = QUIET_BELOW_HZ * 2 * hop // sample_rate_hz - self._bins.start
        self._strength = np.full(noise_real.shape[1], strength, np.float32)
        self._strength[:num_quiet] *= np.float32(QUIET_SHARE)
        self._window = window(hop)
        self._num_taken = 0  # samples of the stream
        self._begin()

    def _begin(self) -> None:
        """Begin at the sample of the stream that comes next, within the frames of the stream's clock."""
        before = self._num_taken % self._hop  # samples of silence before it, up to the last hop
        self._held = np.zeros(self._hop + before, np.float32)
        self._tail = np.zeros(self._hop, np.float32)
        self._frame = self._num_taken // self._hop
        self._num_skipped = self._hop + before  # of the next output

    def feed(self, samples: Samples) -> Samples:
        """samples (n,) -> (m,): the marked stream as far as it is known."""
        self._num_taken += len(samples)
        return self._marked(samples)

    def finish(self) -> Samples:
        """Return what is held back; what is fed afterwards goes on behind it, with the same clock."""
        num_held = len(self._held) - self._num_skipped
        rest: Samples = self._marked(np.zeros(2 * self._hop, np.float32))[:num_held]
        self._begin()
        return rest

    def _marked(self, samples: Samples) -> Samples:
        hop = self._hop
        held = np.concatenate([self._held, samples])
        num_frames = len(held) // hop - 1
        if num_frames < 1:
            self._held = held
            return self._held[:0]
        spectra: NDArray[Any] = np.fft.rfft(windowed(held[: (num_frames + 1) * hop], hop), axis=1)
        self._held = held[num_frames * hop :]
        band = spectra[:, self._bins]
        real, imaginary = band.real.copy(), band.imag.copy()
        rows = (self._frame + np.arange(num_frames)) % len(self._noise[0])
        noise_real, noise_imaginary = self._noise[0][rows], self._noise[1][rows]
        self._frame += num_frames
        size = np.sqrt(real * real + imaginary * imaginary) + np.float32(1e-9)
        turn = self._strength * (noise_imaginary * real - noise_real * imaginary) / size
        band.real = real - turn * imaginary
        band.imag = imaginary + turn * real
        frames: NDArray[Any] = np.fft.irfft(spectra, 2 * hop, axis=1) * self._window
        out = frames[:, :hop].copy()
        out[0] += self._tail
        out[1:] += frames[:-1, hop:]
        self._tail = frames[-1, hop:]
        marked: Samples = out.reshape(-1)
        skipped = min(self._num_skipped, len(marked))
        self._num_skipped -= skipped
        return marked[skipped:]
