"""Sizes, rates and file names of a checkpoint, as frozen values.

`checkpoint/config_parser.py` makes them from a checkpoint's yaml. The ratios between tokens, frames and
samples are defined here once and derived everywhere else.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal


class CheckpointError(Exception):
    """A model directory cannot be opened; the message names the file and lists all that is wrong with it."""


Family = Literal["cosyvoice1", "cosyvoice2", "cosyvoice3"]
Dtype = Literal["float32", "bfloat16", "float16"]
ACCENTS = ("british",)  # that a checkpoint may have; models/tokenizer/accents.py
AlignmentHeads = tuple[tuple[int, int], ...]  # layer and head, from 0

TOKEN_RATE_HZ = 25  # speech tokens, CosyVoice 2 and 3
SAMPLE_RATE_HZ = 24_000
FRAMES_PER_TOKEN = 2  # token_mel_ratio
FRAME_RATE_HZ = TOKEN_RATE_HZ * FRAMES_PER_TOKEN  # 50
SAMPLES_PER_FRAME = SAMPLE_RATE_HZ // FRAME_RATE_HZ  # 480
SAMPLES_PER_TOKEN = SAMPLE_RATE_HZ // TOKEN_RATE_HZ  # 960
COSYVOICE1_TOKEN_RATE_HZ = 50  # CosyVoice 1
COSYVOICE1_FRAME_RATE_HZ = 22_050 / 256
NUM_MELS = 80
NOISE_FRAMES = 300 * FRAME_RATE_HZ  # of the fixed noise that every CosyVoice 2 and 3 solve starts from
SPEAKER_EMBEDDING_SIZE = 192

YAML_FILES: dict[str, Family] = {
    "cosyvoice.yaml": "cosyvoice1",
    "cosyvoice2.yaml": "cosyvoice2",
    "cosyvoice3.yaml": "cosyvoice3",
}
LM_FILES = ("llm.safetensors", "llm.pt")
FLOW_FILES = ("flow.safetensors", "flow.pt")
HIFT_FILES = ("hift.safetensors", "hift.pt")
ESTIMATOR_FILE = "flow.decoder.estimator.fp32.onnx"  # of the published estimator, where a directory has it
SPEECH_TOKENIZER_FILES: dict[Family, str] = {
    "cosyvoice1": "speech_tokenizer_v1.onnx",
    "cosyvoice2": "speech_tokenizer_v2.onnx",
    "cosyvoice3": "speech_tokenizer_v3.onnx",
}
SPEAKER_ENCODER_FILE = "campplus.onnx"
SPEAKER_TABLE_FILE = "spk2info.pt"
TRAITS_FILE = "firstword.json"
DESCRIPTIONS_FILE = "speakers.json"


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    """Repetition-aware sampling: nucleus of `top_p`, `top_k`; drawn again where an id repeats.

    win_size: the ids in which it is looked for; tau_r: the share of them from which on an id repeats.
    """

    top_p: float = 0.8
    top_k: int = 25
    win_size: int = 10
    tau_r: float = 0.1
    temperature: float = 1.0  # divides the logits

    @property
    def min_repeats(self) -> int:
        """How often an id has to be in the window to repeat."""
        return math.ceil(self.win_size * self.tau_r)


@dataclass(frozen=True, slots=True)
class ConformerConfig:
    """Relative-attention layers; `chunk` tokens see each other and all before (0: all see all, 1: causal)."""

    input_size: int
    width: int
    num_heads: int
    feedforward_size: int
    num_layers: int
    chunk: int = 0
    activation: Literal["silu", "relu"] = "silu"
    has_input_relu: bool = False  # the published `linear_legacy`


@dataclass(frozen=True, slots=True)
class TransformerLMConfig:
    """CosyVoice 1: conformer text encoder and a causal relative-attention decoder."""

    text_token_size: int
    speech_token_size: int
    text_encoder: ConformerConfig
    decoder: ConformerConfig
    speaker_embedding_size: int = SPEAKER_EMBEDDING_SIZE
    length_normalized_loss: bool = True
    label_smoothing: float = 0.0
    sampling: SamplingConfig = SamplingConfig()


@dataclass(frozen=True, slots=True)
class Qwen2Config:
    """The decoder of Qwen2-0.5B, or a smaller one, as its own config.json says."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    rope_theta: float = 1e6
    rms_norm_eps: float = 1e-6

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads


