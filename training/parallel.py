"""What hibari says at the same moments as its shifted voices: the same words in other speech tokens.

The language model speaks much like hibari, so the flow shall make a shifted voice of hibari's tokens, and not
only of those that are read off the shifted voice itself: two in five of them are the same.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from firstword.models.frontend.features import WhisperMelExtractor
from training import corpus, ragged, speech_tokenizer, trainer
from training.features import Utterance, read_shard, shard_names, voice_of
from training.settings import Settings
from training.teachers import open_teacher

_OF_SHIFTED = "shifted "  # how the teachers begin whose speech has hibari's times


def read_parallel(settings: Settings, speakers: Collection[str]) -> list[tuple[Utterance, NDArray[np.int16]]]:
    """What the shifted ones of these speakers say, beside hibari's tokens, as many as the utterance's own.

    Tokens that are missing are written to <folder>/tokens first, with the tokenizer of the stage
    speech_tokenizer.
    """
    shifted = {name for name in speakers if settings.teacher_of(name).startswith(_OF_SHIFTED)}
    paths = {
        shard: settings.path / "tokens" / f"{shard}.parallel.npz"
        for shard in shard_names(settings)
        if voice_of(shard) in shifted
    }
    _write(settings, {shard: path for shard, path in paths.items() if not path.exists()})
    return [
        (one, row["tokens"])
        for shard, path in paths.items()
        for one, row in zip(read_shard(settings, shard), ragged.load(path), strict=True)
    ]


@torch.inference_mode()
def _write(settings: Settings, paths: Mapping[str, Path]) -> None:
    """paths: of each shard the file of its tokens."""
    if not paths:
        return
    teacher, whisper_of = open_teacher("hibari"), WhisperMelExtractor()
    tokenizer = speech_tokenizer.build(settings)
    trainer.load_average(settings, speech_tokenizer.STAGE, tokenizer)
    for shard, path in paths.items():
        tokens = []
        for one in read_shard(settings, shard):
            spoken = corpus.trim(teacher.speak(one.text))
            heard = whisper_of(torch.from_numpy(corpus.heard(spoken)))
            tokens.append(tokenizer.encoder(heard[None])[0].numpy().astype(np.int16))
            assert len(tokens[-1]) == one.num_tokens, f"{shard}: {one.text!r} has other times than hibari's"
        ragged.save(path, {"tokens": tokens})
