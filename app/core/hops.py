"""How much speech a stream hands out at once, behind its first hop.

Chunks are solved one by one whatever is chosen, so the sound is the same; fewer, larger pieces are fewer
messages, and fewer turns in the pool.
"""

from dataclasses import dataclass

from firstword.app.options import HopStrategy

MAX_CHUNKS = 4
_LEAD_SHARE = 0.5  # of what the listener has ahead, that the next hop may be long


@dataclass(slots=True)
class Hops:
    """Of one utterance. chunk_s: what a chunk lasts."""

    strategy: HopStrategy
    chunk_s: float
    num_hops: int = 0  # before the next one

    def next_chunks(self, lead_s: float) -> int:
        """Return of how many chunks the next hop is. lead_s: audio that the listener has not heard yet."""
        self.num_hops += 1
        if self.strategy == "fixed" or self.num_hops == 1:
            return 1
        if self.strategy == "growing":
            return min(1 << (self.num_hops - 2), MAX_CHUNKS)
        return max(1, min(int(_LEAD_SHARE * lead_s / self.chunk_s), MAX_CHUNKS))
