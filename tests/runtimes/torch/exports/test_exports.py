"""Exported parts give what the networks give, at other lengths than they were traced with."""

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from firstword.app.engine.backend import BackendError
from firstword.app.engine.loading import load_networks
from firstword.app.options import NetworkOptions
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import Family
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow
from firstword.models.flow.encoder import ConformerFront
from firstword.models.flow.flow import Flow
from firstword.models.runtimes.torch.exports.directory import MANIFEST, export_checkpoint, open_exports
from firstword.models.runtimes.torch.exports.formats import (
    SUFFIXES,
    ExportError,
    Format,
    load_part,
    write_part,
)
from firstword.models.runtimes.torch.exports.parts import Part, flow_parts, parts_of
from firstword.models.token2wav_step import StepInput
from tests.support.checkpoints import FAMILIES, small_checkpoint

PARTS = {
    "cosyvoice1": ["llm.text_encoder", "llm.llm", "flow.encoder", "flow.decoder.estimator", "hift"],
    "cosyvoice2": ["flow.encoder", "flow.decoder.estimator", "hift"],
    "cosyvoice3": ["flow.decoder.estimator", "hift"],
}


@cache
def parts(family: Family, dtype: torch.dtype = torch.float32) -> list[Part]:
    return parts_of(open_checkpoint(small_checkpoint(family)), dtype, "cpu")


def longer(part: Part, count: int = 23) -> list[Tensor]:
    """Inputs of another size, random where those of the trace are."""
    generator = torch.Generator().manual_seed(1)
    inputs = []
    for name, given in part.inputs.items():
        shape = list(given.shape)
        for dimension, axis in part.axes.get(name, {}).items():
            shape[dimension] = axis.factor * count + axis.offset
        if not given.is_floating_point():
            inputs.append(torch.randint(0, 50, shape, generator=generator))
        elif name in ("mask", "t"):
            inputs.append(given.flatten()[:1].expand(shape).clone())
        else:
            inputs.append(torch.randn(shape, generator=generator).to(given))
    return inputs


