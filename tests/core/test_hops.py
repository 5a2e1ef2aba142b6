"""How long the pieces are that a stream hands out, which must not change how it sounds."""

import numpy as np
import pytest

from firstword.app.core.audio import MAX_CHUNKS, chunks_of_hop
from firstword.app.core.interface import Audio
from firstword.app.options import HopStrategy
from tests.support.toy_engine import HOP, SAMPLES_PER_TOKEN, ToyEngine, asked

TEXT = "a sentence that has enough letters for many hops, whatever the way they are cut."


@pytest.mark.parametrize(
    ("strategy", "chunks_ahead", "expected"),
    [
        ("fixed", [0.0, 9.0, 9.0, 9.0], [1, 1, 1, 1]),
        ("growing", [0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1, 1, 2, MAX_CHUNKS, MAX_CHUNKS, MAX_CHUNKS]),
        ("time_based", [9.0, -1.0, 3.9, 4.0, 6.1, 99.0], [1, 1, 1, 2, 3, MAX_CHUNKS]),
    ],
)
def test_chunks_of_each_hop(strategy: HopStrategy, chunks_ahead: list[float], expected: list[int]) -> None:
    found = [chunks_of_hop(strategy, number, ahead) for number, ahead in enumerate(chunks_ahead)]
    assert found == expected


@pytest.mark.anyio
async def test_the_sound_is_the_same_in_other_pieces() -> None:
    pieces = {}
    for strategy in ("fixed", "growing", "time_based"):
        async with ToyEngine(hop_strategy=strategy) as toy, toy.engine.open(asked(TEXT)) as stream:
            pieces[strategy] = [event.samples async for event in stream if isinstance(event, Audio)]
    whole = np.concatenate(pieces["fixed"])
    for strategy in ("growing", "time_based"):
        np.testing.assert_array_equal(np.concatenate(pieces[strategy]), whole)
    sizes = [len(piece) // (HOP * SAMPLES_PER_TOKEN) for piece in pieces["growing"]]
    assert sizes[:3] == [1, 1, 2]
    assert len(pieces["growing"]) < len(pieces["fixed"])
