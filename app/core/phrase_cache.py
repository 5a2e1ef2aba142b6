"""Finished speech kept in memory, for requests that would be spoken the same way again."""

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firstword.app.core.interface import Audio
from firstword.app.core.request import ResolvedReading, SynthesisRequest
from firstword.app.core.transcript import UtteranceTranscript
from firstword.app.speakers.interface import PreparedSpeaker, PreparedSpeakers
from firstword.app.telemetry.stream_stats import WordTimes

_NAMES_VOICES = re.compile(r"\[voice:|<voice\b")


@dataclass(frozen=True, slots=True, eq=False)
class Phrase:
    """One whole text, spoken."""

    pieces: Sequence[Audio]  # as they were given out
    transcripts: Sequence[UtteranceTranscript]
    word_times: WordTimes | None = None
    speaker: str = ""
    warnings: Sequence[str] = ()

    @property
    def num_bytes(self) -> int:
        return sum(piece.samples.nbytes for piece in self.pieces)


class PhraseCache:
    """The least recently used are dropped over `max_bytes`; 0 keeps nothing. For one event loop."""

    def __init__(
        self,
        max_bytes: int,
        on_hit: Callable[[], None] = lambda: None,
        on_miss: Callable[[], None] = lambda: None,
    ) -> None:
        self.max_bytes = max_bytes
        self._on_hit = on_hit
        self._on_miss = on_miss
        self._phrases: OrderedDict[str, Phrase] = OrderedDict()  # the newest last
        self._num_bytes = 0
        self._generation = 0  # a key has that of its time

    async def find(
        self,
        request: SynthesisRequest,
        reading: ResolvedReading,
        speakers: PreparedSpeakers,
        text_version: str,
    ) -> tuple[str | None, Phrase | None]:
        """Return the key under which the request's audio is to be kept, and what there is under it.

        The key has everything that decides the audio but what stays the same while the server runs, and the
        client, so that none learns what another has had spoken; a speaker is in it with its content, as its
        name may be another's later. No key: the text comes in pieces, it may name other voices, or there is
        neither a seed nor the client's word. text_version: changes with what the server knows of words.
        Raises SpeakerNotFound.
        """
        voice, delivery = request.voice, request.delivery
        wanted = request.seed is not None if delivery.cache is None else delivery.cache
        if isinstance(voice.reference, PreparedSpeaker):  # nothing tells what it was made of
            return None, None
        if not self.max_bytes or not wanted or request.text is None or _NAMES_VOICES.search(request.text):
            return None, None
        speaker = await speakers.identity(voice.speaker, request.client, voice.reference)
        decides = (
            request.text,
            reading,
            (voice.mode, voice.instruct),
            (request.sampling, request.seed, request.pauses),
            (delivery.volume, delivery.context, delivery.wants_words),
        )
        key = f"{self._generation} {request.client.name!r} {speaker}\n{text_version}\n{decides}"
        phrase = self._phrases.get(key)
        if phrase is None:
            self._on_miss()
        else:
            self._phrases.move_to_end(key)
            self._on_hit()
        return key, phrase

    def clear(self) -> None:
        """Drop everything, and what is being made as well."""
        self._phrases.clear()
        self._num_bytes = 0
        self._generation += 1

    def put(self, key: str, phrase: Phrase) -> None:
        if phrase.num_bytes > self.max_bytes:
            return
        old = self._phrases.pop(key, None)
        self._num_bytes += phrase.num_bytes - (0 if old is None else old.num_bytes)
        self._phrases[key] = phrase
        while self._num_bytes > self.max_bytes:
            _, dropped = self._phrases.popitem(last=False)
            self._num_bytes -= dropped.num_bytes
