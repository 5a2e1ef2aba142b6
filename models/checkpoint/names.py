"""The parameter names of published checkpoints, and ours.

Each table pairs a published prefix with ours; `*` stands for one segment (an index) and is carried
over. What stands in no row keeps its name. The tables work in both directions.
"""

from collections.abc import Iterable

Table = tuple[tuple[str, str], ...]

_CONFORMER_LAYER: Table = (
    ("self_attn.linear_q", "attention.query"),
    ("self_attn.linear_k", "attention.key"),
    ("self_attn.linear_v", "attention.value"),
    ("self_attn.linear_out", "attention.out"),
    ("self_attn.linear_pos", "attention.position"),
    ("self_attn.pos_bias_u", "attention.content_bias"),
    ("self_attn.pos_bias_v", "attention.position_bias"),
    ("feed_forward.w_1", "feedforward.up"),
    ("feed_forward.w_2", "feedforward.down"),
    ("norm_mha", "attention_norm"),
    ("norm_ff", "feedforward_norm"),
)
_TRANSFORMER_LAYER: Table = (
    *_CONFORMER_LAYER[:-2],
    ("norm1", "attention_norm"),
    ("norm2", "feedforward_norm"),
)
_QWEN2_LAYER: Table = (
    ("self_attn.q_proj", "attention.query"),
    ("self_attn.k_proj", "attention.key"),
    ("self_attn.v_proj", "attention.value"),
    ("self_attn.o_proj", "attention.out"),
    ("mlp.gate_proj", "mlp.gate"),
    ("mlp.up_proj", "mlp.up"),
    ("mlp.down_proj", "mlp.down"),
    ("input_layernorm", "attention_norm"),
    ("post_attention_layernorm", "mlp_norm"),
)
_SPEAKER: Table = (("spk_embed_affine_layer", "speaker_projection"),)


def _under(published: str, ours: str, table: Table) -> Table:
    return tuple((f"{published}.{a}", f"{ours}.{b}") for a, b in table)


def _conformer(published: str, ours: str, layer: Table) -> Table:
    return (
        (f"{published}.embed.out.0", f"{ours}.embed.linear"),
        (f"{published}.embed.out.1", f"{ours}.embed.norm"),
        *_under(f"{published}.encoders.*", f"{ours}.layers.*", layer),
        (f"{published}.after_norm", f"{ours}.norm"),
    )


TRANSFORMER_LM: Table = (
    *_conformer("text_encoder", "text_encoder", _CONFORMER_LAYER),
    *_conformer("llm", "decoder", _TRANSFORMER_LAYER),
    ("text_encoder_affine_layer", "text_projection"),
    ("llm_embedding", "special_embedding"),
    ("llm_decoder", "head"),
    *_SPEAKER,
)
QWEN2_LM: Table = (
    *_under("llm.model.model.layers.*", "decoder.layers.*", _QWEN2_LAYER),
    ("llm.model.model.norm", "decoder.norm"),
    ("llm.model.model.embed_tokens", "text_embedding"),
    ("llm_embedding", "special_embedding"),
    ("llm_decoder", "head"),
)

_UNET_BLOCK: Table = (
    ("norm1", "attention_norm"),
    ("norm3", "feedforward_norm"),
    ("attn1.to_q", "attention.query"),
    ("attn1.to_k", "attention.key"),
    ("attn1.to_v", "attention.value"),
    ("attn1.to_out.0", "attention.out"),
    ("ff.net.0.proj", "feedforward.up"),
    ("ff.net.2", "feedforward.down"),
)


def _resnet(norm: str) -> Table:
    """`norm`: the index of the norm in a block; the causal one has a transposition before it."""
    return (
        ("mlp.1", "time"),
        ("block1.block.0", "block1.conv"),
        (f"block1.block.{norm}", "block1.norm"),
        ("block2.block.0", "block2.conv"),
        (f"block2.block.{norm}", "block2.norm"),
        ("res_conv", "residual"),
    )


def _stages(norm: str) -> Table:
    rows: Table = ()
    for published, ours in (("down_blocks", "down"), ("mid_blocks", "mid"), ("up_blocks", "up")):
        rows += _under(f"decoder.estimator.{published}.*.0", f"estimator.{ours}.*.resnet", _resnet(norm))
        rows += _under(f"decoder.estimator.{published}.*.1.*", f"estimator.{ours}.*.blocks.*", _UNET_BLOCK)
        rows += ((f"decoder.estimator.{published}.*.2", f"estimator.{ours}.*.conv"),)
    return rows


def _unet(norm: str) -> Table:
    return (
        ("decoder.estimator.time_mlp.linear_1", "estimator.time.linear1"),
        ("decoder.estimator.time_mlp.linear_2", "estimator.time.linear2"),
        *_stages(norm),
        ("decoder.estimator.final_block.block.0", "estimator.final.conv"),
        (f"decoder.estimator.final_block.block.{norm}", "estimator.final.norm"),
        ("decoder.estimator.final_proj", "estimator.out"),
    )


