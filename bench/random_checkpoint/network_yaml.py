"""The networks' sections of the published hyper-parameter files; `$name` stands for a size."""

_SAMPLING = """
    sampling: !name:cosyvoice.utils.common.ras_sampling
        top_p: 0.8
        top_k: 25
        win_size: 10
        tau_r: 0.1
"""

TRANSFORMER_LM = f"""
llm: !new:cosyvoice.llm.llm.TransformerLM
    text_encoder_input_size: !ref <text_encoder_input_size>
    llm_input_size: !ref <llm_input_size>
    llm_output_size: !ref <llm_output_size>
    text_token_size: $text_token_size
    speech_token_size: 4096
    length_normalized_loss: True
    lsm_weight: 0
    spk_embed_dim: !ref <spk_embed_dim>
    text_encoder: !new:cosyvoice.transformer.encoder.ConformerEncoder
        input_size: !ref <text_encoder_input_size>
        output_size: $text_encoder_width
        attention_heads: $text_encoder_num_heads
        linear_units: $text_encoder_feedforward_size
        num_blocks: $text_encoder_num_layers
        dropout_rate: 0.1
        positional_dropout_rate: 0.1
        attention_dropout_rate: 0.0
        normalize_before: True
        input_layer: 'linear'
        pos_enc_layer_type: 'rel_pos_espnet'
        selfattention_layer_type: 'rel_selfattn'
        use_cnn_module: False
        macaron_style: False
        use_dynamic_chunk: False
        use_dynamic_left_chunk: False
        static_chunk_size: 1
    llm: !new:cosyvoice.transformer.encoder.TransformerEncoder
        input_size: !ref <llm_input_size>
        output_size: !ref <llm_output_size>
        attention_heads: $decoder_num_heads
        linear_units: $decoder_feedforward_size
        num_blocks: $decoder_num_layers
        dropout_rate: 0.1
        positional_dropout_rate: 0.1
        attention_dropout_rate: 0.0
        input_layer: 'linear_legacy'
        pos_enc_layer_type: 'rel_pos_espnet'
        selfattention_layer_type: 'rel_selfattn'
        static_chunk_size: 1
{_SAMPLING}"""

_QWEN2_ARGUMENTS = f"""
    llm_input_size: !ref <llm_input_size>
    llm_output_size: !ref <llm_output_size>
    speech_token_size: 6561
    length_normalized_loss: True
    lsm_weight: 0
    mix_ratio: [5, 15]
    llm: !new:cosyvoice.llm.llm.Qwen2Encoder
        pretrain_path: !ref <qwen_pretrain_path>
{_SAMPLING}"""

QWEN2_LM = f"""
llm: !new:cosyvoice.llm.llm.Qwen2LM
{_QWEN2_ARGUMENTS}"""

SPECIAL_ROWS_LM = f"""
llm: !new:cosyvoice.llm.llm.CosyVoice3LM
{_QWEN2_ARGUMENTS}"""

_CFM = """
        in_channels: 240
        n_spks: 1
        spk_emb_dim: 80
        cfm_params: !new:omegaconf.DictConfig
            content:
                sigma_min: 1e-06
                solver: 'euler'
                t_scheduler: 'cosine'
                training_cfg_rate: 0.2
                inference_cfg_rate: 0.7
                reg_loss_type: 'l1'
"""

_UNET = """
            in_channels: 320
            out_channels: 80
            dropout: 0.0
            attention_head_dim: $unet_head_dim
            n_blocks: $unet_num_blocks
            num_mid_blocks: $unet_num_mid_blocks
            num_heads: $unet_num_heads
            act_fn: 'gelu'
"""

_ENCODER = """
        output_size: $flow_encoder_width
        attention_heads: $flow_encoder_num_heads
        linear_units: $flow_encoder_feedforward_size
        num_blocks: $flow_encoder_num_layers
        dropout_rate: 0.1
        positional_dropout_rate: 0.1
        attention_dropout_rate: 0.1
        normalize_before: True
        input_layer: 'linear'
        pos_enc_layer_type: 'rel_pos_espnet'
        selfattention_layer_type: 'rel_selfattn'
        input_size: $flow_encoder_width
        use_cnn_module: False
        macaron_style: False
"""

COSYVOICE1_FLOW = f"""
flow: !new:cosyvoice.flow.flow.MaskedDiffWithXvec
    input_size: $flow_encoder_width
    output_size: 80
    spk_embed_dim: !ref <spk_embed_dim>
    output_type: 'mel'
    vocab_size: 4096
    input_frame_rate: 50
    only_mask_loss: True
    encoder: !new:cosyvoice.transformer.encoder.ConformerEncoder
{_ENCODER}
    length_regulator: !new:cosyvoice.flow.length_regulator.InterpolateRegulator
        channels: 80
        sampling_ratios: [1, 1, 1, 1]
    decoder: !new:cosyvoice.flow.flow_matching.ConditionalCFM
{_CFM}
        estimator: !new:cosyvoice.flow.decoder.ConditionalDecoder
            channels: [$unet_width, $unet_width]
{_UNET}"""

