"""Streaming through HiFT: pieces of mel to samples, in batches of streams at different positions.

The causal vocoder of CosyVoice 3 equals the whole utterance at once. It withholds only the lookahead: four
mel frames for the first convolution, and half a synthesis window.

The vocoder of CosyVoice 1 and 2 looks to both sides. Every piece of mel gives exactly its samples at once.
Its left context is real; its right context is its last frame held on, and the sound that this context gives
past the piece's end fades into the next piece. The source runs through: phase and noise are those of one
long utterance, whatever the pieces are.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Generic, NamedTuple, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.models.hift.hift import LOOKAHEAD_FRAMES, Generate, Generator, HiFT
from firstword.models.layers import FullContext, pad_left
from firstword.models.state import StateLayout, layout_of


def crossfaded(new: Tensor, tail: Tensor | None) -> Tensor:
    """new (..., T), tail (..., W) of the chunk before -> (..., T), its first W fading from `tail`.

    Raised cosines that add up to 1. No tail: `new` itself, in memory of its own.
    """
    if tail is None:
        return new.clone()
    width = tail.shape[-1]
    count = min(width, new.shape[-1])
    ramp = (torch.arange(count, dtype=torch.float32, device=new.device) + 0.5) / width
    fade_in = 0.5 - 0.5 * torch.cos(torch.pi * ramp)
    head = new[..., :count] * fade_in + tail[..., :count] * (1 - fade_in)
    return torch.cat([head, new[..., count:]], dim=-1)


class VocoderState(Protocol):
    """What one stream goes on from; never changed, only replaced."""

    @property
    def num_bytes(self) -> int: ...


State = TypeVar("State", bound=VocoderState)


@dataclass(frozen=True, slots=True, eq=False)
class MelChunk(Generic[State]):
    """New mel frames (M, T) of one stream; T may be 0."""

    state: State
    mel: Tensor
    is_last: bool


class Vocoder(Protocol[State]):
    def start(self, seed: int) -> State:
        """The state of a new stream; `seed` draws what is random in its source, if anything is."""
        ...

    def shape_of(self, chunk: MelChunk[State]) -> Hashable:
        """What the chunks of one batch must have in common; None for a chunk that gives no samples."""
        ...

    def step(self, chunks: Sequence[MelChunk[State]]) -> list[tuple[Tensor, State]]:
        """Pieces of one shape -> samples (N,) float32 and the next state of each."""
        ...


@dataclass(slots=True, eq=False)
class Sound(Generic[State]):
    """One stream on its way from mel to samples: what still waits, what is ready to be handed out."""

    state: State
    pending: list[tuple[Tensor, bool]] = field(default_factory=list)  # mel (M, T), is_last
    ready: list[Tensor] = field(default_factory=list)  # samples

    @property
    def num_bytes(self) -> int:
        return self.state.num_bytes + sum(mel.nbytes for mel, _ in self.pending)

    def take(self) -> Tensor:
        """The samples that are ready, which are this stream's no longer: (N,)."""
        samples = torch.cat(self.ready) if self.ready else torch.zeros(0)
        self.ready.clear()
        return samples


@dataclass(frozen=True, slots=True, eq=False)
class CausalState:
    """What each convolution, the phase and the inverse STFT go on from."""

    mel: Tensor | None = None  # (M, frames) from the generator's position on
    num_f0_frames: int = 0
    num_generated_frames: int = 0
    f0_left: Mapping[int, Tensor] = field(default_factory=dict)  # (C, frames) by convolution
    generator_left: Mapping[int, Tensor] = field(default_factory=dict)
    carry: Tensor | None = None  # (tones,) cycles
    source: Tensor | None = None  # (samples,) from half a window before the next spectrum frame
    overlap: Tensor | None = None  # (2, n_fft - hop): samples and envelope still to be added to

    @property
    def num_bytes(self) -> int:
        left = (*self.f0_left.values(), *self.generator_left.values())
        tensors = (self.mel, self.carry, self.source, self.overlap, *left)
        return sum(tensor.nbytes for tensor in tensors if tensor is not None)