@dataclass(frozen=True, slots=True)
class Qwen2LMConfig:
    """CosyVoice 2 and 3. has_cosyvoice3_vocabulary: sos, task, eos and fill are rows of the speech table."""

    speech_token_size: int
    qwen2: Qwen2Config
    has_cosyvoice3_vocabulary: bool
    mix_ratio: tuple[int, int] = (5, 15)  # text tokens : speech tokens
    prompt_before_blocks: bool = False  # where text is pushed, the prompt stands whole before its blocks
    alignment_heads: AlignmentHeads = ()  # those that look at the text being spoken
    length_normalized_loss: bool = True
    label_smoothing: float = 0.0
    sampling: SamplingConfig = SamplingConfig()


LMConfig = TransformerLMConfig | Qwen2LMConfig


@dataclass(frozen=True, slots=True)
class CFMConfig:
    """Conditional flow matching with classifier-free guidance."""

    sigma_min: float = 1e-6
    training_cfg_rate: float = 0.2
    inference_cfg_rate: float = 0.7
    num_steps: int = 10

    @property
    def rows_per_stream(self) -> int:
        """Rows of a stream in the estimator's batch: conditional and, with guidance, unconditional."""
        return 2 if self.inference_cfg_rate else 1


@dataclass(frozen=True, slots=True)
class UNetConfig:
    """The U-Net estimator: `channels` has one entry a resolution; `chunk` in mel frames, 0 for none."""

    in_channels: int
    out_channels: int
    channels: tuple[int, ...]
    head_dim: int
    num_blocks: int
    num_mid_blocks: int
    num_heads: int
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class DiTConfig:
    """The diffusion transformer estimator of CosyVoice 3; `chunk` in mel frames."""

    dim: int
    depth: int
    num_heads: int
    head_dim: int
    feedforward_mult: int
    chunk: int
    num_mels: int = NUM_MELS


@dataclass(frozen=True, slots=True)
class CosyVoice1FlowConfig:
    """CosyVoice 1: conformer encoder, length regulator, two-level U-Net."""

    vocab_size: int
    encoder: ConformerConfig
    estimator: UNetConfig
    cfm: CFMConfig
    token_rate_hz: int = COSYVOICE1_TOKEN_RATE_HZ
    regulator_channels: int = NUM_MELS
    num_regulator_layers: int = 4
    speaker_embedding_size: int = SPEAKER_EMBEDDING_SIZE


@dataclass(frozen=True, slots=True)
class UNetFlowConfig:
    """CosyVoice 2: upsampling conformer encoder with lookahead, causal U-Net."""

    vocab_size: int
    encoder: ConformerConfig
    estimator: UNetConfig
    cfm: CFMConfig
    lookahead_tokens: int = 3
    num_up_layers: int = 4
    speaker_embedding_size: int = SPEAKER_EMBEDDING_SIZE


@dataclass(frozen=True, slots=True)
class DiTFlowConfig:
    """CosyVoice 3: token embedding with lookahead, DiT."""

    vocab_size: int
    lookahead_channels: int
    estimator: DiTConfig
    cfm: CFMConfig
    lookahead_tokens: int = 3
    speaker_embedding_size: int = SPEAKER_EMBEDDING_SIZE


FlowConfig = CosyVoice1FlowConfig | UNetFlowConfig | DiTFlowConfig


@dataclass(frozen=True, slots=True)
class HiFTConfig:
    """The vocoder: F0 predictor, harmonic source, generator with an inverse STFT at its end."""

    sample_rate_hz: int
    base_channels: int
    upsample_rates: tuple[int, ...]
    upsample_kernel_sizes: tuple[int, ...]
    resblock_kernel_sizes: tuple[int, ...]
    resblock_dilation_sizes: tuple[tuple[int, ...], ...]
    source_resblock_kernel_sizes: tuple[int, ...]
    source_resblock_dilation_sizes: tuple[tuple[int, ...], ...]
    f0_channels: int
    is_causal: bool
    lookahead_frames: int = 0  # of the generator's first convolution
    num_mels: int = NUM_MELS
    num_harmonics: int = 8  # overtones beside the fundamental
    sine_amplitude: float = 0.1
    noise_amplitude: float = 0.003
    voiced_threshold_hz: float = 10.0
    istft_n_fft: int = 16
    istft_hop_samples: int = 4
    leaky_relu_slope: float = 0.1
    audio_limit: float = 0.99

    @property
    def samples_per_frame(self) -> int:
        samples = self.istft_hop_samples
        for rate in self.upsample_rates:
            samples *= rate
        return samples


