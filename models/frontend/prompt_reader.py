"""Read a reference recording into a speaker's features with the two published ONNX networks."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch
from onnxruntime.capi import onnxruntime_pybind11_state as onnx_errors
from torch import Tensor

from firstword.models.config import (
    FRAMES_PER_TOKEN,
    SPEAKER_EMBEDDING_SIZE,
    SPEAKER_ENCODER_FILE,
    SPEECH_TOKENIZER_FILES,
    MelConfig,
    ModelConfig,
)
from firstword.models.frontend.features import (
    FBANK_SAMPLE_RATE_HZ,
    NUM_FBANK_BINS,
    WHISPER_FRAME_RATE_HZ,
    WHISPER_NUM_MELS,
    WHISPER_SAMPLE_RATE_HZ,
    FrontendError,
    MelExtractor,
    Recording,
    RecordingError,
    WhisperMelExtractor,
    kaldi_fbank,
    without_mean,
)
from firstword.models.frontend.speaker import SpeakerFeatures, align_prompt
from firstword.models.onnx_graphs.session import (
    CPU_PROVIDER,
    CUDA_PROVIDER,
    Provider,
    providers_for,
    session_options,
)

MAX_RECORDING_S = 30
MAX_FRAMES = MAX_RECORDING_S * WHISPER_FRAME_RATE_HZ  # 3000
RATE_SLACK_TOKENS = 2  # a graph rounds up or down at each of its strides

logger = logging.getLogger(__name__)


class PromptReader:
    """Holds the extractors of one model directory. Read-only, so threads may share one.

    Several recordings are read side by side, one in each thread, not in one run of a graph: the published
    speech tokenizers have a batch of 1, and the speaker encoder takes no lengths, so that padding would count
    in its mean over time.

    The prompt mel is made at its own rate, 22.05 kHz for CosyVoice 1; published code feeds it 24 kHz audio.
    """

    def __init__(
        self,
        speech_tokenizer: "SpeechTokenizer",
        speaker_encoder: "SpeakerEncoder",
        mel: MelConfig,
        min_duration_s: float = 1.0,
        max_duration_s: float = MAX_RECORDING_S,
    ) -> None:
        assert max_duration_s <= MAX_RECORDING_S, f"max_duration_s {max_duration_s}"
        self._speech_tokenizer = speech_tokenizer
        self._speaker_encoder = speaker_encoder
        self._mel = MelExtractor(mel)
        self._whisper_mel = WhisperMelExtractor()
        self._min_duration_s = min_duration_s
        self._max_duration_s = max_duration_s
        frame_rate_hz = mel.sample_rate_hz / mel.hop_samples
        self._is_aligned = frame_rate_hz == speech_tokenizer.token_rate_hz * FRAMES_PER_TOKEN

    @classmethod
    def from_folder(
        cls, model_dir: Path, config: ModelConfig, num_threads: int, device: str = "cpu"
    ) -> "PromptReader":
        """num_threads, device: for each of the two ONNX graphs.

        Raises FrontendError, naming the file at fault.
        """
        speech_tokenizer = SpeechTokenizer(
            model_dir / SPEECH_TOKENIZER_FILES[config.family],
            config.flow.vocab_size,
            config.token_rate_hz,
            num_threads,
            device,
        )
        speaker_encoder = SpeakerEncoder(model_dir / SPEAKER_ENCODER_FILE, num_threads, device)
        return cls(speech_tokenizer, speaker_encoder, config.mel)

    def read_speaker(
        self, samples: npt.NDArray[np.float32], sample_rate_hz: int, prompt_text: str = ""
    ) -> SpeakerFeatures:
        """samples (n,) or (channels, n), within ±1, of one person saying `prompt_text`.

        Silence at both ends is cut first (`Recording.trimmed`). Raises RecordingError if the recording is
        silent, empty, not finite, too short, too long or below 16 kHz; FrontendError if a graph fails.
        """
        recording = self._trimmed(samples, sample_rate_hz)
        tokens = self._tokens(recording)  # (Ls,)
        mel = self._mel(recording.resampled(self._mel.config.sample_rate_hz)).T  # (F, 80)
        if self._is_aligned:
            tokens, mel = align_prompt(tokens, mel)
        return SpeakerFeatures(prompt_text, tokens, mel.contiguous(), self._embedding(recording))

    def read_embedding(self, samples: npt.NDArray[np.float32], sample_rate_hz: int) -> Tensor:
        """The embedding (192,) that `read_speaker` finds, without its speech tokens. Raises as it does."""
        return self._embedding(self._trimmed(samples, sample_rate_hz))

    def read_source_tokens(self, samples: npt.NDArray[np.float32], sample_rate_hz: int) -> Tensor:
        """The speech tokens (L,) int64 of a recording to convert, whole: its pauses are part of it.

        Raises as `read_speaker` does.
        """
        recording = Recording.from_channels(samples, sample_rate_hz)
        recording.trimmed()  # refuses silence
        self._check_duration(recording, "")
        return self._tokens(recording)

    def _trimmed(self, samples: npt.NDArray[np.float32], sample_rate_hz: int) -> Recording:
        recording = Recording.from_channels(samples, sample_rate_hz).trimmed()
        self._check_duration(recording, "without the silence at its ends")
        return recording

    def _embedding(self, recording: Recording) -> Tensor:
        fbank = kaldi_fbank(recording.resampled(FBANK_SAMPLE_RATE_HZ))  # (T, 80)
        return self._speaker_encoder.embed(without_mean(fbank))

    def _tokens(self, recording: Recording) -> Tensor:
        return self._speech_tokenizer.encode(self._whisper_mel(recording.resampled(WHISPER_SAMPLE_RATE_HZ)))

    def _check_duration(self, recording: Recording, note: str) -> None:
        if not self._min_duration_s <= recording.duration_s <= self._max_duration_s:
            found = f"{recording.duration_s:.2f} s {note}".rstrip()
            expected = f"{self._min_duration_s:g} to {self._max_duration_s:g} s"
            raise RecordingError(f"the recording lasts {found}; expected {expected}")


ONNX_ERRORS = (
    onnx_errors.EPFail,
    onnx_errors.Fail,
    onnx_errors.InvalidArgument,
    onnx_errors.InvalidGraph,
    onnx_errors.InvalidProtobuf,
    onnx_errors.NoModel,
    onnx_errors.NoSuchFile,
    onnx_errors.NotImplemented,
    onnx_errors.RuntimeException,
)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A published input or output. None stands for a free dimension, a `shape` of None for any rank."""

    types: tuple[str, ...]  # in onnxruntime's words, such as tensor(float)
    shape: tuple[int | None, ...] | None

    def admits(self, type_name: str, shape: Sequence[int | str | None]) -> bool:
        """Whether a graph's declaration agrees; a name in its shape is free, and so is a missing shape."""
        if type_name not in self.types:
            return False
        if self.shape is None or not shape:
            return True
        return len(shape) == len(self.shape) and all(
            expected is None or not isinstance(declared, int) or declared == expected
            for expected, declared in zip(self.shape, shape, strict=True)
        )

    def __str__(self) -> str:
        types = " or ".join(self.types)
        return types if self.shape is None else f"{types} {_written(self.shape)}"


