"""What hibari says at the same moments as its shifted voices: the same words in other speech tokens.

The language model speaks much like hibari, so the flow shall make a shifted voice of hibari's tokens, and not
only of those that are read off the shifted voice itself: two in five of them are the same.
"""

from collections.abc import Collection
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from firstword.models.frontend.features import WhisperMelExtractor
from training import corpus, ragged, speech_tokenizer, trainer
from training.features import read_shard, shard_names, voice_of
from training.settings import Settings
from training.teachers import open_teacher

_OF_SHIFTED = "shifted "  # how the teachers begin whose speech has hibari's times


def read_parallel_tokens(settings: Settings, speakers: Collection[str]) -> list[NDArray[np.int16] | None]:
    """Hibari's tokens of what the shifted ones of these speakers say, as long as the utterance's own, in the
    order of `read_features`; None for all others. Those that are missing are written to <folder>/tokens
    first, with the tokenizer of the stage speech_tokenizer."""
    tokens: list[NDArray[np.int16] | None] = []
    for shard in shard_names(settings):
        speaker = voice_of(shard)
        if speaker not in speakers or not settings.teacher_of(speaker).startswith(_OF_SHIFTED):
            tokens += [None] * len(read_shard(settings, shard))
            continue
        path = settings.path / "tokens" / f"{shard}.parallel.npz"
        if not path.exists():
            _write(settings, shard, path)
        tokens += [row["tokens"] for row in ragged.load(path)]
    return tokens


@torch.inference_mode()
def _write(settings: Settings, shard: str, path: Path) -> None:
    teacher, whisper_of = open_teacher("hibari"), WhisperMelExtractor()
    tokenizer = speech_tokenizer.build(settings)
    trainer.load_average(settings, speech_tokenizer.STAGE, tokenizer)
    tokens = []
    for one in read_shard(settings, shard):
        spoken = corpus.trim(teacher.speak(one.text))
        heard = whisper_of(torch.from_numpy(corpus.heard(spoken)))
        tokens.append(tokenizer.encoder(heard[None])[0].numpy().astype(np.int16))
        assert len(tokens[-1]) == one.num_tokens, f"{shard}: {one.text!r} has other times than hibari's"
    ragged.save(path, {"tokens": tokens})
