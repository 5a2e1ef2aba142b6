"""The kernel of Triton for `attend_over_pages`: softmax as it goes from page to page (arXiv 2205.14135)."""

import torch
import triton
import triton.language as tl
from torch import Tensor

QUERIES = 16  # frames of a program, the fewest that Triton multiplies: one stream has few programs


@triton.jit
def attend_kernel(
    qkv, slab, own, rows, bias, y, num_pages, scale,
    group: tl.constexpr, num_heads: tl.constexpr, frames: tl.constexpr, size: tl.constexpr,
    queries: tl.constexpr, keys: tl.constexpr, channels: tl.constexpr,
):  # fmt: skip
    """Attend from `queries` frames of a head of a row, and write their keys and values.

    Other programs write the rest of that page, so it is read from qkv.
    """
    row, head = tl.program_id(1), tl.program_id(2)
    frame = tl.program_id(0) * queries + tl.arange(0, queries)[:, None]
    key = tl.arange(0, keys)
    channel = tl.arange(0, channels)[None, :]
    width = num_heads * size
    page_size = group * width * frames  # of keys, or of values
    own_row = tl.load(own + row // group) * (2 * group * num_heads) + row % group * num_heads + head
    here = qkv + row.to(tl.int64) * frames * 3 * width + head * size

    is_frame = (frame < frames) & (channel < size)
    at = frame * 3 * width + channel
    q = tl.load(here + at, mask=is_frame, other=0.0)
    own_page = slab + own_row * frames * size + frame * size + channel
    tl.store(own_page, tl.load(here + width + at, mask=is_frame, other=0.0), mask=is_frame)
    tl.store(own_page + page_size, tl.load(here + 2 * width + at, mask=is_frame, other=0.0), mask=is_frame)

    best = tl.full([queries], float("-inf"), tl.float32)
    total = tl.zeros([queries], tl.float32)
    mean = tl.zeros([queries, channels], tl.float32)
    is_key = (key[:, None] < frames) & (channel < size)
    for page in range(num_pages):
        seen_row = tl.load(rows + (row * num_heads + head) * num_pages + page)
        seen = slab + seen_row * frames * size
        is_own = seen_row == own_row
        from_keys = tl.where(is_own, here + width, seen)
        from_values = tl.where(is_own, here + 2 * width, seen + page_size)
        key_at = key[:, None] * tl.where(is_own, 3 * width, size) + channel
        k = tl.load(from_keys + key_at, mask=is_key, other=0.0)
        v = tl.load(from_values + key_at, mask=is_key, other=0.0)
        bias_at = (row * num_pages + page) * frames + key
        added = tl.load(bias + bias_at, mask=key < frames, other=float("-inf"))
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale + added.to(tl.float32)[None, :]
        new_best = tl.maximum(best, tl.max(scores, axis=1))
        weights = tl.exp(scores - new_best[:, None])
        kept = tl.exp(best - new_best)
        total = total * kept + tl.sum(weights, axis=1)
        mean = mean * kept[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        best = new_best
    made = (mean / total[:, None]).to(q.dtype)
    tl.store(y + (row * frames + frame) * width + head * size + channel, made, mask=is_frame)


def attend(qkv: Tensor, slab: Tensor, own: Tensor, rows: Tensor, bias: Tensor) -> Tensor:
    """As `attend_over_pages`."""
    num_rows, frames, _, num_heads, size = qkv.shape
    y = torch.empty(num_rows, frames, num_heads * size, dtype=qkv.dtype, device=qkv.device)
    num_pages, group = bias.shape[-1] // frames, num_rows // len(own)
    keys, channels = (max(16, triton.next_power_of_2(one)) for one in (frames, size))
    attend_kernel[triton.cdiv(frames, QUERIES), num_rows, num_heads](
        qkv, slab, own, rows, bias, y, num_pages, size**-0.5,
        group, num_heads, frames, size, QUERIES, keys, channels,
    )  # fmt: skip
    return y
