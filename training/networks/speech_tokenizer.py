"""The speech tokenizer: whisper's log-mel to finite scalar quantisation codes, and back to mel to learn from.

Codes are eight digits of three values each (FSQ, arXiv 2309.15505; CosyVoice 2, arXiv 2412.10117, section
2.2). What the codes must tell is what the decoder cannot know: it is given the speaker.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import FRAMES_PER_TOKEN, NUM_MELS
from firstword.models.frontend.features import WHISPER_NUM_MELS

NUM_DIGITS, NUM_LEVELS = 8, 3
NUM_CODES = NUM_LEVELS**NUM_DIGITS  # 6561
POWERS = NUM_LEVELS ** torch.arange(NUM_DIGITS)  # (8,), what a digit counts in a code
_KERNEL = 5


def digits_of_codes() -> Tensor:
    """-> (codes, 24), one-hot: which of its three values each of a code's eight digits has."""
    digits = torch.arange(NUM_CODES)[:, None] // POWERS % NUM_LEVELS
    return F.one_hot(digits, NUM_LEVELS).flatten(1).float()


class ResidualConv(nn.Module):
    """Layer norm, convolution, GELU, mixing of channels, added to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.conv = nn.Conv1d(width, width, _KERNEL, padding=_KERNEL // 2)
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) -> (B, C, T)."""
        return x + self.mix(F.gelu(self.conv(self.norm(x.mT).mT)))


class TokenEncoder(nn.Module):
    """What becomes `speech_tokenizer_v2.onnx`."""

    powers: Tensor  # (8,)

    def __init__(self, frame_width: int, token_width: int) -> None:
        super().__init__()
        self.input = nn.Conv1d(WHISPER_NUM_MELS, frame_width, _KERNEL, stride=2, padding=_KERNEL // 2)
        self.frame_layers = nn.Sequential(*(ResidualConv(frame_width) for _ in range(3)))
        self.down = nn.Conv1d(frame_width, token_width, 2, stride=2)
        self.token_layers = nn.Sequential(*(ResidualConv(token_width) for _ in range(4)))
        self.norm = nn.LayerNorm(token_width)
        self.digits = nn.Linear(token_width, NUM_DIGITS)
        self.register_buffer("powers", POWERS, persistent=False)

    def digits_of(self, log_mel: Tensor) -> Tensor:
        """log_mel (B, 128, 4 T) -> (B, T, 8) within ±1, not yet rounded."""
        x = self.frame_layers(self.input(log_mel))
        x = self.token_layers(self.down(x))
        return torch.tanh(self.digits(self.norm(x.mT)).float())

    def forward(self, log_mel: Tensor) -> Tensor:
        """log_mel (B, 128, 4 T) -> speech tokens (B, T), int64."""
        return self.codes_of(self.digits_of(log_mel))

    def codes_of(self, digits: Tensor) -> Tensor:
        """digits (B, T, 8) within ±1 -> speech tokens (B, T), int64."""
        return ((digits.round() + 1).long() * self.powers).sum(-1)


class MelDecoder(nn.Module):
    """Codes and a known speaker back to mel and to phones; thrown away after the training."""

    def __init__(self, frame_width: int, token_width: int, num_speakers: int, num_phones: int) -> None:
        super().__init__()
        self.input = nn.Linear(NUM_DIGITS, token_width)
        self.speaker = nn.Embedding(num_speakers, token_width)
        self.token_layers = nn.Sequential(*(ResidualConv(token_width) for _ in range(3)))
        self.phones = nn.Linear(token_width, FRAMES_PER_TOKEN * num_phones)
        self.up = nn.Linear(token_width, FRAMES_PER_TOKEN * frame_width)
        self.frame_layers = nn.Sequential(*(ResidualConv(frame_width) for _ in range(3)))
        self.output = nn.Conv1d(frame_width, NUM_MELS, _KERNEL, padding=_KERNEL // 2)
        self._content = nn.Sequential(*(ResidualConv(token_width) for _ in range(1)))

    def forward(self, digits: Tensor, speakers: Tensor) -> tuple[Tensor, Tensor]:
        """digits (B, T, 8), speakers (B,) -> normalised mel (B, 2 T, 80), phone logits (B, 2 T, phones)."""
        x = self.input(digits)  # (B, T, C)
        phones = self.phones(self._content(x.mT).mT).unflatten(-1, (FRAMES_PER_TOKEN, -1)).flatten(1, 2)
        x = self.token_layers((x + self.speaker(speakers)[:, None]).mT).mT
        x = self.up(x).unflatten(-1, (FRAMES_PER_TOKEN, -1)).flatten(1, 2)  # (B, 2 T, C)
        return self.output(self.frame_layers(x.mT)).mT.float(), phones.float()


class PhoneRecogniser(nn.Module):
    """Mel to phones; learned on what teachers say, it then hears what other networks make."""

    mel_mean: Tensor  # (80,)
    mel_std: Tensor  # (80,)

    def __init__(self, width: int, num_phones: int) -> None:
        super().__init__()
        self.input = nn.Conv1d(NUM_MELS, width, _KERNEL, padding=_KERNEL // 2)
        self.layers = nn.ModuleList(ResidualConv(width) for _ in range(4))
        self.output = nn.Conv1d(width, num_phones, 1)
        self.register_buffer("mel_mean", torch.zeros(NUM_MELS))
        self.register_buffer("mel_std", torch.ones(NUM_MELS))

    def forward(self, mel: Tensor) -> tuple[Tensor, list[Tensor]]:
        """mel (B, F, 80), natural log -> phone logits (B, F, phones), each layer's output (B, C, F)."""
        x = self.input(((mel - self.mel_mean) / self.mel_std).mT)
        heard = []
        for layer in self.layers:
            x = layer(x)
            heard.append(x)
        return self.output(x).mT.float(), heard


class TokenizerTrainer(nn.Module):
    """Encoder, rounding that passes gradients on, decoder; and the mel's statistics."""

    mel_mean: Tensor  # (80,)
    mel_std: Tensor  # (80,)

    def __init__(self, frame_width: int, token_width: int, num_speakers: int, num_phones: int) -> None:
        super().__init__()
        self.encoder = TokenEncoder(frame_width, token_width)
        self.decoder = MelDecoder(frame_width, token_width, num_speakers, num_phones)
        self.register_buffer("mel_mean", torch.zeros(NUM_MELS))
        self.register_buffer("mel_std", torch.ones(NUM_MELS))

    def forward(self, log_mel: Tensor, speakers: Tensor) -> tuple[Tensor, Tensor]:
        """log_mel (B, 128, 4 T), speakers (B,) -> as MelDecoder."""
        digits = self.encoder.digits_of(log_mel)
        return self.decoder(digits + (digits.round() - digits).detach(), speakers)
