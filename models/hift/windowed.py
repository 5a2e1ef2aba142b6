"""Streaming through the vocoder of CosyVoice 1 and 2, whose convolutions look to both sides.

Every piece of mel gives exactly its samples at once. Its left context is real; its right context is
its last frame held on, and the sound that this context gives past the piece's end fades into the
next piece (raised cosines that add up to 1). The source runs through: phase and noise are those of
one long utterance, whatever the pieces are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.crossfade import crossfaded
from models.hift.hift import Generate, HiFT
from models.hift.left_context import ZeroContext
from models.hift.stream import Piece

LEFT_FRAMES = 12  # the generator's reach: 3 frames before upsampling, 9 within the stages
RIGHT_FRAMES = 6
FADE_FRAMES = 1


@dataclass(frozen=True, slots=True, eq=False)
class WindowState:
    """One stream's left context, the phase and noise to go on with, and the sound to fade from."""

    generator: torch.Generator  # on the CPU, so that a seed means the same on every device
    mel: Tensor | None = None  # (M, up to LEFT_FRAMES)
    source: Tensor | None = None  # (as many frames' samples,)
    carry: Tensor | None = None  # (tones,) cycles
    noise: Tensor | None = None  # (RIGHT_FRAMES samples, tones): drawn for frames yet to come
    tail: Tensor | None = None  # (FADE_FRAMES samples,)

    @property
    def num_bytes(self) -> int:
        tensors = (self.mel, self.source, self.carry, self.noise, self.tail)
        return sum(tensor.nbytes for tensor in tensors if tensor is not None)


@dataclass(frozen=True, slots=True)
class Shape:
    left_frames: int
    new_frames: int
    is_last: bool


class WindowedVocoder:
    """Holds the weights; the states hold the streams."""

    def __init__(self, hift: HiFT, generate: Generate | None = None):
        """generate: used instead of the HiFT's own generator."""
        self.hift, self._generate = hift, generate

    def start(self, seed: int) -> WindowState:
        generator = torch.Generator().manual_seed(seed)
        return WindowState(generator, carry=self.hift.source.initial_phases(generator))

    def shape_of(self, piece: Piece[WindowState]) -> Shape | None:
        left = 0 if piece.state.mel is None else piece.state.mel.shape[1]
        return Shape(left, piece.mel.shape[1], piece.is_last) if piece.mel.shape[1] else None

    def step(self, pieces: Sequence[Piece[WindowState]]) -> list[tuple[Tensor, WindowState]]:
        """Pieces of one shape -> samples (T L,) float32, L a frame, and the next state of each."""
        shape = self.shape_of(pieces[0])
        assert shape is not None, "a piece without frames"
        right = 0 if shape.is_last else RIGHT_FRAMES
        hift, length = self.hift, self.hift.config.samples_per_frame
        mel = torch.stack([_window(piece, right) for piece in pieces])  # (B, M, left + new + right)
        f0 = hift.f0(mel, ZeroContext()).float()[:, shape.left_frames :]
        drawn = [self._noise(piece, shape.new_frames + right) for piece in pieces]
        carries = [piece.state.carry for piece in pieces if piece.state.carry is not None]
        carry = torch.stack(carries).to(mel.device) if carries else None
        source, ends = hift.source(f0, torch.stack([n for n, _ in drawn]), carry, is_last=right == 0)
        past = [piece.state.source for piece in pieces if piece.state.source is not None]
        if past:
            source = torch.cat([torch.stack(past), source], dim=1)
        samples = hift.decode(mel, source, self._generate)[:, shape.left_frames * length :]
        new_samples = shape.new_frames * length
        keep = slice(
            max(0, shape.left_frames + shape.new_frames - LEFT_FRAMES), shape.left_frames + shape.new_frames
        )
        done = []
        for index, (piece, (noise, generator)) in enumerate(zip(pieces, drawn, strict=True)):
            state = WindowState(
                generator,
                mel=mel[index, :, keep].clone(),
                source=source[index, keep.start * length : keep.stop * length].clone(),
                carry=ends[index, shape.new_frames - 1].clone(),
                noise=noise[new_samples:].clone(),
                tail=samples[index, new_samples : new_samples + FADE_FRAMES * length].clone(),
            )
            done.append((crossfaded(samples[index, :new_samples], piece.state.tail), state))
        return done

    def _noise(self, piece: Piece[WindowState], num_frames: int) -> tuple[Tensor, torch.Generator]:
        """The next frames of the stream's noise (samples, tones), and its generator after them.

        Drawn frame by frame, so that a stream's noise does not depend on how it was cut.
        """
        length, tones = self.hift.config.samples_per_frame, self.hift.source.num_tones
        generator = piece.state.generator.clone_state()
        kept = piece.state.noise
        missing = num_frames - (0 if kept is None else len(kept) // length)
        device = piece.mel.device
        drawn = [torch.randn(length, tones, generator=generator).to(device) for _ in range(missing)]
        parts = drawn if kept is None else [kept, *drawn]
        return torch.cat(parts)[: num_frames * length], generator


def _window(piece: Piece[WindowState], right: int) -> Tensor:
    """Left context, new frames, the last of them held on: (M, frames)."""
    held = piece.mel[:, -1:].expand(-1, right)
    parts = [piece.mel, held] if piece.state.mel is None else [piece.state.mel, piece.mel, held]
    return torch.cat(parts, dim=1)
