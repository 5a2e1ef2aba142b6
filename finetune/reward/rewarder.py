"""Speech tokens to rewards: spoken by a checkpoint's flow and vocoder, recognized, compared, scored."""

import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.app.text.normalize import Normalizer
from firstword.finetune.errors import FinetuneError
from firstword.finetune.reward.formula import Measures, RewardWeights, Unit, error_rate, reward_of
from firstword.finetune.reward.recognizers import (
    RATE_HZ,
    Recognizer,
    Samples,
    at_recognizer_rate,
    open_recognizer,
)
from firstword.models.checkpoint.open import Checkpoint
from firstword.models.config import SPEAKER_ENCODER_FILE
from firstword.models.flow.flow import Flow
from firstword.models.frontend.features import FRAME_SAMPLES, kaldi_fbank, without_mean
from firstword.models.frontend.prompt_reader import SpeakerEncoder
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.token2wav import CosyVoice1Token2Wav, Token2Wav
from firstword.models.token2wav_step import RefusedStep, StepInput

MAX_BATCH: Final = 64  # spoken at a time


@dataclass(frozen=True, slots=True)
class RewardItem:
    """speaker: of the checkpoint's table; "" for its default. has_ended: the tokens came to their end."""

    tokens: tuple[int, ...]
    text: str
    speaker: str = ""
    has_ended: bool = True


@dataclass(frozen=True, slots=True)
class Score:
    """likeness: None where the speech is too short to be compared."""

    reward: float
    error_rate: float
    transcript: str
    duration_s: float
    likeness: float | None


@dataclass(frozen=True, slots=True)
class RewardSettings:
    """recognizer: as `open_recognizer` takes it; language: of the texts; unit: of the error rate."""

    recognizer: str = "pocketsphinx"
    language: str = "en"
    unit: Unit = "words"
    weights: RewardWeights = field(default_factory=RewardWeights)
    recognizers: int = 1  # at work at a time


class Scorer(Protocol):
    def score(self, items: Sequence[RewardItem]) -> list[Score]: ...


class Rewarder:
    """Holds the networks and the recognizers. Threads may share it."""

    def __init__(
        self, checkpoint: Checkpoint, settings: RewardSettings, device: torch.device | str = "cpu"
    ) -> None:
        """Raises FinetuneError for a checkpoint without speakers, and for a recognizer that cannot be had."""
        self._settings = settings
        flow = checkpoint.load_flow(device=device)
        self._token2wav: Any = (
            Token2Wav(flow, checkpoint.load_vocoder(device=device))
            if isinstance(flow, Flow)
            else CosyVoice1Token2Wav(flow, checkpoint.load_hift(device=device))
        )
        self._speakers = checkpoint.load_speakers()
        if not self._speakers:
            raise FinetuneError(f"{checkpoint.directory} has no speaker that could say the tokens")
        self._default = next(iter(self._speakers))
        self._prompts: dict[str, Any] = {}
        self._lock = Lock()
        self._encoder = SpeakerEncoder(checkpoint.directory / SPEAKER_ENCODER_FILE, num_threads=1)
        self._normalizer = Normalizer()
        self._free: queue.SimpleQueue[Recognizer] = queue.SimpleQueue()
        for _ in range(settings.recognizers):
            self._free.put(open_recognizer(settings.recognizer, settings.language))

    def score(self, items: Sequence[RewardItem]) -> list[Score]:
        """In order. Raises FinetuneError for an unknown speaker or a token that the flow does not know."""
        spoken: list[Samples] = []
        for start in range(0, len(items), MAX_BATCH):
            with self._lock:
                spoken += self.speak(items[start : start + MAX_BATCH])
        with ThreadPoolExecutor(self._settings.recognizers) as pool:
            return list(pool.map(self._score, items, spoken))

    @torch.inference_mode()
    def speak(self, items: Sequence[RewardItem]) -> list[Samples]:
        """Samples at the checkpoint's rate of each, all in one batch; of no tokens, none."""
        states = [
            (self._token2wav.start(self._prompt(one.speaker or self._default)), one)
            for one in items
            if one.tokens
        ]
        steps = [StepInput(state, one.tokens, is_last=True) for state, one in states]
        try:
            made: Iterator[Tensor] = iter(self._token2wav.step(steps) if steps else ())
        except RefusedStep as error:
            raise FinetuneError(str(error)) from error
        return [next(made).float().cpu().numpy() if one.tokens else _NOTHING for one in items]

    def _score(self, item: RewardItem, samples: Samples) -> Score:
        duration_s = len(samples) / self._token2wav.sample_rate_hz
        if not len(samples):
            return Score(0.0, 1.0, "", 0.0, None)
        sound = at_recognizer_rate(samples, self._token2wav.sample_rate_hz)
        with self._recognizer() as recognize:
            transcript = recognize(sound)
        wanted, found = (self._normalizer(text, self._settings.language) for text in (item.text, transcript))
        errors = error_rate(wanted, found, self._settings.unit)
        likeness = self._likeness(sound, self._speakers[item.speaker or self._default])
        whole = Measures(errors, duration_s, likeness, item.has_ended)
        return Score(
            reward_of(whole, wanted, self._settings.weights), errors, transcript, duration_s, likeness
        )

    def _likeness(self, sound: Samples, speaker: SpeakerFeatures) -> float | None:
        if len(sound) < RATE_HZ // 2 + FRAME_SAMPLES:
            return None
        embedding = self._encoder.embed(without_mean(kaldi_fbank(torch.from_numpy(sound))))
        return float(F.cosine_similarity(embedding, speaker.embedding, dim=0))

    def _prompt(self, name: str) -> Any:
        if name not in self._prompts:
            if name not in self._speakers:
                raise FinetuneError(f"no speaker {name[:64]!a}; expected one of {', '.join(self._speakers)}")
            self._prompts[name] = self._token2wav.compute_prompt_state(self._speakers[name])
        return self._prompts[name]

    @contextmanager
    def _recognizer(self) -> Iterator[Recognizer]:
        one = self._free.get()
        try:
            yield one
        finally:
            self._free.put(one)


_NOTHING: Final = torch.zeros(0).numpy()