UNET_FLOW = f"""
flow: !new:cosyvoice.flow.flow.CausalMaskedDiffWithXvec
    input_size: $flow_encoder_width
    output_size: 80
    spk_embed_dim: !ref <spk_embed_dim>
    output_type: 'mel'
    vocab_size: 6561
    input_frame_rate: !ref <token_frame_rate>
    only_mask_loss: True
    token_mel_ratio: !ref <token_mel_ratio>
    pre_lookahead_len: 3
    encoder: !new:cosyvoice.transformer.upsample_encoder.UpsampleConformerEncoder
{_ENCODER}
        static_chunk_size: !ref <chunk_size>
    decoder: !new:cosyvoice.flow.flow_matching.CausalConditionalCFM
{_CFM}
        estimator: !new:cosyvoice.flow.decoder.CausalConditionalDecoder
            channels: [$unet_width]
            static_chunk_size: !ref <chunk_size> * <token_mel_ratio>
            num_decoding_left_chunks: !ref <num_decoding_left_chunks>
{_UNET}"""

DIT_FLOW = f"""
flow: !new:cosyvoice.flow.flow.CausalMaskedDiffWithDiT
    input_size: 80
    output_size: 80
    spk_embed_dim: !ref <spk_embed_dim>
    output_type: 'mel'
    vocab_size: 6561
    input_frame_rate: !ref <token_frame_rate>
    only_mask_loss: True
    token_mel_ratio: !ref <token_mel_ratio>
    pre_lookahead_len: 3
    pre_lookahead_layer: !new:cosyvoice.transformer.upsample_encoder.PreLookaheadLayer
        in_channels: 80
        channels: $dit_lookahead_channels
        pre_lookahead_len: 3
    decoder: !new:cosyvoice.flow.flow_matching.CausalConditionalCFM
{_CFM}
        estimator: !new:cosyvoice.flow.DiT.dit.DiT
            dim: $dit_dim
            depth: $dit_depth
            heads: $dit_num_heads
            dim_head: $dit_head_dim
            ff_mult: 2
            mel_dim: 80
            mu_dim: 80
            spk_dim: 80
            out_channels: 80
            static_chunk_size: !ref <chunk_size> * <token_mel_ratio>
            num_decoding_left_chunks: !ref <num_decoding_left_chunks>
"""


def _hift(kind: str, predictor: str, stages: str) -> str:
    return f"""
hift: !new:cosyvoice.hifigan.generator.{kind}
    in_channels: 80
    base_channels: $vocoder_channels
    nb_harmonics: 8
    sampling_rate: !ref <sample_rate>
    nsf_alpha: 0.1
    nsf_sigma: 0.003
    nsf_voiced_threshold: 10
    istft_params:
        n_fft: 16
        hop_len: 4
    resblock_kernel_sizes: [3, 7, 11]
    resblock_dilation_sizes: [[1, 3, 5], [1, 3, 5], [1, 3, 5]]
    lrelu_slope: 0.1
    audio_limit: 0.99
    f0_predictor: !new:cosyvoice.hifigan.f0_predictor.{predictor}
        num_class: 1
        in_channels: 80
        cond_channels: $f0_channels
{stages}"""


_TWO_STAGES = """
    upsample_rates: [8, 8]
    upsample_kernel_sizes: [16, 16]
    source_resblock_kernel_sizes: [7, 11]
    source_resblock_dilation_sizes: [[1, 3, 5], [1, 3, 5]]
"""
_THREE_STAGES = """
    upsample_rates: [8, 5, 3]
    upsample_kernel_sizes: [16, 11, 7]
    source_resblock_kernel_sizes: [7, 7, 11]
    source_resblock_dilation_sizes: [[1, 3, 5], [1, 3, 5], [1, 3, 5]]
"""
_LOOK_RIGHT = "    conv_pre_look_right: 4\n"

TWO_STAGE_HIFT = _hift("HiFTGenerator", "ConvRNNF0Predictor", _TWO_STAGES)
THREE_STAGE_HIFT = _hift("HiFTGenerator", "ConvRNNF0Predictor", _THREE_STAGES)
CAUSAL_HIFT = _hift("CausalHiFTGenerator", "CausalConvRNNF0Predictor", _THREE_STAGES + _LOOK_RIGHT)
