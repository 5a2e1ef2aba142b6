"""The generator of a vocoder that looks to both sides, as CUDA graphs of the pieces that come again."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from firstword.models.config import NUM_MELS
from firstword.models.hift.hift import Generator, HiFT
from firstword.models.layers import ConvContext, FullContext
from firstword.models.runtimes.torch.cuda_graphs.buckets import BATCHES, bucket
from firstword.models.runtimes.torch.cuda_graphs.capture import (
    Run,
    Turns,
    captured,
    graph_memory,
    recorded_or_eager,
)

MAX_SEEN = 64  # lengths that came once


@dataclass(frozen=True, slots=True, eq=False)
class _Recorded:
    run: Run
    mel: Tensor  # (B, M, T)
    spectrum: Tensor  # (B, n_fft + 2, U T + 1)


class GraphedGenerator:
    """Runs instead of a HiFT's generator. Pieces are padded in number, never in length: they would change.

    A length is recorded when it comes the second time: most pieces are of one whole hop. After `record` none
    is. Threads run it one after the other.
    """

    def __init__(self, generator: Generator):
        self._generator = generator
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._recorded: dict[tuple[int, int], _Recorded | None] = {}
        self._has_all = False
        self._memory = graph_memory(generator.conv_pre.weight.device)
        self._turns = Turns()

    @torch.inference_mode()
    def record(self, lengths: Sequence[int], batches: Sequence[int], hift: HiFT) -> None:
        """Record pieces of so many frames, contexts included; nothing is recorded after that."""
        like = self._generator.conv_pre.weight
        spectra = hift.config.samples_per_frame // hift.stft.hop
        for length in lengths:
            shapes = (NUM_MELS, length), (hift.config.istft_n_fft + 2, spectra * length + 1)
            for rows in batches:
                with self._turns.taken(like.device):
                    self._recorded_for(rows, *shapes)
        self._has_all = True

    def __call__(
        self,
        mel: Tensor,
        source_spectrum: Tensor,
        context: ConvContext | None = None,
        is_start: bool = True,
    ) -> Tensor:
        """mel (B, M, T), source_spectrum (B, n_fft + 2, U T + 1) -> spectrum like that, float32."""
        rows = bucket(BATCHES, len(mel))
        with self._turns.taken(mel.device):
            one = None
            if rows is not None and (self._has_all or self._comes_again(mel.shape[2])):
                one = self._recorded_for(rows, mel.shape[1:], source_spectrum.shape[1:])
            if one is None:
                return self._generator(mel, source_spectrum, FullContext())
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

    def _recorded_for(self, rows: int, mel: Sequence[int], spectrum: Sequence[int]) -> _Recorded | None:
        """Shapes of one row."""
        key = rows, mel[1]
        if key not in self._recorded and not self._has_all:
            what = f"the generator of {rows} pieces of {mel[1]} frames"
            self._recorded[key] = recorded_or_eager(partial(self._record, rows, mel, spectrum), what)
        return self._recorded.get(key)

    def _record(self, rows: int, mel_shape: Sequence[int], spectrum_shape: Sequence[int]) -> _Recorded:
        like = self._generator.conv_pre.weight
        mel, spectrum = (like.new_zeros(rows, *shape) for shape in (mel_shape, spectrum_shape))
        run = captured(
            lambda: self._generator(mel, spectrum, FullContext()), like.device, memory=self._memory
        )
        return _Recorded(run, mel, spectrum)
