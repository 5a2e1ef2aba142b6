"""The two published ONNX networks: recording to speech tokens, and recording to speaker embedding."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from models.config import SPEAKER_EMBEDDING_SIZE
from models.frontend.errors import FrontendError
from models.frontend.fbank import NUM_FBANK_BINS
from models.frontend.mel import WHISPER_FRAME_RATE_HZ, WHISPER_NUM_MELS
from models.frontend.onnx_session import OnnxSession, TensorSpec

MAX_RECORDING_S = 30
MAX_FRAMES = MAX_RECORDING_S * WHISPER_FRAME_RATE_HZ  # 3000
RATE_SLACK_TOKENS = 2  # a graph rounds up or down at each of its strides

FLOAT = ("tensor(float)",)
LOG_MEL = TensorSpec(FLOAT, (1, WHISPER_NUM_MELS, None))
LENGTHS = TensorSpec(("tensor(int32)",), (1,))
TOKENS = TensorSpec(("tensor(int32)", "tensor(int64)"), None)
FBANK = TensorSpec(FLOAT, (1, None, NUM_FBANK_BINS))
EMBEDDING = TensorSpec(FLOAT, (1, SPEAKER_EMBEDDING_SIZE))


class SpeechTokenizer:
    """`speech_tokenizer_v*.onnx`: whisper log-mel to speech tokens, 50 (CosyVoice 1) or 25 a second."""

    def __init__(self, path: Path, vocab_size: int, token_rate_hz: int, num_threads: int) -> None:
        """Raises FrontendError if the file is missing, broken or not such a graph."""
        self._session = OnnxSession(path, (LOG_MEL, LENGTHS), TOKENS, num_threads)
        self.path = path
        self.vocab_size = vocab_size
        self.token_rate_hz = token_rate_hz

    def encode(self, log_mel: Tensor) -> Tensor:
        """log_mel (128, Tw), 100 frames a second -> speech tokens (about Tw * token_rate_hz / 100,), int64.

        Raises FrontendError for more than 30 s, and for a graph that fails, gives ids outside the
        vocabulary or runs at another token rate.
        """
        num_frames = log_mel.shape[1]
        if num_frames > MAX_FRAMES:
            seconds = num_frames / WHISPER_FRAME_RATE_HZ
            raise FrontendError(
                f"a recording of {seconds:.1f} s; the speech tokenizer takes {MAX_RECORDING_S} s"
            )
        lengths = np.array([num_frames], dtype=np.int32)
        output = self._session.run(log_mel[None].numpy(), lengths)
        tokens = torch.from_numpy(output.astype(np.int64).reshape(-1))  # (L,)
        self._check(tokens, num_frames)
        return tokens

    def _check(self, tokens: Tensor, num_frames: int) -> None:
        expected = num_frames * self.token_rate_hz / WHISPER_FRAME_RATE_HZ
        if abs(len(tokens) - expected) > RATE_SLACK_TOKENS:
            raise FrontendError(
                f"{self.path}: {len(tokens)} speech tokens from {num_frames} frames, expected about "
                f"{expected:.0f} at {self.token_rate_hz} a second; is it the tokenizer of another model?"
            )
        outside = tokens[(tokens < 0) | (tokens >= self.vocab_size)]
        if len(outside):
            raise FrontendError(
                f"{self.path}: speech token {int(outside[0])}, expected 0 to {self.vocab_size - 1}; "
                "is it the tokenizer of another model?"
            )


class SpeakerEncoder:
    """`campplus.onnx`: kaldi fbank without its mean to a speaker embedding, whose norm is not 1."""

    def __init__(self, path: Path, num_threads: int) -> None:
        """Raises FrontendError if the file is missing, broken or not such a graph."""
        self._session = OnnxSession(path, (FBANK,), EMBEDDING, num_threads)
        self.path = path

    def embed(self, fbank: Tensor) -> Tensor:
        """fbank (T, 80) -> (192,) float32. Raises FrontendError for a graph that fails or gives less."""
        output = self._session.run(fbank[None].numpy())
        if output.size != SPEAKER_EMBEDDING_SIZE:
            raise FrontendError(
                f"{self.path}: output of shape {output.shape}, expected (1, {SPEAKER_EMBEDDING_SIZE})"
            )
        embedding = torch.from_numpy(output.reshape(-1).astype(np.float32))  # (192,)
        if not embedding.isfinite().all():
            raise FrontendError(f"{self.path}: the speaker embedding is not finite")
        return embedding
