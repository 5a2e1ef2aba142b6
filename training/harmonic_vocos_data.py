"""What the stage harmonic_vocos learns from: recordings in the vocoder's frames, and a teacher's spectra."""

from dataclasses import dataclass, replace

import numpy as np
import soxr
import torch
from numpy.typing import NDArray
from torch import Tensor

from firstword.models.config import HarmonicVocosConfig
from firstword.models.frontend.features import MelExtractor
from firstword.models.harmonic_vocos.network import LOWEST_HZ, HarmonicVocos, SpectrumTransform, pulses
from training.features import MEL
from training.harmonic_vocos_hints import Hints
from training.teachers.spoken import SAMPLE_RATE_HZ, STEP_RATE_HZ, STEP_SAMPLES, Spoken, Told, as_int16

_MAX_LOG_RATE = 0.2  # either way, of an altered recording's playing speed
_TILTS_DB = (2.5, 2.0, 1.5, 1.0)  # standard deviations of cosines over its frequencies
_LIMITED_SHARE, _LIMIT_HZ = 0.25, 8_000.0  # of altered recordings those that end there, as many recordings do
_NOISY_SHARE, _NOISES_DB = 0.3, (-55.0, -30.0)  # beside the loudness of the recording
_GAP_HZ = 1.05 * LOWEST_HZ  # a teacher whose pulses rest says its lowest F0, or less
_QUIETEST = 1e-8  # of a power, beside that of all pulses
_EDGE_STEPS = 5  # beside a gap, where a teacher's F0 is on its way down or up


@dataclass(frozen=True, slots=True)
class Recording:
    """One utterance, F frames of the vocoder long; steps are those of `Spoken`."""

    mel: NDArray[np.float16]  # (80, F + lookahead), as `HarmonicVocos.frames` gives it
    samples: NDArray[np.int16]  # (hop F,)
    f0_hz: NDArray[np.float32]  # (S + 1,), through voiceless sounds
    cycles: NDArray[np.float64]  # (S + 1,)
    is_voiced: NDArray[np.bool_]  # (S,)
    knows_phase: bool
    spectra: NDArray[np.float16] | None = None  # (F, 5, bins), of the teacher that tells them
    hidden: NDArray[np.float16] | None = None  # (F, H, C), its hints

    @property
    def num_frames(self) -> int:
        return self.mel.shape[1]


def filled(
    f0_hz: NDArray[np.float64], is_gap: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """F0 (S,) -> F0 through its gaps in straight lines, and the cycles (S + 1,) of pulses that follow it.

    Behind a gap the phase is again that of the F0 as it was: what differs, less than a turn, is spread over
    the gap. This is what F0 means in voiceless sounds, in training and so in service.
    """
    steps = np.arange(len(f0_hz))
    if is_gap.all():
        return np.full(len(f0_hz), 2 * LOWEST_HZ), np.arange(len(f0_hz) + 1) * 2 * LOWEST_HZ / STEP_RATE_HZ
    made = np.interp(steps, steps[~is_gap], f0_hz[~is_gap])
    advance = made / STEP_RATE_HZ
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_gap, [False]]).astype(int)))
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        owed = f0_hz[start:stop].sum() / STEP_RATE_HZ - advance[start:stop].sum()
        advance[start:stop] += (owed - round(owed)) / (stop - start)
    return made, np.concatenate([[0.0], np.cumsum(advance)])


def recording_of(model: HarmonicVocos, spoken: Spoken, knows_phase: bool) -> Recording:
    config = model.config
    num_frames = len(spoken.samples) // config.hop_samples
    samples = spoken.samples[: num_frames * config.hop_samples]
    waveform = torch.from_numpy(samples.astype(np.float32) / 32768)
    mel = MelExtractor(MEL)(waveform)
    drawn = model.frames(mel[None], 0, 0, num_frames)[0]
    slopes = np.diff(spoken.cycles, append=2 * spoken.cycles[-1] - spoken.cycles[-2]) * STEP_RATE_HZ
    is_gap = slopes < _GAP_HZ
    near = np.convolve(is_gap, np.ones(2 * _EDGE_STEPS + 1), "same") > 0
    f0_hz, cycles = filled(slopes, near)
    return Recording(
        drawn.half().numpy(),
        samples,
        np.append(f0_hz, f0_hz[-1]).astype(np.float32),
        cycles,
        (spoken.f0_hz > 0) & ~near,
        knows_phase,
    )


