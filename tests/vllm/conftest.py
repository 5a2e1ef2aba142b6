"""Engines that the tests here share: starting one takes half a minute. Without vLLM they are skipped."""

import importlib.util
from collections.abc import Iterator

import pytest

from tests.parity.reference import load_case
from tests.vllm.engine import VllmEngine, open_engine


def pytest_runtest_setup(item: pytest.Item) -> None:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed: make setup-vllm")


@pytest.fixture(scope="package")
def v2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmEngine]:
    with open_engine(load_case("llm_v2"), tmp_path_factory.mktemp("v2")) as engine:
        yield engine


@pytest.fixture(scope="package")
def v3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmEngine]:
    with open_engine(load_case("llm_v3"), tmp_path_factory.mktemp("v3")) as engine:
        yield engine


@pytest.fixture(params=["v2", "v3"])
def engine(request: pytest.FixtureRequest) -> VllmEngine:
    """Both, one after the other."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, VllmEngine)
    return found
