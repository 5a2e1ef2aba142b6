"""What stands beside the networks in the published files: mel, GAN, tokenizer, data, optimizer.

A reader takes `feat_extractor` only; the rest is there to be passed over.
"""

MEL = """
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
