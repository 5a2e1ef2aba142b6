"""A checkpoint's networks, loaded and joined as the engine runs them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from app.engine.backend import Backend, BackendChoice, Build, choose_backend
from app.engine.token2wav_pool import StreamingToken2Wav
from app.engine.tokens.prompting import Prompting
from app.speakers.enrolment import Prompt
from models.checkpoint import Checkpoint, open_checkpoint
from models.flow.regulated_flow import RegulatedFlow
from models.frontend.speaker import Speaker
from models.lm.qwen2_lm import Qwen2LM
from models.lm.transformer_lm import TransformerLM
from models.regulated_token2wav import RegulatedToken2Wav
from models.token2wav import DEFAULT_FIRST_HOP_TOKENS, DEFAULT_WINDOW_S, Token2Wav

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "bfloat16"]

PUBLISHED_LANGUAGES = ("zh", "en", "ja", "yue", "ko")  # the tags of CosyVoice 1's texts, which all can speak


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    checkpoint: Checkpoint
    backend: Backend
    lm: Qwen2LM | TransformerLM | None  # None: it runs elsewhere
    token2wav: StreamingToken2Wav
    prepare: Callable[[Speaker], Prompt]
    prompting: Prompting

    def device_memory_bytes(self) -> int:
        """What torch holds of the GPU; 0 on a CPU."""
        return torch.cuda.memory_allocated() if torch.cuda.is_available() else 0


def load_networks(
    directory: Path,
    device: Device = "auto",
    precision: Precision = "float32",
    window_s: float | None = DEFAULT_WINDOW_S,
    max_state_bytes: int | None = None,
    first_hop_tokens: int = DEFAULT_FIRST_HOP_TOKENS,
    backend: BackendChoice = "torch",
) -> Networks:
    """The three before the last as `Token2Wav` takes them; CosyVoice 1 has none of them.

    Raises CheckpointError, BackendError, and ValueError for a device that is not there.
    """
    place, dtype = found_device(device), getattr(torch, precision)
    checkpoint = open_checkpoint(directory)
    chosen = choose_backend(backend, place, checkpoint.config.family)
    flow, hift = checkpoint.load_flow(dtype, place), checkpoint.load_hift(dtype, place)
    token2wav: StreamingToken2Wav
    prepare: Callable[[Speaker], Prompt]
    if isinstance(flow, RegulatedFlow):
        token2wav = regulated = RegulatedToken2Wav(flow, hift)
        prepare = regulated.prepare
    else:
        token2wav = incremental = Token2Wav(flow, hift, window_s, max_state_bytes)
        prepare = partial(incremental.prepare, first_hop_tokens=first_hop_tokens)
    prompting = Prompting(checkpoint.config, checkpoint.load_tokenizer())
    lm = checkpoint.load_lm(dtype, place) if chosen.name == "torch" else None
    return Networks(checkpoint, chosen, lm, token2wav, prepare, prompting)


def found_device(device: Device) -> Build:
    """Raises ValueError where CUDA is asked for and there is none."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "device cuda was asked for, but torch finds none; use cpu or auto, or mend the driver"
        )
    return device
