"""The parts that the published code exports, each as a module of tensors alone, with inputs to trace it by.

`llm.text_encoder` and `llm.llm` are CosyVoice 1's; a flow's encoder is that of CosyVoice 1 and 2. F0, source
and the Fourier transforms of the vocoder stay outside: they are float32 and float64 whatever the rest is.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from firstword.models.checkpoint.open import Checkpoint
from firstword.models.config import FRAMES_PER_TOKEN, NUM_MELS
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow, MultiResolutionUNet
from firstword.models.flow.dit import DiT
from firstword.models.flow.encoder import ConformerFront
from firstword.models.flow.flow import Flow
from firstword.models.flow.unet import CausalUNet
from firstword.models.hift.hift import Generator, HiFT
from firstword.models.layers import Conformer, FullContext, chunk_mask, masked_softmax, rotate, sinusoids
from firstword.models.lm.transformer_lm import TransformerLM

PartName = Literal["llm.text_encoder", "llm.llm", "flow.encoder", "flow.decoder.estimator", "hift"]

TRACED_FRAMES = 14  # of the inputs; no size of a network, so that none is taken for one
MAX_FRAMES = 8192


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension of any size: `factor` times what `name` counts, plus `offset`."""

    name: str
    factor: int = 1
    offset: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """inputs: to trace `module` by, in their order. axes: of each the dimensions that may be of any size."""

    name: PartName
    module: nn.Module
    inputs: Mapping[str, Tensor]
    axes: Mapping[str, Mapping[int, Axis]]
    outputs: tuple[str, ...]


class WholeConformer(nn.Module):
    """A conformer over a whole sequence, under its own mask."""

    def __init__(self, conformer: Conformer, chunk: int):
        super().__init__()
        self.conformer, self._chunk = conformer, chunk

    def forward(self, x: Tensor) -> Tensor:
        """x (1, T, C_in) -> (1, T, C)."""
        return self.conformer(x, FullContext(chunk_mask(x.shape[1], self._chunk, x.device)))


class WholeFront(nn.Module):
    """CosyVoice 2's encoder to `mu` over a whole sequence, every frame seeing all others."""

    def __init__(self, front: ConformerFront):
        super().__init__()
        self.front = front

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (1, T + lookahead), -1 where there is none -> mu (1, M, 2 T)."""
        return self.front(tokens, FullContext(), FullContext())


class TensorCacheContext:
    """`AttentionContext` of new positions behind a past that is given and returned as tensors.

    past (layers, 2, H, P, D): keys and values. `present` has those with the new positions behind them.
    """

    def __init__(self, past: Tensor, length: int):
        self._past = past
        self.present: list[Tensor] = []
        self._table: Tensor | None = None
        num_past = past.shape[3]
        keys = torch.arange(num_past + length, device=past.device)
        self._start = num_past
        self._mask = keys <= (torch.arange(length, device=past.device) + num_past)[:, None]  # (T, P + T)

    def positions(self, length: int, device: torch.device) -> Tensor:
        return (torch.arange(length, device=device) + self._start)[None]

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        assert distance_query is not None, "positions are relative"
        assert layer == len(self.present), "layers run in order"
        present = torch.cat([self._past[layer], torch.stack([k[0], v[0]])], dim=2)  # (2, H, P + T, D)
        self.present.append(present)
        keys, values = present[None].unbind(1)
        if self._table is None:
            positions = torch.arange(keys.shape[2], device=q.device)
            self._table = sinusoids(positions, distance_query.shape[-1], distance_query.dtype)
        position_scores = rotate(distance_query, self._table[self._start :]) @ self._table.mT
        scores = (q @ keys.mT + position_scores) / math.sqrt(q.shape[-1])  # (1, H, T, P + T)
        return masked_softmax(scores, self._mask) @ values


class CachedConformer(nn.Module):
    """The decoder of CosyVoice 1's language model, its past in and out."""

    def __init__(self, conformer: Conformer):
        super().__init__()
        self.conformer = conformer

    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """x (1, T, C), past (layers, 2, H, P, D) -> hidden (1, T, C), present (layers, 2, H, P + T, D)."""
        context = TensorCacheContext(past, x.shape[1])
        hidden = self.conformer(x, context)
        return hidden, torch.stack(context.present)


class WholeEstimator(nn.Module):
    """Any family's estimator in the published form of six inputs, every frame seeing all others."""

    def __init__(self, estimator: MultiResolutionUNet | CausalUNet | DiT):
        super().__init__()
        self.estimator = estimator

    def forward(self, x: Tensor, mask: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor) -> Tensor:
        """x, mu, cond (B, M, T), mask (B, 1, T), t (B,), spks (B, M) -> velocity (B, M, T)."""
        if isinstance(self.estimator, MultiResolutionUNet):
            return self.estimator(x, mu, t, spks, cond, mask)
        context = FullContext(mask[:, :, None, :] > 0)
        return self.estimator(x * mask, mu * mask, t, spks, cond * mask, context) * mask