class OnnxSession:
    """One graph on the CPU or on the GPU. `run` may be called from several threads at once."""

    def __init__(
        self,
        path: Path,
        inputs: tuple[TensorSpec, ...],
        output: TensorSpec,
        num_threads: int,
        device: str = "cpu",
    ) -> None:
        """Raises FrontendError, naming the file, if it is missing, broken or another graph than expected."""
        self.path = path
        if not path.is_file():
            raise FrontendError(f"{path}: missing; it belongs to the published model directory")
        try:
            self._session = _opened(path, num_threads, device)
        except (*ONNX_ERRORS, UnicodeDecodeError) as error:  # the latter: its own message is not UTF-8
            raise FrontendError(f"{path}: not a readable ONNX file ({error}); download it again") from error
        _check(path, "inputs", self._session.get_inputs(), inputs)
        _check(path, "outputs", self._session.get_outputs(), (output,))
        self._input_names = [value.name for value in self._session.get_inputs()]

    def run(self, *inputs: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """The inputs by position -> the one output. Raises FrontendError if the graph fails."""
        try:
            (output,) = self._session.run(None, dict(zip(self._input_names, inputs, strict=True)))
        except ONNX_ERRORS as error:
            shapes = [value.shape for value in inputs]
            raise FrontendError(
                f"{self.path}: the graph failed on inputs of shapes {shapes}: {error}"
            ) from error
        assert isinstance(output, np.ndarray), f"{self.path}: output of type {type(output)}"
        return output


def _opened(path: Path, num_threads: int, device: str) -> onnxruntime.InferenceSession:
    """Open a graph on the device; on the CPU where the GPU's provider does not start. Raises ONNX_ERRORS."""

    def session_on(providers: list[Provider]) -> onnxruntime.InferenceSession:
        options = session_options(num_threads)
        return onnxruntime.InferenceSession(str(path), options, providers=providers, enable_fallback=0)

    providers = providers_for(device)
    if providers == [CPU_PROVIDER]:
        return session_on(providers)
    reason = "its libraries are missing"  # then ONNX Runtime leaves it out and raises nothing
    try:
        session = session_on(providers)
        if CUDA_PROVIDER in session.get_providers():
            return session
    except (*ONNX_ERRORS, RuntimeError, ValueError) as error:
        reason = str(error)
    session = session_on([CPU_PROVIDER])  # first: a file that it cannot read either says nothing of CUDA
    logger.warning("%s runs on the CPU, as ONNX Runtime's CUDA did not start: %s", path.name, reason)
    return session


def _check(
    path: Path, what: str, declared: Sequence[onnxruntime.NodeArg], expected: tuple[TensorSpec, ...]
) -> None:
    agree = len(declared) == len(expected) and all(
        spec.admits(value.type, value.shape) for spec, value in zip(expected, declared, strict=True)
    )
    if not agree:
        came = ", ".join(f"{value.name} {value.type} {_written(value.shape)}" for value in declared)
        raise FrontendError(f"{path}: {what} are {came}, expected {', '.join(map(str, expected))}")


def _written(shape: Sequence[int | str | None]) -> str:
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"


FLOAT = ("tensor(float)",)
LOG_MEL = TensorSpec(FLOAT, (1, WHISPER_NUM_MELS, None))
LENGTHS = TensorSpec(("tensor(int32)",), (1,))
TOKENS = TensorSpec(("tensor(int32)", "tensor(int64)"), None)
FBANK = TensorSpec(FLOAT, (1, None, NUM_FBANK_BINS))
EMBEDDING = TensorSpec(FLOAT, (1, SPEAKER_EMBEDDING_SIZE))


class SpeechTokenizer:
    """`speech_tokenizer_v*.onnx`: whisper log-mel to speech tokens, 50 (CosyVoice 1) or 25 a second."""

    def __init__(
        self, path: Path, vocab_size: int, token_rate_hz: int, num_threads: int, device: str = "cpu"
    ) -> None:
        """Raises FrontendError if the file is missing, broken or not such a graph."""
        self._session = OnnxSession(path, (LOG_MEL, LENGTHS), TOKENS, num_threads, device)
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

    def __init__(self, path: Path, num_threads: int, device: str = "cpu") -> None:
        """Raises FrontendError if the file is missing, broken or not such a graph."""
        self._session = OnnxSession(path, (FBANK,), EMBEDDING, num_threads, device)
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
