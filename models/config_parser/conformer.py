"""The arguments that all relative-attention encoders share."""

from typing import Literal

from models.config import ConformerConfig
from models.fields import Fields


def parse_conformer(fields: Fields, activation: Literal["silu", "relu"]) -> ConformerConfig:
    """ConformerEncoder, TransformerEncoder and UpsampleConformerEncoder share their arguments."""
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
        num_layers=fields.count("num_blocks"),
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
