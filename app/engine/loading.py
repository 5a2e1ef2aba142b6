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
from models.flow.unet import CausalUNet
from models.frontend.speaker import Speaker
from models.fused.parts import fused_estimator, fused_front, fused_generator, fused_lm
from models.lm.interface import SpeechLM
from models.regulated_token2wav import RegulatedToken2Wav
from models.token2wav import DEFAULT_FIRST_HOP_TOKENS, DEFAULT_WINDOW_S, Token2Wav

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "float32", "bfloat16", "int8"]

PUBLISHED_LANGUAGES = ("zh", "en", "ja", "yue", "ko")  # the tags of CosyVoice 1's texts, which all can speak


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    device: Build
    num_threads: int  # of one network's arithmetic
    checkpoint: Checkpoint
    backend: Backend
    lm: SpeechLM | None  # None: it runs elsewhere
    token2wav: StreamingToken2Wav
    prepare: Callable[[Speaker], Prompt]
    prompting: Prompting

    def device_memory_bytes(self) -> int:
        """What torch holds of the GPU; 0 on a CPU."""
        return torch.cuda.memory_allocated() if torch.cuda.is_available() else 0


def load_networks(
    directory: Path,
    device: Device = "auto",
    precision: Precision = "auto",
    window_s: float | None = DEFAULT_WINDOW_S,
    max_state_bytes: int | None = None,
    first_hop_tokens: int = DEFAULT_FIRST_HOP_TOKENS,
    backend: BackendChoice = "torch",
) -> Networks:
    """The three before the last as `Token2Wav` takes them; CosyVoice 1 has none of them.

    On a CPU the networks run as graphs, where there are any, with as many threads as torch has been given.

    Raises CheckpointError, BackendError, and ValueError for a device that is not there or has no such
    precision.
    """
    place, is_int8_asked = found_device(device), precision == "int8"
    precision = found_precision(precision, place)
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    is_fused, has_int8 = place == "cpu" and dtype == torch.float32, precision == "int8"
    num_threads = torch.get_num_threads()
    checkpoint = open_checkpoint(directory)
    chosen = choose_backend(backend, place, checkpoint.config.family)
    flow, hift = checkpoint.load_flow(dtype, place), checkpoint.load_hift(dtype, place)
    generate = fused_generator(hift, num_threads) if is_fused else None
    token2wav: StreamingToken2Wav
    prepare: Callable[[Speaker], Prompt]
    if isinstance(flow, RegulatedFlow):
        token2wav = regulated = RegulatedToken2Wav(flow, hift, generate=generate)
        prepare = regulated.prepare
    else:
        # Unasked, only the networks are in 8 bits that were compared with trained weights.
        is_int8_flow = is_int8_asked or (has_int8 and isinstance(flow.estimator, CausalUNet))
        estimator = fused_estimator(flow, is_int8_flow, num_threads) if is_fused else None
        front = fused_front(flow, num_threads) if is_fused else None
        token2wav = incremental = Token2Wav(
            flow, hift, window_s, max_state_bytes, estimator=estimator, generate=generate, front=front
        )
        prepare = partial(incremental.prepare, first_hop_tokens=first_hop_tokens)
    prompting = Prompting(checkpoint.config, checkpoint.load_tokenizer())
    lm: SpeechLM | None = None
    if chosen.name == "torch":
        loaded = checkpoint.load_lm(dtype, place)
        lm = fused_lm(loaded, has_int8, num_threads) if is_fused else loaded
    return Networks(place, num_threads, checkpoint, chosen, lm, token2wav, prepare, prompting)


def found_device(device: Device) -> Build:
    """Raises ValueError where CUDA is asked for and there is none."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "device cuda was asked for, but torch finds none; use cpu or auto, or mend the driver"
        )
    return device


def found_precision(precision: Precision, device: str) -> Precision:
    """Raises ValueError where the device cannot have it."""
    if precision == "auto":
        return "int8" if device == "cpu" else "float32"
    if precision == "int8" and device != "cpu":
        raise ValueError(
            f"precision int8 was asked for on {device}; it is for the CPU: use bfloat16 or float32"
        )
    return precision
