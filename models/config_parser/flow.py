"""The flows' sizes."""

from models.config import (
    FRAMES_PER_TOKEN,
    NUM_MELS,
    REGULATED_TOKEN_RATE_HZ,
    TOKEN_RATE_HZ,
    CFMConfig,
    DiTConfig,
    DiTFlowConfig,
    FlowConfig,
    RegulatedFlowConfig,
    UNetConfig,
    UNetFlowConfig,
)
from models.config_parser.conformer import parse_conformer
from models.fields import Fields

CHUNK_TOKENS = TOKEN_RATE_HZ  # 25: a second, the one chunk that the networks were trained with
CHUNK_FRAMES = CHUNK_TOKENS * FRAMES_PER_TOKEN  # 50


def parse_flow(fields: Fields, kind: str) -> FlowConfig:
    fields.ignore("output_type", "only_mask_loss")
    fields.choice("output_size", 80)
    vocab_size = fields.size("vocab_size")
    speaker_size = fields.size("spk_embed_dim", 192)
    _, decoder = fields.tagged("decoder", "CausalConditionalCFM", "ConditionalCFM")
    cfm = _cfm(decoder)
    if kind == "CausalMaskedDiffWithDiT":
        config: FlowConfig = _dit_flow(fields, decoder, vocab_size, speaker_size, cfm)
    elif kind == "CausalMaskedDiffWithXvec":
        config = _unet_flow(fields, decoder, vocab_size, speaker_size, cfm)
    else:
        config = _regulated_flow(fields, decoder, vocab_size, speaker_size, cfm)
    decoder.done()
    fields.done()
    return config


def _token_grid(fields: Fields) -> int:
    """The fields that fix 25 tokens and 50 frames a second; -> lookahead in tokens."""
    fields.choice("input_frame_rate", TOKEN_RATE_HZ)
    fields.choice("token_mel_ratio", FRAMES_PER_TOKEN)
    return fields.size("pre_lookahead_len", 3)


def _cfm(decoder: Fields) -> CFMConfig:
    decoder.ignore("in_channels", "n_spks", "spk_emb_dim")
    _, holder = decoder.tagged("cfm_params", "DictConfig")
    params = holder.inner("content")
    holder.done()
    params.choice("solver", "euler")
    params.choice("t_scheduler", "cosine")
    params.ignore("reg_loss_type")
    config = CFMConfig(
        params.number("sigma_min", 1e-6),
        params.number("training_cfg_rate", 0.2),
        params.number("inference_cfg_rate", 0.7),
        params.size("n_timesteps", 10, maximum=1000),  # ours; the published code has 10 written into it
    )
    params.done()
    return config


def _regulated_flow(
    fields: Fields, decoder: Fields, vocab_size: int, speaker_size: int, cfm: CFMConfig
) -> RegulatedFlowConfig:
    fields.ignore("input_size")
    token_rate_hz = fields.size("input_frame_rate", REGULATED_TOKEN_RATE_HZ)
    if token_rate_hz != REGULATED_TOKEN_RATE_HZ:
        raise fields.error(
            f"input_frame_rate is {token_rate_hz}; only CosyVoice 1's recipe of {REGULATED_TOKEN_RATE_HZ} "
            "tokens a second is supported, for which the overlap that the flow keeps is fixed"
        )
    _, encoder = fields.tagged("encoder", "ConformerEncoder")
    _, regulator = fields.tagged("length_regulator", "InterpolateRegulator")
    ratios = regulator.sizes("sampling_ratios")
    _, estimator = decoder.tagged("estimator", "ConditionalDecoder")
    config = RegulatedFlowConfig(
        vocab_size=vocab_size,
        encoder=parse_conformer(encoder, "silu"),
        estimator=_unet(estimator),
        cfm=cfm,
        token_rate_hz=token_rate_hz,
        regulator_channels=regulator.size("channels", 80),
        num_regulator_layers=len(ratios),
        speaker_embedding_size=speaker_size,
    )
    regulator.done()
    if (config.encoder.chunk, config.estimator.chunk) != (0, 0):
        raise fields.error("static_chunk_size is only supported where it is 0, in encoder and estimator")
    return config


def _unet_flow(
    fields: Fields, decoder: Fields, vocab_size: int, speaker_size: int, cfm: CFMConfig
) -> UNetFlowConfig:
    fields.ignore("input_size")
    lookahead = _token_grid(fields)
    _, encoder = fields.tagged("encoder", "UpsampleConformerEncoder")
    _, estimator = decoder.tagged("estimator", "CausalConditionalDecoder")
    config = UNetFlowConfig(
        vocab_size, parse_conformer(encoder, "silu"), _unet(estimator), cfm, lookahead, 4, speaker_size
    )
    if (config.encoder.chunk, config.estimator.chunk) != (CHUNK_TOKENS, CHUNK_FRAMES):
        raise fields.error(
            f"static_chunk_size is {config.encoder.chunk} in the encoder, {config.estimator.chunk} in the "
            f"estimator; only {CHUNK_TOKENS} and {CHUNK_FRAMES} are supported"
        )
    if len(config.estimator.channels) != 1:
        raise decoder.error(f"{len(config.estimator.channels)} resolutions; the causal estimator has one")
    return config


def _dit_flow(
    fields: Fields, decoder: Fields, vocab_size: int, speaker_size: int, cfm: CFMConfig
) -> DiTFlowConfig:
    fields.choice("input_size", 80)
    lookahead = _token_grid(fields)
    _, front = fields.tagged("pre_lookahead_layer", "PreLookaheadLayer")
    front.choice("in_channels", 80)
    front.choice("pre_lookahead_len", lookahead)
    channels = front.size("channels")
    front.done()
    _, estimator = decoder.tagged("estimator", "DiT")
    return DiTFlowConfig(vocab_size, channels, _dit(estimator), cfm, lookahead, speaker_size)


def _unet(fields: Fields) -> UNetConfig:
    fields.ignore("dropout", "num_decoding_left_chunks")
    fields.choice("act_fn", "gelu")
    config = UNetConfig(
        in_channels=fields.choice("in_channels", 4 * NUM_MELS),  # noise, mean, speaker, prompt
        out_channels=fields.choice("out_channels", NUM_MELS),
        channels=fields.sizes("channels"),
        head_dim=fields.size("attention_head_dim"),
        num_blocks=fields.size("n_blocks", maximum=16),
        num_mid_blocks=fields.count("num_mid_blocks"),
        num_heads=fields.size("num_heads"),
        chunk=fields.size_or_zero("static_chunk_size"),
    )
    fields.done()
    return config


def _dit(fields: Fields) -> DiTConfig:
    fields.ignore("dropout", "num_decoding_left_chunks")
    fields.choice("long_skip_connection", False)
    for name in ("mel_dim", "mu_dim", "spk_dim", "out_channels"):
        fields.choice(name, 80)
    config = DiTConfig(
        dim=fields.size("dim"),
        depth=fields.count("depth"),
        num_heads=fields.size("heads"),
        head_dim=fields.size("dim_head", 64),
        feedforward_mult=fields.size("ff_mult", 4),
        chunk=fields.choice("static_chunk_size", CHUNK_FRAMES),
    )
    fields.done()
    return config
