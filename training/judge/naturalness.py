"""How natural speech sounds, by Distill-MOS (arXiv 2502.05356), whose weights `distillmos` (MIT) brings.

It spreads further than P.808: a teacher has 4.4 where its copy without phase has 3.8.
"""

import sys
import types
from functools import cache
from typing import Any

import numpy as np
import soxr
import torch
from numpy.typing import NDArray

_RATE_HZ = 16_000


@torch.inference_mode()
def distill_mos(samples: NDArray[np.float32], sample_rate_hz: int) -> float:
    """samples (n,) within ±1 -> a mean opinion score, 1 to 5."""
    heard = soxr.resample(samples, sample_rate_hz, _RATE_HZ).astype(np.float32)
    return float(_judge()(torch.from_numpy(heard)[None]))


@cache
def _judge() -> Any:
    """torchaudio, which the package names, reads files for its command alone: it need not be installed."""
    sys.modules.setdefault("torchaudio", types.ModuleType("torchaudio"))
    import distillmos

    return distillmos.ConvTransformerSQAModel().eval()
