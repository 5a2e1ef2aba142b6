"""Opens the reference cases: tensors computed by the published implementation on small networks.

The folder is `REFERENCE_DIR` if set, else the copy beside this file. A case is NAME.json (its
configuration) with NAME.safetensors; every size comes from the case, never from a test.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor

REFERENCE_DIR = Path(os.environ.get("REFERENCE_DIR") or Path(__file__).parent / "cases")

NETWORK_TOLERANCE = 5e-5
SOLVE_TOLERANCE = 1e-4
WAVEFORM_TOLERANCE = 2e-5
FBANK_TOLERANCE = 5e-4


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    config: dict[str, Any]
    weights: dict[str, Tensor]  # a module's state dict under its published names
    io: dict[str, Tensor]


def load_json(name: str) -> dict[str, Any]:
    """The JSON of a case; skips the test where the reference folder has no such case."""
    path = REFERENCE_DIR / f"{name}.json"
    if not any(REFERENCE_DIR.glob("*.json")):
        pytest.fail(f"the reference folder {REFERENCE_DIR} holds no case at all")
    if not path.is_file():
        pytest.skip(f"the reference folder {REFERENCE_DIR} has no {path.name}")
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return config


def load_case(name: str) -> Case:
    config = load_json(name)
    tensors = load_file(REFERENCE_DIR / f"{name}.safetensors")
    return Case(name, config, _below("weights.", tensors), _below("io.", tensors))


def assert_close(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    """max |actual - expected| <= tolerance * max(1, max |expected|)."""
    assert actual.shape == expected.shape, f"shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    difference = float((actual.double() - expected.double()).abs().max())
    bound = tolerance * max(1.0, float(expected.abs().max()))
    assert difference <= bound, f"differs by {difference:.3g}, allowed {bound:.3g}"


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
