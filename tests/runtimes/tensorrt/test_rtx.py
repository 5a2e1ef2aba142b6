"""TensorRT-RTX reads our graphs and builds engines of them on a CPU. None is run here."""

from dataclasses import replace
from pathlib import Path

import pytest

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import Dtype, Family, HiFTConfig
from firstword.models.flow.flow import Flow
from firstword.models.hift.hift import HiFT
from firstword.models.runtimes.tensorrt.engines import EnginePlans
from firstword.models.runtimes.tensorrt.library import find_library, installed_modules
from firstword.models.runtimes.tensorrt.plans import build_plans
from tests.support.checkpoints import small_checkpoint

pytestmark = [
    pytest.mark.tensorrt,
    pytest.mark.timeout(900),  # half a minute of computing, on a machine that may have other work
    pytest.mark.skipif(not installed_modules(), reason="TensorRT-RTX is not installed: make setup-tensorrt"),
]


@pytest.mark.parametrize(("family", "dtype"), [("cosyvoice2", "float16"), ("cosyvoice3", "bfloat16")])
def test_engines_of_a_small_checkpoint(family: Family, dtype: Dtype, tmp_path: Path) -> None:
    """The vocoder has its blocks with one dilation in place of three: each is seconds of building."""
    library = find_library()
    if not library.builds_without_gpu:
        pytest.skip("TensorRT itself needs a GPU, and is preferred to RTX where both are installed")
    checkpoint = open_checkpoint(small_checkpoint(family))
    found = EnginePlans(checkpoint, library, dtype, 10.0, tmp_path)
    flow = checkpoint.load_flow()
    assert isinstance(flow, Flow)
    vocoder = checkpoint.config.vocoder
    assert isinstance(vocoder, HiFTConfig)
    thin = replace(vocoder, resblock_dilation_sizes=((3,),) * 3, source_resblock_dilation_sizes=((3,),) * 3)
    hift = HiFT(thin).requires_grad_(False).eval()
    made = build_plans(library, found.parts(flow, hift), found.plans)
    assert [path.name.split(".")[0] for path in made] == list(found.ranges)
    found.check()
    assert all(path.stat().st_size > 10_000 for path in made)
