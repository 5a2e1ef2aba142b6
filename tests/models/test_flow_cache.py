"""The flow's caches, and attention over keys that lie in several buffers."""

from itertools import pairwise

import pytest
import torch

from firstword.models.flow import batched_cache
from firstword.models.flow.batched_cache import BatchedCache, attend_part, attend_parts, write_chunk
from firstword.models.flow.kv_cache import (
    CacheWindow,
    ChunkKVCache,
    ConvState,
    KeyValues,
    PagedKVCache,
    PromptCache,
    RingKVCache,
)
from firstword.models.layers import FullContext, chunk_mask

SIZES = [7, 1, 50]
CHUNK = 4


@pytest.mark.parametrize("has_bias", [False, True])
def test_parts_equal_the_whole(has_bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 3, 5, 16, generator=generator)
    keys = 4 * torch.randn(2, 3, sum(SIZES), 16, generator=generator)
    values = torch.randn(2, 3, sum(SIZES), 16, generator=generator)
    bias = torch.randn(2, 3, 5, sum(SIZES), generator=generator) if has_bias else None
    parts = [KeyValues(k, v) for k, v in zip(keys.split(SIZES, 2), values.split(SIZES, 2), strict=True)]
    expected = torch.nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=bias)
    torch.testing.assert_close(attend_parts(q, parts, bias), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("has_bias", [False, True])
def test_kernel_equals_products_and_softmax(has_bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form for other devices, and for a torch without the private operator."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 3, 5, 16, generator=generator)
    keys, values = torch.randn(2, 2, 3, 9, 16, generator=generator)
    part = KeyValues(keys, values)
    bias = torch.randn(2, 3, 5, 9, generator=generator) if has_bias else None
    assert batched_cache.CPU_KERNEL is not None, "torch has the private operator no more"
    by_kernel = attend_part(q, part, bias)
    monkeypatch.setattr(batched_cache, "CPU_KERNEL", None)
    for actual, expected in zip(by_kernel, attend_part(q, part, bias), strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


CACHES = pytest.mark.parametrize("cache_class", [PagedKVCache, RingKVCache])


@CACHES
@pytest.mark.parametrize(("window", "pinned"), [(0, 0), (0, 1), (2, 0), (3, 1), (4, 2), (9, 1), (None, 1)])
def test_prompt_window_and_the_chunk_itself_are_what_is_seen(
    window: int | None, pinned: int, cache_class: type[ChunkKVCache]
) -> None:
    """Keys say which chunk they are of; the last chunk is shorter than the others."""
    frames, num_chunks = 5, 24
    cache = cache_class(CacheWindow(frames, window, pinned), PromptCache())
    for chunk in range(num_chunks):
        count = frames if chunk < num_chunks - 1 else 3
        keys = torch.full((1, 1, count, 2), float(chunk))
        seen = torch.cat([part.keys[0, 0, :, 0] for part in write_chunk(cache, (0, 0), keys, keys)])
        cache.commit_layer((0, 0))
        first = 0 if window is None else max(0, chunk - window)
        visible = sorted({*range(min(pinned, chunk)), *range(first, chunk)})
        expected = [float(c) for c in visible for _ in range(frames)] + [float(chunk)] * count
        assert sorted(seen.tolist()) == expected
        cache.commit()


@CACHES
def test_a_layer_finds_its_own_keys_in_whatever_order_layers_are_called(
    cache_class: type[ChunkKVCache],
) -> None:
    """Two layers over three chunks, the second called first in every other chunk."""
    x = torch.randn(2, 2, 3, 2, 12, 16)  # layer, CFG row, head, q or k and v, frame, dim
    expected = [
        FullContext(chunk_mask(12, 4)).attend(0, x[i, :, :, 0], x[i, :, :, 1], x[i, :, :, 1]) for i in (0, 1)
    ]
    cache = cache_class(CacheWindow(4), PromptCache())
    for chunk in range(3):
        frames = slice(4 * chunk, 4 * chunk + 4)
        context = BatchedCache([cache], [4], group=2)
        for layer in (0, 1) if chunk % 2 else (1, 0):
            q, k = x[layer, :, :, 0, frames], x[layer, :, :, 1, frames]
            y = context.attend(layer, q, k, k)
            torch.testing.assert_close(y, expected[layer][:, :, frames], atol=1e-5, rtol=1e-5)
        cache.commit()


@CACHES
def test_solver_steps_have_slots_of_their_own(cache_class: type[ChunkKVCache]) -> None:
    cache, keys = cache_class(CacheWindow(4), PromptCache()), torch.randn(2, 1, 1, 4, 8)
    for _ in range(2):
        seen = [write_chunk(cache, (step, 0), keys[step], keys[step]) for step in (0, 1)]
        for step in (0, 1):
            cache.commit_layer((step, 0))
        cache.commit()
    for step in (0, 1):
        joined = torch.cat([part.keys for part in seen[step]], dim=2)
        assert torch.equal(joined, torch.cat([keys[step], keys[step]], dim=2))


def test_no_chunk_pays_for_the_growth_of_all_steps_at_once() -> None:
    cache = RingKVCache(CacheWindow(CHUNK, window_chunks=12), PromptCache())
    written: dict[int, torch.Tensor] = {}
    sizes: list[list[int]] = []
    for chunk in range(16):
        sizes.append([])
        for step in range(8):
            (buffer,) = cache.buffers((step, 0), (2, 3, 4))
            sizes[-1].append(buffer.num_frames)
            _, start = cache.current
            for _, first, stop in cache.visible(CHUNK):
                assert buffer.keys[:, :, first:stop].isfinite().all()
            if 0 < chunk < 12:  # what was written stays where it was, by its frame
                assert buffer.keys[:, :, :start].equal(written[step])
            assert chunk >= 12 or not buffer.keys[:, :, start:].any()
            buffer.keys[:, :, start : start + CHUNK] = torch.randn(2, 3, CHUNK, 4)
            written[step] = buffer.keys[:, :, : start + CHUNK].clone()
            cache.commit_layer((step, 0))
        cache.commit()
    grown = [sum(a < b for a, b in zip(*pair, strict=True)) for pair in pairwise(sizes)]
    assert grown[0] == 8  # from the one chunk of the first audio
    assert max(grown[1:]) == 2
    assert set(sizes[-1]) == {13 * CHUNK}


@CACHES
def test_a_copied_prefix_serves_as_a_prompt(cache_class: type[ChunkKVCache]) -> None:
    cache, keys = cache_class(CacheWindow(4), PromptCache()), torch.randn(3, 1, 2, 4, 8)
    for chunk in (0, 1):
        write_chunk(cache, (0, 0), keys[chunk], keys[chunk])
        cache.commit_layer((0, 0))
        cache.commit()
    stream = cache_class(CacheWindow(4), cache.copy_prefix())
    assert stream.start == 8
    seen = write_chunk(stream, (0, 0), keys[2], keys[2])
    assert torch.equal(torch.cat([part.keys for part in seen], dim=2), torch.cat([*keys], dim=2))


def test_two_layers_of_one_index_are_an_error() -> None:
    x = torch.randn(1, 1, 4, 8)
    context = BatchedCache([PagedKVCache(CacheWindow(4), PromptCache())], [4])
    context.attend(3, x, x, x)
    with pytest.raises(AssertionError, match="two attentions have the index 3"):
        context.attend(3, x, x, x)
    context.extend(7, x[0], 2)
    with pytest.raises(AssertionError, match="two convolutions have the index 7"):
        context.extend(7, x[0], 2)


def test_a_convolution_that_did_not_run_is_an_error() -> None:
    state = ConvState({})
    for index in (0, 1):
        state.keep((0, index), torch.randn(1, 2, 3))
    state.commit()
    state.keep((0, 0), torch.randn(1, 2, 3))
    with pytest.raises(AssertionError, match="other convolutions ran than before"):
        state.commit()


@CACHES
def test_a_layer_that_first_runs_in_a_later_chunk_is_an_error(cache_class: type[ChunkKVCache]) -> None:
    cache = cache_class(CacheWindow(4), PromptCache())
    cache.commit()
    with pytest.raises(AssertionError, match="did not run in the first chunk"):
        cache.buffers((0, 0), (1, 1, 8))
