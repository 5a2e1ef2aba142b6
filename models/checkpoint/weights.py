"""Load a network's weights: read named tensors without executing anything, and fit them exactly.

`torch.load(weights_only=True)` keeps a pickle from executing anything, but not from asking for memory:
`bytearray(1 << 40)` is accepted, as is filling a thousand dicts from one. `check_pickle` lets through only
what `torch.save` writes for named tensors, which needs memory in proportion to the file's length.
"""

import pickletools
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from firstword.models.checkpoint.names import Table, to_ours, to_published
from firstword.models.config import CheckpointError

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
    """Read a `.safetensors` or `.pt` file; on the CPU, in the file's dtype.

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
    wrong = [
        f"{name!r:.80}"
        for name, value in content.items()
        if not (isinstance(name, str) and isinstance(value, Tensor) and is_dense(value))
    ]
    if wrong:
        raise CheckpointError(f"{path}: not a named dense tensor: {', '.join(wrong[:20])}")
    num_bytes = sum(value.nbytes for value in content.values())
    num_file_bytes = path.stat().st_size
    if num_bytes > MAX_SHARING * num_file_bytes:
        raise CheckpointError(
            f"{path}: {num_bytes} bytes of tensors in a file of {num_file_bytes}: they share their memory"
        )
    return content


def is_dense(tensor: Tensor) -> bool:
    """Whether every element has memory of its own, so that a small file holds no huge tensor."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        return False
    return tensor.nbytes <= tensor.untyped_storage().nbytes()


def published_shapes(module: nn.Module, table: Table) -> dict[str, torch.Size]:
    """Return the names and shapes that `load_exactly` expects of a file."""
    return {to_published(name, table): value.shape for name, value in module.state_dict().items()}


