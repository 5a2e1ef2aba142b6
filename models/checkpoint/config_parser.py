"""Parse a checkpoint's yaml into the values of `models/config.py`, strictly.

An unknown field, a missing one, or a value that would ask for another network than the published
ones is a CheckpointError; fields that matter to training only are ignored by name.
"""

from typing import Literal

from firstword.models.checkpoint.yaml import Fields, HyperYaml
from firstword.models.config import (
    COSYVOICE1_TOKEN_RATE_HZ,
    FRAME_RATE_HZ,
    FRAMES_PER_TOKEN,
    NUM_MELS,
    TOKEN_RATE_HZ,
    CFMConfig,
    ConformerConfig,
    CosyVoice1FlowConfig,
    DiTConfig,
    DiTFlowConfig,
    Family,
    FlowConfig,
    HarmonicVocosConfig,
    HiFTConfig,
    LMConfig,
    MelConfig,
    ModelConfig,
    Qwen2Config,
    Qwen2LMConfig,
    SamplingConfig,
    TransformerLMConfig,
    UNetConfig,
    UNetFlowConfig,
    VocoderConfig,
)

CHUNK_TOKENS = TOKEN_RATE_HZ  # 25: a second, the one chunk that the networks were trained with
CHUNK_FRAMES = CHUNK_TOKENS * FRAMES_PER_TOKEN  # 50
MAX_HARMONICS = 64  # overtones of 187 Hz reach 12 kHz

HARMONIC_VOCOS = "HarmonicVocos"
NETWORKS: dict[Family, tuple[str, str, tuple[str, ...]]] = {  # vocoders: the published one first
    "cosyvoice1": ("TransformerLM", "MaskedDiffWithXvec", ("HiFTGenerator",)),
    "cosyvoice2": ("Qwen2LM", "CausalMaskedDiffWithXvec", ("HiFTGenerator", HARMONIC_VOCOS)),
    "cosyvoice3": ("CosyVoice3LM", "CausalMaskedDiffWithDiT", ("CausalHiFTGenerator", HARMONIC_VOCOS)),
}


def parse(file: HyperYaml, family: Family, qwen2: Qwen2Config | None) -> ModelConfig:
    """`qwen2`: the sizes of `CosyVoice-BlankEN/config.json`, for CosyVoice 2 and 3."""
    top = Fields(file, "top level", file.values)
    lm_class, flow_class, vocoder_classes = NETWORKS[family]
    lm = top.tagged("llm", lm_class)
    flow = top.tagged("flow", flow_class)
    hift = top.tagged("hift", *vocoder_classes)
    mel = top.tagged("feat_extractor", "mel_spectrogram")
    sample_rate_hz = top.size("sample_rate", maximum=48_000)
    flow_config = parse_flow(flow, flow_class)
    token_rate_hz = flow_config.token_rate_hz if isinstance(flow_config, CosyVoice1FlowConfig) else 25
    config = ModelConfig(
        family=family,
        sample_rate_hz=sample_rate_hz,
        token_rate_hz=token_rate_hz,
        lm=parse_lm(lm, lm_class, qwen2),
        flow=flow_config,
        vocoder=parse_vocoder(hift),
        mel=parse_mel(mel),
    )
    _check_rates(top, config)
    if config.lm.speech_token_size != config.flow.vocab_size:
        raise top.error(
            f"llm has {config.lm.speech_token_size} speech tokens, flow {config.flow.vocab_size}; "
            "expected as many"
        )
    return config


def _check_rates(top: Fields, config: ModelConfig) -> None:
    """Check that the networks agree on what a sample and a frame are."""
    if {config.vocoder.sample_rate_hz, config.mel.sample_rate_hz} != {config.sample_rate_hz}:
        raise top.error("sample_rate, hift and feat_extractor have different rates")
    samples_per_frame = config.vocoder.samples_per_frame
    if samples_per_frame != config.mel.hop_samples:
        raise top.error(
            f"hift makes {samples_per_frame} samples of a frame; hop_size of feat_extractor is "
            f"{config.mel.hop_samples}"
        )
    if config.family != "cosyvoice1" and samples_per_frame * FRAME_RATE_HZ != config.sample_rate_hz:
        raise top.error(
            f"hift makes {samples_per_frame} samples of a frame; expected {FRAME_RATE_HZ} frames in a "
            f"second of {config.sample_rate_hz} samples"
        )


