"""The built-in voice's hyper-parameter file and Qwen2 configuration, as the published ones are written."""

import json

from firstword.models.config import HarmonicVocosConfig, Qwen2Config, Qwen2LMConfig, UNetFlowConfig

_YAML = """# Firstword's built-in voice, a small checkpoint of the architecture of CosyVoice 2: MODEL_CARD.md.
sample_rate: 24000
llm_input_size: {lm_width}
llm_output_size: {lm_width}
spk_embed_dim: 192
qwen_pretrain_path: ''
token_frame_rate: 25
token_mel_ratio: 2

# of streaming
chunk_size: 25 # speech tokens
num_decoding_left_chunks: -1 # all

llm: !new:cosyvoice.llm.llm.Qwen2LM
    llm_input_size: !ref <llm_input_size>
    llm_output_size: !ref <llm_output_size>
    speech_token_size: {speech_tokens}
    length_normalized_loss: True
    lsm_weight: 0
    mix_ratio: {mix_ratio}
    llm: !new:cosyvoice.llm.llm.Qwen2Encoder
        pretrain_path: !ref <qwen_pretrain_path>
    sampling: !name:cosyvoice.utils.common.ras_sampling
        top_p: {top_p}
        top_k: {top_k}
        win_size: {win_size}
        tau_r: {tau_r}

flow: !new:cosyvoice.flow.flow.CausalMaskedDiffWithXvec
    input_size: {encoder_width}
    output_size: 80
    spk_embed_dim: !ref <spk_embed_dim>
    output_type: 'mel'
    vocab_size: {speech_tokens}
    input_frame_rate: !ref <token_frame_rate>
    only_mask_loss: True
    token_mel_ratio: !ref <token_mel_ratio>
    pre_lookahead_len: 3
    encoder: !new:cosyvoice.transformer.upsample_encoder.UpsampleConformerEncoder
        output_size: {encoder_width}
        attention_heads: {encoder_heads}
        linear_units: {encoder_feedforward}
        num_blocks: {encoder_layers}
        dropout_rate: 0.0
        positional_dropout_rate: 0.0
        attention_dropout_rate: 0.0
        normalize_before: True
        input_layer: 'linear'
        pos_enc_layer_type: 'rel_pos_espnet'
        selfattention_layer_type: 'rel_selfattn'
        input_size: {encoder_width}
        use_cnn_module: False
        macaron_style: False
        static_chunk_size: !ref <chunk_size>
    decoder: !new:cosyvoice.flow.flow_matching.CausalConditionalCFM
        in_channels: 240
        n_spks: 1
        spk_emb_dim: 80
        cfm_params: !new:omegaconf.DictConfig
            content:
                sigma_min: {sigma_min}
                solver: 'euler'
                t_scheduler: 'cosine'
                training_cfg_rate: {training_cfg_rate}
                inference_cfg_rate: {inference_cfg_rate}
                n_timesteps: {num_steps}
                reg_loss_type: 'l1'
        estimator: !new:cosyvoice.flow.decoder.CausalConditionalDecoder
            in_channels: 320
            out_channels: 80
            channels: [{unet_width}]
            dropout: 0.0
            attention_head_dim: {unet_head_dim}
            n_blocks: {unet_blocks}
            num_mid_blocks: {unet_mid_blocks}
            num_heads: {unet_heads}
            act_fn: 'gelu'
            static_chunk_size: !ref <chunk_size> * <token_mel_ratio>
            num_decoding_left_chunks: !ref <num_decoding_left_chunks>

hift: !new:firstword.models.harmonic_vocos.HarmonicVocos
    in_channels: 80
    sampling_rate: !ref <sample_rate>
    channels: {vocoder_channels}
    hidden_channels: {vocoder_hidden}
    num_layers: {vocoder_layers}
    f0_channels: {f0_channels}
    f0_layers: {f0_layers}
    look_right: {look_right}
    istft_params:
        n_fft: {istft_n_fft}
        hop_len: {istft_hop}
    audio_limit: {audio_limit}

feat_extractor: !name:matcha.utils.audio.mel_spectrogram
    n_fft: 1920
    num_mels: 80
    sampling_rate: !ref <sample_rate>
    hop_size: 480
    win_size: 1920
    fmin: 0
    fmax: 8000
    center: False
"""


def voice_yaml(lm: Qwen2LMConfig, flow: UNetFlowConfig, vocoder: HarmonicVocosConfig) -> str:
    """What `firstword.models.checkpoint.config_parser` reads back as these three configurations."""
    encoder, unet = flow.encoder, flow.estimator
    return _YAML.format(
        lm_width=lm.qwen2.hidden_size,
        speech_tokens=lm.speech_token_size,
        mix_ratio=list(lm.mix_ratio),
        top_p=lm.sampling.top_p,
        top_k=lm.sampling.top_k,
        win_size=lm.sampling.win_size,
        tau_r=lm.sampling.tau_r,
        encoder_width=encoder.width,
        encoder_heads=encoder.num_heads,
        encoder_feedforward=encoder.feedforward_size,
        encoder_layers=encoder.num_layers,
        sigma_min=f"{flow.cfm.sigma_min:.1e}",
        training_cfg_rate=flow.cfm.training_cfg_rate,
        inference_cfg_rate=flow.cfm.inference_cfg_rate,
        num_steps=flow.cfm.num_steps,
        unet_width=unet.channels[0],
        unet_head_dim=unet.head_dim,
        unet_blocks=unet.num_blocks,
        unet_mid_blocks=unet.num_mid_blocks,
        unet_heads=unet.num_heads,
        vocoder_channels=vocoder.channels,
        vocoder_hidden=vocoder.hidden_channels,
        vocoder_layers=vocoder.num_layers,
        f0_channels=vocoder.f0_channels,
        f0_layers=vocoder.f0_layers,
        look_right=vocoder.lookahead_frames,
        istft_n_fft=vocoder.n_fft,
        istft_hop=vocoder.hop_samples,
        audio_limit=vocoder.audio_limit,
    )


def qwen2_json(config: Qwen2Config) -> str:
    """`CosyVoice-BlankEN/config.json`."""
    values = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
    }
    return json.dumps(values, indent=2) + "\n"
