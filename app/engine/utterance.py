"""One run of the language model within a stream."""

from dataclasses import dataclass

from firstword.app.engine.tokens.interface import TokenStream
from firstword.app.engine.transcript import UtteranceTranscript


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """One run of the language model: a segment, or in continuous mode all text up to a flush."""

    tokens: TokenStream
    transcript: UtteranceTranscript
    seed: int
    started_s: float
