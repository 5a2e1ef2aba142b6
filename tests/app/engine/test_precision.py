"""The machine decides in which number formats it computes, and what it was decided by is kept."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from firstword.app.engine import precision
from firstword.app.engine.precision import PRODUCTS_FILE, CpuFormats, cpu_formats, stored_products
from firstword.app.options import InvalidOptions, PrecisionChoice
from firstword.models.config import Qwen2LMConfig
from firstword.models.onnx import speed
from firstword.models.onnx.graph import GraphWriter, Matrix
from firstword.models.onnx.speed import ProductTimes, measure_products
from tests.models.lm.networks import COSYVOICE2

NARROW = COSYVOICE2
WIDE = replace(COSYVOICE2, qwen2=replace(COSYVOICE2.qwen2, hidden_size=896))
VNNI = ProductTimes({"float32": 0.7, "int8": 0.2, "int4": 0.1}, {"float32": 0.5, "int8": 0.2})
OLD = ProductTimes({"float32": 0.7, "int8": 0.3, "int4": 0.28}, {"float32": 0.5, "int8": 0.48})
NO_KERNELS = ProductTimes({"float32": 0.7}, {"float32": 0.5})


@pytest.mark.parametrize(
    ("asked", "lm", "times", "expected"),
    [
        ("auto", WIDE, VNNI, ("int4", True)),
        ("auto", NARROW, VNNI, ("int8", True)),
        ("auto", WIDE, OLD, ("int8", False)),
        ("auto", WIDE, NO_KERNELS, ("float32", False)),
        ("int8", WIDE, OLD, ("int8", True)),
        ("int4", NARROW, OLD, ("int4", True)),
        ("float32", WIDE, VNNI, ("float32", False)),
    ],
)
def test_what_is_set_counts_and_else_what_is_faster(
    asked: PrecisionChoice, lm: Qwen2LMConfig, times: ProductTimes, expected: tuple[str, bool]
) -> None:
    found = cpu_formats(asked, lm, lambda: times)
    assert (found.lm, found.is_int8) == expected


def test_the_reason_tells_what_was_measured_and_what_is_missing() -> None:
    assert cpu_formats("auto", WIDE, lambda: VNNI) == CpuFormats(
        "int4",
        True,
        "a product of a token takes 0.70 ms in float32, 0.20 ms in int8, 0.10 ms in int4, "
        "of a chunk 0.50 ms in float32, 0.20 ms in int8",
    )
    reason = cpu_formats("auto", WIDE, lambda: NO_KERNELS).reason
    assert reason.endswith("; the ONNX Runtime that is installed has no int8 and int4")


@pytest.mark.parametrize("asked", ["int8", "int4"])
def test_what_cannot_be_computed_is_refused(asked: PrecisionChoice) -> None:
    with pytest.raises(
        InvalidOptions, match=f"{asked}, which the ONNX Runtime .* set FIRSTWORD_PRECISION=auto"
    ):
        cpu_formats(asked, WIDE, lambda: NO_KERNELS)


def test_float32_is_not_measured() -> None:
    def never() -> ProductTimes:
        raise AssertionError("measured")

    assert cpu_formats("float32", WIDE, never) == CpuFormats(
        "float32", False, "FIRSTWORD_PRECISION is float32"
    )


def test_a_measurement_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    measured: list[int] = []

    def measure(num_threads: int) -> ProductTimes:
        measured.append(num_threads)
        return VNNI

    monkeypatch.setattr(precision, "measure_products", measure)
    assert [stored_products(1, tmp_path) for _ in range(2)] == [VNNI, VNNI]
    assert measured == [1]
    stored_products(2, tmp_path)
    assert measured == [1, 2]
    path = tmp_path / PRODUCTS_FILE
    for damaged in ({}, {"token": {}, "chunk": {}}, {"token": {"float32": "fast"}, "chunk": {"float32": 1}}):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"measured": damaged}))
        assert stored_products(2, tmp_path) == VNNI
    assert measured == [1, 2, 2, 2, 2]
    stored_products(2, None)
    assert len(measured) == 6


def test_this_machine_is_measured() -> None:
    times = measure_products(1)
    assert times.token.keys() >= {"float32"}
    assert times.chunk.keys() >= {"float32"}
    assert all(0 < each < 1000 for kind in (times.token, times.chunk) for each in kind.values())


def test_a_format_without_a_kernel_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(writer: GraphWriter, x: str, matrix: Matrix) -> str:
        return writer.node("NoSuchProduct", x, domain="com.microsoft")

    products = dict(speed._CHUNK_PRODUCTS) | {"int8": unknown}
    assert speed._times(products, 4, (64, 32), 1).keys() == {"float32"}
