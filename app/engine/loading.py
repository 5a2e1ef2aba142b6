"""A checkpoint's networks, loaded and joined as the engine runs them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from app.engine.token2wav_pool import StreamingToken2Wav
from app.engine.tokens.prompting import Prompting
from models.checkpoint import Checkpoint, open_checkpoint
from models.flow.regulated_flow import RegulatedFlow
from models.lm.qwen2_lm import Qwen2LM
from models.lm.transformer_lm import TransformerLM
from models.regulated_token2wav import RegulatedToken2Wav
from models.token2wav import Token2Wav

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    checkpoint: Checkpoint
    lm: Qwen2LM | TransformerLM
    token2wav: StreamingToken2Wav
    prompting: Prompting

    @property
    def takes_instruct(self) -> bool:
        """CosyVoice 1 reads a description; the others need the token that ends an instruction."""
        tokenizer = self.prompting.tokenizer
        return self.checkpoint.config.family == "cosyvoice1" or tokenizer.end_of_prompt_id is not None

    @property
    def languages(self) -> tuple[str, ...]:
        """What every published checkpoint was trained to speak: the tags of CosyVoice 1's texts."""
        return ("zh", "en", "ja", "yue", "ko")

    def device_memory_bytes(self) -> int:
        """What torch holds of the GPU; 0 on a CPU."""
        return torch.cuda.memory_allocated() if torch.cuda.is_available() else 0


def load_networks(
    directory: Path,
    device: Device = "auto",
    precision: Precision = "float32",
    window_s: float | None = None,
    max_state_bytes: int | None = None,
) -> Networks:
    """window_s and max_state_bytes as `Token2Wav` takes them.

    Raises CheckpointError, and ValueError for a device that is not there.
    """
    place, dtype = found_device(device), getattr(torch, precision)
    checkpoint = open_checkpoint(directory)
    flow, hift = checkpoint.load_flow(dtype, place), checkpoint.load_hift(dtype, place)
    token2wav: StreamingToken2Wav
    if isinstance(flow, RegulatedFlow):
        token2wav = RegulatedToken2Wav(flow, hift)
    else:
        token2wav = Token2Wav(flow, hift, window_s, max_state_bytes)
    prompting = Prompting(checkpoint.config, checkpoint.load_tokenizer())
    return Networks(checkpoint, checkpoint.load_lm(dtype, place), token2wav, prompting)


def found_device(device: Device) -> str:
    """Raises ValueError where CUDA is asked for and there is none."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "device cuda was asked for, but torch finds none; use cpu or auto, or mend the driver"
        )
    return device
