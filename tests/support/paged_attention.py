"""What Triton makes of attention over pages: `python -m tests.support.paged_attention interpret`, or `build`.

A process of its own, since torch behaves otherwise where it finds Triton. Writes JSON.
"""

import json
import sys

import torch

from firstword.models.runtimes.torch.cuda_graphs.paged_attention import attend_plainly
from firstword.models.runtimes.torch.cuda_graphs.paged_attention_kernel import QUERIES, attend, attend_kernel

SHAPES = (  # streams, rows of each, heads, frames, size, pages seen
    (1, 2, 2, 50, 64, 2),
    (3, 2, 3, 20, 16, 3),
    (2, 1, 1, 7, 24, 2),
)


def interpret() -> list[float]:
    """-> the largest difference of each shape, infinite where other keys and values were written."""
    found = []
    generator = torch.Generator().manual_seed(0)
    for streams, group, heads, frames, size, seen in SHAPES:
        num_pages = streams * seen + 1
        qkv = torch.randn(streams * group, frames, 3, heads, size, generator=generator)
        slab = torch.randn(num_pages * 2 * group * heads, frames, size, generator=generator)
        pages = torch.randperm(num_pages, generator=generator)[: streams * seen].view(streams, seen)
        own = pages[:, 1].contiguous()
        inner = torch.arange(2 * group * heads).view(2, 1, -1, 1)
        rows = (pages[None, :, None] * 2 * group * heads + inner).flatten()
        counts = torch.randint(0, frames + 1, (streams, seen), generator=generator)
        counts[:, 0] = frames
        hidden = (torch.arange(frames) >= counts[..., None]).flatten(1)
        bias = torch.zeros(hidden.shape).masked_fill(hidden, float("-inf"))
        bias = bias.repeat_interleave(group, dim=0)[:, None, None]
        wanted_slab = slab.clone()
        wanted = attend_plainly(qkv, wanted_slab, own, rows, bias)
        made = attend(qkv, slab, own, rows, bias)
        found.append((made - wanted).abs().max().item() if slab.equal(wanted_slab) else float("inf"))
    return found


def build() -> dict[str, int]:
    """-> bytes of the program for an H100, by the number format; no GPU is needed for that."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    sizes = {"group": 2, "num_heads": 8, "frames": 50, "size": 64}
    sizes |= {"queries": QUERIES, "keys": 64, "channels": 64}
    found = {}
    for dtype in ("fp32", "bf16"):
        types = dict.fromkeys(("qkv", "slab", "bias", "y"), f"*{dtype}") | {"own": "*i64", "rows": "*i64"}
        types |= {"num_pages": "i32", "scale": "fp32"} | dict.fromkeys(sizes, "constexpr")
        source = ASTSource(attend_kernel, {name: types[name] for name in attend_kernel.arg_names}, sizes)
        found[dtype] = len(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"])
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"interpret": interpret, "build": build}[sys.argv[1]]()))