class WholeGenerator(nn.Module):
    """The vocoder's generator over a whole piece."""

    def __init__(self, generator: Generator):
        super().__init__()
        self.generator = generator

    def forward(self, mel: Tensor, source_spectrum: Tensor) -> Tensor:
        """mel (B, M, T + lookahead), source_spectrum (B, n_fft + 2, U T + 1) -> spectrum, float32."""
        return self.generator(mel, source_spectrum, FullContext())


def parts_of(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device | str) -> list[Part]:
    """Load the networks and return their parts. Raises CheckpointError."""
    lm = checkpoint.load_lm(dtype, device)
    parts = lm_parts(lm) if isinstance(lm, TransformerLM) else []
    flow, hift = checkpoint.load_flow(dtype, device), checkpoint.load_hift(dtype, device)
    return [*parts, *flow_parts(flow), hift_part(hift)]


def lm_parts(lm: TransformerLM) -> list[Part]:
    like, text, decoder = lm.head.weight, lm.config.text_encoder, lm.config.decoder
    x = _random(like, 1, TRACED_FRAMES, text.input_size)
    head_dim = decoder.width // decoder.num_heads
    past = _random(like, decoder.num_layers, 2, decoder.num_heads, TRACED_FRAMES + 3, head_dim)
    step = _random(like, 1, TRACED_FRAMES, decoder.input_size)
    return [
        Part(
            "llm.text_encoder",
            WholeConformer(lm.text_encoder, text.chunk),
            {"x": x},
            {"x": {1: Axis("tokens")}},
            ("hidden",),
        ),
        Part(
            "llm.llm",
            CachedConformer(lm.decoder),
            {"x": step, "past": past},
            {"x": {1: Axis("tokens")}, "past": {3: Axis("past")}},
            ("hidden", "present"),
        ),
    ]


def flow_parts(flow: Flow | CosyVoice1Flow) -> list[Part]:
    like = flow.speaker_projection.weight
    parts: list[Part] = []
    if isinstance(flow, CosyVoice1Flow):
        x = _random(like, 1, TRACED_FRAMES, flow.config.encoder.input_size)
        conformer = WholeConformer(flow.encoder, flow.config.encoder.chunk)
        parts.append(Part("flow.encoder", conformer, {"x": x}, {"x": {1: Axis("tokens")}}, ("hidden",)))
    elif isinstance(flow.front, ConformerFront):
        tokens = torch.arange(TRACED_FRAMES, device=like.device)[None]
        axes = {"tokens": {1: Axis("tokens", offset=flow.config.lookahead_tokens)}}
        parts.append(Part("flow.encoder", WholeFront(flow.front), {"tokens": tokens}, axes, ("mu",)))
    rows, frames = flow.config.cfm.rows_per_stream, TRACED_FRAMES * FRAMES_PER_TOKEN
    x, mu, cond = (_random(like, rows, NUM_MELS, frames) for _ in range(3))
    inputs = {
        "x": x,
        "mask": torch.ones_like(x[:, :1]),
        "mu": mu,
        "t": torch.full((rows,), 0.3, device=like.device),
        "spks": _random(like, rows, NUM_MELS),
        "cond": cond,
    }
    of_frames = {name: {2: Axis("frames")} for name in ("x", "mask", "mu", "cond")}
    estimator = WholeEstimator(flow.estimator)
    return [*parts, Part("flow.decoder.estimator", estimator, inputs, of_frames, ("velocity",))]


def hift_part(hift: HiFT) -> Part:
    like, config = hift.generator.conv_pre.weight, hift.config
    per_frame = math.prod(config.upsample_rates)
    inputs = {
        "mel": _random(like, 1, NUM_MELS, TRACED_FRAMES + config.lookahead_frames),
        "source_spectrum": _random(like, 1, config.istft_n_fft + 2, TRACED_FRAMES * per_frame + 1),
    }
    axes = {
        "mel": {2: Axis("frames", offset=config.lookahead_frames)},
        "source_spectrum": {2: Axis("frames", per_frame, 1)},
    }
    return Part("hift", WholeGenerator(hift.generator), inputs, axes, ("spectrum",))


def _random(like: Tensor, *shape: int) -> Tensor:
    """The same in every run, in the dtype and on the device of `like`."""
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))
    return drawn.to(like)


def inputs_of(part: Part) -> tuple[Tensor, ...]:
    return tuple(part.inputs.values())
