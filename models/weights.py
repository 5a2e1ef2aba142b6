"""Reads a file of named tensors without executing anything in it, and loads it into a module exactly."""

from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from models.errors import CheckpointError
from models.names import Table, to_ours, to_published
from models.torch_file import TorchFileError, read_torch_file

TRAINING_ENTRIES = ("epoch", "step")
"""Whole numbers that training checkpoints hold beside the tensors."""

MAX_SHARING = 2
"""How often a file's bytes may be used: tied tables share theirs, and no small file fills the memory."""

FLOAT_TYPES = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})

WEIGHT_NORM_SPELLINGS = (
    (".parametrizations.weight.original0", ".parametrizations.weight.original1"),
    (".weight_g", ".weight_v"),
)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """A `.safetensors` or `.pt` file; on the CPU, in the file's dtype.

    Raises:
        CheckpointError: truncated, not such a file, or holding anything but named tensors.
    """
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path, device="cpu")
        content = read_torch_file(path)
    except TorchFileError as error:
        raise CheckpointError(str(error)) from error
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    return _named_tensors(path, content)


def _named_tensors(path: Path, content: object) -> dict[str, Tensor]:
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{path}: expected a mapping of names to tensors, found {type(content).__name__}"
        )
    for name in TRAINING_ENTRIES:
        if isinstance(content.get(name), int):
            del content[name]
    wrong = [f"{name!r:.80}" for name, value in content.items() if not (_is_name(name) and _is_tensor(value))]
    if wrong:
        raise CheckpointError(f"{path}: not a named dense tensor: {', '.join(wrong[:20])}")
    num_bytes, num_file_bytes = sum(value.nbytes for value in content.values()), path.stat().st_size
    if num_bytes > MAX_SHARING * num_file_bytes:
        raise CheckpointError(
            f"{path}: {num_bytes} bytes of tensors in a file of {num_file_bytes}: they share their memory"
        )
    return content


def _is_name(name: object) -> bool:
    return isinstance(name, str)


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor) and is_dense(value)


def is_dense(tensor: Tensor) -> bool:
    """Every element has its own place in memory, so that a small file holds no huge tensor."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        return False
    return tensor.nbytes <= tensor.untyped_storage().nbytes()


def published_shapes(module: nn.Module, table: Table) -> dict[str, torch.Size]:
    """What `load_exactly` expects of a file."""
    return {to_published(name, table): value.shape for name, value in module.state_dict().items()}


def published_tensors(module: nn.Module, table: Table, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
    """The file that `load_exactly` reads back; dtype: None leaves each tensor as it is."""
    state = module.state_dict()
    return {to_published(name, table): value.detach().to(dtype).contiguous() for name, value in state.items()}


def fold_weight_norm(tensors: Mapping[str, Tensor], expected: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Every pair of magnitude g and direction v becomes `NAME.weight` = g v / |v|, norm over all but dim 0.

    A pair that does not fit together, or whose weight is not `expected` (`published_shapes`), stays as it
    is, and is reported as surplus by `load_exactly`.
    """
    folded = dict(tensors)
    for g_suffix, v_suffix in WEIGHT_NORM_SPELLINGS:
        for name in [name for name in folded if name.endswith(g_suffix)]:
            stem = name.removesuffix(g_suffix)
            g, v = folded[name], folded.get(stem + v_suffix)
            if v is None or v.dim() == 0 or g.shape != (len(v), *[1] * (v.dim() - 1)):
                continue
            if not {g.dtype, v.dtype} <= FLOAT_TYPES or f"{stem}.weight" in folded:
                continue
            if expected.get(f"{stem}.weight") != v.shape:
                continue
            del folded[name], folded[stem + v_suffix]
            norm = v.float().flatten(1).norm(dim=1).view_as(g)
            folded[f"{stem}.weight"] = v.float() * (g.float() / norm)
    return folded


def load_exactly(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    table: Table,
    file: Path | str,
    optional: frozenset[str] = frozenset(),
    dtype: torch.dtype | None = None,
) -> None:
    """Gives every parameter of `module` (which may be on the meta device) its own copy of a tensor.

    tensors: under their published names. optional: published names that may stand in the file and are
    not used. dtype: of the loaded parameters, or each tensor's own.

    Raises:
        CheckpointError: lists every tensor that is missing, surplus, misshapen or no floating-point one.
    """
    expected = published_shapes(module, table)
    problems = [f"missing {name} {tuple(shape)}" for name, shape in expected.items() if name not in tensors]
    for name, tensor in tensors.items():
        if name in optional:
            continue
        if name not in expected:
            problems.append(f"surplus {name} {tuple(tensor.shape)}")
        elif tensor.shape != expected[name]:
            problems.append(f"misshapen {name} {tuple(tensor.shape)}, expected {tuple(expected[name])}")
        elif tensor.dtype not in FLOAT_TYPES:
            problems.append(f"wrong type {name} {tensor.dtype}, expected floating point")
    if problems:
        raise CheckpointError(f"{file}: {len(problems)} tensors do not fit:\n  " + "\n  ".join(problems))
    state = {to_ours(name, table): tensors[name].to(dtype, copy=True) for name in expected}
    module.load_state_dict(state, strict=True, assign=True)
    module.requires_grad_(False)
