"""The speaker encoder: kaldi's filterbank to one vector a recording, alike for one voice."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import SPEAKER_EMBEDDING_SIZE
from firstword.models.frontend.features import NUM_FBANK_BINS

_DILATIONS = (1, 2, 3)
_SCALE, _MARGIN = 20.0, 0.2


class SpeakerNet(nn.Module):
    """What becomes `campplus.onnx`: dilated convolutions, mean and deviation over time, a linear layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.input = nn.Conv1d(NUM_FBANK_BINS, width, 5, padding=2)
        self.convs = nn.ModuleList(nn.Conv1d(width, width, 3, padding=d, dilation=d) for d in _DILATIONS)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in _DILATIONS)
        self.wide = nn.Conv1d(width, 2 * width, 1)
        self.output = nn.Linear(4 * width, SPEAKER_EMBEDDING_SIZE)

    def forward(self, fbank: Tensor) -> Tensor:
        """fbank (B, T, 80) without its mean -> (B, 192), not normalised."""
        x = self.input(fbank.mT * 0.3)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + F.relu(conv(norm(x.mT).mT))
        x = F.relu(self.wide(x))
        mean = x.mean(-1)
        deviation = ((x - mean[..., None]).square().mean(-1) + 1e-5).sqrt()
        return self.output(torch.cat([mean, deviation], dim=1))


class SpeakerTrainer(nn.Module):
    """The encoder and the voices it must tell apart (additive margin softmax, arXiv 1801.05599)."""

    def __init__(self, width: int, num_voices: int) -> None:
        super().__init__()
        self.encoder = SpeakerNet(width)
        self.voices = nn.Parameter(torch.randn(num_voices, SPEAKER_EMBEDDING_SIZE))

    def forward(self, fbank: Tensor, voices: Tensor) -> tuple[Tensor, Tensor]:
        """fbank (B, T, 80), voices (B,) -> loss, share that is right."""
        embedding = F.normalize(self.encoder(fbank).float(), dim=1)
        cosine = embedding @ F.normalize(self.voices, dim=1).T  # (B, voices)
        right = (cosine.argmax(1) == voices).float().mean()
        margin = F.one_hot(voices, cosine.shape[1]) * _MARGIN
        return F.cross_entropy(_SCALE * (cosine - margin), voices), right
