"""Stage 3: learns the speech tokens, then writes those of the whole corpus."""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from firstword.models.config import FRAMES_PER_TOKEN
from training import ragged, trainer
from training.crops import Crops
from training.features import WHISPER_FRAMES_PER_TOKEN, read_features
from training.flite import PHONES, SPEAKERS
from training.networks.speech_tokenizer import NUM_CODES, TokenizerTrainer
from training.settings import Settings

STAGE = "speech_tokenizer"
_GAIN = 0.25  # louder or softer by up to this, in the units of whisper's log-mel (10 dB)
_PHONE_WEIGHT = 0.5
_BATCH = 64  # of equally long utterances, when the corpus is tokenised


def run(settings: Settings) -> None:
    """Writes <folder>/tokens.npz."""
    if (settings.path / "tokens.npz").exists():
        return
    plan = settings.speech_tokenizer
    dice = trainer.seeded(settings, STAGE)
    utterances = read_features(settings, whisper=True, max_shards=plan.shards)
    model = build(settings)
    sample = np.concatenate([one.mel for one in utterances[::40]]).astype(np.float32)
    model.mel_mean.copy_(torch.from_numpy(sample.mean(0)))
    model.mel_std.copy_(torch.from_numpy(sample.std(0)))
    columns = [(one.speaker, (one.heard, one.mel, one.phones)) for one in utterances]
    crops = Crops(columns, (WHISPER_FRAMES_PER_TOKEN, FRAMES_PER_TOKEN, FRAMES_PER_TOKEN))

    def losses_of(_: float) -> trainer.Losses:
        gain = (torch.rand(plan.train.batch, 1, 1, generator=dice.torch) * 2 - 1) * _GAIN
        drawn = (*_draw(crops, plan.train.batch, plan.crop_tokens, dice.numpy), gain)
        whisper, mel, phones, speakers, gain = trainer.on_device(drawn)
        target = (mel - model.mel_mean) / model.mel_std
        guess, logits = model(whisper.mT + gain, speakers)
        near, far = (guess - target).abs().mean(), (guess - target).square().mean()
        phone = F.cross_entropy(logits.flatten(0, 1), phones.flatten())
        right = (logits.argmax(-1) == phones).float().mean()
        return {"loss": near + 0.5 * far + _PHONE_WEIGHT * phone, "l1": near, "phone": phone, "right": right}

    trainer.train(settings, STAGE, plan.train, model, dice, losses_of)
    write_tokens(settings, model)


def build(settings: Settings) -> TokenizerTrainer:
    plan = settings.speech_tokenizer
    return TokenizerTrainer(plan.frame_width, plan.token_width, len(SPEAKERS), len(PHONES))


@torch.inference_mode()
def write_tokens(settings: Settings, model: TokenizerTrainer) -> None:
    utterances = read_features(settings, whisper=True)
    tokens: list[NDArray[np.int16]] = [np.zeros(0, np.int16)] * len(utterances)
    by_length: dict[int, list[int]] = {}
    for i, one in enumerate(utterances):
        by_length.setdefault(one.num_tokens, []).append(i)
    for places in by_length.values():
        for start in range(0, len(places), _BATCH):
            chosen = places[start : start + _BATCH]
            whisper = np.stack([utterances[i].heard for i in chosen])
            for i, ids in zip(chosen, model.encoder(torch.from_numpy(whisper).float().mT), strict=True):
                tokens[i] = ids.numpy().astype(np.int16)
    save_tokens(settings, tokens)


def save_tokens(settings: Settings, tokens: list[NDArray[np.int16]]) -> None:
    """Of every utterance, in the corpus' order; and a line of what they are like."""
    counts = np.bincount(np.concatenate(tokens), minlength=NUM_CODES)
    share = counts[counts > 0] / counts.sum()
    line = f"{(counts > 0).sum()} of {NUM_CODES} codes used, {-(share * np.log2(share)).sum():.2f} bits\n"
    (settings.path / "tokens.txt").write_text(line)
    ragged.save(settings.path / "tokens.npz", {"tokens": tokens})


def read_tokens(settings: Settings) -> list[NDArray[np.int16]]:
    """The speech tokens of every utterance, in the corpus' order."""
    path = settings.path / "tokens.npz"
    with np.load(path) as data:
        if "at" in data:  # a folder of before: a training that has begun must be able to go on
            return np.split(data["tokens"], data["at"][:-1])
    return [row["tokens"] for row in ragged.load(path)]


def _draw(crops: Crops, number: int, num_tokens: int, rng: np.random.Generator) -> tuple[torch.Tensor, ...]:
    """-> whisper (B, 4 T, 128), mel (B, 2 T, 80), phones (B, 2 T), speakers (B,)."""
    rows = [(*pieces, SPEAKERS.index(speaker)) for speaker, pieces in crops.draw(number, num_tokens, rng)]
    whisper, mel, phones, speakers = (
        torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True)
    )
    return whisper.float(), mel.float(), phones.long(), speakers
