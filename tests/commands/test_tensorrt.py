"""`firstword tensorrt`: what it writes, and how it says what it lacks."""

from pathlib import Path

import onnx
import pytest

from firstword.models.runtimes.tensorrt import library
from tests.commands.typed import run
from tests.runtimes.tensorrt.fake_library import FakeLibrary
from tests.support.checkpoints import small_checkpoint


def test_engines_are_built_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "find_library", FakeLibrary)
    command = "tensorrt", str(small_checkpoint("cosyvoice3")), "--data-dir", str(tmp_path)
    result = run(*command, "--precision", "float16")
    assert result.exit_code == 0, result.output
    plans = sorted(
        path.name.split(".any.tensorrt-rtx-1.2.3.float16.")[0] for path in tmp_path.glob("tensorrt/*.plan")
    )
    assert plans == ["estimator", "estimator_chunk", "generator_next", "generator_start"]
    assert "all there" in run(*command, "--precision", "float16").output


def test_graphs_are_written_without_tensorrt(tmp_path: Path) -> None:
    result = run("tensorrt", str(small_checkpoint("cosyvoice2")), "--onnx", str(tmp_path))
    assert result.exit_code == 0, result.output
    graphs = {path.stem: onnx.load(path) for path in tmp_path.iterdir()}
    assert graphs.keys() == {"estimator", "estimator_chunk", "generator"}
    assert [made.name for made in graphs["estimator"].graph.output] == ["estimator_out"]


@pytest.mark.parametrize(
    ("family", "options", "said"),
    [
        ("cosyvoice1", [], "there are engines of CosyVoice 2 and 3 only"),
        ("cosyvoice2", ["--precision", "int4"], "--precision 'int4'; expected float32, bfloat16, float16"),
        ("cosyvoice2", [], "TensorRT is not installed: pip install"),
    ],
)
def test_what_cannot_be_built_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, family: str, options: list[str], said: str
) -> None:
    monkeypatch.setattr(library, "_MODULES", ())
    result = run("tensorrt", str(small_checkpoint(family)), "--data-dir", str(tmp_path), *options)  # type: ignore[arg-type]
    assert result.exit_code == 1
    assert said in " ".join(result.output.split())
    assert list(tmp_path.iterdir()) == []
