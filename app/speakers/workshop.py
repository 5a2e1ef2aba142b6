"""The work on speakers that takes a worker thread: reading recordings, preparing, packing bundles."""

import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from app.audio.decode import RecordingTooLong, UndecodableAudio, decode_recording
from app.audio.pcm import Samples
from app.engine.interface import AudioTooLong, BadAudio, SpeakerIncompatible, SpeakerNotFound
from app.speakers.bundle import Bundle, invalid_bundle, read_bundle, write_bundle
from app.speakers.fields import checked_language, checked_name, checked_transcript
from app.speakers.quality import measure_quality
from app.speakers.store import SpeakerRow, SpeakerStore, StoredSpeaker
from app.speakers.tensor_file import pack, unpack

if TYPE_CHECKING:  # so that nothing here needs torch to be imported
    from app.speakers.enrolment import Enroller, PreparedSpeaker
    from models.frontend.speaker import Speaker

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

    def _current(self, id: int) -> tuple[StoredSpeaker, "Speaker"]:
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

    def _read_again(self, id: int, stored: StoredSpeaker) -> tuple[StoredSpeaker, "Speaker"]:
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
        speaker: "Speaker",
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
