"""Stage: learns the speech tokens, then writes those of the whole corpus.

A recogniser of phones hears the decoder's mel in the training.
"""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from firstword.models.config import FRAMES_PER_TOKEN
from training import ragged, trainer
from training.crops import Crops
from training.features import (
    WHISPER_FRAMES_PER_TOKEN,
    mel_statistics,
    read_features,
    read_shard,
    shard_names,
)
from training.networks.speech_tokenizer import NUM_CODES, TokenizerTrainer
from training.phone_recogniser import trained_recogniser, unlike
from training.settings import Settings
from training.teachers.spoken import PHONES

STAGE = "speech_tokenizer"
_GAIN = 0.25  # louder or softer by up to this, in the units of whisper's log-mel (10 dB)
_PHONE_WEIGHT, _CLEAR_WEIGHT, _MATCHED_WEIGHT = 1.0, 0.5, 0.5


def run(settings: Settings) -> None:
    """Writes <folder>/speech_tokenizer.pt, and <folder>/tokens/<shard>.npz for shards that have none."""
    plan = settings.speech_tokenizer
    dice = trainer.seeded(settings, STAGE)
    model = build(settings)
    if trainer.is_trained(settings, STAGE, plan.train):
        trainer.load_average(settings, STAGE, model)
    else:
        _train(settings, model, dice)
    with torch.inference_mode():
        write_tokens(settings, lambda log_mel: model.encoder(log_mel[None])[0])


def _train(settings: Settings, model: TokenizerTrainer, dice: trainer.Dice) -> None:
    plan = settings.speech_tokenizer
    whole = read_features(settings, whisper=True, of_each=plan.shards)
    utterances = [one for one in whole if one.tells_sounds]
    mean, std = trainer.on_device(mel_statistics(utterances))
    model.mel_mean.copy_(mean)
    model.mel_std.copy_(std)
    spoken = [(one.speaker, (one.heard, one.mel, one.phones)) for one in utterances]
    crops = Crops(spoken, (WHISPER_FRAMES_PER_TOKEN, FRAMES_PER_TOKEN, FRAMES_PER_TOKEN))
    recogniser = trained_recogniser(settings)

    def losses_of(_: float) -> trainer.Losses:
        names, (heard, mel, phones) = crops.batch(plan.train.batch, plan.crop_tokens, dice.numpy)
        speakers = torch.tensor([settings.names.index(name) for name in names])
        columns = (louder_or_softer(heard.float(), dice), mel.float(), phones.long(), speakers)
        heard, mel, phones, speakers = trainer.on_device(columns)
        guess, logits = model(heard.mT, speakers)
        target = (mel - mean) / std
        near, far = (guess - target).abs().mean(), (guess - target).square().mean()
        phone = F.cross_entropy(logits.flatten(0, 1), phones.flatten())
        right = (logits.argmax(-1) == phones).float().mean()
        clear, matched = (one.mean() for one in unlike(recogniser, guess * std + mean, mel, phones))
        loss = near + 0.5 * far + _PHONE_WEIGHT * phone + _CLEAR_WEIGHT * clear + _MATCHED_WEIGHT * matched
        return {"loss": loss, "l1": near, "phone": phone, "right": right, "clear": clear, "matched": matched}

    trainer.train(settings, plan.train, model, dice, losses_of)


def louder_or_softer(log_mel: torch.Tensor, dice: trainer.Dice) -> torch.Tensor:
    """Whisper's log-mel (B, T, 128), each row at another level."""
    return log_mel + (torch.rand(len(log_mel), 1, 1, generator=dice.torch) * 2 - 1) * _GAIN


def build(settings: Settings) -> TokenizerTrainer:
    plan = settings.speech_tokenizer
    return TokenizerTrainer(plan.frame_width, plan.token_width, len(settings.names), len(PHONES))


def write_tokens(settings: Settings, encode: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """For shards that have none, and a line in <folder>/tokens.txt of what the tokens of all are like.

    encode: log-mel (128, 4 T) -> (T,).
    """
    folder = settings.path / "tokens"
    folder.mkdir(exist_ok=True)
    for shard in shard_names(settings):
        path = folder / f"{shard}.npz"
        if path.exists():
            continue
        heard = (torch.from_numpy(one.heard.T).float() for one in read_shard(settings, shard, whisper=True))
        tokens = [encode(log_mel).numpy().astype(np.int16) for log_mel in heard]
        ragged.save(path, {"tokens": tokens})
    counts = np.bincount(np.concatenate(read_tokens(settings)), minlength=NUM_CODES)
    share = counts[counts > 0] / counts.sum()
    line = f"{(counts > 0).sum()} of {NUM_CODES} codes used, {-(share * np.log2(share)).sum():.2f} bits\n"
    (settings.path / "tokens.txt").write_text(line)


def read_tokens(settings: Settings) -> list[NDArray[np.int16]]:
    """The speech tokens of every utterance, in the order of its features.

    Raises FileNotFoundError for shards that have features and no tokens yet.
    """
    folder = settings.path / "tokens"
    return [row["tokens"] for shard in shard_names(settings) for row in ragged.load(folder / f"{shard}.npz")]
