"""Streaming through Harmonic Vocos: pieces of mel to samples that equal those of the whole utterance.

It withholds `lookahead_frames`, which the first convolution sees ahead, and half a window of the inverse
short-time Fourier transform; F0 is read half a window before the spectrum that its pulses drive.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.models.config import HarmonicVocosConfig
from firstword.models.harmonic_vocos.network import (
    HarmonicVocos,
    SpectrumTransform,
    hz_of,
    pulses,
)
from firstword.models.hift.streaming import BatchedConvState, MelChunk

_DRAW = 16  # torch draws normal numbers in blocks of so many: whole blocks do not depend on how they are cut


@dataclass(frozen=True, slots=True, eq=False)
class HarmonicState:
    """What each convolution, the pulses and the inverse STFT go on from.

    num_frames: of the spectrum's rate that the networks have been given.
    """

    generator: torch.Generator  # of the noise, on the CPU, so that a seed means the same on every device
    mel: Tensor | None = None  # (M, T) from the first one that later frames need
    num_frames: int = 0
    left: Mapping[int, Tensor] = field(default_factory=dict)  # (C, frames) by convolution
    pitch: Tensor | None = None  # (edge_frames,), of the frames whose spectra come next
    phase: Tensor | None = None  # () cycles at the last frame whose F0 is known, float64
    pulses: Tensor | None = None  # (n_fft - hop,), from the next spectrum's window on
    overlap: Tensor | None = None  # (2, n_fft - hop): samples and envelope still to be added to

    @property
    def num_bytes(self) -> int:
        tensors = (self.mel, self.pitch, self.phase, self.pulses, self.overlap, *self.left.values())
        return sum(tensor.nbytes for tensor in tensors if tensor is not None)


@dataclass(frozen=True, slots=True)
class HarmonicShape:
    num_frames: int  # given so far; once all buffers are full, only what of it decides their sizes
    num_mels: int  # buffered and new
    is_last: bool


class HarmonicNetworks(Protocol):
    """Both networks of a vocoder, or what runs instead of them."""

    def pitch(self, mel: Tensor, context: BatchedConvState, is_start: bool) -> Tensor:
        """As `HarmonicVocos.pitch`."""
        ...

    def filters(self, mel: Tensor, pitch: Tensor, context: BatchedConvState, is_start: bool) -> Tensor:
        """As `HarmonicVocos.filters`."""
        ...


class HarmonicVocoder:
    """Holds the weights; the states hold the streams."""

    def __init__(self, vocos: HarmonicVocos, networks: HarmonicNetworks | None = None):
        """networks: run instead of those of `vocos`."""
        self._vocos, self._config = vocos, vocos.config
        self._networks: HarmonicNetworks = networks or vocos
        self._transform = SpectrumTransform(vocos.config)
        config = vocos.config
        self._edge_frames = config.edge_frames
        self._f0_surplus = config.lookahead_frames - config.f0_lookahead_frames
        self._noise_size = 2 * config.num_bins
        self._period = config.frame_period
        filled = config.lookahead_frames + config.edge_frames + 1  # from here on all buffers are
        self._steady = -(-filled // self._period) * self._period

    def start(self, seed: int) -> HarmonicState:
        return HarmonicState(torch.Generator().manual_seed(seed))

    def shape_of(self, chunk: MelChunk[HarmonicState]) -> HarmonicShape | None:
        state = chunk.state
        num_mels = chunk.mel.shape[1] + (0 if state.mel is None else state.mel.shape[1])
        if not num_mels:
            return None
        shown = min(state.num_frames, self._steady + state.num_frames % self._period)
        return HarmonicShape(shown, num_mels, chunk.is_last)

    def step(self, chunks: Sequence[MelChunk[HarmonicState]]) -> list[tuple[Tensor, HarmonicState]]:
        """Pieces of one shape -> what can be known by now (N,) float32, and the next state of each."""
        shape = self.shape_of(chunks[0])
        assert shape is not None, "a chunk without frames"
        config, ahead = self._config, self._config.lookahead_frames
        buffered = torch.stack([_behind(chunk.state.mel, chunk.mel) for chunk in chunks]).float()  # (B, M, T)
        first_mel = config.first_mel(shape.num_frames)
        num_mels = first_mel + shape.num_mels
        stop = config.num_frames(num_mels) + ahead if shape.is_last else config.known_frames(num_mels)
        least = max(shape.num_frames, ahead + self._edge_frames - 1)  # first of all, up to the first sample
        if stop <= least and not shape.is_last:
            return [
                (mel.new_zeros(0), replace(chunk.state, mel=mel.clone()))
                for chunk, mel in zip(chunks, buffered, strict=True)
            ]
        is_start = shape.num_frames == 0
        context = BatchedConvState([chunk.state.left for chunk in chunks])
        mel = self._vocos.frames(buffered, first_mel, shape.num_frames, stop)
        pitch, train, phases = self._driven(chunks, mel, context, is_start, shape.is_last)
        filters = self._networks.filters(mel, pitch[:, : mel.shape[-1] - ahead * is_start], context, is_start)
        source = self._transform.analyze(train)
        noise, generators = self._noise(chunks, filters.shape[1])
        spectrum = self._transform.mixed(filters, source, noise.to(filters.device))
        sums, envelope = self._transform.overlap_add(spectrum)
        emitted = max(0, (shape.num_frames - ahead) * config.hop_samples - config.n_fft // 2)
        missing = num_mels * config.samples_per_frame - emitted if shape.is_last else None
        keep = slice(config.first_mel(stop) - first_mel, None)
        done = []
        for index, chunk in enumerate(chunks):
            samples, overlap = self._overlapped(chunk, torch.stack([sums[index], envelope]), missing)
            state = HarmonicState(
                generators[index],
                mel=buffered[index, :, keep].clone(),
                num_frames=chunk.state.num_frames + stop - shape.num_frames,
                left=context.next[index],
                pitch=pitch[index, filters.shape[1] :].clone(),
                phase=phases[index].clone(),
                pulses=train[index, filters.shape[1] * config.hop_samples :].clone(),
                overlap=overlap,
            )
            done.append((samples, state))
        return done

    def _driven(
        self,
        chunks: Sequence[MelChunk[HarmonicState]],
        mel: Tensor,
        context: BatchedConvState,
        is_start: bool,
        is_last: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """mel (B, M, T) of the new frames -> pitch (B, frames), pulses (B, samples), phases (B,).

        pitch: from the first frame on whose spectrum comes next; pulses: from half a window before it.
        """
        config, edge_frames = self._config, self._edge_frames
        surplus = self._f0_surplus if is_last else 0
        new = self._networks.pitch(mel[:, :, : mel.shape[-1] - surplus], context, is_start)
        if is_last:
            new = F.pad(new[:, None], (0, edge_frames), mode="replicate")[:, 0]
        held = [chunk.state.pitch for chunk in chunks if chunk.state.pitch is not None]
        pitch = torch.cat([torch.stack(held), new], dim=1) if held else new
        if held:
            path = torch.cat([pitch[:, -new.shape[1] - 1 : -new.shape[1]], new], dim=1)
        else:  # before the utterance F0 is that of its first frame
            path = F.pad(new[:, None], (edge_frames, 0), mode="replicate")[:, 0]
        carried = [chunk.state.phase for chunk in chunks if chunk.state.phase is not None]
        start = torch.stack(carried) if carried else path.new_zeros(len(path), dtype=torch.float64)
        made, phases = pulses_along(hz_of(path), start, config)
        past = [chunk.state.pulses for chunk in chunks if chunk.state.pulses is not None]
        return pitch, torch.cat([torch.stack(past), made], dim=1) if past else made, phases

    def _noise(
        self, chunks: Sequence[MelChunk[HarmonicState]], num_frames: int
    ) -> tuple[Tensor, list[torch.Generator]]:
        """-> noise (B, T, 2 bins), and the generators after it."""
        whole = -(-self._noise_size // _DRAW) * _DRAW
        generators = [chunk.state.generator.clone_state() for chunk in chunks]
        drawn = [torch.randn(num_frames, whole, generator=generator) for generator in generators]
        return torch.stack(drawn)[..., : self._noise_size], generators

    def _overlapped(
        self, chunk: MelChunk[HarmonicState], pair: Tensor, missing: int | None
    ) -> tuple[Tensor, Tensor]:
        """pair (2, N): samples and envelope of the new frames -> finished samples, what overlaps on.

        missing: how many samples the utterance still lacks; None: it goes on.
        """
        config, limit = self._config, self._config.audio_limit
        tail = config.n_fft - config.hop_samples
        start = config.n_fft // 2
        if chunk.state.overlap is not None:
            pair = torch.cat([pair[:, :tail] + chunk.state.overlap, pair[:, tail:]], dim=1)
            start = 0
        stop = max(start, pair.shape[1] - tail) if missing is None else start + missing
        samples = (pair[0, start:stop] / pair[1, start:stop]).clamp(-limit, limit)
        return samples, pair[:, pair.shape[1] - tail :].clone()


def pulses_along(f0_hz: Tensor, start: Tensor, config: HarmonicVocosConfig) -> tuple[Tensor, Tensor]:
    """F0 (B, T + 1) at frames, linear between them -> pulses (B, hop T) and the phases (B,) at the end.

    start, and the phases: cycles of the fundamental at the first and the last frame, float64.
    """
    hop, rate = config.hop_samples, config.sample_rate_hz
    advances = (f0_hz[:, :-1].double() + f0_hz[:, 1:].double()) * (hop / (2 * rate))
    ends = (start[:, None] + advances.cumsum(1)) % 1.0
    starts = torch.cat([start[:, None], ends[:, :-1]], dim=1).float()
    step = torch.arange(hop, device=f0_hz.device, dtype=torch.float32)
    left, rise = f0_hz[:, :-1, None], f0_hz.diff(dim=1)[..., None]
    cycles = starts[..., None] + (left * step + rise * step.square() / (2 * hop)) / rate
    made = pulses(cycles.flatten(1), (left + rise * step / hop).flatten(1))
    return made, ends[:, -1]


def _behind(left: Tensor | None, new: Tensor) -> Tensor:
    return new if left is None else torch.cat([left, new], dim=1)
