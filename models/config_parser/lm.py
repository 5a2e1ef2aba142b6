"""The language models' sizes."""

from models.config import LMConfig, Qwen2Config, Qwen2LMConfig, SamplingConfig, TransformerLMConfig
from models.config_parser.conformer import parse_conformer
from models.fields import Fields


def parse_lm(fields: Fields, kind: str, qwen2: Qwen2Config | None) -> LMConfig:
    fields.ignore("llm_input_size", "llm_output_size", "text_encoder_input_size")
    loss = fields.flag("length_normalized_loss", True)
    smoothing = fields.number("lsm_weight", 0.0)
    sampling = _sampling(fields)
    if kind == "TransformerLM":
        _, encoder = fields.tagged("text_encoder", "ConformerEncoder")
        _, inner = fields.tagged("llm", "TransformerEncoder")
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
        _, inner = fields.tagged("llm", "Qwen2Encoder")
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
            has_special_rows=kind == "CosyVoice3LM",
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
    _, sampling = fields.tagged("sampling", "ras_sampling")
    config = SamplingConfig(
        sampling.number("top_p", 0.8),
        sampling.size("top_k", 25),
        sampling.size("win_size", 10),
        sampling.number("tau_r", 0.1),
    )
    sampling.done()
    return config


def parse_qwen2(fields: Fields) -> Qwen2Config:
    """`CosyVoice-BlankEN/config.json`; what it says beside the sizes is checked, or of no effect here."""
    fields.choice("hidden_act", "silu")
    fields.choice("model_type", "qwen2")
    fields.choice("use_sliding_window", False)
    if fields.has("rope_scaling"):
        fields.choice("rope_scaling", None)
    config = Qwen2Config(
        vocab_size=fields.size("vocab_size"),
        hidden_size=fields.size("hidden_size"),
        intermediate_size=fields.size("intermediate_size"),
        num_hidden_layers=fields.count("num_hidden_layers"),
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