def parse_mel(fields: Fields) -> MelConfig:
    fields.choice("center", False)
    config = MelConfig(
        sample_rate_hz=fields.size("sampling_rate"),
        n_fft=fields.size("n_fft", maximum=1 << 14),
        hop_samples=fields.size("hop_size"),
        win_samples=fields.size("win_size"),
        num_mels=fields.choice("num_mels", 80),
        fmin_hz=fields.number("fmin", 0.0),
        fmax_hz=fields.optional_number("fmax"),
    )
    fields.done()
    if max(config.hop_samples, config.win_samples) > config.n_fft:
        raise fields.error(
            f"hop_size {config.hop_samples} and win_size {config.win_samples} go with an n_fft of that or "
            f"more; it is {config.n_fft}"
        )
    if not 0 <= config.fmin_hz < config.highest_hz:
        raise fields.error(f"fmin {config.fmin_hz:g} is not below fmax {config.highest_hz:g}")
    return config


def parse_conformer(fields: Fields, activation: Literal["silu", "relu"]) -> ConformerConfig:
    """Parse the arguments that ConformerEncoder, TransformerEncoder and UpsampleConformerEncoder share."""
    fields.ignore("dropout_rate", "positional_dropout_rate", "attention_dropout_rate")
    fields.ignore(
        "num_decoding_left_chunks", "use_dynamic_left_chunk", "cnn_module_kernel", "gradient_checkpointing"
    )
    fields.choice("normalize_before", True)
    fields.choice("pos_enc_layer_type", "rel_pos_espnet")
    fields.choice("selfattention_layer_type", "rel_selfattn")
    fields.choice("use_cnn_module", False)
    fields.choice("macaron_style", False)
    fields.choice("use_dynamic_chunk", False)
    fields.choice("key_bias", True)
    fields.choice("activation_type", "swish" if activation == "silu" else "relu")
    config = ConformerConfig(
        input_size=fields.size("input_size"),
        width=fields.size("output_size"),
        num_heads=fields.size("attention_heads"),
        feedforward_size=fields.size("linear_units"),
        num_layers=fields.layers("num_blocks"),
        chunk=fields.size_or_zero("static_chunk_size"),
        activation=activation,
        has_input_relu=fields.choice("input_layer", "linear", "linear_legacy") == "linear_legacy",
    )
    fields.done()
    if config.width % (2 * config.num_heads):
        raise fields.error(
            f"output_size {config.width} does not divide into {config.num_heads} heads of even width"
        )
    return config


def parse_lm(fields: Fields, kind: str, qwen2: Qwen2Config | None) -> LMConfig:
    fields.ignore("llm_input_size", "llm_output_size", "text_encoder_input_size")
    loss = fields.flag("length_normalized_loss", True)
    smoothing = fields.number("lsm_weight", 0.0)
    sampling = _sampling(fields)
    if kind == "TransformerLM":
        encoder = fields.tagged("text_encoder", "ConformerEncoder")
        inner = fields.tagged("llm", "TransformerEncoder")
        decoder = parse_conformer(inner, "relu")
        if decoder.chunk != 1:
            raise inner.error(f"static_chunk_size is {decoder.chunk}; expected 1, causal")
        config: LMConfig = TransformerLMConfig(
            text_token_size=fields.size("text_token_size"),
            speech_token_size=fields.size("speech_token_size"),
            text_encoder=parse_conformer(encoder, "silu"),
            decoder=decoder,
            speaker_embedding_size=fields.size("spk_embed_dim", 192),
            length_normalized_loss=loss,
            label_smoothing=smoothing,
            sampling=sampling,
        )
    else:
        inner = fields.tagged("llm", "Qwen2Encoder")
        inner.ignore("pretrain_path")
        inner.done()
        fields.ignore("spk_embed_dim")
        if qwen2 is None:
            raise fields.error("the sizes of the Qwen2 decoder are not known")
        ratio = fields.sizes("mix_ratio") if fields.has("mix_ratio") else (5, 15)
        if len(ratio) != 2:
            raise fields.error(f"mix_ratio is {list(ratio)}; expected two numbers, text : speech")
        config = Qwen2LMConfig(
            speech_token_size=fields.size("speech_token_size"),
            qwen2=qwen2,
            has_cosyvoice3_vocabulary=kind == "CosyVoice3LM",
            mix_ratio=ratio,
            length_normalized_loss=loss,
            label_smoothing=smoothing,
            sampling=sampling,
        )
    fields.done()
    return config


def _sampling(fields: Fields) -> SamplingConfig:
    if not fields.has("sampling"):
        return SamplingConfig()
    sampling = fields.tagged("sampling", "ras_sampling")
    config = SamplingConfig(
        sampling.number("top_p", 0.8),
        sampling.size("top_k", 25),
        sampling.size("win_size", 10),
        sampling.number("tau_r", 0.1),
    )
    sampling.done()
    return config


