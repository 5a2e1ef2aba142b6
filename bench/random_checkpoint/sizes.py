"""The numbers by which a full checkpoint and a small one of a family differ."""

from dataclasses import dataclass, replace
from typing import Literal

from firstword.bench.random_checkpoint.tokenizer import entries
from firstword.models.config import Family, Qwen2Config
from firstword.models.tokenizer.qwen2 import special_tokens
from firstword.models.tokenizer.whisper import SPECIAL_TOKENS

Size = Literal["full", "small", "narrow"]
"""narrow: as small, but as many layers as published, so that calls can be counted."""

SPEECH_VOCAB_SIZES: dict[Family, int] = {"cosyvoice1": 4096, "cosyvoice2": 6561, "cosyvoice3": 6561}
PUBLISHED_NUM_RANKS = 50_257  # of whisper's multilingual vocabulary
QWEN2_LAYERS = 24
ROW_MULTIPLE = 128  # to which the published Qwen2 pads its embedding table


@dataclass(frozen=True, slots=True)
class RelativeAttentionSizes:
    width: int
    num_heads: int
    feedforward_size: int
    num_layers: int


@dataclass(frozen=True, slots=True)
class UNetSizes:
    width: int
    head_dim: int
    num_blocks: int
    num_mid_blocks: int
    num_heads: int


@dataclass(frozen=True, slots=True)
class DiTSizes:
    lookahead_channels: int
    dim: int
    depth: int
    num_heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of all families; a family takes what it has. `qwen2` None and `num_ranks` are CosyVoice 1's."""

    text_width: int
    text_encoder: RelativeAttentionSizes
    decoder: RelativeAttentionSizes
    num_ranks: int
    qwen2: Qwen2Config | None
    flow_encoder: RelativeAttentionSizes
    unet: UNetSizes
    dit: DiTSizes
    vocoder_channels: int
    f0_channels: int

    @property
    def text_token_size(self) -> int:
        return self.num_ranks + len(SPECIAL_TOKENS)


def sizes_of(family: Family, size: Size) -> Sizes:
    qwen2 = None if family == "cosyvoice1" else _qwen2(family, size)
    if size == "full":
        return _full(qwen2)
    return _deepened(_small(qwen2), _full(qwen2)) if size == "narrow" else _small(qwen2)


def _deepened(small: Sizes, full: Sizes) -> Sizes:
    unet = replace(
        small.unet,
        num_blocks=full.unet.num_blocks,
        num_mid_blocks=full.unet.num_mid_blocks,
        num_heads=2 * small.unet.width // small.unet.head_dim,  # twice as wide as the rest, as published
    )
    return replace(
        small,
        text_encoder=replace(small.text_encoder, num_layers=full.text_encoder.num_layers),
        decoder=replace(small.decoder, num_layers=full.decoder.num_layers),
        flow_encoder=replace(small.flow_encoder, num_layers=full.flow_encoder.num_layers),
        unet=unet,
        dit=replace(small.dit, depth=full.dit.depth),
    )


def _full(qwen2: Qwen2Config | None) -> Sizes:
    return Sizes(
        text_width=512,
        text_encoder=RelativeAttentionSizes(1024, 16, 4096, 6),
        decoder=RelativeAttentionSizes(1024, 16, 4096, 14),
        num_ranks=PUBLISHED_NUM_RANKS,
        qwen2=qwen2,
        flow_encoder=RelativeAttentionSizes(512, 8, 2048, 6),
        unet=UNetSizes(width=256, head_dim=64, num_blocks=4, num_mid_blocks=12, num_heads=8),
        dit=DiTSizes(lookahead_channels=1024, dim=1024, depth=22, num_heads=16, head_dim=64),
        vocoder_channels=512,
        f0_channels=512,
    )


def _small(qwen2: Qwen2Config | None) -> Sizes:
    return Sizes(
        text_width=64,
        text_encoder=RelativeAttentionSizes(64, 4, 128, 2),
        decoder=RelativeAttentionSizes(64, 4, 128, 2),
        num_ranks=len(entries()) + 1,  # the last is the empty string, as published
        qwen2=qwen2,
        flow_encoder=RelativeAttentionSizes(64, 4, 128, 2),
        unet=UNetSizes(width=32, head_dim=16, num_blocks=1, num_mid_blocks=2, num_heads=2),
        dit=DiTSizes(lookahead_channels=64, dim=64, depth=2, num_heads=4, head_dim=16),
        vocoder_channels=32,
        f0_channels=32,
    )


def _qwen2(family: Family, size: Size) -> Qwen2Config:
    if size == "full":
        return Qwen2Config(151_936, 896, 4864, QWEN2_LAYERS, 14, 2)
    num_ids = len(entries()) + len(special_tokens(family))
    num_rows = -(-num_ids // ROW_MULTIPLE) * ROW_MULTIPLE
    num_layers = QWEN2_LAYERS if size == "narrow" else 2
    return Qwen2Config(num_rows, 128, 128, num_layers, 4, 2)  # on a CPU vLLM has no heads narrower than 32
