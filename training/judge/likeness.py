"""How alike two voices are, by GE2E embeddings (arXiv 1710.10467).

The weights are those that Resemblyzer (Apache-2.0) brings: three LSTM layers and a linear one.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import soxr
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from firstword.models.frontend.features import slaney_filterbank

_RATE_HZ = 16_000
_N_FFT, _HOP = 400, 160
_WINDOW_FRAMES, _STEP_FRAMES = 160, 80
_LEVEL_DB = -30.0
_SILENT = 1e-4  # of the loudest frame's power


class SpeakerJudge(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)
        package = find_spec("resemblyzer")
        if package is None or package.origin is None:
            raise ModuleNotFoundError("resemblyzer is missing; fix: pip install --no-deps resemblyzer==0.1.4")
        path = Path(package.origin).parent / "pretrained.pt"
        state = torch.load(path, weights_only=True, map_location="cpu")["model_state"]
        self.load_state_dict({name: state[name] for name in self.state_dict()})
        self._filters = slaney_filterbank(_RATE_HZ, _N_FFT, 40, 0.0, _RATE_HZ / 2)

    @torch.inference_mode()
    def embed(self, samples: NDArray[np.float32], sample_rate_hz: int) -> Tensor:
        """samples (n,) -> (256,) of length one; the dot product of two is their likeness."""
        heard = torch.from_numpy(soxr.resample(samples, sample_rate_hz, _RATE_HZ).astype(np.float32))
        heard = heard * 10 ** (_LEVEL_DB / 20) / (heard.square().mean().sqrt() + 1e-9)
        window = torch.hann_window(_N_FFT)
        power = torch.stft(heard, _N_FFT, _HOP, window=window, return_complex=True).abs().square()
        mel = (self._filters @ power).T  # (T, 40)
        mel = mel[mel.sum(1) > mel.sum(1).max() * _SILENT]
        mel = mel.repeat(-(-_WINDOW_FRAMES // len(mel)), 1) if len(mel) < _WINDOW_FRAMES else mel
        starts = range(0, len(mel) - _WINDOW_FRAMES + 1, _STEP_FRAMES)
        pieces = torch.stack([mel[start : start + _WINDOW_FRAMES] for start in starts])
        hidden = self.lstm(pieces)[1][0][-1]
        voices = nn.functional.normalize(self.linear(hidden).relu(), dim=1)
        return nn.functional.normalize(voices.mean(0), dim=0)