def parse_qwen2(fields: Fields) -> Qwen2Config:
    """Parse `CosyVoice-BlankEN/config.json`; what it holds beside sizes is checked, or has no effect here."""
    fields.choice("hidden_act", "silu")
    fields.choice("model_type", "qwen2")
    fields.choice("use_sliding_window", False)
    if fields.has("rope_scaling"):
        fields.choice("rope_scaling", None)
    config = Qwen2Config(
        vocab_size=fields.size("vocab_size"),
        hidden_size=fields.size("hidden_size"),
        intermediate_size=fields.size("intermediate_size"),
        num_hidden_layers=fields.layers("num_hidden_layers"),
        num_attention_heads=fields.size("num_attention_heads"),
        num_key_value_heads=fields.size("num_key_value_heads"),
        rope_theta=fields.number("rope_theta", 1e6),
        rms_norm_eps=fields.number("rms_norm_eps", 1e-6),
    )
    if config.hidden_size % (2 * config.num_attention_heads):
        raise fields.error(f"hidden_size {config.hidden_size} does not divide into heads of even width")
    if config.num_attention_heads % config.num_key_value_heads:
        raise fields.error("num_attention_heads must be a multiple of num_key_value_heads")
    return config


def parse_flow(fields: Fields, kind: str) -> FlowConfig:
    fields.ignore("output_type", "only_mask_loss")
    fields.choice("output_size", 80)
    vocab_size = fields.size("vocab_size")
    speaker_size = fields.size("spk_embed_dim", 192)
    decoder = fields.tagged("decoder", "CausalConditionalCFM", "ConditionalCFM")
    cfm = _cfm(decoder)
    if kind == "CausalMaskedDiffWithDiT":
        config: FlowConfig = _dit_flow(fields, decoder, vocab_size, speaker_size, cfm)
    elif kind == "CausalMaskedDiffWithXvec":
        config = _unet_flow(fields, decoder, vocab_size, speaker_size, cfm)
    else:
        config = _cosyvoice1_flow(fields, decoder, vocab_size, speaker_size, cfm)
    decoder.done()
    fields.done()
    return config


def _token_grid(fields: Fields) -> int:
    """Check the fields that fix 25 tokens and 50 frames a second; return the lookahead in tokens."""
    fields.choice("input_frame_rate", TOKEN_RATE_HZ)
    fields.choice("token_mel_ratio", FRAMES_PER_TOKEN)
    return fields.size("pre_lookahead_len", 3)


def _cfm(decoder: Fields) -> CFMConfig:
    decoder.ignore("in_channels", "n_spks", "spk_emb_dim")
    holder = decoder.tagged("cfm_params", "DictConfig")
    params = holder.mapping("content")
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


def _cosyvoice1_flow(
    fields: Fields, decoder: Fields, vocab_size: int, speaker_size: int, cfm: CFMConfig
) -> CosyVoice1FlowConfig:
    fields.ignore("input_size")
    token_rate_hz = fields.size("input_frame_rate", COSYVOICE1_TOKEN_RATE_HZ)
    if token_rate_hz != COSYVOICE1_TOKEN_RATE_HZ:
        raise fields.error(
            f"input_frame_rate is {token_rate_hz}; only CosyVoice 1's recipe of {COSYVOICE1_TOKEN_RATE_HZ} "
            "tokens a second is supported, for which the overlap that the flow keeps is fixed"
        )
    encoder = fields.tagged("encoder", "ConformerEncoder")
    regulator = fields.tagged("length_regulator", "InterpolateRegulator")
    ratios = regulator.sizes("sampling_ratios")
    estimator = decoder.tagged("estimator", "ConditionalDecoder")
    config = CosyVoice1FlowConfig(
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
    encoder = fields.tagged("encoder", "UpsampleConformerEncoder")
    estimator = decoder.tagged("estimator", "CausalConditionalDecoder")
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
    front = fields.tagged("pre_lookahead_layer", "PreLookaheadLayer")
    front.choice("in_channels", 80)
    front.choice("pre_lookahead_len", lookahead)
    channels = front.size("channels")
    front.done()
    estimator = decoder.tagged("estimator", "DiT")
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
        num_mid_blocks=fields.layers("num_mid_blocks"),
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
        depth=fields.layers("depth"),
        num_heads=fields.size("heads"),
        head_dim=fields.size("dim_head", 64),
        feedforward_mult=fields.size("ff_mult", 4),
        chunk=fields.choice("static_chunk_size", CHUNK_FRAMES),
    )
    fields.done()
    return config


