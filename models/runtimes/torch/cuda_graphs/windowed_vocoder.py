"""CosyVoice 2's vocoder as CUDA graphs: a piece of several streams, what each goes on from in one tensor."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from firstword.models.config import NUM_MELS
from firstword.models.hift.hift import HiFT
from firstword.models.hift.streaming import (
    FADE_FRAMES,
    LEFT_FRAMES,
    RIGHT_FRAMES,
    MelChunk,
    WindowedVocoder,
    WindowPiece,
    WindowShape,
    WindowState,
    draw_noise,
    window_state,
)
from firstword.models.runtimes.torch.cuda_graphs.buckets import bucket
from firstword.models.runtimes.torch.cuda_graphs.capture import (
    Run,
    Turns,
    captured,
    graph_memory,
    recorded_or_eager,
)

SAMPLE_BYTES = 4  # float32


@dataclass(frozen=True, slots=True, eq=False)
class FlatWindow:
    """As `WindowState`, its tensors behind one another in `flat` (N,) uint8."""

    generator: torch.Generator
    flat: Tensor
    left_frames: int

    @property
    def num_bytes(self) -> int:
        return self.flat.nbytes


class WindowFields:
    """The tensors of states with so many frames before them: carry in float64, the others in float32."""

    def __init__(self, hift: HiFT, left_frames: int) -> None:
        length = hift.config.samples_per_frame
        shapes = (
            (hift.source.num_tones,),
            (NUM_MELS, left_frames),
            (left_frames * length,),
            (RIGHT_FRAMES * length,),
            (FADE_FRAMES * length,),
        )
        dtypes = torch.float64, *[torch.float32] * 4
        self._fields = list(zip(dtypes, shapes, strict=True))
        self._sizes = [dtype.itemsize * torch.Size(shape).numel() for dtype, shape in self._fields]
        self.num_bytes = sum(self._sizes)
        assert self.num_bytes % 8 == 0, "a row would not begin where a float64 may"

    def flatten(self, parts: Sequence[Tensor]) -> Tensor:
        """Carry, mel, source, noise and tail (B, ...) -> (B, N) uint8."""
        return torch.cat([part.flatten(1).contiguous().view(torch.uint8) for part in parts], dim=1)

    def unflatten(self, flat: Tensor) -> list[Tensor]:
        """flat (B, N) uint8 -> the same over its memory."""
        parts = flat.split(self._sizes, dim=1)
        return [
            part.view(dtype).unflatten(1, shape)
            for part, (dtype, shape) in zip(parts, self._fields, strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class _Recorded:
    """A run: -> (B, samples and state) uint8; where its inputs are to be written."""

    run: Run
    states: Tensor  # (B, N) uint8
    mel: Tensor  # (B, M, T)
    drawn: Tensor  # (B, samples) of noise that the states do not have


class GraphedWindowedVocoder(WindowedVocoder):
    """Replays pieces of the shapes that were recorded; others, such as a stream's last, run eagerly."""

    def __init__(self, hift: HiFT) -> None:
        super().__init__(hift)
        self._device = hift.generator.conv_pre.weight.device
        self._recorded: dict[tuple[int, WindowShape], _Recorded | None] = {}
        self._memory, self._turns = graph_memory(self._device), Turns()

    @torch.inference_mode()
    def record(self, pieces: Sequence[tuple[int, int]], batches: Sequence[int]) -> None:
        """Record pieces of so many frames behind so many, (left, new), for so many streams."""
        for left, new in pieces:
            shape = WindowShape(left, new, is_last=False)
            for batch in batches:
                with self._turns.taken(self._device):
                    self._recorded[batch, shape] = recorded_or_eager(
                        lambda batch=batch, shape=shape: self._record(batch, shape),  # type: ignore[misc]
                        f"the vocoder of {batch} pieces of {new} frames behind {left}",
                    )

    def shape_of(self, chunk: MelChunk[WindowState]) -> WindowShape | None:
        state, new = chunk.state, chunk.mel.shape[1]
        if not isinstance(state, FlatWindow):
            return super().shape_of(chunk)
        return WindowShape(state.left_frames, new, chunk.is_last) if new else None

    def step(self, chunks: Sequence[MelChunk[WindowState]]) -> list[tuple[Tensor, WindowState]]:
        shape = self.shape_of(chunks[0])
        assert shape is not None, "a chunk without frames"
        batches = sorted({batch for batch, known in self._recorded if known == shape})
        batch = bucket(batches, len(chunks))
        one = None if batch is None else self._recorded[batch, shape]
        if one is None:
            return super().step([self._opened(chunk) for chunk in chunks])
        states, length = [chunk.state for chunk in chunks], self.hift.config.samples_per_frame
        with self._turns.taken(self._device):
            count = len(chunks)
            missing = one.drawn.shape[1] // length
            drawn, generators = draw_noise(states, [missing] * count, length, self._device.type == "cuda")
            one.drawn[:count].copy_(drawn.view(count, -1), non_blocking=True)
            torch.stack([chunk.mel for chunk in chunks], out=one.mel[:count])
            if shape.left_frames:
                torch.stack(
                    [self._flat(state, shape.left_frames) for state in states], out=one.states[:count]
                )
            made = one.run()[:count].clone()
        num_bytes = SAMPLE_BYTES * shape.new_frames * length
        left_frames = self._left_after(shape)
        done = []
        for row, generator in zip(made, generators, strict=True):
            state = FlatWindow(generator, row[num_bytes:], left_frames)
            done.append((row[:num_bytes].view(torch.float32), state))
        return done  # type: ignore[return-value]

    def _left_after(self, shape: WindowShape) -> int:
        return min(LEFT_FRAMES, shape.left_frames + shape.new_frames)

    def _flat(self, state: WindowState | FlatWindow, left_frames: int) -> Tensor:
        if isinstance(state, FlatWindow):
            return state.flat
        parts = [state.carry, state.mel, state.source, state.noise, state.tail]
        given = [part[None] for part in parts if part is not None]
        assert len(given) == len(parts), "a state before its first samples"
        return WindowFields(self.hift, left_frames).flatten(given)[0]

    def _opened(self, chunk: MelChunk[WindowState]) -> MelChunk[WindowState]:
        state = chunk.state
        if not isinstance(state, FlatWindow):
            return chunk
        parts = WindowFields(self.hift, state.left_frames).unflatten(state.flat[None])
        opened = window_state(state.generator, [part[0] for part in parts])
        return MelChunk(opened, chunk.mel, chunk.is_last)

    def _record(self, batch: int, shape: WindowShape) -> _Recorded:
        length, left = self.hift.config.samples_per_frame, shape.left_frames
        fields, after = (WindowFields(self.hift, frames) for frames in (left, self._left_after(shape)))
        missing = shape.new_frames + (0 if left else RIGHT_FRAMES)
        mel = torch.zeros(batch, NUM_MELS, shape.new_frames, device=self._device)
        drawn = mel.new_zeros(batch, missing * length)
        states = torch.zeros(batch, fields.num_bytes, dtype=torch.uint8, device=self._device)

        def run() -> Tensor:
            if left:
                carry, left_mel, source, noise, tail = fields.unflatten(states)
                piece = WindowPiece(mel, torch.cat([noise, drawn], dim=1), carry, left_mel, source, tail)
            else:
                piece = WindowPiece(mel, drawn, None, None, None, None)
            samples, *kept = self.make(piece, is_last=False)
            return torch.cat([samples.view(torch.uint8), after.flatten(kept)], dim=1)

        return _Recorded(captured(run, self._device, memory=self._memory), states, mel, drawn)
