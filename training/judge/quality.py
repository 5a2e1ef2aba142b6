"""How good speech sounds, by DNSMOS (arXiv 2110.01763), whose networks `speechmos` (MIT) brings."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import soxr
from numpy.typing import NDArray
from speechmos import dnsmos

_RATE_HZ = 16_000
_WINDOW = int(dnsmos.INPUT_LENGTH * _RATE_HZ)  # samples; shorter speech is repeated
_HOP = _RATE_HZ


@dataclass(frozen=True, slots=True)
class Quality:
    """Mean opinion scores, 1 to 5."""

    p808: float
    overall: float


def quality(samples: NDArray[np.float32], sample_rate_hz: int) -> Quality:
    """samples (n,) within ±1.

    As speechmos.dnsmos.run, but `overall` is heard in two of the windows, a second apart each, instead of in
    all, and in one where speech is repeated to fill them: its network takes nine tenths of the time. On 24
    sentences that moved one by 0.01 and all by 0.001.
    """
    judge, windows = _judge(), _windows(samples, sample_rate_hz)
    is_repeated = len(samples) / sample_rate_hz < dnsmos.INPUT_LENGTH
    scores = [_overall(judge, windows[number]) for number in {0, 0 if is_repeated else len(windows) // 2}]
    return Quality(_mean_p808(judge, windows), float(np.mean(scores)))


def p808(samples: NDArray[np.float32], sample_rate_hz: int) -> float:
    """As `quality`, of which it takes a tenth of the time."""
    return _mean_p808(_judge(), _windows(samples, sample_rate_hz))


def _windows(samples: NDArray[np.float32], sample_rate_hz: int) -> list[NDArray[np.float32]]:
    heard = np.clip(soxr.resample(samples, sample_rate_hz, _RATE_HZ), -1, 1).astype(np.float32)
    while len(heard) < _WINDOW:
        heard = np.concatenate([heard, heard])
    num_windows = 1 + max(0, int(len(heard) // _RATE_HZ - dnsmos.INPUT_LENGTH))
    return [heard[_HOP * number :][:_WINDOW] for number in range(num_windows)]


def _mean_p808(judge: Any, windows: list[NDArray[np.float32]]) -> float:
    return float(np.mean([_p808(judge, window) for window in windows]))


@cache
def _judge() -> Any:
    """Its networks with one thread: the sentences are judged in several processes."""
    folder = Path(dnsmos.__file__).parent / "dnsmos_models"
    paths = [str(folder / "sig_bak_ovr.onnx"), str(folder / "model_v8.onnx")]
    judge = dnsmos.DNSMOS(*paths)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    judge.onnx_sess, judge.p808_onnx_sess = (onnxruntime.InferenceSession(path, options) for path in paths)
    return judge


def _p808(judge: Any, window: NDArray[np.float32]) -> float:
    mel = np.asarray(judge.audio_melspec(audio=window[:-160]), np.float32)
    return float(judge.p808_onnx_sess.run(None, {"input_1": mel[None]})[0][0][0])


def _overall(judge: Any, window: NDArray[np.float32]) -> float:
    raw = judge.onnx_sess.run(None, {"input_1": window[None]})[0][0]
    return float(judge.get_polyfit_val(*raw, False)[2])
