"""Turn a recording into a speaker: decode, measure its quality, read its features, compute its prompt state.

Everything here is slow and blocking: call it on a worker thread.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from firstword.app.audio.decode import RecordingTooLong, UndecodableAudio, decode_recording
from firstword.app.audio.dsp import Samples
from firstword.app.audio.encode import encode_whole
from firstword.app.errors import (
    AudioTooLong,
    AudioTooShort,
    BadAudio,
    InvalidRequest,
    SpeakerIncompatible,
    SpeakerNotFound,
    StoreFull,
    StoreUnavailable,
    SynthesisFailed,
)
from firstword.app.speakers.bundle import (
    Bundle,
    Tensors,
    invalid_bundle,
    pack,
    read_bundle,
    unpack,
    write_bundle,
)
from firstword.app.speakers.interface import (
    Description,
    KnownSpeaker,
    PreparedSpeaker,
    PromptInfo,
    Quality,
    checked_language,
    checked_name,
    checked_transcript,
)
from firstword.app.speakers.lexicon import checked_lexicon
from firstword.app.speakers.quality import estimate_quality, measure_quality
from firstword.app.speakers.tables import SpeakerRow, SpeakerTables, StoredSpeaker
from firstword.app.speakers.transcript_check import transcript_fit
from firstword.models.checkpoint.open import Checkpoint, fingerprint
from firstword.models.config import (
    FRAMES_PER_TOKEN,
    NUM_MELS,
    SPEAKER_EMBEDDING_SIZE,
    SPEAKER_TABLE_FILE,
)
from firstword.models.frontend.features import FrontendError, Recording, RecordingError
from firstword.models.frontend.mel_match import MAX_MAP_ELEMENT, NO_CHANGE
from firstword.models.frontend.modes import zero_shot
from firstword.models.frontend.prompt_reader import MAX_RECORDING_S
from firstword.models.frontend.speaker import (
    EQUALIZER_SHAPE,
    MEL_MAP_SHAPE,
    SpeakerFeatures,
    align_prompt,
)
from firstword.models.lm.decoder import SpeechLM
from firstword.models.token2wav import Token2Wav
from firstword.models.tokenizer import TextTokenizer

MAX_PROMPT_S = MAX_RECORDING_S + 1  # a second of slack for rounding and margins
SLACK_FRAMES = 6  # of a mel that is not cut to its tokens: both are rounded
MAX_MAGNITUDE = MAX_MAP_ELEMENT  # log-mels of samples within ±1 are within ±12, embeddings' elements about 1
FEATURE_DTYPES = {"prompt_tokens": np.int64, "prompt_mel": np.float32, "embedding": np.float32}
MATCH_SHAPES = {"mel_map": MEL_MAP_SHAPE, "equalizer": EQUALIZER_SHAPE}
"""Of what is stored beside them, in float32, where the checkpoint matches recordings."""

Match = Callable[[SpeakerFeatures, Sequence[int]], SpeakerFeatures]
"""`speaker_match.matched` of one checkpoint."""

logger = logging.getLogger(__name__)


class PromptState(Protocol):
    """What the flow shares among the streams of one speaker."""

    @property
    def state_bytes(self) -> int: ...


class PromptStates(Protocol):
    """Computes prompt states for one setting of the first hop; threads may share it."""

    @property
    def sample_rate_hz(self) -> int: ...

    def compute_prompt_state(self, features: SpeakerFeatures, /) -> PromptState: ...

    def vocode_prompt(self, features: SpeakerFeatures, /) -> torch.Tensor:
        """Return samples (N,); N 0 without a prompt."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FirstHopPromptStates:
    """Prompt states cut so that the first hop of a stream has `first_hop_tokens` speech tokens."""

    token2wav: Token2Wav
    first_hop_tokens: int

    @property
    def sample_rate_hz(self) -> int:
        return self.token2wav.sample_rate_hz

    def vocode_prompt(self, features: SpeakerFeatures) -> torch.Tensor:
        return self.token2wav.vocode_prompt(features)

    def compute_prompt_state(self, features: SpeakerFeatures) -> PromptState:
        return self.token2wav.compute_prompt_state(features, self.first_hop_tokens)