_UP_ENCODER: Table = (
    ("encoder.embed.out.0", "front.encoder.embed.linear"),
    ("encoder.embed.out.1", "front.encoder.embed.norm"),
    ("encoder.up_embed.out.0", "front.encoder.up_embed.linear"),
    ("encoder.up_embed.out.1", "front.encoder.up_embed.norm"),
    ("encoder.pre_lookahead_layer", "front.encoder.lookahead"),
    ("encoder.up_layer.conv", "front.encoder.up_conv"),
    ("encoder.after_norm", "front.encoder.norm"),
    *_under("encoder.encoders.*", "front.encoder.layers.*", _CONFORMER_LAYER),
    *_under("encoder.up_encoders.*", "front.encoder.up_layers.*", _CONFORMER_LAYER),
)
UNET_FLOW: Table = (
    ("input_embedding", "front.embedding"),
    ("encoder_proj", "front.projection"),
    *_UP_ENCODER,
    *_unet(norm="2"),
    *_SPEAKER,
)
COSYVOICE1_FLOW: Table = (
    ("input_embedding", "embedding"),
    ("encoder_proj", "projection"),
    *_conformer("encoder", "encoder", _CONFORMER_LAYER),
    ("length_regulator.model", "regulator"),
    # Only the ends that change the resolution hold their convolution one level deeper.
    ("decoder.estimator.down_blocks.0.2.conv", "estimator.down.0.conv"),
    ("decoder.estimator.up_blocks.0.2.conv", "estimator.up.0.conv"),
    *_unet(norm="1"),
    *_SPEAKER,
)
DIT_FLOW: Table = (
    ("input_embedding", "front.embedding"),
    ("pre_lookahead_layer", "front.lookahead"),
    ("decoder.estimator.time_embed.time_mlp.0", "estimator.time.linear1"),
    ("decoder.estimator.time_embed.time_mlp.2", "estimator.time.linear2"),
    ("decoder.estimator.input_embed.proj", "estimator.input.linear"),
    ("decoder.estimator.input_embed.conv_pos_embed.conv1.0", "estimator.input.position.conv1"),
    ("decoder.estimator.input_embed.conv_pos_embed.conv2.0", "estimator.input.position.conv2"),
    ("decoder.estimator.transformer_blocks.*.attn_norm.linear", "estimator.blocks.*.modulation"),
    ("decoder.estimator.transformer_blocks.*.attn.to_q", "estimator.blocks.*.attention.query"),
    ("decoder.estimator.transformer_blocks.*.attn.to_k", "estimator.blocks.*.attention.key"),
    ("decoder.estimator.transformer_blocks.*.attn.to_v", "estimator.blocks.*.attention.value"),
    ("decoder.estimator.transformer_blocks.*.attn.to_out.0", "estimator.blocks.*.attention.out"),
    ("decoder.estimator.transformer_blocks.*.ff.ff.0.0", "estimator.blocks.*.feedforward.up"),
    ("decoder.estimator.transformer_blocks.*.ff.ff.2", "estimator.blocks.*.feedforward.down"),
    ("decoder.estimator.norm_out.linear", "estimator.modulation"),
    ("decoder.estimator.proj_out", "estimator.out"),
    *_SPEAKER,
)

HIFT: Table = (
    ("f0_predictor.condnet", "f0.layers"),
    ("f0_predictor.classifier", "f0.classifier"),
    ("m_source.l_linear", "source.linear"),
    ("conv_pre", "generator.conv_pre"),
    ("conv_post", "generator.conv_post"),
    ("ups.*", "generator.ups.*.conv"),
    ("source_downs", "generator.source_downs"),
    ("source_resblocks.*.activations1", "generator.source_resblocks.*.snakes1"),
    ("source_resblocks.*.activations2", "generator.source_resblocks.*.snakes2"),
    ("source_resblocks", "generator.source_resblocks"),
    ("resblocks.*.activations1", "generator.resblocks.*.snakes1"),
    ("resblocks.*.activations2", "generator.resblocks.*.snakes2"),
    ("resblocks", "generator.resblocks"),
)


def to_published(name: str, table: Table) -> str:
    return to_ours(name, ((ours, published) for published, ours in table))


def to_ours(name: str, pairs: Iterable[tuple[str, str]]) -> str:
    segments = name.split(".")
    for source, target in pairs:
        pattern = source.split(".")
        carried = _match(segments, pattern)
        if carried is not None:
            indices = iter(carried)
            mapped = [next(indices) if part == "*" else part for part in target.split(".")]
            return ".".join(mapped + segments[len(pattern) :])
    return name


def _match(segments: list[str], pattern: list[str]) -> list[str] | None:
    """Return the segments where the pattern has `*`; None where the pattern is no prefix."""
    if len(segments) < len(pattern):
        return None
    carried = []
    for segment, part in zip(segments, pattern, strict=False):
        if part == "*":
            carried.append(segment)
        elif part != segment:
            return None
    return carried
