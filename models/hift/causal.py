"""Streaming through the causal vocoder of CosyVoice 3: equal to the whole utterance at once.

Only the lookahead is withheld: four mel frames for the first convolution, and half a synthesis window.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from models.hift.f0 import LOOKAHEAD_FRAMES
from models.hift.hift import HiFT
from models.hift.left_context import KeptContext
from models.hift.stream import Piece


@dataclass(frozen=True, slots=True, eq=False)
class CausalState:
    """One stream's place: what each convolution, the phase and the inverse STFT go on from."""

    mel: Tensor | None = None  # (M, frames) from the generator's place on
    num_f0_frames: int = 0
    num_generated_frames: int = 0
    f0_lefts: tuple[Tensor, ...] = ()
    generator_lefts: tuple[Tensor, ...] = ()
    carry: Tensor | None = None  # (tones,) cycles
    source: Tensor | None = None  # (samples,) from half a window before the next spectrum frame
    overlap: Tensor | None = None  # (2, n_fft - hop): samples and envelope still to be added to

    @property
    def num_bytes(self) -> int:
        tensors = (self.mel, self.carry, self.source, self.overlap, *self.f0_lefts, *self.generator_lefts)
        return sum(tensor.nbytes for tensor in tensors if tensor is not None)


@dataclass(frozen=True, slots=True)
class Shape:
    num_frames: int  # buffered and new
    f0_lead_frames: int  # by which F0 is ahead of the generator
    is_first: bool
    is_last: bool


class CausalVocoder:
    """Holds the weights; the states hold the streams."""

    def __init__(self, hift: HiFT):
        self.hift = hift

    def start(self, seed: int) -> CausalState:
        """The noise is fixed, so that `seed` has no effect."""
        return CausalState()

    def shape_of(self, piece: Piece[CausalState]) -> Shape | None:
        state = piece.state
        num_frames = piece.mel.shape[1] + (0 if state.mel is None else state.mel.shape[1])
        lead = state.num_f0_frames - state.num_generated_frames
        return Shape(num_frames, lead, state.num_generated_frames == 0, piece.is_last) if num_frames else None

    def step(self, pieces: Sequence[Piece[CausalState]]) -> list[tuple[Tensor, CausalState]]:
        """Pieces of one shape -> what can be known by now (N,) float32, and the next state of each."""
        shape = self.shape_of(pieces[0])
        assert shape is not None, "a piece without frames"
        lookahead = self.hift.config.lookahead_frames
        buffered = torch.stack([_buffered(piece) for piece in pieces])  # (B, M, T)
        new_frames = shape.num_frames - (0 if shape.is_last else lookahead)
        if new_frames <= 0:
            return [
                (row.new_zeros(0), replace(piece.state, mel=row.clone()))
                for piece, row in zip(pieces, buffered, strict=True)
            ]
        f0_context = KeptContext([piece.state.f0_lefts for piece in pieces])
        f0_mel = F.pad(buffered[:, :, shape.f0_lead_frames :], (0, LOOKAHEAD_FRAMES if shape.is_last else 0))
        f0 = self.hift.f0(f0_mel, f0_context).float()
        source, carries = self._source(pieces, f0, shape.is_last)
        spectrum, source = self._source_spectrum(pieces, source, new_frames, shape.is_last)
        context = KeptContext([piece.state.generator_lefts for piece in pieces])
        dtype = self.hift.generator.conv_pre.weight.dtype
        padded = F.pad(buffered, (0, lookahead if shape.is_last else 0)).to(dtype)
        made = self.hift.generator(padded, spectrum.to(dtype), context)
        sums, counts = self.hift.stft.overlap_add(made)
        done = []
        for index, piece in enumerate(pieces):
            samples, overlap = self._overlapped(piece, torch.stack([sums[index], counts]))
            state = CausalState(
                mel=buffered[index, :, new_frames:].clone(),
                num_f0_frames=piece.state.num_f0_frames + f0.shape[1],
                num_generated_frames=piece.state.num_generated_frames + new_frames,
                f0_lefts=tuple(f0_context.kept[index]),
                generator_lefts=tuple(context.kept[index]),
                carry=carries[index].clone(),
                source=source[index].clone(),
                overlap=overlap,
            )
            done.append((samples, state))
        return done

    def _source(
        self, pieces: Sequence[Piece[CausalState]], f0: Tensor, is_last: bool
    ) -> tuple[Tensor, Tensor]:
        """f0 (B, T) of the new frames -> their source (B, T L), the phases after it (B, tones)."""
        length = self.hift.config.samples_per_frame
        starts = [piece.state.num_f0_frames * length for piece in pieces]
        noise = torch.stack([self.hift.fixed_noise(s, s + f0.shape[1] * length) for s in starts])
        carried = [piece.state.carry for piece in pieces if piece.state.carry is not None]
        source, carries = self.hift.source(f0, noise, torch.stack(carried) if carried else None, is_last)
        return source, carries[:, -1].clone()

    def _source_spectrum(
        self, pieces: Sequence[Piece[CausalState]], source: Tensor, new_frames: int, is_last: bool
    ) -> tuple[Tensor, Tensor]:
        """The spectrum frames that `new_frames` mel frames need, and the source from there on."""
        stft = self.hift.stft
        edge = stft.n_fft // 2
        kept = [piece.state.source for piece in pieces if piece.state.source is not None]
        is_first = not kept
        left = source[:, 1 : edge + 1].flip(1) if is_first else torch.stack(kept)
        source = torch.cat([left, source], dim=1)
        if is_last:
            source = torch.cat([source, source[:, -edge - 1 : -1].flip(1)], dim=1)
        num_spectra = new_frames * self.hift.config.samples_per_frame // stft.hop + int(is_first)
        spectrum = stft.analyse(source[:, : (num_spectra - 1) * stft.hop + stft.n_fft])
        return spectrum, source[:, num_spectra * stft.hop :]

    def _overlapped(self, piece: Piece[CausalState], pair: Tensor) -> tuple[Tensor, Tensor]:
        """pair (2, N): samples and envelope of the new spectra -> finished samples, what overlaps on."""
        stft, limit = self.hift.stft, self.hift.config.audio_limit
        tail = stft.n_fft - stft.hop
        is_first = piece.state.overlap is None
        if piece.state.overlap is not None:
            pair = torch.cat([pair[:, :tail] + piece.state.overlap, pair[:, tail:]], dim=1)
        start = stft.n_fft // 2 if is_first else 0
        stop = pair.shape[1] - (stft.n_fft // 2 if piece.is_last else tail)
        samples = (pair[0, start:stop] / pair[1, start:stop]).clamp(-limit, limit)
        return samples, pair[:, pair.shape[1] - tail :].clone()


def _buffered(piece: Piece[CausalState]) -> Tensor:
    return piece.mel if piece.state.mel is None else torch.cat([piece.state.mel, piece.mel], dim=1)
