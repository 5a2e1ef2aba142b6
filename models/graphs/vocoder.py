"""The generator of a vocoder that looks to both sides, as CUDA graphs of the pieces that come again."""

import threading
from collections import OrderedDict
from dataclasses import dataclass

from torch import Tensor

from firstword.models.graphs.buckets import BATCHES, MAX_RECORDED, bucket
from firstword.models.graphs.capture import Run, captured
from firstword.models.hift.hift import Generator
from firstword.models.layers import FullContext

MAX_SEEN = 64  # lengths that came once


@dataclass(frozen=True, slots=True, eq=False)
class _Recorded:
    run: Run
    mel: Tensor  # (B, M, T)
    spectrum: Tensor  # (B, n_fft + 2, U T + 1)


class GraphedGenerator:
    """Runs instead of a HiFT's generator. Pieces are padded in number, never in length: they would change.

    A length is recorded when it comes the second time: most pieces are of one whole hop. Threads run it one
    after the other.
    """

    def __init__(self, generator: Generator):
        self._generator = generator
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._recorded: OrderedDict[tuple[int, int], _Recorded] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, mel: Tensor, source_spectrum: Tensor) -> Tensor:
        """mel (B, M, T), source_spectrum (B, n_fft + 2, U T + 1) -> spectrum like that, float32."""
        rows, dtype = bucket(BATCHES, len(mel)), self._generator.conv_pre.weight.dtype
        with self._lock:
            if rows is None or not self._comes_again(mel.shape[2]):
                return self._generator(mel.to(dtype), source_spectrum.to(dtype), FullContext())
            one = self._recorded_for(rows, mel, source_spectrum)
            one.mel[: len(mel)] = mel
            one.spectrum[: len(mel)] = source_spectrum
            return one.run()[: len(mel)].clone()

    def _comes_again(self, length: int) -> bool:
        if length in self._seen:
            self._seen.move_to_end(length)
            return True
        if len(self._seen) == MAX_SEEN:
            self._seen.popitem(last=False)
        self._seen[length] = None
        return False

    def _recorded_for(self, rows: int, mel: Tensor, spectrum: Tensor) -> _Recorded:
        key = rows, mel.shape[2]
        if key not in self._recorded:
            if len(self._recorded) == MAX_RECORDED:
                self._recorded.popitem(last=False)
            like = self._generator.conv_pre.weight
            own_mel, own_spectrum = (like.new_zeros(rows, *one.shape[1:]) for one in (mel, spectrum))
            run = captured(lambda: self._generator(own_mel, own_spectrum, FullContext()), like.device)
            self._recorded[key] = _Recorded(run, own_mel, own_spectrum)
        self._recorded.move_to_end(key)
        return self._recorded[key]