def published_tensors(module: nn.Module, table: Table, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
    """Return what `load_exactly` reads back; dtype: None leaves each tensor as it is."""
    state = module.state_dict()
    return {to_published(name, table): value.detach().to(dtype).contiguous() for name, value in state.items()}


def fold_weight_norm(tensors: Mapping[str, Tensor], expected: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Replace each pair of magnitude g and direction v by `NAME.weight` = g v / |v|, norm over all but dim 0.

    A pair that does not fit together, or whose weight is not `expected` (`published_shapes`), stays as it
    is, and is reported as surplus by `load_exactly`.
    """
    folded = dict(tensors)
    for g_suffix, v_suffix in WEIGHT_NORM_SPELLINGS:
        for name in [name for name in folded if name.endswith(g_suffix)]:
            stem = name.removesuffix(g_suffix)
            g = folded[name]
            v = folded.get(stem + v_suffix)
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
    """Give every parameter of `module` (which may be on the meta device) its own copy of a tensor.

    tensors, optional: as of `check_fit`, which is asked first. dtype: of the loaded parameters, or each
    tensor's own.
    """
    check_fit(module, tensors, table, file, optional)
    state = {
        to_ours(name, table): tensors[name].to(dtype, copy=True) for name in published_shapes(module, table)
    }
    module.load_state_dict(state, strict=True, assign=True)
    module.requires_grad_(False)


def check_fit(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    table: Table,
    file: Path | str,
    optional: frozenset[str] = frozenset(),
) -> None:
    """Compare names, shapes and types with those of `module`; no value is read.

    tensors: under their published names. optional: published names that may stand in the file and are
    not used.

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


MAX_PICKLE_BYTES = 16 << 20  # the tensors' names and shapes; a published file has about 200 kB


class TorchFileError(ValueError):
    """The message names the file and says what is wrong with it."""


def read_torch_file(path: Path) -> Any:
    """Return tensors on the CPU, mapped from the file, in lists and dicts of any depth.

    Raises:
        TorchFileError: not readable, cut short, compressed, of the format before PyTorch 1.6, or holding
            anything that could act or take more memory than the file has bytes.
    """
    try:
        check_pickle(_pickle(path))
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except OSError as error:
        raise TorchFileError(f"{path}: cannot be read: {error}") from error
    except Exception as error:  # a damaged archive makes its readers raise almost any type
        reason = " ".join(str(error).split())[:200]
        raise TorchFileError(f"{path}: not a file of tensors that torch.save wrote: {reason}") from error


def _pickle(path: Path) -> bytes:
    """Return the one pickle of an archive. Raises ValueError for one that torch.save does not write."""
    if not zipfile.is_zipfile(path):
        raise ValueError(
            "no zip archive, so cut short, or older than PyTorch 1.6: load it there with a newer PyTorch "
            "and save it again"
        )
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        _check_entries(archive, entries)
        pickles = [entry for entry in entries if entry.filename.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise ValueError(f"{len(pickles)} entries named data.pkl; expected 1")
        if pickles[0].file_size > MAX_PICKLE_BYTES:
            raise ValueError(
                f"data.pkl has {pickles[0].file_size} bytes; expected {MAX_PICKLE_BYTES} at most"
            )
        return archive.read(pickles[0])


def _check_entries(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo]) -> None:
    """Check that all are uncompressed and that all readers of the archive see the same entry by a name."""
    packed = [entry.filename for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
    if packed:
        raise ValueError(f"entry {packed[0]!r:.80} is compressed, which torch.save never does")
    names = {entry.filename.casefold() for entry in entries}
    folders = {name.partition("/")[0] for name in names}
    starts_at_0 = any(entry.header_offset == 0 for entry in entries)
    if len(names) != len(entries) or len(folders) != 1 or archive.comment or not starts_at_0:
        raise ValueError("the archive has entries of one name, several folders, or something around it")


MAX_OPERATIONS = 1 << 20  # a tensor takes about 40
MAX_TUPLE_ENTRIES = 16  # a tensor's arguments are 6, its sizes 4 at most

ORDERED_DICT: Final = "collections OrderedDict"
REBUILDERS = frozenset({"torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter"})
STORAGES = frozenset(
    f"torch {name}Storage"
    for name in ("Double", "Float", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
)
GLOBALS = REBUILDERS | STORAGES | {ORDERED_DICT}

PUTS = frozenset({"BINPUT", "LONG_BINPUT"})
GETS = frozenset({"BINGET", "LONG_BINGET"})
KEYS = frozenset({"BINUNICODE", "BININT", "BININT1", "BININT2"})
TUPLES = frozenset({"EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"})
FILLS = frozenset({"SETITEM", "SETITEMS", "APPEND", "APPENDS"})  # the container stays on the stack
PLAIN = frozenset({"PROTO", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BINFLOAT", "LONG1", "BINPERSID"})
CONTAINERS = frozenset({"EMPTY_DICT", "EMPTY_LIST"})
OPERATIONS = PUTS | GETS | KEYS | TUPLES | FILLS | PLAIN | CONTAINERS | {"GLOBAL", "REDUCE", "BUILD"}

MARK: Final = "MARK"
KEY: Final = "key"  # text or a small number, whose hash takes no recursion
FRESH_DICT: Final = "EMPTY_DICT"  # not taken from the memo, so it is copied once at most
OTHER: Final = "other"


def check_pickle(content: bytes) -> None:
    """Raise ValueError unless a pickle builds nothing but tensors in plain containers."""
    scan = _Scan()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(content), start=1):
            if count > MAX_OPERATIONS:
                raise ValueError(f"its pickle has more than {MAX_OPERATIONS} operations")
            scan.step(opcode, argument)
    except (IndexError, KeyError) as error:
        raise ValueError("its pickle takes what it has not put") from error


class _Scan:
    """The stack and memo of an unpickler that knows only of what kind each value is."""

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._memo: dict[int, str] = {}

    def step(self, opcode: pickletools.OpcodeInfo, argument: object) -> None:
        name = opcode.name
        if name not in OPERATIONS:
            raise ValueError(f"its pickle uses {name}")
        if name in PUTS:
            assert isinstance(argument, int), argument
            self._memo[argument] = self._stack[-1]
        elif name in GETS:
            assert isinstance(argument, int), argument
            kind = self._memo[argument]
            self._stack.append(kind if kind in GLOBALS or kind == KEY else OTHER)
        elif name == "GLOBAL":
            if argument not in GLOBALS:
                raise ValueError(f"its pickle asks for {str(argument).replace(' ', '.', 1):.80}")
            self._stack.append(str(argument))
        else:
            self._apply(opcode)

    def _apply(self, opcode: pickletools.OpcodeInfo) -> None:
        name = opcode.name
        entries = self._pop(opcode)
        if name in TUPLES and len(entries) > MAX_TUPLE_ENTRIES:
            raise ValueError(f"its pickle has a tuple of {len(entries)} entries")
        if name in ("SETITEM", "SETITEMS") and any(kind != KEY for kind in entries[::2]):
            raise ValueError("its pickle has a key that is neither text nor a number")
        if name == "REDUCE":
            self._stack.append(_called(*entries))
        elif name == "BUILD":
            owner, attributes = entries  # torch.save sets them of a state dict alone: its modules' versions
            if owner != "OrderedDict" or attributes != FRESH_DICT:
                raise ValueError("its pickle sets attributes of what is no state dict")
            self._stack.append(entries[0])
        elif name not in FILLS:
            value = KEY if name in KEYS else name
            self._stack += [value] * len(opcode.stack_after)

    def _pop(self, opcode: pickletools.OpcodeInfo) -> list[str]:
        """Pop what the operation takes; for FILLS what goes into the container, which stays."""
        before = opcode.stack_before
        if pickletools.markobject in before:
            entries = []
            while (kind := self._stack.pop()) != MARK:
                entries.append(kind)
            return entries[::-1]
        count = len(before) - (opcode.name in FILLS)
        entries = self._stack[len(self._stack) - count :]
        if len(entries) < count or MARK in entries:
            raise IndexError
        del self._stack[len(self._stack) - count :]
        return entries


def _called(function: str, arguments: str) -> str:
    """Return the kind of a call's result."""
    if function == ORDERED_DICT and arguments == "EMPTY_TUPLE":
        return "OrderedDict"
    if function not in REBUILDERS:
        raise ValueError(f"its pickle calls {function.replace(' ', '.', 1):.80}")
    return OTHER
