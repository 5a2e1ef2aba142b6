"""Parses a checkpoint's yaml into `models.config`, strictly.

An unknown field, a missing one, or a value that would ask for another network than the published
ones is a CheckpointError; fields that matter to training only are passed over by name.
"""

from models.config import FRAME_RATE_HZ, Family, MelConfig, ModelConfig, Qwen2Config, RegulatedFlowConfig
from models.config_parser.flow import parse_flow
from models.config_parser.hift import parse_hift
from models.config_parser.lm import parse_lm, parse_qwen2
from models.fields import Fields
from models.hyperyaml import HyperYaml

__all__ = ["NETWORKS", "parse", "parse_flow", "parse_hift", "parse_lm", "parse_mel", "parse_qwen2"]

NETWORKS: dict[Family, tuple[str, str, str]] = {
    "cosyvoice1": ("TransformerLM", "MaskedDiffWithXvec", "HiFTGenerator"),
    "cosyvoice2": ("Qwen2LM", "CausalMaskedDiffWithXvec", "HiFTGenerator"),
    "cosyvoice3": ("CosyVoice3LM", "CausalMaskedDiffWithDiT", "CausalHiFTGenerator"),
}


def parse(file: HyperYaml, family: Family, qwen2: Qwen2Config | None) -> ModelConfig:
    """`qwen2`: the sizes of `CosyVoice-BlankEN/config.json`, for CosyVoice 2 and 3."""
    top = Fields(file, "top level", file.values)
    lm_class, flow_class, hift_class = NETWORKS[family]
    _, lm = top.tagged("llm", lm_class)
    _, flow = top.tagged("flow", flow_class)
    _, hift = top.tagged("hift", hift_class)
    _, mel = top.tagged("feat_extractor", "mel_spectrogram")
    sample_rate_hz = top.size("sample_rate", maximum=48_000)
    flow_config = parse_flow(flow, flow_class)
    token_rate_hz = flow_config.token_rate_hz if isinstance(flow_config, RegulatedFlowConfig) else 25
    config = ModelConfig(
        family=family,
        sample_rate_hz=sample_rate_hz,
        token_rate_hz=token_rate_hz,
        lm=parse_lm(lm, lm_class, qwen2),
        flow=flow_config,
        hift=parse_hift(hift, hift_class),
        mel=parse_mel(mel),
    )
    _check_rates(top, config)
    return config


def _check_rates(top: Fields, config: ModelConfig) -> None:
    """The networks agree on what a sample and a frame are."""
    if {config.hift.sample_rate_hz, config.mel.sample_rate_hz} != {config.sample_rate_hz}:
        raise top.error("sample_rate, hift and feat_extractor have different rates")
    samples_per_frame = config.hift.samples_per_frame
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
        fmax_hz=fields.optional_number("fmax", None),
    )
    fields.done()
    return config
