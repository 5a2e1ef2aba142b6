"""A recording becomes a speaker's prompt, or the speech tokens that voice conversion speaks again."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor

from models.config import FRAMES_PER_TOKEN, Family, MelConfig, ModelConfig
from models.frontend.errors import PromptError
from models.frontend.fbank import FBANK_SAMPLE_RATE_HZ, kaldi_fbank, without_mean
from models.frontend.mel import WHISPER_SAMPLE_RATE_HZ, MelExtractor, WhisperMelExtractor
from models.frontend.onnx_models import MAX_RECORDING_S, SpeakerEncoder, SpeechTokenizer
from models.frontend.recording import Recording
from models.frontend.speaker import Speaker, align_prompt

SPEAKER_ENCODER_FILE = "campplus.onnx"
SPEECH_TOKENIZER_FILES: dict[Family, str] = {
    "cosyvoice1": "speech_tokenizer_v1.onnx",
    "cosyvoice2": "speech_tokenizer_v2.onnx",
    "cosyvoice3": "speech_tokenizer_v3.onnx",
}


class PromptReader:
    """Holds the extractors of one model directory. Read-only, so threads may share one.

    The prompt mel is made at its own rate, 22.05 kHz for CosyVoice 1; published code feeds it 24 kHz audio.
    """

    def __init__(
        self,
        speech_tokenizer: SpeechTokenizer,
        speaker_encoder: SpeakerEncoder,
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
    def from_folder(cls, model_dir: Path, config: ModelConfig, num_threads: int) -> "PromptReader":
        """`num_threads`: for each of the two ONNX graphs. Raises FrontendError, naming the file at fault."""
        speech_tokenizer = SpeechTokenizer(
            model_dir / SPEECH_TOKENIZER_FILES[config.family],
            config.flow.vocab_size,
            config.token_rate_hz,
            num_threads,
        )
        speaker_encoder = SpeakerEncoder(model_dir / SPEAKER_ENCODER_FILE, num_threads)
        return cls(speech_tokenizer, speaker_encoder, config.mel)

    def read_speaker(
        self, samples: npt.NDArray[np.float32], sample_rate_hz: int, prompt_text: str = ""
    ) -> Speaker:
        """samples (n,) or (channels, n), within ±1, of one person saying `prompt_text`.

        Silence at both ends is cut first (`Recording.trimmed`). Raises PromptError if the recording is
        silent, empty, not finite, too short, too long or below 16 kHz; FrontendError if a graph fails.
        """
        recording = Recording.from_channels(samples, sample_rate_hz).trimmed()
        self._check_duration(recording, "without the silence at its ends")
        tokens = self._tokens(recording)  # (Ls,)
        mel = self._mel(recording.resampled(self._mel.config.sample_rate_hz)).T  # (F, 80)
        if self._is_aligned:
            tokens, mel = align_prompt(tokens, mel)
        return Speaker(prompt_text, tokens, mel.contiguous(), self._embedding(recording))

    def read_source_tokens(self, samples: npt.NDArray[np.float32], sample_rate_hz: int) -> Tensor:
        """The speech tokens (L,) int64 of a recording to convert, whole: its pauses are part of it.

        Raises as `read_speaker` does.
        """
        recording = Recording.from_channels(samples, sample_rate_hz)
        recording.trimmed()  # refuses silence
        self._check_duration(recording, "")
        return self._tokens(recording)

    def _tokens(self, recording: Recording) -> Tensor:
        return self._speech_tokenizer.encode(self._whisper_mel(recording.resampled(WHISPER_SAMPLE_RATE_HZ)))

    def _embedding(self, recording: Recording) -> Tensor:
        fbank = kaldi_fbank(recording.resampled(FBANK_SAMPLE_RATE_HZ))  # (T, 80)
        return self._speaker_encoder.embed(without_mean(fbank))

    def _check_duration(self, recording: Recording, note: str) -> None:
        shortest, longest = self._min_duration_s, self._max_duration_s
        if not shortest <= recording.duration_s <= longest:
            found = f"{recording.duration_s:.2f} s {note}".rstrip()
            raise PromptError(f"the recording lasts {found}; expected {shortest:g} to {longest:g} s")
