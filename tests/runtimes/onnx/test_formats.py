"""The machine decides in which number formats it computes, and what it was decided by is kept."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from firstword.app.options import PrecisionChoice
from firstword.bench.random_checkpoint import Size, write_configuration
from firstword.models.config import Family, ModelConfig
from firstword.models.onnx_graphs.graph import GraphWriter, Matrix
from firstword.models.runtimes.interface import BackendError
from firstword.models.runtimes.onnx import formats, speed
from firstword.models.runtimes.onnx.formats import PRODUCTS_FILE, cpu_formats, stored_products
from firstword.models.runtimes.onnx.speed import ProductTimes, measure_products

VNNI = ProductTimes({"float32": 0.7, "int8": 0.2, "int4": 0.1}, {"float32": 0.5, "int8": 0.2})
OLD = ProductTimes({"float32": 0.7, "int8": 0.3, "int4": 0.28}, {"float32": 0.5, "int8": 0.48})
NO_KERNELS = ProductTimes({"float32": 0.7}, {"float32": 0.5})


@pytest.fixture
def config_of(tmp_path: Path) -> Callable[[Family, Size], ModelConfig]:
    return lambda family, size: write_configuration(tmp_path, family, size)


@pytest.mark.parametrize(
    ("asked", "family", "size", "times", "lm", "has_int8_flow", "has_int8_vocoder"),
    [
        ("auto", "cosyvoice2", "full", VNNI, "int4", True, True),
        ("auto", "cosyvoice2", "small", VNNI, "int8", True, False),
        ("auto", "cosyvoice3", "full", VNNI, "int4", False, False),
        ("auto", "cosyvoice1", "full", VNNI, "float32", False, True),
        ("auto", "cosyvoice2", "full", OLD, "int8", False, False),
        ("auto", "cosyvoice2", "full", NO_KERNELS, "float32", False, False),
        ("int8", "cosyvoice2", "full", OLD, "int8", True, True),
        ("int8", "cosyvoice3", "full", OLD, "int8", True, False),
        ("int4", "cosyvoice2", "small", OLD, "int4", True, False),
        ("float32", "cosyvoice2", "full", VNNI, "float32", False, False),
    ],
)
def test_what_is_set_counts_and_else_what_is_faster(
    config_of: Callable[[Family, Size], ModelConfig],
    asked: PrecisionChoice,
    family: Family,
    size: Size,
    times: ProductTimes,
    lm: str,
    has_int8_flow: bool,
    has_int8_vocoder: bool,
) -> None:
    found = cpu_formats(asked, config_of(family, size), lambda: times)
    assert (found.lm, found.has_int8_flow, found.has_int8_vocoder) == (lm, has_int8_flow, has_int8_vocoder)


def test_it_says_what_was_measured_and_what_is_missing(
    config_of: Callable[[Family, Size], ModelConfig],
) -> None:
    config = config_of("cosyvoice2", "full")
    assert str(cpu_formats("auto", config, lambda: VNNI)) == (
        "language model in int4, large products of flow and vocoder in int8: "
        "a product of a token takes 0.70 ms in float32, 0.20 ms in int8, 0.10 ms in int4, "
        "of a chunk 0.50 ms in float32, 0.20 ms in int8"
    )
    assert str(cpu_formats("auto", config, lambda: NO_KERNELS)) == (
        "language model in float32, all else in float32: a product of a token takes 0.70 ms in float32, "
        "of a chunk 0.50 ms in float32; the ONNX Runtime that is installed has no int8 and int4"
    )


@pytest.mark.parametrize("asked", ["int8", "int4"])
def test_what_cannot_be_computed_is_refused(
    config_of: Callable[[Family, Size], ModelConfig], asked: PrecisionChoice
) -> None:
    expected = f"{asked}, which the ONNX Runtime .* set FIRSTWORD_PRECISION=auto"
    with pytest.raises(BackendError, match=expected):
        cpu_formats(asked, config_of("cosyvoice2", "full"), lambda: NO_KERNELS)


def test_float32_is_not_measured(config_of: Callable[[Family, Size], ModelConfig]) -> None:
    def never() -> ProductTimes:
        raise AssertionError("measured")

    found = cpu_formats("float32", config_of("cosyvoice2", "full"), never)
    assert found.reason == "FIRSTWORD_PRECISION is float32"


def test_a_measurement_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    measured: list[int] = []

    def measure(num_threads: int) -> ProductTimes:
        measured.append(num_threads)
        return VNNI

    monkeypatch.setattr(formats, "measure_products", measure)
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
