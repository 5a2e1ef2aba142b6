"""A recording becomes a speaker, a speaker its prompt states: the one file here that knows the networks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.engine.interface import AudioTooLong, AudioTooShort, BadAudio, SynthesisFailed
from app.speakers.tensor_file import Tensors
from models.checkpoint import SPEAKER_TABLE_FILE, Checkpoint
from models.config import FRAME_RATE_HZ, FRAMES_PER_TOKEN, NUM_MELS, SPEAKER_EMBEDDING_SIZE, TOKEN_RATE_HZ
from models.fingerprint import fingerprint
from models.frontend.errors import FrontendError, PromptError
from models.frontend.onnx_models import MAX_RECORDING_S
from models.frontend.recording import Recording
from models.frontend.speaker import Speaker
from models.tokenizer import TextTokenizer

MAX_PROMPT_TOKENS = (MAX_RECORDING_S + 1) * TOKEN_RATE_HZ  # a second of slack for rounding and margins
MAX_MAGNITUDE = 1000.0  # far beyond any log-mel or embedding, far from overflow in the networks

FeatureTypes = {"prompt_tokens": np.int64, "prompt_mel": np.float32, "embedding": np.float32}


class Prompt(Protocol):
    """A speaker's state in the flow, as the checkpoint's token2wav prepares and takes it."""

    @property
    def state_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True, eq=False)
class PreparedSpeaker:
    """All that a stream needs of its speaker: read-only, shared by its streams."""

    speaker: Speaker
    prompt: Prompt

    @property
    def state_bytes(self) -> int:
        features = (self.speaker.prompt_tokens, self.speaker.prompt_mel, self.speaker.embedding)
        return self.prompt.state_bytes + sum(tensor.nbytes for tensor in features)

    @property
    def transcript(self) -> str:
        return self.speaker.prompt_text

    def with_transcript(self, transcript: str) -> "PreparedSpeaker":
        """The prompt state does not depend on it."""
        return replace(self, speaker=replace(self.speaker, prompt_text=transcript))


@dataclass(frozen=True, slots=True, eq=False)
class BuiltinSpeaker:
    speaker: Speaker
    transcript: str  # "" where it has none, or none that can be told
    duration_s: float  # of its prompt
    created_at: str  # ISO 8601, UTC


class Enroller:
    """Holds the extractors and the flow, read-only; threads may share it.

    prepare: what of a speaker its streams share. num_threads: for each of the two ONNX graphs. Raises
    CheckpointError.
    """

    max_recording_s = float(MAX_RECORDING_S)

    def __init__(
        self,
        checkpoint: Checkpoint,
        tokenizer: TextTokenizer,
        prepare: Callable[[Speaker], Prompt],
        num_threads: int,
    ) -> None:
        self.fingerprint = fingerprint(checkpoint.directory)
        self.builtin = _builtin_speakers(checkpoint, tokenizer)
        self._reader = checkpoint.load_prompt_reader(num_threads)
        self._prepare = prepare
        self._vocab_size = checkpoint.config.flow.vocab_size

    def read(self, samples: NDArray[np.float32], sample_rate_hz: int, transcript: str) -> Speaker:
        """samples (n,), within ±1, of one person saying `transcript`, or anything if that is empty.

        Raises BadAudio (silent, empty, not finite, below 16 kHz), and AudioTooShort and AudioTooLong for
        what is left without the silence at both ends; SynthesisFailed if a network fails.
        """
        try:
            return self._reader.read_speaker(samples, sample_rate_hz, transcript)
        except PromptError as error:
            raise _refusal(samples, sample_rate_hz, error) from error
        except FrontendError as error:
            raise SynthesisFailed("the networks that read recordings failed; see the server's log") from error

    @torch.inference_mode()
    def prepare(self, speaker: Speaker) -> PreparedSpeaker:
        return PreparedSpeaker(speaker, self._prepare(speaker))

    def features(self, speaker: Speaker) -> Tensors:
        """What of a speaker is kept: all but the transcript."""
        return {name: getattr(speaker, name).contiguous().numpy() for name in FeatureTypes}

    def speaker(self, features: Tensors, transcript: str) -> Speaker:
        """Of kept features, which may come from anywhere.

        Raises ValueError for a name, type or shape, a speech token or a number that `read` cannot give.
        """
        if features.keys() != FeatureTypes.keys():
            raise ValueError(f"tensors {sorted(features)}; expected {sorted(FeatureTypes)}")
        for name, dtype in FeatureTypes.items():
            if features[name].dtype != dtype:
                raise ValueError(f"{name} is {features[name].dtype}; expected {np.dtype(dtype)}")
        tokens, mel, embedding = (torch.from_numpy(features[name]) for name in FeatureTypes)
        self._check_tokens(tokens)
        _check_shape("prompt_mel", mel, (FRAMES_PER_TOKEN * len(tokens), NUM_MELS))
        _check_shape("embedding", embedding, (SPEAKER_EMBEDDING_SIZE,))
        for name, tensor in (("prompt_mel", mel), ("embedding", embedding)):
            if not bool((tensor.abs() <= MAX_MAGNITUDE).all()):  # False for NaN too
                raise ValueError(f"{name} holds numbers that are not within ±{MAX_MAGNITUDE:g}")
        return Speaker(transcript, tokens, mel, embedding)

    def _check_tokens(self, tokens: Tensor) -> None:
        if tokens.ndim != 1 or not 1 <= len(tokens) <= MAX_PROMPT_TOKENS:
            raise ValueError(f"prompt_tokens {tuple(tokens.shape)}; expected (1..{MAX_PROMPT_TOKENS},)")
        outside = tokens[(tokens < 0) | (tokens >= self._vocab_size)]
        if len(outside):
            raise ValueError(f"speech token {int(outside[0])}; expected 0..{self._vocab_size - 1}")


def _check_shape(name: str, tensor: Tensor, expected: tuple[int, ...]) -> None:
    if tensor.shape != expected:
        raise ValueError(f"{name} {tuple(tensor.shape)}; expected {expected}")


def _refusal(samples: NDArray[np.float32], sample_rate_hz: int, error: PromptError) -> BadAudio:
    """A recording whose silence can be cut off was refused for the length of what is left."""
    try:
        duration_s = Recording.from_channels(samples, sample_rate_hz).trimmed().duration_s
    except PromptError:
        return BadAudio(str(error))
    return AudioTooLong(str(error)) if duration_s > MAX_RECORDING_S else AudioTooShort(str(error))


def _builtin_speakers(checkpoint: Checkpoint, tokenizer: TextTokenizer) -> Mapping[str, BuiltinSpeaker]:
    """By name, as their table has them. It keeps text tokens where it keeps what a prompt says."""
    speakers = checkpoint.load_speakers()
    if not speakers:
        return {}
    made_s = (checkpoint.directory / SPEAKER_TABLE_FILE).stat().st_mtime
    created_at = datetime.fromtimestamp(made_s, UTC).isoformat(timespec="seconds")
    found = {}
    for name, speaker in speakers.items():
        transcript = tokenizer.decode(speaker.prompt_text_ids or ())
        found[name] = BuiltinSpeaker(speaker, transcript, len(speaker.prompt_mel) / FRAME_RATE_HZ, created_at)
    return found
