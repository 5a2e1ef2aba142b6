"""CosyVoice 3's vocoder as CUDA graphs: a piece of several streams, what each goes on from in one tensor."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from firstword.models.config import NUM_MELS
from firstword.models.cuda import pinned
from firstword.models.hift.hift import HiFT
from firstword.models.hift.streaming import CausalShape, CausalState, CausalVocoder, MelChunk
from firstword.models.runtimes.torch.cuda_graphs.buckets import bucket
from firstword.models.runtimes.torch.cuda_graphs.capture import (
    Run,
    Turns,
    captured,
    graph_memory,
    recorded_or_eager,
)

SAMPLE_BYTES = 4  # float32
PROBED_FRAMES = 8  # of silence, beside the lookahead, to see what is kept


@dataclass(frozen=True, slots=True, eq=False)
class FlatState:
    """As `CausalState`, its tensors behind one another in `flat` (N,) uint8."""

    flat: Tensor
    num_f0_frames: int
    num_generated_frames: int

    @property
    def num_bytes(self) -> int:
        return self.flat.nbytes


@dataclass(frozen=True, slots=True)
class _Field:
    """Where a tensor of a state is. name: of the field; index: of the convolution in it, -1 for none."""

    name: str
    index: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int

    @property
    def stop(self) -> int:
        return self.start + self.dtype.itemsize * math.prod(self.shape)


class StateFields:
    """The tensors of a state, the widest numbers first, so that each begins where its numbers may."""

    def __init__(self, state: CausalState) -> None:
        found = sorted(_tensors_of(state), key=lambda one: -one[2].dtype.itemsize)
        self.fields: list[_Field] = []
        start = 0
        for name, index, tensor in found:
            self.fields.append(_Field(name, index, tensor.dtype, tuple(tensor.shape), start))
            start = self.fields[-1].stop
        self.num_bytes = -(-start // 8) * 8

    def flatten(self, state: CausalState) -> Tensor:
        """-> (N,) uint8."""
        tensors = {(name, index): tensor for name, index, tensor in _tensors_of(state)}
        parts = [tensors[one.name, one.index].flatten().view(torch.uint8) for one in self.fields]
        pad = self.num_bytes - self.fields[-1].stop
        return torch.cat([*parts, parts[0].new_zeros(pad)] if pad else parts)

    def unflatten(self, flat: Tensor, num_f0_frames: int, num_generated_frames: int) -> CausalState:
        """flat (N,) uint8 -> a state over the same memory."""
        given: dict[str, dict[int, Tensor]] = {}
        for one in self.fields:
            tensor = flat[one.start : one.stop].view(one.dtype).view(one.shape)
            given.setdefault(one.name, {})[one.index] = tensor
        return CausalState(
            given["mel"][-1],
            num_f0_frames,
            num_generated_frames,
            given["f0_left"],
            given["generator_left"],
            given["carry"][-1],
            given["source"][-1],
            given["overlap"][-1],
        )


def _tensors_of(state: CausalState) -> list[tuple[str, int, Tensor]]:
    found = [(name, -1, getattr(state, name)) for name in ("carry", "mel", "source", "overlap")]
    for name in ("f0_left", "generator_left"):
        found += [(name, index, left) for index, left in getattr(state, name).items()]
    assert all(tensor is not None for _, _, tensor in found), "a state before its first samples"
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Recorded:
    """A run: -> (B, samples and state) uint8; where its inputs are to be written; frames that it makes."""

    run: Run
    states: Tensor  # (B, N) uint8
    mel: Tensor  # (B, M, T) of the new frames
    starts: Tensor  # (B,) sample of the noise table
    num_samples: int
    num_f0_frames: int
    num_generated_frames: int


class _AtStarts(CausalVocoder):
    """Takes its noise from where a tensor on the device says."""

    starts: Tensor

    def _noise(self, starts: Sequence[int], num_samples: int) -> Tensor:
        table = self.hift.noise
        assert table is not None, "a causal HiFT has no noise table before it is loaded"
        index = self.starts[:, None] + torch.arange(num_samples, device=table.device)
        return table[index % len(table)]


class GraphedCausalVocoder(CausalVocoder):
    """Replays pieces of the shapes that were recorded; others, such as a stream's last, run eagerly."""

    def __init__(self, hift: HiFT) -> None:
        super().__init__(hift)
        self._device = next(hift.parameters()).device
        self._recorded: dict[tuple[int, CausalShape], _Recorded | None] = {}
        self._memory, self._turns = graph_memory(self._device), Turns()
        self._silence = self._after_silence()
        self._fields = StateFields(self._silence)

    @torch.inference_mode()
    def record(self, first_frames: Sequence[int], hop_frames: int, batches: Sequence[int]) -> None:
        """Record first pieces of so many frames and all following ones, for so many streams."""
        lookahead = self.hift.config.lookahead_frames
        lead_frames = self._silence.num_f0_frames - self._silence.num_generated_frames
        shapes = [CausalShape(frames, 0, True, False) for frames in first_frames if frames > lookahead]
        shapes.append(CausalShape(lookahead + hop_frames, lead_frames, False, False))
        for shape in shapes:
            for batch in batches:
                with self._turns.taken(self._device):
                    self._recorded[batch, shape] = recorded_or_eager(
                        lambda batch=batch, shape=shape: self._record(batch, shape),  # type: ignore[misc]
                        f"the vocoder of {batch} pieces of {shape.num_frames} frames",
                    )

    def shape_of(self, chunk: MelChunk[CausalState]) -> CausalShape | None:
        state = chunk.state
        if not isinstance(state, FlatState):
            return super().shape_of(chunk)
        num_frames = chunk.mel.shape[1] + self.hift.config.lookahead_frames
        return CausalShape(num_frames, state.num_f0_frames - state.num_generated_frames, False, chunk.is_last)

    def step(self, chunks: Sequence[MelChunk[CausalState]]) -> list[tuple[Tensor, CausalState]]:
        shape = self.shape_of(chunks[0])
        assert shape is not None, "a chunk without frames"
        batches = sorted({batch for batch, known in self._recorded if known == shape})
        batch = bucket(batches, len(chunks))
        one = None if batch is None else self._recorded[batch, shape]
        is_fresh = all(chunk.state.num_generated_frames == 0 for chunk in chunks)
        if one is None or (is_fresh and any(chunk.state.mel is not None for chunk in chunks)):
            return super().step([self._opened(chunk) for chunk in chunks])
        with self._turns.taken(self._device):
            count, size = len(chunks), self.hift.config.samples_per_frame
            if not is_fresh:
                torch.stack([self._flat(chunk.state) for chunk in chunks], out=one.states[:count])
            torch.stack([chunk.mel for chunk in chunks], out=one.mel[:count])
            starts = [chunk.state.num_f0_frames * size for chunk in chunks]
            one.starts[:count].copy_(pinned(starts, self._device), non_blocking=True)
            made = one.run()[:count].clone()
        num_bytes = SAMPLE_BYTES * one.num_samples
        done = []
        for chunk, row in zip(chunks, made, strict=True):
            num_f0_frames = chunk.state.num_f0_frames + one.num_f0_frames
            num_generated_frames = chunk.state.num_generated_frames + one.num_generated_frames
            state = FlatState(row[num_bytes:], num_f0_frames, num_generated_frames)
            done.append((row[:num_bytes].view(torch.float32), state))
        return done  # type: ignore[return-value]

    def _flat(self, state: CausalState | FlatState) -> Tensor:
        return state.flat if isinstance(state, FlatState) else self._fields.flatten(state)

    def _opened(self, chunk: MelChunk[CausalState]) -> MelChunk[CausalState]:
        state = chunk.state
        if not isinstance(state, FlatState):
            return chunk
        opened = self._fields.unflatten(state.flat, state.num_f0_frames, state.num_generated_frames)
        return MelChunk(opened, chunk.mel, chunk.is_last)

    def _record(self, batch: int, shape: CausalShape) -> _Recorded:
        lookahead = 0 if shape.is_first else self.hift.config.lookahead_frames
        like = self.hift.generator.conv_pre.weight
        mel = torch.zeros(batch, NUM_MELS, shape.num_frames - lookahead, device=like.device)
        starts = torch.zeros(batch, dtype=torch.long, device=like.device)
        states = self._fields.flatten(self._silence).repeat(batch, 1)  # (B, N)
        vocoder = _AtStarts(self.hift)
        vocoder.starts = starts
        before = CausalState() if shape.is_first else CausalState(None, 1 + shape.f0_lead_frames, 1)

        def given(row: Tensor) -> CausalState:
            if shape.is_first:
                return CausalState()
            return self._fields.unflatten(row, before.num_f0_frames, before.num_generated_frames)

        sizes: list[int] = []

        def run() -> Tensor:
            chunks = [MelChunk(given(row), piece, False) for row, piece in zip(states, mel, strict=True)]
            made = vocoder.step(chunks)
            samples, after = made[0]
            num_f0_frames = after.num_f0_frames - before.num_f0_frames
            sizes[:] = len(samples), num_f0_frames, after.num_generated_frames - before.num_generated_frames
            rows = [
                torch.cat([samples.view(torch.uint8), self._fields.flatten(state)]) for samples, state in made
            ]
            return torch.stack(rows)

        replay = captured(run, like.device, memory=self._memory)
        if not sizes:
            run()  # on a CPU nothing ran yet
        return _Recorded(replay, states, mel, starts, *sizes)

    @torch.inference_mode()
    def _after_silence(self) -> CausalState:
        """A state in full flow."""
        frames = self.hift.config.lookahead_frames + PROBED_FRAMES
        silence = torch.zeros(NUM_MELS, frames, device=self._device)
        [(_, state)] = CausalVocoder(self.hift).step([MelChunk(CausalState(), silence, False)])
        return state