def compare(part: Part, program: Any, tolerance: float = 1e-4) -> None:
    inputs = longer(part)
    with torch.inference_mode():
        expected, actual = part.module(*inputs), program(*inputs)
    expected, actual = ((one,) if isinstance(one, Tensor) else tuple(one) for one in (expected, actual))
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one.float(), other.float(), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("family", FAMILIES)
def test_torchscript_equals_the_networks(family: Family, tmp_path: Path) -> None:
    assert [part.name for part in parts(family)] == PARTS[family]
    for part in parts(family):
        write_part(part, "torchscript", tmp_path / "part.pt")
        compare(part, load_part("torchscript", tmp_path / "part.pt", "cpu"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_half_and_is_close(dtype: torch.dtype, tmp_path: Path) -> None:
    for part, whole in zip(parts("cosyvoice1", dtype)[:2], parts("cosyvoice1")[:2], strict=True):
        write_part(part, "torchscript", tmp_path / "part.pt")
        program = load_part("torchscript", tmp_path / "part.pt", "cpu")
        compare(part, program, 0.05)
        inputs = longer(part)
        with torch.inference_mode():
            made, expected = program(*inputs), whole.module(*(one.float() for one in inputs))
        made, expected = (one if isinstance(one, Tensor) else one[0] for one in (made, expected))
        assert made.dtype == dtype
        assert (made.float() - expected).abs().mean() < 0.02 * expected.abs().mean()


def test_llm_continues_a_past_that_it_returned(tmp_path: Path) -> None:
    part = next(part for part in parts("cosyvoice1") if part.name == "llm.llm")
    write_part(part, "torchscript", tmp_path / "part.pt")
    program = load_part("torchscript", tmp_path / "part.pt", "cpu")
    x, past = longer(part)
    with torch.inference_mode():
        whole, present = program(x, past)
        first, between = program(x[:, :22], past)
        last, after = program(x[:, 22:], between)
    torch.testing.assert_close(torch.cat([first, last], dim=1), whole, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(after, present, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="AOTInductor needs a C++ compiler"
)
def test_aot_inductor_equals_the_networks(tmp_path: Path) -> None:
    """One layer of the encoder of CosyVoice 1's flow: each is seconds of compiling.

    Headers compiled ahead pay from the second compilation on, and this is the only one.
    """
    flow = open_checkpoint(small_checkpoint("cosyvoice1")).load_flow()
    assert isinstance(flow, CosyVoice1Flow)
    del flow.encoder.layers[1:]
    part = next(part for part in flow_parts(flow) if part.name == "flow.encoder")
    with torch._inductor.config.patch({"aot_inductor.precompile_headers": False}):
        write_part(part, "aoti", tmp_path / "part.pt2")
    compare(part, load_part("aoti", tmp_path / "part.pt2", "cpu"))


@pytest.mark.slow
def test_onnx_equals_the_networks(tmp_path: Path) -> None:
    """CosyVoice 2's encoder with a layer before its doubling in time and a layer behind."""
    import onnxruntime

    flow = open_checkpoint(small_checkpoint("cosyvoice2")).load_flow()
    assert isinstance(flow, Flow)
    assert isinstance(flow.front, ConformerFront)
    del flow.front.encoder.layers[1:], flow.front.encoder.up_layers[1:]
    part = next(part for part in flow_parts(flow) if part.name == "flow.encoder")
    write_part(part, "onnx", tmp_path / "part.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "part.onnx", providers=["CPUExecutionProvider"])

    def run(*inputs: Tensor) -> tuple[Tensor, ...]:
        given = {name: one.numpy() for name, one in zip(part.inputs, inputs, strict=True)}
        return tuple(torch.from_numpy(one) for one in session.run(None, given))

    compare(part, run)


def export(directory: Path, family: Family, format: Format = "torchscript") -> Path:
    checkpoint = open_checkpoint(small_checkpoint(family))
    names = list(export_checkpoint(checkpoint, directory, format, torch.float32, "cpu"))
    assert names == PARTS[family]
    return directory


def spoken(family: Family, exports: Path | None) -> tuple[Tensor, Tensor]:
    """-> the LM's embeddings of a text, and the samples of some speech tokens."""
    networks = load_networks(
        NetworkOptions(small_checkpoint(family), device="cpu", precision="float32", exports=exports)
    )
    speaker = networks.checkpoint.load_speakers()["random-prompt"]
    session = networks.token2wav
    state = session.start(networks.prompt_states.compute_prompt_state(speaker), seed=3)
    (samples,) = session.step([StepInput(state, list(range(40)), True)])
    assert networks.lm is not None
    names = networks.lm.vocabulary
    with torch.inference_mode():
        embedded = networks.lm.prompt_embeddings([names.sos, *names.text(range(9)), names.task], None)
    return embedded, samples


@pytest.mark.parametrize("family", ["cosyvoice1", "cosyvoice2"])
def test_service_speaks_the_same_with_exports(
    family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = export(tmp_path / "exports", family)
    own = spoken(family, None)
    runs: list[Path] = []

    def load(format: Format, path: Path, device: str) -> Any:
        runs.append(path)
        return load_part(format, path, device)

    monkeypatch.setattr("firstword.models.runtimes.torch.exports.directory.load_part", load)
    for ours, theirs in zip(spoken(family, directory), own, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-3, rtol=1e-2)
    names = [path.name for path in runs]
    usable = ["llm.text_encoder", "flow.encoder", "flow.decoder.estimator", "hift"]
    assert names == [f"{name}.fp32.pt" for name in (usable if family == "cosyvoice1" else usable[-1:])]


def test_exports_that_do_not_fit_are_refused_in_plain_words(tmp_path: Path) -> None:
    directory = export(tmp_path / "exports", "cosyvoice3")
    other = open_checkpoint(small_checkpoint("cosyvoice2"))
    with pytest.raises(
        ExportError, match=r"has fingerprint .* the checkpoint has .* export the checkpoint again"
    ):
        open_exports(directory, other, torch.float32, "cpu")
    with pytest.raises(BackendError, match=r"FIRSTWORD_EXPORTS .* dtype float32, the networks have bfloat16"):
        load_networks(
            NetworkOptions(
                small_checkpoint("cosyvoice3"), device="cpu", precision="bfloat16", exports=directory
            )
        )
    with pytest.raises(ExportError, match=r"is there already; name a new directory"):
        export(directory, "cosyvoice3")
    (directory / MANIFEST).unlink()
    with pytest.raises(ExportError, match=r"exports\.json cannot be read"):
        open_exports(directory, other, torch.float32, "cpu")


def test_export_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("no kernel\nmany lines")

    monkeypatch.setattr("firstword.models.runtimes.torch.exports.directory.write_part", fail)
    with pytest.raises(ExportError, match=r"flow\.encoder cannot be written as torchscript: no kernel; try"):
        export(tmp_path / "exports", "cosyvoice2")
    assert list(tmp_path.iterdir()) == []
    assert set(SUFFIXES) == {"torchscript", "aoti", "onnx"}
