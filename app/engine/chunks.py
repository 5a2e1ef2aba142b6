"""When enough speech tokens are ready for token2wav: a pure decision, one object per utterance."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenChunk:
    """Tokens [start, stop) of an utterance; none at all where only its end was still to be told."""

    start: int
    stop: int
    is_last: bool


@dataclass(slots=True)
class ChunkSchedule:
    """Hands out an utterance's tokens hop by hop.

    How many tokens a hop wants, lookahead included, is told by the grid of the network (25 tokens, the
    first hop fewer so that audio starts early), so the chunks depend on token counts alone and never on
    how fast tokens or listeners are. Hops do not grow: with the incremental flow a long one saves nothing.
    """

    handed_tokens: int = 0
    is_finished: bool = False

    def tokens_due(self, wanted_tokens: int) -> int:
        """How many tokens the utterance must have until its next chunk, wanted_tokens of them new."""
        return self.handed_tokens + wanted_tokens

    def next_chunk(self, ready_tokens: int, wanted_tokens: int, has_ended: bool) -> TokenChunk | None:
        """ready_tokens: of the utterance so far; has_ended: no more come. None: wait, or all is done."""
        ready_tokens = max(ready_tokens, self.handed_tokens)  # a loop takes back some that were handed out
        due = self.tokens_due(wanted_tokens)
        if self.is_finished or (ready_tokens < due and not has_ended):
            return None
        stop = min(due, ready_tokens)
        chunk = TokenChunk(self.handed_tokens, stop, has_ended and stop == ready_tokens)
        self.handed_tokens, self.is_finished = stop, chunk.is_last
        return chunk