@dataclass(frozen=True, slots=True)
class HarmonicVocosConfig:
    """The vocoder that filters harmonics and noise frame by frame: `models/harmonic_vocos`.

    Its frames, `hop_samples` apart, are others than the mel's.
    """

    sample_rate_hz: int
    channels: int
    hidden_channels: int  # of a block
    num_layers: int
    f0_channels: int
    f0_layers: int
    lookahead_frames: int  # frames of the spectrum
    n_fft: int
    hop_samples: int
    audio_limit: float = 0.99
    num_mels: int = NUM_MELS

    @property
    def samples_per_frame(self) -> int:
        """Samples of a mel frame."""
        return self.sample_rate_hz // FRAME_RATE_HZ

    @property
    def num_bins(self) -> int:
        return self.n_fft // 2 + 1

    @property
    def edge_frames(self) -> int:
        """Frames within half a window."""
        return self.n_fft // 2 // self.hop_samples

    @property
    def f0_lookahead_frames(self) -> int:
        """F0 is known half a window of pulses before the spectrum that it drives."""
        return self.lookahead_frames - self.edge_frames

    @property
    def frame_period(self) -> int:
        """Frames after which they lie between mel frames as before."""
        return self.samples_per_frame // math.gcd(self.samples_per_frame, self.hop_samples)

    def num_frames(self, num_mel_frames: int) -> int:
        """Frames whose hops cover so many mel frames."""
        return -(-num_mel_frames * self.samples_per_frame // self.hop_samples)

    def known_frames(self, num_mel_frames: int) -> int:
        """Frames that lie between mel frames that are known, of so many from the start."""
        middle = num_mel_frames * self.samples_per_frame - self.samples_per_frame // 2
        return -(-middle // self.hop_samples)

    def first_mel(self, frame: int) -> int:
        """The mel frame at whose middle a frame lies, or behind it."""
        return max(0, (frame * self.hop_samples - self.samples_per_frame // 2) // self.samples_per_frame)


VocoderConfig = HiFTConfig | HarmonicVocosConfig


@dataclass(frozen=True, slots=True)
class MelConfig:
    """The prompt mel of a checkpoint; `fmax_hz` None means half the sample rate."""

    sample_rate_hz: int
    n_fft: int
    hop_samples: int
    win_samples: int
    num_mels: int = NUM_MELS
    fmin_hz: float = 0.0
    fmax_hz: float | None = 8000.0

    @property
    def highest_hz(self) -> float:
        return self.sample_rate_hz / 2 if self.fmax_hz is None else self.fmax_hz


@dataclass(frozen=True, slots=True)
class ModelConfig:
    family: Family
    sample_rate_hz: int
    token_rate_hz: int
    lm: LMConfig
    flow: FlowConfig
    vocoder: VocoderConfig
    mel: MelConfig

    @property
    def hift(self) -> HiFTConfig:
        """Of a checkpoint whose vocoder is HiFT. Raises CheckpointError for another."""
        if not isinstance(self.vocoder, HiFTConfig):
            raise CheckpointError(
                "the vocoder is Harmonic Vocos; expected HiFT, as published checkpoints have it"
            )
        return self.vocoder

    @property
    def frame_rate_hz(self) -> float:
        """Of the mel: 50, and 86.1 for CosyVoice 1."""
        return self.mel.sample_rate_hz / self.mel.hop_samples

    def with_solver_steps(self, num_steps: int) -> "ModelConfig":
        """The same, but for the steps in which the flow is solved."""
        return replace(self, flow=replace(self.flow, cfm=replace(self.flow.cfm, num_steps=num_steps)))
