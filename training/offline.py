"""Flow and vocoder by themselves, in one piece, by torch: what the streams of a voice are compared with.

No language model and no chunks: those are the service's, which `firstword.Synthesizer` runs.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from firstword.models.checkpoint.open import Checkpoint
from firstword.models.config import FRAMES_PER_TOKEN
from firstword.models.flow.flow import Flow
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.harmonic_vocos.network import HarmonicVocos
from firstword.models.harmonic_vocos.streaming import HarmonicVocoder
from firstword.models.hift.hift import HiFT
from firstword.models.hift.streaming import vocode_whole
from training.teachers.spoken import Samples


class OfflineToken2Wav:
    """The flow and the vocoder of a checkpoint, copies of those that a synthesizer runs."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        flow = checkpoint.load_flow()
        assert isinstance(flow, Flow), checkpoint.config.family
        self._flow = flow
        self.vocoder = checkpoint.load_vocoder()

    @torch.inference_mode()
    def solve(self, tokens: Sequence[int], speaker: SpeakerFeatures, seed: int = 0) -> Samples:
        """Speech tokens -> (960 per token,)."""
        mel = self._flow(
            torch.tensor([list(tokens)]),
            speaker.prompt_tokens[None],
            speaker.prompt_mel[None],
            speaker.embedding[None],
        )
        assert mel.shape[-1] == FRAMES_PER_TOKEN * len(tokens), mel.shape
        return vocode(self.vocoder, mel, seed)


@torch.inference_mode()
def vocode(network: HiFT | HarmonicVocos, mel: Tensor, seed: int = 0) -> Samples:
    """mel (1, 80, T) -> (480 T,)."""
    if isinstance(network, HiFT):
        return _vocoded(network, mel, seed)
    samples: Samples = vocode_whole(HarmonicVocoder(network), mel[0].T, seed).numpy()
    return samples


def _vocoded(hift: HiFT, mel: Tensor, seed: int) -> Samples:
    f0 = hift.predict_f0(mel)
    generator = torch.Generator().manual_seed(seed)
    num_samples = mel.shape[-1] * hift.config.samples_per_frame
    noise = hift.source.drawn_noise(torch.randn(1, num_samples, generator=generator))
    source, _ = hift.source(f0, noise, None, is_last=True)
    samples: Samples = hift.decode(mel, source)[0].numpy()
    return samples
