"""Turn a recording into a speaker: decode, check, extract, prepare.

Measures a recording and says in words what will harm the voice made of it.

A recording becomes a speaker, a speaker its prompt states: the one file here that knows the networks.

The work on speakers that takes a worker thread: reading recordings, preparing, packing bundles.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firstword.app.audio.decode import RecordingTooLong, UndecodableAudio, decode_recording
from firstword.app.audio.dsp import Samples
from firstword.app.errors import (
    AudioTooLong,
    AudioTooShort,
    BadAudio,
    SpeakerIncompatible,
    SpeakerNotFound,
    SynthesisFailed,
)
from firstword.app.speakers.interface import Quality, checked_language, checked_name, checked_transcript
from firstword.app.speakers.store import (
    Bundle,
    SpeakerRow,
    SpeakerStore,
    StoredSpeaker,
    Tensors,
    invalid_bundle,
    pack,
    read_bundle,
    unpack,
    write_bundle,
)
from firstword.models.checkpoint.open import SPEAKER_TABLE_FILE, Checkpoint, fingerprint
from firstword.models.config import (
    FRAME_RATE_HZ,
    FRAMES_PER_TOKEN,
    NUM_MELS,
    SPEAKER_EMBEDDING_SIZE,
    TOKEN_RATE_HZ,
)
from firstword.models.frontend.features import FrontendError, PromptError, Recording
from firstword.models.frontend.prompt_reader import MAX_RECORDING_S
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from firstword.models.frontend.speaker import SpeakerFeatures


WINDOW_MS = 20
DIGITAL_SILENCE_DB = -90.0  # below what any microphone gives: padding, which says nothing of the noise
FLOOR_PERCENTILE = 10  # the quietest tenth of the windows is the pauses: noise
TOP_PERCENTILE = 95
MIN_SPEECH_RANGE_DB = 6.0  # speech rises and falls; what does not is noise or a tone
FULL_SCALE = 0.999
MAX_SNR_DB = 80.0

NOISY_DB = 15.0
CLIPPED_SHARE = 0.001
LITTLE_SPEECH_SHARE = 0.4
SLOWEST_CHARS_PER_S = 2.0  # of speech: Chinese, slow, has about 3; English, fast, about 20
FASTEST_CHARS_PER_S = 35.0
SHORT_PROMPT_S = 3.0


def measure_quality(samples: NDArray[np.float32], sample_rate_hz: int) -> Quality:
    """samples (n,), n > 0, finite, within ±1. No warnings yet: they depend on the transcript too."""
    powers = _window_powers(samples, sample_rate_hz * WINDOW_MS // 1000)
    clipping = float(np.mean(np.abs(samples) >= FULL_SCALE))
    sounding = powers[powers > 10 ** (DIGITAL_SILENCE_DB / 10)]
    if not len(sounding):
        return Quality(snr_db=0.0, clipping=clipping, speech_ratio=0.0)
    floor_db, top_db = 10 * np.log10(np.percentile(sounding, [FLOOR_PERCENTILE, TOP_PERCENTILE]))
    if top_db - floor_db < MIN_SPEECH_RANGE_DB:
        return Quality(snr_db=0.0, clipping=clipping, speech_ratio=0.0)
    is_speech = powers > 10 ** ((floor_db + top_db) / 20)  # half way between, in dB
    noise = float(sounding[sounding <= 10 ** (floor_db / 10) * 1.001].mean())
    speech = float(powers[is_speech].mean())
    snr_db = float(np.clip(10 * np.log10(max(speech - noise, noise) / noise), 0.0, MAX_SNR_DB))
    return Quality(round(snr_db, 1), clipping, round(float(is_speech.mean()), 3))


def with_warnings(quality: Quality, duration_s: float, transcript: str) -> Quality:
    """The same with what its owner should know of it; an empty transcript is not complained of."""
    warnings = [*_sound_warnings(quality), *_length_warnings(quality, duration_s, transcript)]
    return replace(quality, warnings=tuple(warnings))


def _sound_warnings(quality: Quality) -> list[str]:
    found = []
    if quality.snr_db < NOISY_DB:
        found.append(
            f"too noisy: speech is {quality.snr_db:.0f} dB above the noise, {NOISY_DB:.0f} dB or more are "
            "wanted; record in a quiet room, near the microphone"
        )
    if quality.clipping > CLIPPED_SHARE:
        found.append(f"clipped: {quality.clipping:.1%} of the samples are at full scale; record it softer")
    if quality.speech_ratio < LITTLE_SPEECH_SHARE:
        found.append(f"mostly silence: {quality.speech_ratio:.0%} of the recording is speech; cut the pauses")
    return found


def _length_warnings(quality: Quality, duration_s: float, transcript: str) -> list[str]:
    speech_s = quality.speech_ratio * duration_s
    found = []
    if duration_s < SHORT_PROMPT_S:
        found.append(f"short: {duration_s:.1f} s; {SHORT_PROMPT_S:.0f} to 10 s give a closer likeness")
    if not transcript or speech_s == 0:
        return found
    counted = f"{len(transcript)} characters for {speech_s:.1f} s of speech"
    if len(transcript) < SLOWEST_CHARS_PER_S * speech_s:
        found.append(f"the transcript is very short, {counted}; it should hold every word that is said")
    elif len(transcript) > FASTEST_CHARS_PER_S * speech_s:
        found.append(f"the transcript is very long, {counted}; it should hold only what is said")
    return found


def _window_powers(samples: NDArray[np.float32], window_samples: int) -> NDArray[np.float64]:
    """samples (n,) -> (ceil(n / window_samples),) variances; the last window may be shorter."""
    starts = np.arange(0, len(samples), window_samples)
    counts = np.diff(starts, append=len(samples))
    wide = samples.astype(np.float64)
    means = np.add.reduceat(wide, starts) / counts
    powers: NDArray[np.float64] = np.add.reduceat((wide - means.repeat(counts)) ** 2, starts) / counts
    return powers


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

    speaker: SpeakerFeatures
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
    speaker: SpeakerFeatures
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
        prepare: Callable[[SpeakerFeatures], Prompt],
        num_threads: int,
    ) -> None:
        self.fingerprint = fingerprint(checkpoint.directory)
        self.builtin = _builtin_speakers(checkpoint, tokenizer)
        self._reader = checkpoint.load_prompt_reader(num_threads)
        self._prepare = prepare
        self._vocab_size = checkpoint.config.flow.vocab_size

    def read(self, samples: NDArray[np.float32], sample_rate_hz: int, transcript: str) -> SpeakerFeatures:
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
    def prepare(self, speaker: SpeakerFeatures) -> PreparedSpeaker:
        return PreparedSpeaker(speaker, self._prepare(speaker))

    def features(self, speaker: SpeakerFeatures) -> Tensors:
        """What of a speaker is kept: all but the transcript."""
        return {name: getattr(speaker, name).contiguous().numpy() for name in FeatureTypes}

    def speaker(self, features: Tensors, transcript: str) -> SpeakerFeatures:
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
        return SpeakerFeatures(transcript, tokens, mel, embedding)

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


logger = logging.getLogger(__name__)


class SpeakerWorkshop:
    """Slow and blocking: every method is for a worker thread. What it makes anew is not stored by it."""

    def __init__(self, store: SpeakerStore, enroller: "Enroller", max_bundle_bytes: int) -> None:
        self._store = store
        self._enroller = enroller
        self._max_bundle_bytes = max_bundle_bytes

    def enrol(
        self, name: str, recording: bytes, transcript: str, language: str | None
    ) -> tuple[StoredSpeaker, "PreparedSpeaker"]:
        """A speaker that can be stored and spoken with. Raises BadAudio and kin."""
        samples, sample_rate_hz = self._decoded(recording)
        speaker = self._enroller.read(samples, sample_rate_hz, transcript)
        stored = self._stored(name, recording, language, speaker, samples, sample_rate_hz)
        return stored, self._enroller.prepare(speaker)

    def import_bundle(self, content: bytes, name: str | None) -> tuple[StoredSpeaker, "PreparedSpeaker"]:
        """name: instead of the bundle's own. Nothing in the bundle is trusted.

        Raises UploadTooLarge, InvalidRequest, SpeakerIncompatible.
        """
        bundle = read_bundle(content, self._max_bundle_bytes, self._enroller.fingerprint)
        name = checked_name(bundle.name if name is None else name)
        transcript, language = checked_transcript(bundle.transcript), checked_language(bundle.language)
        try:
            speaker = self._enroller.speaker(bundle.features, transcript)
            samples, sample_rate_hz = self._decoded(bundle.recording)
        except (ValueError, BadAudio) as error:
            raise invalid_bundle(str(error)) from error
        stored = self._stored(name, bundle.recording, language, speaker, samples, sample_rate_hz)
        return stored, self._enroller.prepare(speaker)

    def export(self, id: int) -> bytes:
        """Raises SpeakerNotFound, SpeakerIncompatible."""
        stored, speaker = self._current(id)
        row = stored.row
        features = self._enroller.features(speaker)
        return write_bundle(
            Bundle(row.name, row.transcript, row.language, row.fingerprint, stored.recording, features)
        )

    def prepare(self, id: int) -> "PreparedSpeaker":
        """Raises SpeakerNotFound, SpeakerIncompatible."""
        _, speaker = self._current(id)
        return self._enroller.prepare(speaker)

    def _current(self, id: int) -> tuple[StoredSpeaker, "SpeakerFeatures"]:
        """A stored speaker as the running checkpoint sees it: features of another are made anew and kept."""
        stored = self._store.read(id)
        if stored is None:
            raise SpeakerNotFound("the speaker was deleted")
        if stored.row.fingerprint == self._enroller.fingerprint:
            try:
                features, _ = unpack(stored.features)
                return stored, self._enroller.speaker(features, stored.row.transcript)
            except ValueError as error:
                logger.warning("the features of speaker %s are damaged (%s)", stored.row.name, error)
        return self._read_again(id, stored)

    def _read_again(self, id: int, stored: StoredSpeaker) -> tuple[StoredSpeaker, "SpeakerFeatures"]:
        row = stored.row
        try:
            samples, sample_rate_hz = self._decoded(stored.recording)
            speaker = self._enroller.read(samples, sample_rate_hz, row.transcript)
        except BadAudio as error:
            raise SpeakerIncompatible(
                f"what is kept of speaker {row.name!r} does not fit this checkpoint, and the recording "
                f"cannot be read again: {error}; register another one"
            ) from error
        features = pack(self._enroller.features(speaker))
        row = replace(row, prompt_tokens=len(speaker.prompt_tokens), fingerprint=self._enroller.fingerprint)
        self._store.replace_features(id, features, row.prompt_tokens, row.fingerprint)
        logger.info("speaker %s read again for checkpoint %s", row.name, row.fingerprint)
        return replace(stored, row=row, features=features), speaker

    def _decoded(self, recording: bytes) -> tuple[Samples, int]:
        try:
            return decode_recording(recording, self._enroller.max_recording_s)
        except RecordingTooLong as error:
            raise AudioTooLong(str(error)) from error
        except UndecodableAudio as error:
            raise BadAudio(str(error)) from error

    def _stored(
        self,
        name: str,
        recording: bytes,
        language: str | None,
        speaker: "SpeakerFeatures",
        samples: Samples,
        sample_rate_hz: int,
    ) -> StoredSpeaker:
        row = SpeakerRow(
            name=name,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            transcript=speaker.prompt_text,
            language=language,
            duration_s=len(samples) / sample_rate_hz,
            quality=measure_quality(samples, sample_rate_hz),
            prompt_tokens=len(speaker.prompt_tokens),
            fingerprint=self._enroller.fingerprint,
        )
        return StoredSpeaker(row, recording, pack(self._enroller.features(speaker)))
