"""The chunk schedule."""

import pytest

from firstword.app.engine.stream import ChunkSchedule, TokenChunk

FIRST, HOP, LOOKAHEAD = 10, 25, 3


def chunks_of(num_tokens: int, arrivals: list[int]) -> list[TokenChunk]:
    """All chunks of an utterance whose tokens have come up to each of `arrivals`, then all, then the end."""
    schedule, found = ChunkSchedule(), []
    for ready, has_ended in [
        *((count, False) for count in arrivals),
        (num_tokens, False),
        (num_tokens, True),
    ]:
        while True:
            wanted = HOP if schedule.handed_tokens else FIRST + LOOKAHEAD
            chunk = schedule.next_chunk(ready, wanted, has_ended)
            if chunk is None:
                break
            found.append(chunk)
    assert schedule.is_finished
    return found


def test_first_chunk_waits_for_its_hop_and_the_lookahead() -> None:
    schedule = ChunkSchedule()
    assert schedule.next_chunk(FIRST + LOOKAHEAD - 1, FIRST + LOOKAHEAD, has_ended=False) is None
    assert schedule.next_chunk(FIRST + LOOKAHEAD, FIRST + LOOKAHEAD, has_ended=False) == TokenChunk(
        0, 13, False
    )


@pytest.mark.parametrize("num_tokens", [1, 12, 13, 14, 37, 38, 39, 200])
def test_chunks_cover_every_token_once_and_only_the_last_ends(num_tokens: int) -> None:
    chunks = chunks_of(num_tokens, [])
    assert [chunk.start for chunk in chunks] == [0, *(chunk.stop for chunk in chunks[:-1])]
    assert chunks[-1].stop == num_tokens
    assert [chunk.is_last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


@pytest.mark.parametrize("arrivals", [[1, 2, 3, 50], [13], [12, 14, 60, 61], list(range(1, 90))])
def test_chunks_do_not_depend_on_how_tokens_came(arrivals: list[int]) -> None:
    assert chunks_of(90, arrivals) == chunks_of(90, [])


def test_an_end_that_comes_after_the_last_token_is_told_by_a_chunk_without_tokens() -> None:
    schedule = ChunkSchedule()
    schedule.next_chunk(13, 13, has_ended=False)
    assert schedule.next_chunk(13, 25, has_ended=False) is None
    assert schedule.next_chunk(13, 25, has_ended=True) == TokenChunk(13, 13, True)
    assert schedule.next_chunk(13, 25, has_ended=True) is None
