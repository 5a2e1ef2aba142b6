"""Writes `spk2info.pt` with a speaker of each published kind."""

from pathlib import Path

import torch

from firstword.models.config import (
    COSYVOICE1_FRAME_RATE_HZ,
    COSYVOICE1_TOKEN_RATE_HZ,
    FRAMES_PER_TOKEN,
    NUM_MELS,
    SPEAKER_EMBEDDING_SIZE,
    TOKEN_RATE_HZ,
    Family,
)
from firstword.models.frontend.speaker import SpeakerFeatures, write_speaker_table
from firstword.models.tokenizer import load_text_tokenizer

EMBEDDING_SPEAKER = "random-embedding"
PROMPT_SPEAKER = "random-prompt"

PROMPT_S = 3
PROMPT_TEXT = "hello world, this is my voice."
SYSTEM_TEXT = "You are a helpful assistant.<|endofprompt|>"  # in front of every prompt text of CosyVoice 3


def write_speakers(path: Path, family: Family, vocab_size: int, seed: int) -> None:
    """Needs the tokenizer's files beside it."""
    generator = torch.Generator().manual_seed(seed)
    text = SYSTEM_TEXT + PROMPT_TEXT if family == "cosyvoice3" else PROMPT_TEXT
    text_ids = load_text_tokenizer(family, path.parent).encode(text)
    num_tokens, num_frames = _prompt_lengths(family)
    tokens = torch.randint(0, vocab_size, (num_tokens,), generator=generator, dtype=torch.int32)
    mel = torch.randn(num_frames, NUM_MELS, generator=generator) * 2 - 6  # like natural log-mel
    embedding = torch.randn(SPEAKER_EMBEDDING_SIZE, generator=generator)
    prompted = SpeakerFeatures("", tokens, mel, embedding, tuple(text_ids))
    alone = SpeakerFeatures.without_prompt(torch.randn(SPEAKER_EMBEDDING_SIZE, generator=generator))
    write_speaker_table(path, {EMBEDDING_SPEAKER: alone, PROMPT_SPEAKER: prompted})


def _prompt_lengths(family: Family) -> tuple[int, int]:
    """-> speech tokens, mel frames."""
    if family == "cosyvoice1":
        return PROMPT_S * COSYVOICE1_TOKEN_RATE_HZ, int(PROMPT_S * COSYVOICE1_FRAME_RATE_HZ)
    num_tokens = PROMPT_S * TOKEN_RATE_HZ
    return num_tokens, num_tokens * FRAMES_PER_TOKEN
