"""The vocoders' sizes."""

from models.config import NUM_MELS, HiFTConfig
from models.fields import Fields


def parse_hift(fields: Fields, kind: str) -> HiFTConfig:
    is_causal = kind == "CausalHiFTGenerator"
    _, f0 = fields.tagged("f0_predictor", "CausalConvRNNF0Predictor" if is_causal else "ConvRNNF0Predictor")
    f0.choice("num_class", 1)
    istft = fields.inner("istft_params")
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
        num_harmonics=fields.choice("nb_harmonics", 8),
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
