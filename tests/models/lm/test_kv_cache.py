import pytest
import torch
from torch import Tensor

from firstword.models.layers import FullContext, chunk_mask
from firstword.models.lm.kv_cache import FIRST_LENGTH, CacheShape, KeyValueCache
from tests.models.lm.networks import FAMILIES, make_model

SHAPE = CacheShape(num_layers=1, num_heads=2, head_dim=4)


def make_cache(num_rows: int) -> KeyValueCache:
    cache = KeyValueCache(SHAPE, torch.float32, torch.device("cpu"))
    for row in range(num_rows):
        assert cache.add_row() == row
    return cache


def attend(cache: KeyValueCache, rows: range, counts: list[int], x: Tensor) -> Tensor:
    """One pass of a network with one layer that attends with x (B, H, T, D) itself."""
    memory = cache.open_pass(rows, counts)
    y = memory.attend(0, x, x, x)
    memory.commit()
    return y


@pytest.mark.parametrize("family", FAMILIES)
@torch.inference_mode()
def test_passes_of_any_length_equal_the_whole_sequence(family: str) -> None:
    model = make_model(family)
    width = model.embed(torch.tensor([[0]])).shape[-1]
    x = torch.randn(3, 20, width)
    whole = model(x, FullContext(chunk_mask(20, 1)))
    cache = model.new_cache()
    for _ in range(3):
        cache.add_row()
    done, pieces = [0, 0, 0], []
    for counts in ([7, 1, 3], [1, 1, 1], [0, 6, 1], [1, 0, 9]):
        piece = torch.full((3, max(counts), width), 9.0)  # what stands behind a row's ids must not matter
        for row, count in enumerate(counts):
            piece[row, :count] = x[row, done[row] : done[row] + count]
        memory = cache.open_pass(range(3), counts)
        hidden = model(piece, memory)
        memory.commit()
        for row, count in enumerate(counts):
            pieces.append((hidden[row, :count], whole[row, done[row] : done[row] + count]))
            done[row] += count
    assert cache.lengths == done
    for streamed, offline in pieces:
        torch.testing.assert_close(streamed, offline, rtol=1e-4, atol=1e-4)


def test_rows_grow_past_their_first_room() -> None:
    cache = make_cache(1)
    x = torch.randn(1, 2, FIRST_LENGTH + 5, 4)
    first, rest = x[:, :, : FIRST_LENGTH - 1], x[:, :, FIRST_LENGTH - 1 :]
    attend(cache, range(1), [first.shape[2]], first)
    before = cache.num_bytes
    y = attend(cache, range(1), [rest.shape[2]], rest)
    expected = FullContext(chunk_mask(x.shape[2], 1)).attend(0, x, x, x)
    torch.testing.assert_close(y, expected[:, :, first.shape[2] :])
    assert cache.num_bytes == 2 * before


def test_num_bytes_counts_the_keys_and_values_of_all_places() -> None:
    cache = make_cache(3)
    places = 4  # rows are doubled: 1, 2, 4
    assert cache.num_bytes == 2 * places * FIRST_LENGTH * SHAPE.num_heads * SHAPE.head_dim * 4


def test_the_last_row_moves_into_the_place_of_a_removed_one() -> None:
    cache = make_cache(3)
    x, step = torch.randn(3, 2, 6, 4), torch.randn(1, 2, 1, 4)
    attend(cache, range(3), [2, 4, 6], x)
    cache.remove_row(0)
    assert cache.lengths == [6, 4]
    together = torch.cat([x[2:], step], dim=2)
    expected = FullContext(chunk_mask(7, 1)).attend(0, together, together, together)[:, :, -1:]
    torch.testing.assert_close(attend(cache, range(1), [1], step), expected)


def test_nothing_of_a_removed_row_is_left_in_its_place() -> None:
    cache = make_cache(2)
    poison = torch.full((2, 2, 9, 4), float("nan"))
    attend(cache, range(2), [9, 9], poison)
    cache.remove_row(0)
    cache.remove_row(0)
    assert cache.lengths == []
    x = torch.randn(2, 2, 3, 4)
    assert (cache.add_row(), cache.add_row()) == (0, 1)
    y = attend(cache, range(2), [3, 1], x)
    torch.testing.assert_close(y[:1], FullContext(chunk_mask(3, 1)).attend(0, x[:1], x[:1], x[:1]))
    assert y.isfinite().all()


def test_a_pass_that_was_not_committed_leaves_nothing_behind() -> None:
    cache = make_cache(1)
    first, other, step = torch.randn(3, 1, 2, 2, 4)
    attend(cache, range(1), [2], first)
    cache.open_pass(range(1), [2]).attend(0, other, other, other)
    assert cache.lengths == [2]
    y = attend(cache, range(1), [2], step)
    together = torch.cat([first, step], dim=2)
    torch.testing.assert_close(
        y, FullContext(chunk_mask(4, 1)).attend(0, together, together, together)[:, :, 2:]
    )


def test_only_the_longest_row_of_a_pass_is_read() -> None:
    cache = make_cache(2)
    attend(cache, range(2), [30, 3], torch.randn(2, 2, 30, 4))
    memory = cache.open_pass(range(1, 2), [1])
    x = torch.randn(1, 2, 1, 4)
    memory.attend(0, x, x, x)
    assert memory.num_visible == 4


@pytest.mark.parametrize("num_grown", [0, 1])
def test_a_growth_that_fails_leaves_the_cache_as_it_was(
    monkeypatch: pytest.MonkeyPatch, num_grown: int
) -> None:
    cache = make_cache(1)
    before, left, original = cache.num_bytes, num_grown, Tensor.new_zeros

    def new_zeros(tensor: Tensor, *shape: int) -> Tensor:
        nonlocal left
        if left == 0:
            raise RuntimeError("out of memory")
        left -= 1
        return original(tensor, *shape)

    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "new_zeros", new_zeros)
        with pytest.raises(RuntimeError, match="out of memory"):
            cache.add_row()
    assert (cache.lengths, cache.num_bytes) == ([0], before)

    assert cache.add_row() == 1
    x = torch.randn(2, 2, 3, 4)
    y = attend(cache, range(2), [3, 3], x)
    torch.testing.assert_close(y, FullContext(chunk_mask(3, 1)).attend(0, x, x, x))