@dataclass(frozen=True, slots=True, eq=False)
class BuiltinSpeaker:
    features: SpeakerFeatures
    transcript: str  # "" where it has none, or none that can be told
    duration_s: float  # of its prompt
    created_at: str  # ISO 8601, UTC
    quality: Quality | None  # estimated; None without a prompt
    description: Description | None = None  # None: its checkpoint says nothing of it


def builtin_info(name: str, builtin: BuiltinSpeaker, is_cached: bool) -> KnownSpeaker:
    return KnownSpeaker(
        name=name,
        kind="builtin",
        created_at=builtin.created_at,
        prompt=PromptInfo(builtin.duration_s, builtin.transcript, None, len(builtin.features.prompt_tokens)),
        quality=builtin.quality,
        cached=is_cached,
        access="read-only",
        description=builtin.description,
    )


class SpeakerNetworks:
    """The networks that read a recording's features and compute its prompt state. Threads may share it.

    They read recordings side by side; what flow, vocoder and language model compute, one after the other.
    device: of the two ONNX graphs that read recordings. lm: checks transcripts; None: nothing does. match:
    fits what flow and vocoder make of a speaker to the recording, where the checkpoint asks for it. Raises
    CheckpointError.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        tokenizer: TextTokenizer,
        prompt_states: PromptStates,
        device: str = "cpu",
        lm: SpeechLM | None = None,
        match: Match | None = None,
    ) -> None:
        self.fingerprint = fingerprint(checkpoint.directory, checkpoint.traits.matches_recordings)
        self.builtin = builtin_speakers(checkpoint, tokenizer)
        former = checkpoint.traits.former_speakers
        self.builtin_names = {**former, **{name: name for name in self.builtin}}  # what is said -> who speaks
        self.reader = checkpoint.load_prompt_reader(1, device)
        self._tokenizer = tokenizer
        self._prompt_states = prompt_states
        self._lm = lm
        self._match = match if checkpoint.traits.matches_recordings else None
        self._family = checkpoint.config.family
        self._vocab_size = checkpoint.config.flow.vocab_size
        self._max_prompt_tokens = MAX_PROMPT_S * checkpoint.config.token_rate_hz
        self._frames_per_token = checkpoint.config.frame_rate_hz / checkpoint.config.token_rate_hz
        self._computing = threading.Lock()  # flow, vocoder and language model

    @property
    def is_aligned(self) -> bool:
        """Whether prompts are cut to a whole number of mel frames a token; those of CosyVoice 1 are not."""
        return self._frames_per_token == FRAMES_PER_TOKEN

    @property
    def has_sft(self) -> bool:
        """Whether some speaker is spoken with by its embedding alone: of CosyVoice 1 each may be."""
        promptless = (not one.features.has_prompt for one in self.builtin.values())
        return self._family == "cosyvoice1" or any(promptless)

    def read_features(self, samples: NDArray[np.float32], sample_rate_hz: int) -> SpeakerFeatures:
        """samples (n,), within ±1, of one person speaking.

        Raises BadAudio (silent, empty, not finite, below 16 kHz), and AudioTooShort and AudioTooLong for
        what is left without the silence at both ends; SynthesisFailed if a network fails.
        """
        with _frontend_errors(samples, sample_rate_hz):
            return self.reader.read_speaker(samples, sample_rate_hz)

    def read_embedding(self, samples: NDArray[np.float32], sample_rate_hz: int) -> NDArray[np.float32]:
        """The embedding (192,) alone. Raises as `read_features` does."""
        with _frontend_errors(samples, sample_rate_hz):
            embedding: NDArray[np.float32] = self.reader.read_embedding(samples, sample_rate_hz).numpy()
            return embedding

    def read_speaker(self, samples: NDArray[np.float32], sample_rate_hz: int) -> SpeakerFeatures:
        """All that it takes to speak like the recording: its features, matched. As `read_features`.

        Raises BadAudio also where nothing speaks.
        """
        features = self.read_features(samples, sample_rate_hz)
        if measure_quality(samples, sample_rate_hz).speech_ratio == 0.0:
            raise BadAudio(
                "nobody speaks in the recording: it is as loud everywhere, like noise or a tone; send "
                "one of a person who speaks"
            )
        return self.matched(features)

    def matched(self, features: SpeakerFeatures) -> SpeakerFeatures:
        """Return them with map and equalizer, where the checkpoint wants them and they have no map."""
        if self._match is None or features.mel_map is not None:
            return features
        prompts = (one.features.prompt_tokens for one in self.builtin.values() if one.features.has_prompt)
        other = next(prompts, features.prompt_tokens)
        with self._computing:
            return self._match(features, other.tolist())

    def read_source_tokens(self, samples: NDArray[np.float32], sample_rate_hz: int) -> list[int]:
        """The speech tokens of a recording to convert, pauses included. Raises as `read_features` does."""
        with _frontend_errors(samples, sample_rate_hz, keeps_silence=True):
            tokens: list[int] = self.reader.read_source_tokens(samples, sample_rate_hz).tolist()
            return tokens

    def vocoded_prompt(self, features: SpeakerFeatures) -> tuple[Samples, int]:
        """Return what a prompt sounds like, within ±1, and its sample rate: of a built-in speaker nothing
        else is left of the recording. No samples without a prompt."""
        with self._computing:
            samples = self._prompt_states.vocode_prompt(features).clamp(-1, 1).numpy()
        return samples, self._prompt_states.sample_rate_hz

    def transcript_fit(self, features: SpeakerFeatures, transcript: str) -> float | None:
        """Return whether all of a transcript is said, as `transcript_check.transcript_fit` does."""
        ids = tuple(self._tokenizer.encode(transcript))
        if self._lm is None or not ids:
            return None
        given = zero_shot(self._family, replace(features, prompt_text_ids=ids), (), self._tokenizer)
        speech_ids = features.prompt_tokens.tolist()
        with self._computing:
            return transcript_fit(
                self._lm, given.prompt_text_ids, speech_ids, given.prefix_text_ids, given.lm_embedding
            )

    def tensors_of(self, features: SpeakerFeatures) -> Tensors:
        """What is stored of a speaker's features: all but the transcript."""
        tensors = {name: getattr(features, name).contiguous().numpy() for name in FEATURE_DTYPES}
        match = {name: getattr(features, name) for name in MATCH_SHAPES}
        return tensors | {name: one.numpy() for name, one in match.items() if one is not None}

    def features_from(self, tensors: Tensors) -> SpeakerFeatures:
        """Check stored features, which may come from anywhere.

        Raises ValueError for a name, type or shape, a speech token or a number that `read_features` cannot
        give.
        """
        shapes = {name: shape for name, shape in MATCH_SHAPES.items() if name in tensors}
        dtypes = FEATURE_DTYPES | dict.fromkeys(shapes, np.float32)
        if tensors.keys() != dtypes.keys():
            raise ValueError(f"tensors {sorted(tensors)}; expected {sorted(FEATURE_DTYPES)}")
        for name, dtype in dtypes.items():
            if tensors[name].dtype != dtype:
                raise ValueError(f"{name} is {tensors[name].dtype}; expected {np.dtype(dtype)}")
        tokens, mel, embedding = (torch.from_numpy(tensors[name]) for name in FEATURE_DTYPES)
        if tokens.ndim != 1 or not 1 <= len(tokens) <= self._max_prompt_tokens:
            expected = f"(1..{self._max_prompt_tokens},)"
            raise ValueError(f"prompt_tokens {tuple(tokens.shape)}; expected {expected}")
        outside = tokens[(tokens < 0) | (tokens >= self._vocab_size)]
        if len(outside):
            raise ValueError(f"speech token {int(outside[0])}; expected 0..{self._vocab_size - 1}")
        match = {name: torch.from_numpy(tensors[name]) for name in shapes}
        for name, tensor, shape in (
            ("prompt_mel", mel, (self._num_frames(tokens, mel), NUM_MELS)),
            ("embedding", embedding, (SPEAKER_EMBEDDING_SIZE,)),
            *((name, match[name], shape) for name, shape in shapes.items()),
        ):
            if tensor.shape != shape:
                raise ValueError(f"{name} {tuple(tensor.shape)}; expected {shape}")
            if not bool((tensor.abs() <= MAX_MAGNITUDE).all()):  # False for NaN too
                raise ValueError(f"{name} holds numbers that are not within ±{MAX_MAGNITUDE:g}")
        features = SpeakerFeatures("", tokens, mel, embedding)
        if self._match is None:
            return features
        return replace(features, mel_map=match.get("mel_map"), equalizer=match.get("equalizer"))

    def _num_frames(self, tokens: torch.Tensor, mel: torch.Tensor) -> int:
        """How many mel frames belong to a prompt's tokens: near enough, where neither is cut to the other."""
        expected = round(self._frames_per_token * len(tokens))
        found = mel.shape[0] if mel.ndim else 0
        return found if not self.is_aligned and abs(found - expected) <= SLACK_FRAMES else expected

    def bundle_of(self, speaker: PreparedSpeaker, name: str) -> bytes:
        """Return a prepared speaker as a bundle; as its recording it has what its prompt sounds like.

        Raises InvalidRequest for a name that none can have, and without a prompt.
        """
        features = speaker.features
        samples, sample_rate_hz = self.vocoded_prompt(features)
        if not len(samples):
            raise InvalidRequest("the speaker has no prompt, so there is nothing to save", param="name")
        recording = encode_whole("wav", samples, sample_rate_hz)
        tensors = self.tensors_of(features)
        return write_bundle(
            Bundle(checked_name(name), speaker.transcript, None, self.fingerprint, recording, tensors)
        )

    def prepared_from(self, content: bytes) -> PreparedSpeaker:
        """Return the speaker of a bundle, ready to speak. Nothing in the bundle is trusted.

        Raises InvalidRequest, SpeakerIncompatible.
        """
        bundle = read_bundle(content, self.fingerprint)
        try:
            features = self.matched(self.features_from(bundle.features))
        except ValueError as error:
            raise invalid_bundle(str(error)) from error
        return self.with_prompt_state(features, checked_transcript(bundle.transcript))

    @torch.inference_mode()
    def compute_prompt_state(
        self, features: SpeakerFeatures, first_hop_tokens: int | None = None
    ) -> PromptState:
        """Compute what the flow shares among a speaker's streams.

        first_hop_tokens: of these streams; None, or a flow that has no such choice: as of all others.
        """
        states = self._prompt_states
        if first_hop_tokens is not None and isinstance(states, FirstHopPromptStates):
            states = replace(states, first_hop_tokens=first_hop_tokens)
        with self._computing:
            return states.compute_prompt_state(features)

    def with_prompt_state(self, features: SpeakerFeatures, transcript: str) -> PreparedSpeaker:
        """Compute the prompt state, and the transcript's text tokens unless the features have them."""
        if features.prompt_text_ids is None:
            features = replace(features, prompt_text_ids=tuple(self._tokenizer.encode(transcript)))
        prompt_state = self.compute_prompt_state(features)
        state_bytes = prompt_state.state_bytes + sum(one.nbytes for one in self.tensors_of(features).values())
        return PreparedSpeaker(transcript, features, prompt_state, state_bytes)

    def with_transcript(self, speaker: PreparedSpeaker, transcript: str) -> PreparedSpeaker:
        """Return it with another transcript, on which its prompt state does not depend."""
        ids = tuple(self._tokenizer.encode(transcript))
        return replace(
            speaker, transcript=transcript, features=replace(speaker.features, prompt_text_ids=ids)
        )


