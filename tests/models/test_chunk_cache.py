"""Attention over keys that lie in several places."""

import pytest
import torch

from firstword.models.flow.batch_memory import attend_part, attend_parts
from firstword.models.flow.kv_cache import ChunkCache, KeyValues

SIZES = [7, 1, 50]


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
def test_kernel_equals_products_and_softmax(has_bias: bool) -> None:
    """The form for other devices, computed here on the CPU's."""

    class Elsewhere(torch.Tensor):
        @property
        def device(self) -> torch.device:  # type: ignore[override]
            return torch.device("meta")

    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 3, 5, 16, generator=generator)
    keys, values = torch.randn(2, 2, 3, 9, 16, generator=generator)
    part = KeyValues(keys, values)
    bias = torch.randn(2, 3, 5, 9, generator=generator) if has_bias else None
    on_cpu, elsewhere = attend_part(q, part, bias), attend_part(q.as_subclass(Elsewhere), part, bias)
    for actual, expected in zip(on_cpu, elsewhere, strict=True):
        torch.testing.assert_close(actual, expected.as_subclass(torch.Tensor), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("window", "pinned"), [(0, 0), (0, 1), (2, 0), (3, 1), (4, 2), (9, 1), (None, 1)])
def test_prompt_window_and_the_chunk_itself_are_what_is_seen(window: int | None, pinned: int) -> None:
    """Keys say which chunk they are of; the last chunk is shorter than the others."""
    frames, num_chunks = 5, 24
    cache = ChunkCache(frames, window, pinned_chunks=pinned)
    for chunk in range(num_chunks):
        count = frames if chunk < num_chunks - 1 else 3
        keys = torch.full((1, 1, count, 2), float(chunk))
        seen = torch.cat([part.keys[0, 0, :, 0] for part in cache.extend(0, keys, keys)])
        first = 0 if window is None else max(0, chunk - window)
        visible = sorted({*range(min(pinned, chunk)), *range(first, chunk)})
        expected = [float(c) for c in visible for _ in range(frames)] + [float(chunk)] * count
        assert sorted(seen.tolist()) == expected
        cache.commit()
