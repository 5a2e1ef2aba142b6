"""Plan files, their names and how they are written, with a library that builds nothing."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import onnx
import pytest

from firstword.models.checkpoint.open import token2wav_fingerprint
from firstword.models.config import ESTIMATOR_FILE, CheckpointError
from firstword.models.runtimes.tensorrt import library as library_module
from firstword.models.runtimes.tensorrt.graphs import estimator_graph
from firstword.models.runtimes.tensorrt.library import Library, Part, TensorRTError, find_library
from firstword.models.runtimes.tensorrt.parts import parts_of
from firstword.models.runtimes.tensorrt.plans import PlanDirectory, build_plans
from tests.models.networks import small_flow, small_hift
from tests.runtimes.tensorrt.fake_library import FakeLibrary
from tests.support.checkpoints import copied_checkpoint


def plans_in(directory: Path, fingerprint: str = "abc") -> PlanDirectory:
    return PlanDirectory(directory / "engines", "any", "tensorrt-rtx-1.2.3", "float16", fingerprint)


def part(name: str, graph: bytes, greatest: int = 50) -> Part:
    return Part(name, {"length": (2, 50, greatest)}, lambda: graph)


def test_what_is_there_is_not_built_again(tmp_path: Path) -> None:
    fake, plans = FakeLibrary(), plans_in(tmp_path)
    parts = [part("estimator", b"one"), part("generator", b"two")]
    made = build_plans(cast(Library, fake), parts, plans)
    assert [path.name.split(".")[:4] for path in made] == [
        ["estimator", "any", "tensorrt-rtx-1", "2"],
        ["generator", "any", "tensorrt-rtx-1", "2"],
    ]
    assert made[0].name.startswith("estimator.any.tensorrt-rtx-1.2.3.float16.")
    assert made[0].read_bytes() == b"plan of one"
    assert fake.caches == [b"", b"+"], "each build starts from the timing cache of the one before"
    assert build_plans(cast(Library, fake), parts, plans) == []
    assert plans.missing({one.name: one.ranges for one in parts}) == []


def test_other_weights_or_sizes_are_another_file(tmp_path: Path) -> None:
    one = part("estimator", b"")
    names = {
        plans_in(tmp_path).path(one.name, one.ranges),
        plans_in(tmp_path, "def").path(one.name, one.ranges),
        plans_in(tmp_path).path(one.name, part("estimator", b"", 60).ranges),
    }
    assert len(names) == 3
    checkpoint = copied_checkpoint(tmp_path)
    before = token2wav_fingerprint(checkpoint)
    (checkpoint / "llm.pt").write_bytes(b"other")
    assert token2wav_fingerprint(checkpoint) == before
    (checkpoint / "hift.pt").write_bytes(b"other")
    other = token2wav_fingerprint(checkpoint)
    (checkpoint / ESTIMATOR_FILE).write_bytes(b"an engine is built of it")
    assert len({before, other, token2wav_fingerprint(checkpoint)}) == 3


def test_a_failed_build_leaves_no_file(tmp_path: Path) -> None:
    plans = plans_in(tmp_path)
    with pytest.raises(TensorRTError):
        build_plans(cast(Library, FakeLibrary()), [part("estimator", b"bad")], plans)
    assert list(plans.directory.iterdir()) == []


def test_the_published_estimator_is_taken_where_it_fits(tmp_path: Path) -> None:
    flow, hift = small_flow("unet"), small_hift(False)
    published = tmp_path / ESTIMATOR_FILE
    published.write_bytes(estimator_graph(flow.estimator, "float32"))

    def whole(dtype: str) -> bytes:
        return parts_of(flow, hift, dtype, 10.0, published)[0].write()  # type: ignore[arg-type]

    published.write_bytes(published.read_bytes() + onnx.ModelProto(doc_string="theirs").SerializeToString())
    assert whole("float32") == published.read_bytes()
    assert whole("float16") != published.read_bytes(), "its numbers are float32"
    published.write_bytes(parts_of(flow, hift, "float32", 10.0)[2].write())
    with pytest.raises(
        CheckpointError, match="has the inputs mel, source, not those of the published estimator"
    ):
        whole("float32")
    published.write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(CheckpointError, match="not an ONNX file"):
        whole("float32")


def test_a_library_that_cannot_be_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_module, "_MODULES", (("no_such_module", "tensorrt"),))
    with pytest.raises(TensorRTError, match="TensorRT is not installed: pip install"):
        find_library()
    (tmp_path / "placeholder_tensorrt.py").write_text("import no_such_library\n")
    (tmp_path / "old_tensorrt.py").write_text("__version__ = '8.6.1'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        library_module, "_MODULES", (("placeholder_tensorrt", "tensorrt"), ("old_tensorrt", "tensorrt"))
    )
    with pytest.raises(
        TensorRTError, match=r"No module named 'no_such_library'; old_tensorrt: version 8\.6\.1"
    ):
        find_library()


def test_tensorrt_itself_builds_on_its_gpu_alone(tmp_path: Path) -> None:
    proper = Library(SimpleNamespace(__version__="10.9.0"), "tensorrt")
    with pytest.raises(TensorRTError, match=r"tensorrt 10\.9\.0 builds engines on the GPU that runs them"):
        build_plans(proper, [part("estimator", b"one")], plans_in(tmp_path))
