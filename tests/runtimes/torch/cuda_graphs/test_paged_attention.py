"""Attention over pages: its kernel computes what its plain form does, and is built where there is no GPU."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from firstword.models.runtimes.torch.cuda_graphs import paged_attention

TRITON = Path(sys.prefix) / "kernels"
ROOT = Path(__file__).parents[4]

needs_triton = pytest.mark.skipif(
    not (TRITON / "triton").exists() and find_spec("triton") is None,
    reason="Triton is not installed: make setup-kernels",
)


def run_triton(what: str, folder: Path, **environment: str) -> Any:
    paths = os.pathsep.join([str(ROOT), str(TRITON)])
    result = subprocess.run(
        [sys.executable, "-m", "tests.support.paged_attention", what],
        env=os.environ | {"PYTHONPATH": paths, "TRITON_CACHE_DIR": str(folder)} | environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(result.stdout)


@needs_triton
@pytest.mark.slow
def test_kernel_computes_what_the_plain_form_does(tmp_path: Path) -> None:
    """Sizes that are powers of two and others, streams whose last page is short; by Triton's interpreter."""
    errors = run_triton("interpret", tmp_path, TRITON_INTERPRET="1")
    assert len(errors) == 3
    assert max(errors) < 1e-5


@needs_triton
@pytest.mark.slow
def test_kernel_is_built_for_an_h100(tmp_path: Path) -> None:
    sizes = run_triton("build", tmp_path)
    assert set(sizes) == {"fp32", "bf16"}
    assert min(sizes.values()) > 1000


@pytest.mark.parametrize(
    ("off", "writes", "is_taken"), [(0.0, True, True), (9e-3, True, False), (0.0, False, False)]
)
def test_a_kernel_that_gives_or_writes_other_values_is_not_taken(
    off: float, writes: bool, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attend(qkv: Tensor, slab: Tensor, own: Tensor, rows: Tensor, bias: Tensor) -> Tensor:
        return paged_attention.attend_plainly(qkv, slab if writes else slab.clone(), own, rows, bias) + off

    kernel = SimpleNamespace(attend=attend)
    monkeypatch.setitem(sys.modules, f"{paged_attention.__name__}_kernel", kernel)
    paged_attention.has_kernel.cache_clear()
    assert paged_attention.has_kernel(torch.float32, torch.device("cpu"), 2, 5, 2, 8) is is_taken
    paged_attention.has_kernel.cache_clear()


def test_where_the_kernel_cannot_be_built_its_plain_form_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a GPU whose machine has no Triton, or no compiler for it."""
    monkeypatch.setitem(sys.modules, f"{paged_attention.__name__}_kernel", None)
    paged_attention.has_kernel.cache_clear()
    qkv, slab = torch.randn(2, 5, 3, 2, 8), torch.randn(3 * 8, 5, 8)
    own, rows, bias = torch.tensor([2]), torch.arange(8) + 16, torch.zeros(2, 1, 1, 5)
    wanted = paged_attention.attend_plainly(qkv, slab.clone(), own, rows, bias)
    for _ in range(2):
        assert paged_attention._attend_on_gpu(qkv, slab, own, rows, bias).equal(wanted)
    paged_attention.has_kernel.cache_clear()
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "attention's kernel cannot be built, the flow takes more kernels without"
    ]