@dataclass(frozen=True, slots=True)
class CausalShape:
    num_frames: int  # buffered and new
    f0_lead_frames: int  # by which F0 is ahead of the generator
    is_first: bool
    is_last: bool


class BatchedConvState:
    """`ConvContext` of several streams, all at their start or none.

    left: what each stream kept, (C, frames) by the convolution's index; empty at the start. `next` is what to
    keep for the next call.
    """

    def __init__(self, left: Sequence[Mapping[int, Tensor]]):
        self._left = left
        self.next: list[dict[int, Tensor]] = [{} for _ in left]

    def extend(self, index: int, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        assert index not in self.next[0], f"two convolutions have the index {index}"
        extended = torch.cat([self.left(index), x], dim=dim) if self._left[0] else pad_left(x, frames, dim)
        self.keep(index, extended.narrow(dim, extended.shape[dim] - frames, frames))
        return extended

    def left(self, index: int) -> Tensor:
        """What the streams, none of them at its start, kept of a convolution: (B, C, frames)."""
        return torch.stack([row[index] for row in self._left])

    def keep(self, index: int, left: Tensor) -> None:
        """Keep a copy of (B, C, frames)."""
        for next_left, row in zip(self.next, left, strict=True):
            next_left[index] = row.clone()


def generator_layout(generator: Generator) -> StateLayout:
    """What a causal generator keeps of a stream."""
    config = generator.config
    per_frame = config.samples_per_frame // config.istft_hop_samples
    mel = torch.empty(1, config.num_mels, 1 + config.lookahead_frames)
    spectrum = torch.empty(1, config.istft_n_fft + 2, per_frame + 1)
    return layout_of(generator, lambda context: (mel, spectrum, context))


class CausalVocoder:
    """Holds the weights; the states hold the streams."""

    def __init__(self, hift: HiFT, generate: Generate | None = None):
        """generate: used instead of the HiFT's own generator; its context is a `BatchedConvState`."""
        self.hift = hift
        self._generate: Generate = generate or hift.generator

    def start(self, seed: int) -> CausalState:
        """The noise is fixed, so that `seed` has no effect."""
        return CausalState()

    def shape_of(self, chunk: MelChunk[CausalState]) -> CausalShape | None:
        state = chunk.state
        num_frames = chunk.mel.shape[1] + (0 if state.mel is None else state.mel.shape[1])
        lead = state.num_f0_frames - state.num_generated_frames
        return (
            CausalShape(num_frames, lead, state.num_generated_frames == 0, chunk.is_last)
            if num_frames
            else None
        )

    def step(self, chunks: Sequence[MelChunk[CausalState]]) -> list[tuple[Tensor, CausalState]]:
        """Pieces of one shape -> what can be known by now (N,) float32, and the next state of each."""
        shape = self.shape_of(chunks[0])
        assert shape is not None, "a chunk without frames"
        lookahead = self.hift.config.lookahead_frames
        mels = [
            chunk.mel if chunk.state.mel is None else torch.cat([chunk.state.mel, chunk.mel], dim=1)
            for chunk in chunks
        ]
        buffered = torch.stack(mels)  # (B, M, T)
        new_frames = shape.num_frames - (0 if shape.is_last else lookahead)
        if new_frames <= 0:
            return [
                (row.new_zeros(0), replace(chunk.state, mel=row.clone()))
                for chunk, row in zip(chunks, buffered, strict=True)
            ]
        f0_context = BatchedConvState([chunk.state.f0_left for chunk in chunks])
        f0_mel = F.pad(buffered[:, :, shape.f0_lead_frames :], (0, LOOKAHEAD_FRAMES if shape.is_last else 0))
        f0 = self.hift.f0(f0_mel, f0_context).float()
        source, carries = self._source(chunks, f0, shape.is_last)
        spectrum, source = self._source_spectrum(chunks, source, new_frames, shape.is_last)
        context = BatchedConvState([chunk.state.generator_left for chunk in chunks])
        dtype = self.hift.generator.conv_pre.weight.dtype
        padded = F.pad(buffered, (0, lookahead if shape.is_last else 0)).to(dtype)
        made = self._generate(padded, spectrum.to(dtype), context, shape.is_first)
        sums, counts = self.hift.stft.overlap_add(made)
        done = []
        for index, chunk in enumerate(chunks):
            samples, overlap = self._overlapped(chunk, torch.stack([sums[index], counts]))
            state = CausalState(
                mel=buffered[index, :, new_frames:].clone(),
                num_f0_frames=chunk.state.num_f0_frames + f0.shape[1],
                num_generated_frames=chunk.state.num_generated_frames + new_frames,
                f0_left=f0_context.next[index],
                generator_left=context.next[index],
                carry=carries[index].clone(),
                source=source[index].clone(),
                overlap=overlap,
            )
            done.append((samples, state))
        return done

    def _source(
        self, chunks: Sequence[MelChunk[CausalState]], f0: Tensor, is_last: bool
    ) -> tuple[Tensor, Tensor]:
        """f0 (B, T) of the new frames -> their source (B, T L), the phases after it (B, tones)."""
        length = self.hift.config.samples_per_frame
        starts = [chunk.state.num_f0_frames * length for chunk in chunks]
        noise = self._noise(starts, f0.shape[1] * length)
        carried = [chunk.state.carry for chunk in chunks if chunk.state.carry is not None]
        source, carries = self.hift.source(f0, noise, torch.stack(carried) if carried else None, is_last)
        return source, carries[:, -1].clone()

    def _noise(self, starts: Sequence[int], num_samples: int) -> Tensor:
        """The noise from each stream's next sample on: (B, num_samples)."""
        return torch.stack([self.hift.fixed_noise(start, start + num_samples) for start in starts])

    def _source_spectrum(
        self, chunks: Sequence[MelChunk[CausalState]], source: Tensor, new_frames: int, is_last: bool
    ) -> tuple[Tensor, Tensor]:
        """The spectrum frames that `new_frames` mel frames need, and the source from there on."""
        stft = self.hift.stft
        edge = stft.n_fft // 2
        past = [chunk.state.source for chunk in chunks if chunk.state.source is not None]
        is_first = not past
        left = source[:, 1 : edge + 1].flip(1) if is_first else torch.stack(past)
        source = torch.cat([left, source], dim=1)
        if is_last:
            source = torch.cat([source, source[:, -edge - 1 : -1].flip(1)], dim=1)
        num_spectra = new_frames * self.hift.config.samples_per_frame // stft.hop + int(is_first)
        spectrum = stft.analyze(source[:, : (num_spectra - 1) * stft.hop + stft.n_fft])
        return spectrum, source[:, num_spectra * stft.hop :]

    def _overlapped(self, chunk: MelChunk[CausalState], pair: Tensor) -> tuple[Tensor, Tensor]:
        """pair (2, N): samples and envelope of the new spectra -> finished samples, what overlaps on."""
        stft, limit = self.hift.stft, self.hift.config.audio_limit
        tail = stft.n_fft - stft.hop
        is_first = chunk.state.overlap is None
        if chunk.state.overlap is not None:
            pair = torch.cat([pair[:, :tail] + chunk.state.overlap, pair[:, tail:]], dim=1)
        start = stft.n_fft // 2 if is_first else 0
        stop = pair.shape[1] - (stft.n_fft // 2 if chunk.is_last else tail)
        samples = (pair[0, start:stop] / pair[1, start:stop]).clamp(-limit, limit)
        return samples, pair[:, pair.shape[1] - tail :].clone()


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
    noise: Tensor | None = None  # (RIGHT_FRAMES samples,): drawn for frames yet to come
    tail: Tensor | None = None  # (FADE_FRAMES samples,)

    @property
    def num_bytes(self) -> int:
        tensors = (self.mel, self.source, self.carry, self.noise, self.tail)
        return sum(tensor.nbytes for tensor in tensors if tensor is not None)

    def num_missing_frames(self, num_frames: int, frame: int) -> int:
        """How many of the next frames, `frame` samples each, have no noise yet."""
        return max(0, num_frames - (0 if self.noise is None else len(self.noise) // frame))


def draw_noise(
    states: Sequence[WindowState], num_missing: Sequence[int], frame: int, pins: bool
) -> tuple[Tensor, list[torch.Generator]]:
    """Normal draws (frames of all streams, `frame`) on the CPU, and each stream's generator after them.

    num_missing: frames of each stream. Drawn frame by frame, so that a stream's noise does not depend on how
    it was cut.
    """
    drawn = torch.empty(sum(num_missing), frame, pin_memory=pins)
    generators = []
    rows = iter(drawn)
    for state, count in zip(states, num_missing, strict=True):
        generators.append(state.generator.clone_state())
        for row in islice(rows, count):
            torch.randn(frame, generator=generators[-1], out=row)
    return drawn, generators


def next_noise(
    states: Sequence[WindowState], num_frames: int, frame: int, device: torch.device
) -> list[tuple[Tensor, torch.Generator]]:
    """Normal draws of each stream for its next frames, `frame` samples each; and its generator after them.

    Copied to the device all at once.
    """
    missing = [state.num_missing_frames(num_frames, frame) for state in states]
    drawn, generators = draw_noise(states, missing, frame, pins=device.type == "cuda")
    there = drawn.to(device, non_blocking=True).split(missing)
    return [
        (part.flatten() if state.noise is None else torch.cat([state.noise, part.flatten()]), generator)
        for state, part, generator in zip(states, there, generators, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class WindowShape:
    left_frames: int
    new_frames: int
    is_last: bool


@dataclass(frozen=True, slots=True, eq=False)
class WindowPiece:
    """What a piece of several streams is made of; all but the first two None where they begin.

    mel (B, M, T) of the piece alone, noise (B, N) for it and what follows it.
    """

    mel: Tensor
    noise: Tensor
    carry: Tensor | None  # (B, tones)
    left_mel: Tensor | None  # (B, M, left)
    source: Tensor | None  # (B, as many frames' samples)
    tail: Tensor | None  # (B, FADE_FRAMES samples)


class WindowMade(NamedTuple):
    """samples (B, T L), and what all streams go on from, as the fields of `WindowState`."""

    samples: Tensor
    carry: Tensor
    mel: Tensor
    source: Tensor
    noise: Tensor
    tail: Tensor


class WindowedVocoder:
    """Holds the weights; the states hold the streams."""

    def __init__(self, hift: HiFT, generate: Generate | None = None):
        """generate: used instead of the HiFT's own generator."""
        self.hift, self._generate = hift, generate

    def start(self, seed: int) -> WindowState:
        generator = torch.Generator().manual_seed(seed)
        return WindowState(generator, carry=self.hift.source.initial_phases(generator))

    def shape_of(self, chunk: MelChunk[WindowState]) -> WindowShape | None:
        left = 0 if chunk.state.mel is None else chunk.state.mel.shape[1]
        return WindowShape(left, chunk.mel.shape[1], chunk.is_last) if chunk.mel.shape[1] else None

    def step(self, chunks: Sequence[MelChunk[WindowState]]) -> list[tuple[Tensor, WindowState]]:
        """Pieces of one shape -> samples (T L,) float32, L a frame, and the next state of each."""
        shape = self.shape_of(chunks[0])
        assert shape is not None, "a chunk without frames"
        right = 0 if shape.is_last else RIGHT_FRAMES
        states, length = [chunk.state for chunk in chunks], self.hift.config.samples_per_frame
        mel = torch.stack([chunk.mel for chunk in chunks])
        drawn = next_noise(states, shape.new_frames + right, length, mel.device)
        num_samples = (shape.new_frames + right) * length
        carry = _stacked([state.carry for state in states])
        piece = WindowPiece(
            mel,
            torch.stack([noise[:num_samples] for noise, _ in drawn]),
            None if carry is None else carry.to(mel.device),
            _stacked([state.mel for state in states]),
            _stacked([state.source for state in states]),
            _stacked([state.tail for state in states]),
        )
        samples, *kept = self.make(piece, shape.is_last)
        return [
            (samples[row], window_state(generator, [part[row].clone() for part in kept]))
            for row, (_, generator) in enumerate(drawn)
        ]

    def make(self, piece: WindowPiece, is_last: bool) -> WindowMade:
        hift, length = self.hift, self.hift.config.samples_per_frame
        right = 0 if is_last else RIGHT_FRAMES
        new_frames = piece.mel.shape[2]
        new_samples = new_frames * length
        left_frames = 0 if piece.left_mel is None else piece.left_mel.shape[2]
        before = [] if piece.left_mel is None else [piece.left_mel]
        held = piece.mel[:, :, -1:].expand(-1, -1, right)
        mel = torch.cat([*before, piece.mel, held], dim=2)  # (B, M, left + new + right)
        f0 = hift.f0(mel, FullContext()).float()[:, left_frames:]
        source, ends = hift.source(f0, hift.source.drawn_noise(piece.noise), piece.carry, is_last=right == 0)
        if piece.source is not None:
            source = torch.cat([piece.source, source], dim=1)
        samples = hift.decode(mel, source, self._generate)[:, left_frames * length :]
        stop = left_frames + new_frames
        start = max(0, stop - LEFT_FRAMES)
        return WindowMade(
            crossfaded(samples[:, :new_samples], piece.tail),
            ends[:, new_frames - 1],
            mel[:, :, start:stop],
            source[:, start * length : stop * length],
            piece.noise[:, new_samples:],
            samples[:, new_samples : new_samples + FADE_FRAMES * length],
        )


def _stacked(parts: Sequence[Tensor | None]) -> Tensor | None:
    """None where the streams begin."""
    given = [part for part in parts if part is not None]
    return torch.stack(given) if given else None


def window_state(generator: torch.Generator, kept: Sequence[Tensor]) -> WindowState:
    """kept: what `WindowMade` has beside the samples, of one stream."""
    carry, mel, source, noise, tail = kept
    return WindowState(generator, mel, source, carry, noise, tail)


def vocode_whole(vocoder: Vocoder[State], mel: Tensor, seed: int = 0) -> Tensor:
    """mel (T, M), T > 0, on the vocoder's device -> samples (N,), the same each time."""
    sound = Sound(vocoder.start(seed), [(mel.T.contiguous(), True)])
    vocode(vocoder, [sound])
    return sound.take()


def vocode(vocoder: Vocoder[State], streams: Sequence[Sound[State]]) -> None:
    """Turns every stream's pending chunks into samples, one chunk of each at a time, equal shapes together.

    A stream advances only when its chunk is done: after an error, call again for what is left.
    """
    while heads := [stream for stream in streams if stream.pending]:
        groups: dict[Hashable, list[Sound[State]]] = defaultdict(list)
        for stream in heads:
            groups[vocoder.shape_of(MelChunk(stream.state, *stream.pending[0]))].append(stream)
        for stream in groups.pop(None, []):
            stream.pending.pop(0)
        for group in groups.values():
            made = vocoder.step([MelChunk(stream.state, *stream.pending[0]) for stream in group])
            for stream, (samples, state) in zip(group, made, strict=True):
                stream.state = state
                stream.ready.append(samples)
                stream.pending.pop(0)