def altered(spoken: Spoken, rng: np.random.Generator) -> Spoken:
    """As if somebody else had spoken elsewhere: played faster or slower, equalized, with noise."""
    rate = float(np.exp(rng.uniform(-_MAX_LOG_RATE, _MAX_LOG_RATE)))
    samples = soxr.resample(spoken.samples / 32768, rate * SAMPLE_RATE_HZ, SAMPLE_RATE_HZ)
    num_steps = len(samples) // STEP_SAMPLES
    samples = samples[: num_steps * STEP_SAMPLES]
    spectrum = np.fft.rfft(samples)
    places = np.linspace(0, np.pi, len(spectrum))
    cosines = np.cos(np.arange(1, len(_TILTS_DB) + 1)[:, None] * places)
    gain_db = (rng.normal(size=len(_TILTS_DB)) * _TILTS_DB) @ cosines
    if rng.random() < _LIMITED_SHARE:
        gain_db[int(len(spectrum) * _LIMIT_HZ / (SAMPLE_RATE_HZ / 2)) :] = -80.0
    samples = np.fft.irfft(spectrum * 10 ** (gain_db / 20), len(samples))
    if rng.random() < _NOISY_SHARE:
        loudness = np.sqrt(np.square(samples).mean())
        samples = samples + rng.normal(size=len(samples)) * loudness * 10 ** (rng.uniform(*_NOISES_DB) / 20)
    at = np.minimum(np.arange(num_steps) * rate, len(spoken.f0_hz) - 1)
    return replace(
        spoken,
        samples=as_int16(samples),
        ends_s=spoken.ends_s / np.float32(rate),
        f0_hz=spoken.f0_hz[at.astype(int)] * np.float32(rate),
        cycles=np.interp(at, np.arange(len(spoken.cycles)), spoken.cycles),
    )


def told_recording_of(model: HarmonicVocos, spoken: Spoken, told: Told, hints: Hints) -> Recording:
    """Where nothing is voiced the teacher's pulses rest and ours go on: its harmonics are silent there."""
    one = recording_of(model, spoken, True)
    config = model.config
    at = np.arange(-(config.n_fft // 2), (one.num_frames - 1) * config.hop_samples + config.n_fft // 2)
    driven = (torch.from_numpy(values)[None] for values in _driven(one, at.clip(0, len(one.samples) - 1)))
    power = SpectrumTransform(config).analyze(pulses(*driven))[0].abs().square().mean(1).numpy()
    rests = 0.5 * np.log(np.clip(told.pulses_power[: len(power)] / power, _QUIETEST, 1.0))
    spectra = told.spectra.transpose(2, 0, 1)[: one.num_frames].copy()
    spectra[:, 0] += rests[:, None]
    hidden = hints.of(told.hidden)[: one.num_frames]
    return replace(one, spectra=spectra.clip(-30, 30).astype(np.float16), hidden=hidden)


def _driven(one: Recording, at: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """-> the cycles, of which only the fraction counts, and F0 at those samples."""
    step, rest = np.divmod(at, STEP_SAMPLES)
    cycles = one.cycles[step] + (one.cycles[step + 1] - one.cycles[step]) * (rest / STEP_SAMPLES)
    return (cycles % 1.0).astype(np.float32), one.f0_hz[step]


@dataclass(frozen=True, slots=True)
class Crops:
    """A batch of pieces of F frames."""

    mel: Tensor  # (B, 80, F + lookahead)
    pitch_hz: Tensor  # (B, F), at the frames
    cycles: Tensor  # (B, hop (F - 1) + n_fft), of each sample from half a window before the first frame
    pulses_hz: Tensor  # as cycles
    samples: Tensor  # (B, hop F)
    is_voiced: Tensor  # (B, F)
    knows_phase: Tensor  # (B,)
    spectra: Tensor | None  # (B, F, 5, bins)
    hidden: Tensor | None  # (B, F, H, C)


def crops_of(
    config: HarmonicVocosConfig,
    recordings: list[Recording],
    frames: int,
    rng: np.random.Generator,
    number: int,
) -> Crops:
    """Draw pieces that begin a whole number of mel frames into recordings, which are long enough for that."""
    hop, lookahead, edge = config.hop_samples, config.lookahead_frames, config.n_fft // 2
    unit = config.samples_per_frame // np.gcd(config.samples_per_frame, hop)
    rows = []
    for place in rng.integers(len(recordings), size=number):
        one = recordings[place]
        first = 1 + (edge - 1) // hop // unit  # half a window of pulses lies before it
        last = (one.num_frames - frames - max(lookahead, config.edge_frames)) // unit
        start = unit * int(rng.integers(first, last + 1))
        at = np.arange(start * hop - edge, (start + frames - 1) * hop + edge)
        driven = _driven(one, at)
        at_frames = np.arange(start, start + frames) * hop // STEP_SAMPLES
        rows.append(
            (
                one.mel[:, start : start + frames + lookahead].astype(np.float32),
                one.f0_hz[at_frames],
                *driven,
                one.samples[start * hop : (start + frames) * hop].astype(np.float32) / 32768,
                one.is_voiced[at_frames],
                np.array(one.knows_phase),
                *(
                    np.zeros(0) if told is None else told[start : start + frames].astype(np.float32)
                    for told in (one.spectra, one.hidden)
                ),
            )
        )
    mel, pitch_hz, cycles, pulses_hz, samples, is_voiced, knows_phase, spectra, hidden = (
        torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True)
    )
    told = (spectra, hidden) if spectra.numel() else (None, None)
    return Crops(mel, pitch_hz, cycles, pulses_hz, samples, is_voiced, knows_phase, *told)


def min_frames(config: HarmonicVocosConfig, frames: int) -> int:
    """How long a recording must be for crops of so many frames."""
    return frames + 32 + config.lookahead_frames