@contextmanager
def _frontend_errors(
    samples: NDArray[np.float32], sample_rate_hz: int, keeps_silence: bool = False
) -> Iterator[None]:
    """Translate what the front end raises while it reads these samples.

    keeps_silence: the silence at both ends counts as well.
    """
    try:
        yield
    except RecordingError as error:
        try:
            whole = Recording.from_channels(samples, sample_rate_hz)
            trimmed = whole.trimmed()
        except RecordingError:
            raise BadAudio(str(error)) from error
        # Its silence could be cut off: it was refused for its length.
        duration_s = (whole if keeps_silence else trimmed).duration_s
        refusal = AudioTooLong if duration_s > MAX_RECORDING_S else AudioTooShort
        raise refusal(str(error)) from error
    except FrontendError as error:
        raise SynthesisFailed("the networks that read recordings failed; see the server's log") from error


def builtin_speakers(checkpoint: Checkpoint, tokenizer: TextTokenizer) -> Mapping[str, BuiltinSpeaker]:
    """By name, the default speaker first. Their table has text tokens for what a prompt says, which a
    checkpoint that reads sounds cannot turn back into text."""
    speakers = checkpoint.load_speakers()
    if not speakers:
        return {}
    made_s = (checkpoint.directory / SPEAKER_TABLE_FILE).stat().st_mtime
    created_at = datetime.fromtimestamp(made_s, UTC).isoformat(timespec="seconds")
    described = checkpoint.load_descriptions()
    found = {}
    for name, features in speakers.items():
        transcript = checkpoint.traits.transcripts.get(name) or tokenizer.decode(
            features.prompt_text_ids or ()
        )
        duration_s = len(features.prompt_mel) / checkpoint.config.frame_rate_hz
        quality = estimate_quality(features.prompt_mel.numpy())  # no warnings: nobody can record it again
        given = described.get(name)
        description = None if given is None else Description(**asdict(given))
        found[name] = BuiltinSpeaker(features, transcript, duration_s, created_at, quality, description)
    return found


