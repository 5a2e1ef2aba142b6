"""Write the hyper-parameter file of a random checkpoint, in the form in which the published ones come.

`$name` stands for a size. Of what stands beside the networks (seeds, GAN, tokenizer, data pipeline,
optimizer) a reader takes `feat_extractor` only; the rest is there to be ignored.
"""

import json
from dataclasses import asdict
from string import Template
from typing import Any

from firstword.bench.random_checkpoint.sizes import Sizes
from firstword.models.config import Family, Qwen2Config

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

FEAT_EXTRACTOR = """
feat_extractor: !name:matcha.utils.audio.mel_spectrogram
    n_fft: $mel_n_fft
    num_mels: 80
    sampling_rate: !ref <sample_rate>
    hop_size: $mel_hop_samples
    win_size: $mel_n_fft
    fmin: 0
    fmax: $mel_fmax_hz
    center: False
"""

GAN = """
mel_spec_transform1: !name:matcha.utils.audio.mel_spectrogram
    n_fft: $mel_n_fft
    num_mels: 80
    sampling_rate: !ref <sample_rate>
    hop_size: $mel_hop_samples
    win_size: $mel_n_fft
    fmin: 0
    fmax: null
    center: False
hifigan: !new:cosyvoice.hifigan.hifigan.HiFiGan
    generator: !ref <hift>
    discriminator: !new:cosyvoice.hifigan.discriminator.MultipleDiscriminator
        mpd: !new:matcha.hifigan.models.MultiPeriodDiscriminator
        mrd: !new:cosyvoice.hifigan.discriminator.MultiResSpecDiscriminator
    mel_spec_transform: [
        !ref <mel_spec_transform1>
    ]
"""

WHISPER_TOKENIZER = """
get_tokenizer: !name:whisper.tokenizer.get_tokenizer
    multilingual: True
    num_languages: 100
    language: 'en'
    task: 'transcribe'
allowed_special: 'all'
"""

QWEN2_TOKENIZER = """
get_tokenizer: !name:cosyvoice.tokenizer.tokenizer.get_qwen_tokenizer
    token_path: !ref <qwen_pretrain_path>
    skip_special_tokens: True
    version: $family
allowed_special: 'all'
"""

PROCESSORS = """
parquet_opener: !name:cosyvoice.dataset.processor.parquet_opener
tokenize: !name:cosyvoice.dataset.processor.tokenize
    get_tokenizer: !ref <get_tokenizer>
    allowed_special: !ref <allowed_special>
filter: !name:cosyvoice.dataset.processor.filter
    max_length: 40960
    min_length: 100
    token_max_length: 200
    token_min_length: 1
resample: !name:cosyvoice.dataset.processor.resample
    resample_rate: !ref <sample_rate>
compute_fbank: !name:cosyvoice.dataset.processor.compute_fbank
    feat_extractor: !ref <feat_extractor>
shuffle: !name:cosyvoice.dataset.processor.shuffle
    shuffle_size: 1000
batch: !name:cosyvoice.dataset.processor.batch
    batch_type: 'dynamic'
    max_frames_in_batch: 2000
padding: !name:cosyvoice.dataset.processor.padding
    use_spk_embedding: False # True where speakers are learned

data_pipeline: [
    !ref <parquet_opener>,
    !ref <tokenize>,
    !ref <filter>,
    !ref <resample>,
    !ref <compute_fbank>,
    !ref <shuffle>,
    !ref <batch>,
    !ref <padding>,
]
"""

OPTIMIZER = """
train_conf:
    optim: adam
    optim_conf:
        lr: 1e-5
    scheduler: constantlr
    scheduler_conf:
        warmup_steps: 2500
    max_epoch: 200
    grad_clip: 5
    accum_grad: 2
    log_interval: 100
    save_per_step: -1
"""

SEEDS = """# random initialization can be repeated
__set_seed1: !apply:random.seed [1986]
__set_seed2: !apply:numpy.random.seed [1986]
__set_seed3: !apply:torch.manual_seed [1986]
__set_seed4: !apply:torch.cuda.manual_seed_all [1986]
"""

TRANSFORMER_HEAD = """
# fixed parameters
sample_rate: 22050
text_encoder_input_size: $text_width
llm_input_size: $decoder_width
llm_output_size: $decoder_width
spk_embed_dim: 192
"""

QWEN2_HEAD = """
# fixed parameters
sample_rate: 24000
llm_input_size: $qwen2_hidden_size
llm_output_size: $qwen2_hidden_size
spk_embed_dim: 192
qwen_pretrain_path: ''
token_frame_rate: 25
token_mel_ratio: 2

# of streaming
chunk_size: 25 # speech tokens
num_decoding_left_chunks: -1 # all
"""

NETWORKS: dict[Family, tuple[str, ...]] = {
    "cosyvoice1": (TRANSFORMER_LM, COSYVOICE1_FLOW, TWO_STAGE_HIFT),
    "cosyvoice2": (QWEN2_LM, UNET_FLOW, THREE_STAGE_HIFT),
    "cosyvoice3": (SPECIAL_ROWS_LM, DIT_FLOW, CAUSAL_HIFT),
}

MEL_SIZES: dict[Family, dict[str, Any]] = {
    "cosyvoice1": {"mel_n_fft": 1024, "mel_hop_samples": 256, "mel_fmax_hz": 8000},
    "cosyvoice2": {"mel_n_fft": 1920, "mel_hop_samples": 480, "mel_fmax_hz": 8000},
    "cosyvoice3": {"mel_n_fft": 1920, "mel_hop_samples": 480, "mel_fmax_hz": "null"},
}


def yaml_text(family: Family, sizes: Sizes) -> str:
    is_first = family == "cosyvoice1"
    head = TRANSFORMER_HEAD if is_first else QWEN2_HEAD
    tokenizer = WHISPER_TOKENIZER if is_first else QWEN2_TOKENIZER
    data = (
        FEAT_EXTRACTOR,
        GAN,
        tokenizer,
        PROCESSORS,
        OPTIMIZER,
    )
    template = Template("".join([SEEDS, head, *NETWORKS[family], *data]))
    return template.substitute(
        _flat(asdict(sizes)), **MEL_SIZES[family], family=family, text_token_size=sizes.text_token_size
    )


def qwen2_json(config: Qwen2Config) -> str:
    values = {
        "architectures": ["Qwen2ForCausalLM"],
        "attention_dropout": 0.0,
        "bos_token_id": 151643,
        "eos_token_id": 151643,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "max_position_embeddings": 32768,
        "max_window_layers": config.num_hidden_layers,
        "model_type": "qwen2",
        "sliding_window": 32768,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
    }
    return json.dumps(values | asdict(config), indent=2)


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Nested names joined by `_`."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        inner = _flat(value) if isinstance(value, dict) else {"": value}
        flat |= {f"{name}_{key}".rstrip("_"): entry for key, entry in inner.items()}
    return flat