def parse_vocoder(fields: Fields) -> VocoderConfig:
    """Parse the arguments of the class that the yaml names as its vocoder."""
    if fields.kind == HARMONIC_VOCOS:
        return parse_harmonic_vocos(fields)
    return parse_hift(fields, fields.kind)


def parse_harmonic_vocos(fields: Fields) -> HarmonicVocosConfig:
    istft = fields.mapping("istft_params")
    config = HarmonicVocosConfig(
        sample_rate_hz=fields.size("sampling_rate"),
        channels=fields.size("channels"),
        hidden_channels=fields.size("hidden_channels"),
        num_layers=fields.layers("num_layers"),
        f0_channels=fields.size("f0_channels"),
        f0_layers=fields.layers("f0_layers"),
        lookahead_frames=fields.size("look_right"),
        n_fft=istft.size("n_fft", maximum=1 << 13),
        hop_samples=istft.size("hop_len"),
        audio_limit=fields.number("audio_limit", 0.99),
        num_mels=fields.choice("in_channels", NUM_MELS),
    )
    istft.done()
    fields.done()
    if config.n_fft != 4 * config.hop_samples:
        raise fields.error(f"n_fft {config.n_fft} must be four hops of {config.hop_samples}")
    if config.f0_lookahead_frames < 0:
        raise fields.error(
            f"look_right is {config.lookahead_frames}; expected at least {config.edge_frames}, half a window"
        )
    return config


def parse_hift(fields: Fields, kind: str) -> HiFTConfig:
    is_causal = kind == "CausalHiFTGenerator"
    f0 = fields.tagged("f0_predictor", "CausalConvRNNF0Predictor" if is_causal else "ConvRNNF0Predictor")
    f0.choice("num_class", 1)
    istft = fields.mapping("istft_params")
    config = HiFTConfig(
        sample_rate_hz=fields.size("sampling_rate"),
        base_channels=fields.size("base_channels"),
        upsample_rates=fields.sizes("upsample_rates"),
        upsample_kernel_sizes=fields.sizes("upsample_kernel_sizes"),
        resblock_kernel_sizes=fields.sizes("resblock_kernel_sizes"),
        resblock_dilation_sizes=fields.size_lists("resblock_dilation_sizes"),
        source_resblock_kernel_sizes=fields.sizes("source_resblock_kernel_sizes"),
        source_resblock_dilation_sizes=fields.size_lists("source_resblock_dilation_sizes"),
        f0_channels=f0.size("cond_channels", 512),
        is_causal=is_causal,
        lookahead_frames=fields.size("conv_pre_look_right", 4) if is_causal else 0,
        num_mels=fields.choice("in_channels", NUM_MELS),
        num_harmonics=fields.size("nb_harmonics", 8, MAX_HARMONICS),
        sine_amplitude=fields.number("nsf_alpha", 0.1),
        noise_amplitude=fields.number("nsf_sigma", 0.003),
        voiced_threshold_hz=fields.number("nsf_voiced_threshold", 10),
        istft_n_fft=istft.size("n_fft", maximum=1024),
        istft_hop_samples=istft.size("hop_len"),
        leaky_relu_slope=fields.number("lrelu_slope", 0.1),
        audio_limit=fields.number("audio_limit", 0.99),
    )
    f0.choice("in_channels", config.num_mels)
    for part in (f0, istft, fields):
        part.done()
    _check_hift(fields, config)
    return config


def _check_hift(fields: Fields, config: HiFTConfig) -> None:
    stages = len(config.upsample_rates)
    if not stages == len(config.upsample_kernel_sizes) == len(config.source_resblock_kernel_sizes):
        raise fields.error(f"{stages} upsample rates need as many upsampling and source kernels")
    for rate, kernel in zip(config.upsample_rates, config.upsample_kernel_sizes, strict=True):
        if kernel < rate or ((kernel - rate) % 2 and not config.is_causal):
            raise fields.error(f"an upsampling kernel of {kernel} does not go with a rate of {rate}")
    if len(config.source_resblock_dilation_sizes) != stages:
        raise fields.error(f"{stages} stages need as many lists of source dilations")
    if config.base_channels % (1 << stages):
        raise fields.error(f"base_channels {config.base_channels} cannot be halved {stages} times")
    if len(config.resblock_kernel_sizes) != len(config.resblock_dilation_sizes):
        raise fields.error("resblock_kernel_sizes and resblock_dilation_sizes differ in length")
    if config.istft_n_fft != 4 * config.istft_hop_samples:
        raise fields.error(f"n_fft {config.istft_n_fft} must be four hops of {config.istft_hop_samples}")
