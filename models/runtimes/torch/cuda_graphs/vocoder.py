"""The generator of a vocoder that looks to both sides, as CUDA graphs of the pieces that come again."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from firstword.models.hift.hift import Generator
from firstword.models.layers import ConvContext, FullContext
from firstword.models.runtimes.torch.cuda_graphs.buckets import BATCHES, LastUsed, bucket
from firstword.models.runtimes.torch.cuda_graphs.capture import Run, captured

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
        self._recorded: LastUsed[tuple[int, int], _Recorded] = LastUsed()
        self._lock = threading.Lock()

    def __call__(
        self,
        mel: Tensor,
        source_spectrum: Tensor,
        context: ConvContext | None = None,
        is_start: bool = True,
    ) -> Tensor:
        """mel (B, M, T), source_spectrum (B, n_fft + 2, U T + 1) -> spectrum like that, float32."""
        rows = bucket(BATCHES, len(mel))
        with self._lock:
            if rows is None or not self._comes_again(mel.shape[2]):
                return self._generator(mel, source_spectrum, FullContext())
            record = partial(self._record, rows, mel.shape[1:], source_spectrum.shape[1:])
            one = self._recorded.get((rows, mel.shape[2]), record)
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

    def _record(self, rows: int, mel_shape: Sequence[int], spectrum_shape: Sequence[int]) -> _Recorded:
        """Shapes of one row."""
        like = self._generator.conv_pre.weight
        mel, spectrum = (like.new_zeros(rows, *shape) for shape in (mel_shape, spectrum_shape))
        run = captured(lambda: self._generator(mel, spectrum, FullContext()), like.device)
        return _Recorded(run, mel, spectrum)
