"""Match what a flow makes of a speaker to the speaker's recording: one affine map of its mel frames.

A flow that was trained with few voices gives a new one the pitch and the timbre of those it knows. Its mel
and the recording's, of the same speech tokens, go together frame by frame, so that what lies between them can
be fitted: the pitch, by moving the harmonics along the frequencies; the length of the vocal tract, by moving
the envelope; what then remains of the envelope, in cepstra, by the matrix that makes them vary as the
recording's do and brings them nearest. Least squares would bring them nearer, but flatten speech until it is
hard to understand. CosyVoice has no such step: only a checkpoint that asks for it is matched
(`matches_recordings` in firstword.json).
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from firstword.models.config import NUM_MELS, MelConfig
from firstword.models.frontend.features import LEAST_MEL, mel_centers_hz
from firstword.models.frontend.speaker import MEL_MAP_SHAPE

NO_CHANGE: Final = torch.eye(*MEL_MAP_SHAPE)
_MIN_LOG_MEL = math.log(LEAST_MEL)
_NUM_CEPSTRA = 24  # of an envelope
_EXPECTED_FRAMES = 200.0  # of the smallest change; with fewer, and with more, words are lost (docs/LOG.md)
_SHRINKAGE = 0.1  # of what the cepstra vary together
_PITCH_LIMITS = 0.6, 1.6  # times what the flow gives; beyond, words are lost
_TRACT_RATIOS = np.arange(0.80, 1.27, 0.02)  # of the frequencies of an envelope
_MIN_VARIANCE = 0.01  # of one cepstrum
_MIN_SPEECH_VARIANCE = 10.0  # of all cepstra but the loudness together: speech has 40 to 110, a tone 5
MAX_MAP_ELEMENT = 50.0
_MIN_F0_HZ = 50.0
_ENVELOPE_HZ = 300.0  # what is finer belongs to the harmonics
_HARMONICS_UP_TO_HZ = 2500.0, 3500.0  # the mel's bins tell them apart below; between both they fade
_QUIET_SHARE = 0.25  # of the frames; they hardly count
_LOUDNESS_STEP = 0.5  # of the natural logarithm


@dataclass(frozen=True, slots=True, eq=False)
class Voiced:
    """Speech as its mel and its pitch."""

    mel: Tensor  # (80, F), natural logarithm
    f0_hz: Tensor  # (F,)

    @property
    def pitch_hz(self) -> float:
        """The median of the voiced frames; NaN where there is none."""
        voiced = self.f0_hz[self.f0_hz > _MIN_F0_HZ]
        return float(voiced.median()) if len(voiced) else math.nan


def apply_mel_map(mel: Tensor, mel_map: Tensor) -> Tensor:
    """mel (80, F) by a map (80, 81), a matrix and an offset -> (80, F); by NO_CHANGE the same numbers."""
    mapped = mel_map[:, :-1] @ mel + mel_map[:, -1:]
    return mapped.maximum(mel.clamp_max(_MIN_LOG_MEL))


def fit_mel_map(recorded: Voiced, made: Voiced, other: Voiced, config: MelConfig) -> Tensor:
    """Return the map (80, 81) that makes what the flow gives for a speaker more like the recording.

    made: the recording's speech tokens, spoken by the flow, frame by frame as `recorded`. other: other speech
    of the flow as that speaker, which tells its pitch and loudness better: the flow has heard the recording.
    NO_CHANGE where one of them hardly changes, as no speech does.
    """
    num_frames = min(recorded.mel.shape[1], made.mel.shape[1])
    target, source = recorded.mel[:, :num_frames], made.mel[:, :num_frames]
    bins = _Bins(mel_centers_hz(config).float())
    cepstra = _cepstra()
    weights = _weights(torch.minimum(target.mean(0), source.mean(0)))
    y = cepstra @ target
    y_mean = _mean(y, weights)
    y = y - y_mean

    def moved(tract_ratio: float) -> tuple[Tensor, Tensor]:
        """-> the cepstra of the source with pitch and envelope moved, without their mean, and that."""
        x = cepstra @ (bins.moved(_pitch_ratio(recorded, made), tract_ratio) @ source)
        mean = _mean(x, weights)
        return x - mean, mean

    def distance(tract_ratio: float) -> float:
        return float(_mean((moved(tract_ratio)[0] - y)[1:].square(), weights).sum())  # but the loudness

    if not (_changes(y, weights) and _changes(cepstra @ source, weights)):
        return NO_CHANGE
    tract_ratio = min(_TRACT_RATIOS.tolist(), key=distance)
    x, x_mean = moved(tract_ratio)
    change = _transport(x, y, weights) - torch.eye(_NUM_CEPSTRA)

    pitch_ratio = math.sqrt(_pitch_ratio(recorded, made) * _pitch_ratio(recorded, other))
    move = bins.moved(pitch_ratio, tract_ratio)
    other_mel = move @ other.mel
    middle = (x_mean + _mean(cepstra @ other_mel, _weights(other_mel.mean(0)))) / 2
    matrix = move + cepstra.mT @ change @ cepstra @ move
    offset = cepstra.mT @ (y_mean - middle - change @ middle)
    fitted = torch.cat([matrix, offset], dim=1)
    return fitted if bool((fitted.abs() <= MAX_MAP_ELEMENT).all()) else NO_CHANGE  # it was no speech


def _changes(cepstra: Tensor, weights: Tensor) -> bool:
    """Whether cepstra (K, F) vary as those of speech do."""
    beside_loudness = (cepstra - _mean(cepstra, weights))[1:]
    return float(_mean(beside_loudness.square(), weights).sum()) >= _MIN_SPEECH_VARIANCE  # False for NaN


def _transport(x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """The matrix (K, K) by which x varies as y does, and comes nearest to it.

    x, y (K, F), without their means; weights (F,). Of all the matrices that give x the covariance of y, an
    orthogonal one between both square roots, that of the least squares (Procrustes); the fewer the frames,
    the nearer to the one that moves x least (optimal transport of Gaussians).
    """
    x_root, y_root = (_root(_shrunk((a * weights) @ a.mT / weights.sum())) for a in (x, y))
    x_white, y_white = torch.linalg.solve(x_root, x), torch.linalg.solve(y_root, y)
    together = (y_white * weights) @ x_white.mT + _EXPECTED_FRAMES * _orthogonal(y_root @ x_root)
    return y_root @ torch.linalg.solve(x_root, _orthogonal(together), left=False)


def _shrunk(covariance: Tensor) -> Tensor:
    return (1 - _SHRINKAGE) * covariance + _SHRINKAGE * covariance.diag().diag()


def _root(symmetric: Tensor) -> Tensor:
    """The symmetric root of a positive matrix."""
    values, vectors = torch.linalg.eigh(symmetric)
    return vectors @ values.clamp_min(_MIN_VARIANCE).sqrt().diag() @ vectors.mT


def _orthogonal(matrix: Tensor) -> Tensor:
    """The nearest orthogonal matrix."""
    left, _, right = torch.linalg.svd(matrix)
    return left @ right


def _pitch_ratio(recorded: Voiced, made: Voiced) -> float:
    """1 where either has no voice."""
    ratio = recorded.pitch_hz / made.pitch_hz
    lowest, highest = _PITCH_LIMITS
    return 1.0 if math.isnan(ratio) else min(highest, max(lowest, ratio))


def _weights(loudness: Tensor) -> Tensor:
    """How much each frame counts, (F,): speech about 1, pauses little."""
    return ((loudness - loudness.quantile(_QUIET_SHARE)) / _LOUDNESS_STEP).sigmoid()


def _mean(x: Tensor, weights: Tensor) -> Tensor:
    """x (K, F) -> (K, 1)."""
    return (x * weights).sum(1, keepdim=True) / weights.sum()


def _cepstra() -> Tensor:
    """The first rows of the orthonormal cosine transform of a log-mel frame: (K, 80)."""
    orders, bins = torch.arange(_NUM_CEPSTRA), torch.arange(NUM_MELS)
    waves = torch.cos(math.pi / NUM_MELS * orders[:, None] * (bins + 0.5)) * math.sqrt(2 / NUM_MELS)
    waves[0] /= math.sqrt(2)
    return waves


class _Bins:
    """Moves what a log-mel frame holds along the frequencies."""

    def __init__(self, centers_hz: Tensor) -> None:
        """centers_hz (80,) of the bins."""
        self._centers_hz = centers_hz
        distances = (centers_hz[:, None] - centers_hz) / _ENVELOPE_HZ
        envelope = torch.exp(-distances.square() / 2) * torch.gradient(centers_hz)[0]
        self._envelope = envelope / envelope.sum(1, keepdim=True)
        self._harmonics = torch.eye(NUM_MELS) - self._envelope
        low_hz, high_hz = _HARMONICS_UP_TO_HZ
        self._share = ((high_hz - centers_hz) / (high_hz - low_hz)).clamp(0, 1)[:, None]

    def moved(self, pitch_ratio: float, tract_ratio: float) -> Tensor:
        """(80, 80): moves the harmonics to so many times their frequencies, and the envelope."""
        harmonics = self._share * (self._stretched(pitch_ratio) @ self._harmonics)
        fixed = (1 - self._share) * self._harmonics
        return self._stretched(tract_ratio) @ self._envelope + harmonics + fixed

    def _stretched(self, ratio: float) -> Tensor:
        """(80, 80): reads each bin at its frequency over `ratio`, between the two bins around it."""
        centers_hz = self._centers_hz
        wanted_hz = (centers_hz / ratio).clamp(centers_hz[0], centers_hz[-1])
        above = torch.searchsorted(centers_hz, wanted_hz).clamp(1, NUM_MELS - 1)
        share = (wanted_hz - centers_hz[above - 1]) / (centers_hz[above] - centers_hz[above - 1])
        rows = torch.arange(NUM_MELS)
        matrix = torch.zeros(NUM_MELS, NUM_MELS)
        matrix[rows, above - 1] = 1 - share
        matrix[rows, above] = share
        return matrix
