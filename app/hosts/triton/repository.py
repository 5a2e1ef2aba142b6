"""Writes a model repository for tritonserver, with the models of the Open Inference Protocol."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

from firstword.app.core.interface import MEL_FAMILIES
from firstword.app.surfaces.inference.models import VERSION, Model, models_of
from firstword.app.surfaces.inference.tensors import TensorSpec

TEMPLATE: Final = Path(__file__).parent / "config.pbtxt"
BUILTIN: Final = "builtin"
"""As `model_dir`: the built-in voice."""

MODEL_FILE: Final = '''\
"""Written by `firstword triton init`."""

from firstword.app.hosts.triton.model import TritonPythonModel

__all__ = ["TritonPythonModel"]
'''
_PRIORITIES: Final = """
  priority_levels: 100
  default_priority_level: 100"""


@dataclass(frozen=True, slots=True)
class RepositoryOptions:
    """model_dir: absolute, or BUILTIN. num_instances: engines, each with the networks loaded anew.

    is_decoupled: the model that speaks streams; else it answers with the whole.
    """

    model_dir: str
    family: str
    max_batch_size: int = 16
    queue_delay_us: int = 0
    num_instances: int = 1
    is_decoupled: bool = True


def write_repository(directory: Path, options: RepositoryOptions) -> list[str]:
    """Return the names of its models; what an earlier call wrote is written over. Raises OSError."""
    models = models_of(options.family, options.family in MEL_FAMILIES)
    for model in models.values():
        version = directory / model.name / VERSION
        version.mkdir(parents=True, exist_ok=True)
        (version / "model.py").write_text(MODEL_FILE, encoding="utf-8")
        config = directory / model.name / "config.pbtxt"
        config.write_text(config_text(model, options), encoding="utf-8")
    return list(models)


def config_text(model: Model, options: RepositoryOptions) -> str:
    """The `config.pbtxt` of a model."""
    parameters: dict[str, str] = {"family": options.family}
    if model.is_decoupled:  # it has the engine
        parameters["model_dir"] = options.model_dir
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        name=model.name,
        max_batch_size=options.max_batch_size,
        queue_delay_us=options.queue_delay_us,
        priorities=_PRIORITIES if model.name in ("token2wav", "vocoder") else "",
        is_decoupled=model.is_decoupled and options.is_decoupled,
        inputs=",".join(_tensor(spec, is_input=True) for spec in model.inputs),
        outputs=_tensor(model.output, is_input=False),
        instances=options.num_instances if model.is_decoupled else 1,
        parameters=",".join(
            f'\n  {{ key: "{name}" value: {{ string_value: {json.dumps(value)} }} }}'
            for name, value in parameters.items()
        ),
    )


def parameters_of(config: Mapping[str, Mapping[str, Mapping[str, str]]]) -> dict[str, str]:
    """Those of a model, from the JSON that Triton makes of its `config.pbtxt`."""
    return {name: value["string_value"] for name, value in config.get("parameters", {}).items()}


def _tensor(spec: TensorSpec, is_input: bool) -> str:
    """Ragged: Triton would batch only what has equal shapes, and no two recordings have."""
    kind = "STRING" if spec.datatype == "BYTES" else spec.datatype
    fields = f'name: "{spec.name}" data_type: TYPE_{kind} dims: {list(spec.dims)}'
    if is_input and -1 in spec.dims:
        fields += " allow_ragged_batch: true"
    if spec.is_optional:
        fields += " optional: true"
    return f"\n  {{ {fields} }}"