def decode_upload(recording: bytes) -> tuple[Samples, int]:
    """Mono samples (n,) within ±1 and their sample rate. Raises BadAudio and AudioTooLong."""
    try:
        return decode_recording(recording, float(MAX_RECORDING_S))
    except RecordingTooLong as error:
        raise AudioTooLong(str(error)) from error
    except UndecodableAudio as error:
        raise BadAudio(str(error)) from error


def read_recording(recording: str | Path | bytes | tuple[Samples, int]) -> tuple[Samples, int]:
    """Mono samples (n,) and their rate. Raises BadAudio and AudioTooLong, OSError for a path."""
    if isinstance(recording, tuple):
        samples, sample_rate_hz = recording
        if samples.ndim != 1:
            raise ValueError(f"samples of shape {samples.shape}; expected mono, (n,)")
        if samples.dtype.kind != "f":
            raise ValueError(f"samples of {samples.dtype}; expected floats within ±1")
        return samples.astype(np.float32, copy=False), sample_rate_hz
    content = recording if isinstance(recording, bytes) else Path(recording).read_bytes()
    return decode_upload(content)


class Enrolment:
    """Makes speakers of recordings and bundles, and makes stored ones ready again.

    Every method blocks: call it on a worker thread. What it makes of an upload, it does not store.
    """

    def __init__(self, store: SpeakerTables, networks: SpeakerNetworks) -> None:
        self._store = store
        self._networks = networks

    def enrol_recording(
        self, name: str, recording: bytes, transcript: str, language: str | None
    ) -> tuple[StoredSpeaker, PreparedSpeaker]:
        """Return a speaker to store and to speak with. Raises BadAudio and kin."""
        samples, sample_rate_hz = decode_upload(recording)
        features = self._networks.read_speaker(samples, sample_rate_hz)
        row = self._row(name, transcript, language, features, samples, sample_rate_hz)
        stored = StoredSpeaker(row, recording, pack(self._networks.tensors_of(features)))
        return stored, self._networks.with_prompt_state(features, transcript)

    def enrol_bundle(self, content: bytes, name: str | None) -> tuple[StoredSpeaker, PreparedSpeaker]:
        """name: instead of the bundle's own. Nothing in the bundle is trusted.

        Raises InvalidRequest, SpeakerIncompatible.
        """
        bundle = read_bundle(content, self._networks.fingerprint)
        name = checked_name(bundle.name if name is None else name)
        transcript = checked_transcript(bundle.transcript)
        language = checked_language(bundle.language)
        lexicon = checked_lexicon(bundle.lexicon)
        try:
            features = self._networks.features_from(bundle.features)
            samples, sample_rate_hz = decode_upload(bundle.recording)
        except (ValueError, BadAudio) as error:
            raise invalid_bundle(str(error)) from error
        features = self._networks.matched(features)
        row = self._row(name, transcript, language, features, samples, sample_rate_hz)
        row = replace(row, lexicon=lexicon)
        stored = StoredSpeaker(row, bundle.recording, pack(self._networks.tensors_of(features)))
        return stored, self._networks.with_prompt_state(features, transcript)

    def export_bundle(self, id: int) -> bytes:
        """Raises SpeakerNotFound, SpeakerIncompatible."""
        stored, features = self._restore_features(id)
        row = stored.row
        return write_bundle(
            Bundle(
                row.name,
                row.prompt.transcript,
                row.prompt.language,
                row.fingerprint,
                stored.recording,
                self._networks.tensors_of(features),
                json.dumps(dict(row.lexicon)),
            )
        )

    def export_builtin(self, name: str) -> bytes:
        """As its recording it has what its prompt sounds like. Raises InvalidRequest without a prompt."""
        builtin = self._networks.builtin[name]
        samples, sample_rate_hz = self._networks.vocoded_prompt(builtin.features)
        if not len(samples):
            raise InvalidRequest(
                f"the built-in speaker {name!r} has no prompt, so there is nothing to export", param="name"
            )
        tokens, mel = builtin.features.prompt_tokens, builtin.features.prompt_mel
        if self._networks.is_aligned:
            tokens, mel = align_prompt(tokens, mel)
        # Elsewhere it shall sound as it does here.
        features = replace(builtin.features, prompt_tokens=tokens, prompt_mel=mel, mel_map=NO_CHANGE)
        return write_bundle(
            Bundle(
                name,
                builtin.transcript,
                None,
                self._networks.fingerprint,
                encode_whole("wav", samples, sample_rate_hz),
                self._networks.tensors_of(features),
            )
        )

    def restore(self, id: int) -> PreparedSpeaker:
        """Make a stored speaker ready to speak with. Raises SpeakerNotFound, SpeakerIncompatible."""
        stored, features = self._restore_features(id)
        return self._networks.with_prompt_state(features, stored.row.prompt.transcript)

    def _restore_features(self, id: int) -> tuple[StoredSpeaker, SpeakerFeatures]:
        """Read the stored features; those of another checkpoint are read anew from the recording and kept."""
        stored = self._store.read(id)
        if stored is None:
            raise SpeakerNotFound("the speaker was deleted")
        row = stored.row
        if row.fingerprint == self._networks.fingerprint:
            try:
                tensors, _ = unpack(stored.features)
                features = self._networks.features_from(tensors)
            except ValueError as error:
                logger.warning("the features of speaker %s are damaged (%s)", row.name, error)
            else:
                return self._matched(stored, features)
        try:
            samples, sample_rate_hz = decode_upload(stored.recording)
            features = self._networks.read_speaker(samples, sample_rate_hz)
        except BadAudio as error:
            raise SpeakerIncompatible(
                f"what is kept of speaker {row.name!r} does not fit this checkpoint, and the recording "
                f"cannot be read again: {error}; register another one"
            ) from error
        content = pack(self._networks.tensors_of(features))
        prompt = replace(row.prompt, num_tokens=len(features.prompt_tokens))
        row = replace(row, prompt=prompt, fingerprint=self._networks.fingerprint)
        stored = replace(stored, row=row, features=content)
        self._keep(stored)
        logger.info("speaker %s read again for checkpoint %s", row.name, row.fingerprint)
        return stored, features

    def _matched(
        self, stored: StoredSpeaker, features: SpeakerFeatures
    ) -> tuple[StoredSpeaker, SpeakerFeatures]:
        """Return them matched where that is wanted; what was missing is kept."""
        found = self._networks.matched(features)
        if found is not features:
            stored = replace(stored, features=pack(self._networks.tensors_of(found)))
            self._keep(stored)
        return stored, found

    def _keep(self, stored: StoredSpeaker) -> None:
        """Store what was read, if the store takes it: it can be computed again."""
        try:
            self._store.replace_features(stored)
        except (StoreFull, StoreUnavailable) as error:
            logger.warning(
                "what was read of the recording of speaker %s cannot be kept: %s", stored.row.name, error
            )

    def _row(
        self,
        name: str,
        transcript: str,
        language: str | None,
        features: SpeakerFeatures,
        samples: Samples,
        sample_rate_hz: int,
    ) -> SpeakerRow:
        return SpeakerRow(
            name=name,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            prompt=PromptInfo(
                len(samples) / sample_rate_hz, transcript, language, len(features.prompt_tokens)
            ),
            quality=replace(
                measure_quality(samples, sample_rate_hz),
                transcript_fit=self._networks.transcript_fit(features, transcript),
            ),
            fingerprint=self._networks.fingerprint,
        )
