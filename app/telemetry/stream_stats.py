"""Count what one stream took, stage by stage, from its events."""

from dataclasses import dataclass, field
from typing import Final, Literal

from firstword.app.events import Event, Stage

NETWORKS: Final = ("lm", "flow", "vocoder")
WordTimes = Literal["aligned", "estimated"]  # by the language model, or by the words' lengths


@dataclass(slots=True)
class FirstChunk:
    """The time before a stream's first audio, by stage, in seconds; None: not known, or not yet.

    prefill_s: until the language model's first token; first_hop_s: from there to the tokens of the first
    chunk. flow_s, vocoder_s: this stream's share of its batch.
    """

    speaker_s: float | None = None
    is_speaker_ready: bool = True  # found in memory
    text_s: float | None = None
    prefill_s: float | None = None
    first_hop_s: float | None = None
    flow_s: float | None = None
    vocoder_s: float | None = None
    encode_s: float | None = None
    audio_s: float | None = None  # of the chunk
    has_segments: bool = False  # something of the text can be spoken

    def note_speaker_miss(self) -> None:
        self.is_speaker_ready = False

    def count(self, stage: Stage) -> None:
        """Add a stage, unless the first audio has passed it."""
        match stage.name:
            case "speaker":
                self.speaker_s = (self.speaker_s or 0.0) + stage.duration_s
            case "text" if not self.has_segments:
                self.text_s = (self.text_s or 0.0) + stage.duration_s
                self.has_segments = bool(stage.counts["segments"])
            case "prefill" if self.prefill_s is None:
                self.prefill_s = stage.duration_s
            case "first_hop" if self.first_hop_s is None:
                self.first_hop_s = stage.duration_s - (self.prefill_s or 0.0)
            case "flow" if self.audio_s is None:
                self.flow_s = (self.flow_s or 0.0) + (stage.compute_s or 0.0)
            case "vocoder" if self.audio_s is None:
                self.vocoder_s = (self.vocoder_s or 0.0) + (stage.compute_s or 0.0)

    def spoken(self, audio_s: float) -> None:
        """Note the length of the chunk; the first call with audio counts."""
        self.audio_s = self.audio_s or audio_s

    @property
    def rtf(self) -> float | None:
        """Time to make the chunk, from its prefill on, over its audio."""
        times = (self.prefill_s, self.first_hop_s, self.flow_s, self.vocoder_s, self.encode_s)
        return sum(one or 0.0 for one in times) / self.audio_s if self.audio_s else None

    def times_ms(self) -> dict[str, float]:
        """Return the known times in milliseconds, by stage, in the order of the stages."""
        times = {
            "speaker": self.speaker_s,
            "text": self.text_s,
            "prefill": self.prefill_s,
            "first_hop": self.first_hop_s,
            "flow": self.flow_s,
            "vocoder": self.vocoder_s,
            "encode": self.encode_s,
        }
        return {name: round(1000 * time_s, 1) for name, time_s in times.items() if time_s is not None}


@dataclass(slots=True)
class StreamStats:
    """Counts of one stream, most of them by its events. Times are seconds; compute is that of all stages."""

    characters: int = 0  # as given, before normalization
    speaker: str = ""  # the name of who speaks; "" until the text has told
    speech_tokens: int = 0
    audio_samples: int = 0  # given out
    queue_wait_s: float = 0.0
    compute_s: float = 0.0
    networks_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(NETWORKS, 0.0))  # of it
    first: FirstChunk = field(default_factory=FirstChunk)
    pauses: list[int] = field(default_factory=list)  # of the writer: behind which characters
    word_times: WordTimes | None = None  # how they were found, where they were asked for
    warnings: list[str] = field(default_factory=list)  # about the text, for the client; in ASCII

    def note_word_times(self, found: WordTimes) -> None:
        """Note how words of an utterance were found; one that is estimated makes the stream's so."""
        if self.word_times != "estimated":
            self.word_times = found

    def on_event(self, event: Event) -> None:
        """Count what a stage took; a subscriber of the stream's events."""
        if not isinstance(event, Stage):
            return
        compute_s = event.compute_s or 0.0
        self.compute_s += compute_s
        if event.name in self.networks_s:
            self.networks_s[event.name] += compute_s
        match event.name:
            case "speaker":
                self.speaker = str(event.counts.get("name", ""))
            case "queue":
                self.queue_wait_s = event.duration_s
            case "flow":
                self.speech_tokens += int(event.counts["tokens"])
        self.first.count(event)
