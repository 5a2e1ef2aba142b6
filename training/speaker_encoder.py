"""Stage: the speaker encoder, and the embeddings of the teachers that the flow is trained with.

The corpus has few voices, so each is also heard faster and slower, that is higher and lower: those count as
voices of their own.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np
import soxr
import torch
from numpy.typing import NDArray
from torch import Tensor

from firstword.models.config import SPEAKER_ENCODER_FILE
from firstword.models.frontend.features import FBANK_SAMPLE_RATE_HZ, kaldi_fbank, without_mean
from firstword.models.frontend.prompt_reader import SpeakerEncoder
from training import corpus, trainer
from training.networks.speaker_encoder import SpeakerTrainer
from training.progress import Progress
from training.settings import BUILTIN, Settings
from training.teachers.spoken import SAMPLE_RATE_HZ

STAGE = "speaker_encoder"
_RATES = (0.82, 0.88, 0.94, 1.0, 1.06, 1.13, 1.2)
_CROP_FRAMES = (100, 300)
_MIN_S = 1.5


def run(settings: Settings) -> None:
    """Writes <folder>/speaker_encoder.pt and <folder>/embeddings.npz."""
    plan = settings.speaker_encoder
    dice = trainer.seeded(settings, STAGE)
    model = SpeakerTrainer(plan.width, len(settings.names) * len(_RATES))
    heard = _recordings(settings)
    voices = list(product(settings.names, _RATES))
    features = [[_fbank(samples, rate) for samples in heard[speaker]] for speaker, rate in voices]

    def losses_of(_: float) -> trainer.Losses:
        frames = int(dice.numpy.integers(*_CROP_FRAMES))
        rows, labels = [], dice.numpy.integers(len(voices), size=plan.train.batch)
        for label in labels:
            mine = features[label]
            one = mine[dice.numpy.integers(len(mine))]
            start = dice.numpy.integers(max(1, len(one) - frames))
            piece = one[start:][:frames]
            rows.append(without_mean(piece.repeat(-(-frames // len(piece)), 1)[:frames]))
        noise = torch.randn(len(rows), frames, 80, generator=dice.torch) * 0.2
        loss, right = model(*trainer.on_device((torch.stack(rows) + noise, torch.from_numpy(labels))))
        return {"loss": loss, "right": right}

    trainer.train(settings, plan.train, model, dice, losses_of)
    with torch.inference_mode():
        save_embeddings(settings, lambda samples: model.encoder(without_mean(_fbank(samples, 1.0))[None])[0])


def build(settings: Settings) -> SpeakerTrainer:
    return SpeakerTrainer(settings.speaker_encoder.width, len(settings.names) * len(_RATES))


def read_encoder(settings: Settings) -> Callable[[NDArray[np.float32]], Tensor]:
    """Samples (n,) at 16 kHz -> (192,), by the averaged network, or the shipped one where there is none."""
    if not (settings.path / f"{STAGE}.pt").exists():
        shipped = SpeakerEncoder(BUILTIN / SPEAKER_ENCODER_FILE, num_threads=1)
        return lambda samples: shipped.embed(without_mean(_fbank(samples, 1.0)))
    model = build(settings)
    trainer.load_average(settings, STAGE, model)
    return lambda samples: model.encoder(without_mean(_fbank(samples, 1.0))[None])[0]


def save_embeddings(settings: Settings, embed: Callable[[NDArray[np.float32]], Tensor]) -> None:
    """embed: samples (n,) at 16 kHz -> (192,)."""
    embeddings = {
        speaker: torch.stack([embed(samples) for samples in recordings]).numpy()
        for speaker, recordings in _recordings(settings).items()
    }
    np.savez(settings.path / "embeddings.npz", **embeddings)  # type: ignore[arg-type]  # as in features


def read_embeddings(settings: Settings) -> dict[str, Tensor]:
    """(N, 192) of each voice, one a recording."""
    with np.load(settings.path / "embeddings.npz") as data:
        return {speaker: torch.from_numpy(data[speaker]) for speaker in settings.names}


def draw_embeddings(
    embeddings: Mapping[str, Tensor], speakers: Sequence[str], rng: np.random.Generator
) -> Tensor:
    """What read_embeddings gave, and a speaker a row -> (B, 192), each of one of the speaker's recordings."""
    return torch.stack([embeddings[name][rng.integers(len(embeddings[name]))] for name in speakers])


def _recordings(settings: Settings) -> dict[str, list[NDArray[np.float32]]]:
    heard: dict[str, list[NDArray[np.float32]]] = {name: [] for name in settings.names}
    wanted = settings.speaker_encoder.recordings
    with Progress(settings, "recordings", len(heard) * wanted) as progress:
        for shard in corpus.spoken_shards(settings):
            mine = heard[shard.voice.name]
            if len(mine) >= wanted:
                continue
            for _, spoken, _ in corpus.read_shard(shard.path):
                if len(spoken.samples) >= _MIN_S * SAMPLE_RATE_HZ and len(mine) < wanted:
                    mine.append(corpus.heard(spoken))
                    progress.step()
    if missing := [name for name, mine in heard.items() if not mine]:
        raise FileNotFoundError(f"the corpus has nothing of {missing}; run `python -m training corpus` first")
    return heard


def _fbank(samples: NDArray[np.float32], rate: float) -> Tensor:
    """(n,) at 16 kHz, spoken `rate` times as fast -> (T, 80) with its mean."""
    if rate != 1.0:
        samples = soxr.resample(samples, FBANK_SAMPLE_RATE_HZ * rate, FBANK_SAMPLE_RATE_HZ)
    return kaldi_fbank(torch.from_numpy(samples))
