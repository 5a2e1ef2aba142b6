"""Tensors that say they are on cuda:0 and compute on the CPU, under the rules of a GPU.

They refuse mixed devices, note each wait and copy with its line, count launches, and graphs are recorded and
replayed operation by operation over the same memory, so that what Python computed while recording stays as it
was. Within `pretended_gpu()` torch finds one GPU, in this thread and in those that begin there.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from firstword.bench.gpu.pretended.ledger import Ledger, Recording, where

CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")
NAME = "pretended GPU"
MEMORY_BYTES = 80 << 30

_VIEWS = """view _unsafe_view slice select transpose t permute expand unsqueeze squeeze detach alias
as_strided split unfold narrow reshape split_with_sizes unbind chunk lift_fresh diagonal _reshape_alias
flatten movedim is_same_size view_as"""
VIEWS = frozenset(_VIEWS.split())
_ALLOCATIONS = "new_empty empty empty_like empty_strided new_empty_strided scalar_tensor resize_ set_"
ALLOCATIONS = frozenset(_ALLOCATIONS.split())
ASKS = frozenset(("nonzero", "masked_select", "is_nonzero", "equal", "unique"))  # their size is on the device
INDEXING = frozenset(("index", "index_put", "index_put_", "_index_put_impl_"))
PRODUCTS = frozenset(["convolution", "mm", "addmm", "addmm_", "bmm", "baddbmm", "attention"])
KERNEL_LAUNCHERS = (  # of Triton, compiled and interpreted
    ("triton.runtime.jit", "JITFunction", "run"),
    ("triton.runtime.interpreter", "GridExecutor", "__call__"),
)

Call = Callable[..., Any]
_Operands = (torch._C.TensorBase, torch.Generator)  # in a fraction of the time that `Tensor` takes
_NUMBERS = frozenset((int, float, bool, str, type(None), torch.dtype, torch.device))  # asked first: most are


class MixedDevices(RuntimeError):
    """As torch on a GPU, which expects all tensors to be on the same device."""


class RefusedWhileRecording(RuntimeError):
    """As CUDA, where a stream that records is waited for, or a second one begins to."""


class PretendedTensor(Tensor):
    """On the GPU; `elem` holds its values. It is a meta tensor for torch, so that nothing computes unseen."""

    elem: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, elem: Tensor) -> "PretendedTensor":
        made = Tensor._make_wrapper_subclass(
            cls,
            elem.size(),
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            layout=elem.layout,
            device=torch.device("meta"),
            requires_grad=False,
        )
        made.elem = elem
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"PretendedTensor({self.elem!r})"

    device = property(lambda self: CUDA)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)

    def data_ptr(self) -> int:
        return self.elem.data_ptr()

    def is_pinned(self, device: object = None) -> bool:
        return False

    def __deepcopy__(self, memo: object) -> "PretendedTensor":
        return PretendedTensor(self.elem.clone())

    def tolist(self) -> Any:
        _gpu().refuse_or_wait("tolist")
        return self.elem.tolist()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _gpu().dispatch(func, args, kwargs or {})


class _Mode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and to import the compiler takes seconds

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _gpu().dispatch(func, args, kwargs or {})


class PretendedGpu:
    """Runs operations on the values, and notes them in its ledger."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.computes_replays = True  # else a graph's output stays what it was while it was recorded
        self._tape = threading.local()
        self._recording_thread: str | None = None
        self._pinned: dict[int, Tensor] = {}  # by their memory; kept, so that no other tensor gets it

    # what is asked of the device ------------------------------------------------------------------

    @property
    def tape(self) -> "list[_Entry] | None":
        """What this thread records; None: it does not."""
        return getattr(self._tape, "entries", None)

    def refuse_or_wait(self, why: str) -> None:
        if self.tape is not None:
            raise RefusedWhileRecording(self.ledger.fault(f"{why} while a graph is recorded"))
        self.ledger.wait(why)

    def begin_recording(self) -> None:
        thread = threading.current_thread().name
        if self._recording_thread is not None:
            what = f"{thread} begins to record while {self._recording_thread} does"
            raise RefusedWhileRecording(self.ledger.fault(what))
        self._recording_thread = thread
        self._tape.entries = []

    def end_recording(self) -> "list[_Entry]":
        entries: list[_Entry] = self._tape.entries
        self._tape.entries = None
        self._recording_thread = None
        thread = threading.current_thread().name
        nodes = sum(entry.is_kernel for entry in entries)
        self.ledger.recordings.append(Recording(self.ledger.stage, thread, nodes, where()))
        return entries

    def is_pinned(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self._pinned

    def pin(self, tensor: Tensor) -> Tensor:
        self._pinned[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    # operations ------------------------------------------------------------------------------------

    def run(self, name: str, call: Call, args: Any, kwargs: dict[str, Any], is_kernel: bool = True) -> Any:
        """Call with the values; -> what it gave, on the GPU. In a recording it becomes an entry."""
        plain_args = _values(tuple(args))
        plain = {key: _values(value) for key, value in kwargs.items()}
        if name in PRODUCTS:
            call = partial(_in_float32, call, name.endswith("_"))
        out = call(*plain_args, **plain)
        given = _tensors((args, kwargs))
        if self.tape is not None:
            memory = {one.elem.untyped_storage().data_ptr() for one in given if type(one) is PretendedTensor}
            made = _tensors((out,))
            is_fresh = any(one.untyped_storage().data_ptr() not in memory for one in made)
            self.tape.append(_Entry(call, plain_args, plain, made if is_fresh else [], is_kernel))
        elif is_kernel:
            self.ledger.launch(name)
        elif name in VIEWS:
            self.ledger.now.views += 1
        return _on_gpu(out, given)

    def copy_in(self, source: Tensor, waits: bool) -> None:
        """Note a copy from the CPU. waits: it was not asked to go on without."""
        if self.is_pinned(source):
            self.ledger.now.pinned_copies += 1
            if waits:
                self.refuse_or_wait("a pinned copy that is waited for")
        else:
            self.ledger.now.pageable_copies += 1
            self.refuse_or_wait("a copy from pageable memory")

    def copy_out(self, target: Tensor | None, waits: bool) -> None:
        if waits or target is None or not self.is_pinned(target):
            self.refuse_or_wait("a copy to the CPU")
        else:
            self.ledger.now.pinned_copies += 1

    def dispatch(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        namespace, _, name = func._schema.name.partition("::")
        tensors = _tensors((args, kwargs))
        on_gpu = any(type(one) is PretendedTensor for one in tensors)
        if on_gpu and namespace != "aten":
            self._refuse_mixed(func, tensors)
        if namespace != "aten":
            return self.run(f"{namespace}::{name}", func, args, kwargs) if on_gpu else func(*args, **kwargs)
        if name == "_to_copy":
            return self._copied(args[0], dict(kwargs))
        if name == "copy_":
            return self._copy_over(func, args, kwargs)
        if not on_gpu:
            return self._make(func, name, args, kwargs)
        if name in ("_local_scalar_dense", "item"):
            self.refuse_or_wait("item")
            return func(*_values(tuple(args)))
        asks_repeats = name == "repeat_interleave" and "self_int" not in func._overloadname
        if name in ASKS or asks_repeats:
            self.refuse_or_wait(name)
        indices = self._indices(args) if name in INDEXING else ()
        self._refuse_mixed(func, tensors, skips=indices)
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": CPU}
        return self.run(name, func, args, kwargs, name not in VIEWS and name not in ALLOCATIONS)

    def _indices(self, args: Sequence[Any]) -> list[Tensor]:
        """Indices may be on the CPU, and are copied; a mask has as many as are True, which is asked for."""
        given = [one for one in args[1] if one is not None]
        for one in given:
            if one.dtype in (torch.bool, torch.uint8):
                self.refuse_or_wait("an index by a mask")
            if not isinstance(one, PretendedTensor):
                self.copy_in(one, waits=True)
        return given

    def _refuse_mixed(self, func: Any, tensors: Sequence[Tensor], skips: Sequence[Tensor] = ()) -> None:
        for one in tensors:
            if type(one) is PretendedTensor or any(one is index for index in skips):
                continue
            if isinstance(one, torch.Generator):
                raise MixedDevices(self.ledger.fault(f"{func} on cuda:0 with a generator on the CPU"))
            if one.dim():
                what = f"{func} of tensors on cuda:0 with one of {tuple(one.shape)} on the CPU"
                raise MixedDevices(self.ledger.fault(what))

    def _make(self, func: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """An operation without a tensor of the GPU: it makes one there, or has nothing to do with it."""
        pins = kwargs.get("pin_memory")
        if name == "scalar_tensor":  # a number of Python's beside a tensor of the GPU, which is meta to torch
            kwargs = {**kwargs, "device": CPU}
        if kwargs.get("device") is None or not _is_gpu(kwargs["device"]):
            kwargs = {key: value for key, value in kwargs.items() if key != "pin_memory"}
            made = func(*args, **kwargs)
            return self.pin(made) if pins else made
        kwargs = {key: value for key, value in kwargs.items() if key != "pin_memory"} | {"device": CPU}
        return self.run(name, func, args, kwargs, name not in ALLOCATIONS)

    def _copied(self, source: Tensor, kwargs: dict[str, Any]) -> Tensor:
        device, waits = kwargs.pop("device", None), not kwargs.pop("non_blocking", False)
        pins = kwargs.pop("pin_memory", None)
        if device is not None and torch.device(device).type == "meta":  # shapes alone
            return torch.empty_like(_values(source), device="meta", dtype=kwargs.get("dtype"))
        is_here = isinstance(source, PretendedTensor)
        goes_there = is_here if device is None else _is_gpu(device)
        copy = torch.ops.aten._to_copy.default
        if is_here and goes_there:
            return self.run("_to_copy", copy, (source,), kwargs)
        if is_here:
            self.copy_out(None, waits)
            made = copy(_values(source), **kwargs)
            return self.pin(made) if pins else made
        if goes_there:
            self.copy_in(source, waits)
            return PretendedTensor(copy(source, **kwargs))
        return copy(source, **kwargs)

    def _copy_over(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        target, source = args[0], args[1]
        waits = not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        target_here, source_here = isinstance(target, PretendedTensor), isinstance(source, PretendedTensor)
        if target_here and source_here:
            return self.run("copy_", func, (target, source), {})
        if target_here:
            self.copy_in(source, waits)
            target.elem.copy_(source)
        elif source_here:
            self.copy_out(target, waits)
            target.copy_(_values(source))
        else:
            target.copy_(source)
        return target

    # torch's own functions ---------------------------------------------------------------------------

    def to(self, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        device, dtype, waits, copies = _to_arguments(args, kwargs)
        is_here = isinstance(tensor, PretendedTensor)
        goes_there = is_here if device is None else _is_gpu(device)
        if device is not None and torch.device(device).type == "meta":
            return self._copied(tensor, {"device": device, "dtype": dtype})
        if is_here == goes_there and dtype in (None, tensor.dtype) and not copies:
            return tensor
        target = CUDA if goes_there else device or CPU
        given = {"dtype": dtype or tensor.dtype, "device": target}
        return self._copied(tensor, {**given, "non_blocking": not waits})


class _Entry:
    """An operation of a recording: replayed, its output is written where it was."""

    __slots__ = ("args", "call", "is_kernel", "kwargs", "outputs")

    def __init__(
        self, call: Call, args: Any, kwargs: dict[str, Any], outputs: list[Tensor], is_kernel: bool
    ) -> None:
        self.call, self.args, self.kwargs = call, args, kwargs
        self.outputs, self.is_kernel = outputs, is_kernel

    def replay(self) -> None:
        if not self.is_kernel:
            return  # a view of memory that is still there
        new = _tensors((self.call(*self.args, **self.kwargs),))
        for old, one in zip(self.outputs, new, strict=False):
            if old is not one:
                old.copy_(one)


class _Graph:
    """`torch.cuda.CUDAGraph`."""

    def __init__(self, keep_graph: bool = False) -> None:
        self.entries: list[_Entry] = []

    def replay(self) -> None:
        gpu = _gpu()
        gpu.ledger.now.replays += 1
        gpu.ledger.now.nodes += sum(entry.is_kernel for entry in self.entries)
        if not gpu.computes_replays:
            return
        with _disable_current_modes():
            for entry in self.entries:
                entry.replay()

    def reset(self) -> None:
        self.entries = []


class _Record:
    """`torch.cuda.graph`."""

    def __init__(
        self,
        cuda_graph: _Graph,
        pool: object = None,
        stream: object = None,
        capture_error_mode: str = "global",
    ) -> None:
        self._graph = cuda_graph

    def __enter__(self) -> None:
        _gpu().begin_recording()

    def __exit__(self, *error: object) -> None:
        self._graph.entries = _gpu().end_recording()


class _Event:
    """`torch.cuda.Event`; what is asked of a stream was done when it was asked."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, **more: object) -> None:
        self._at_s = 0.0

    def record(self, stream: object = None) -> None:
        self._at_s = time.perf_counter()

    def synchronize(self) -> None:
        gpu = _gpu()
        if gpu.tape is not None:
            gpu.refuse_or_wait("a wait for an event")
        gpu.ledger.now.event_waits += 1

    def wait(self, stream: object = None) -> None:
        """The stream waits, the host does not."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, later: "_Event") -> float:
        """Milliseconds, as torch has it."""
        return 1000 * (later._at_s - self._at_s)


class _Stream:
    """`torch.cuda.Stream`; all do at once what they are asked to."""

    def __init__(self, device: object = None, priority: int = 0, **more: object) -> None:
        self.device, self.priority, self.cuda_stream = CUDA, priority, id(self)

    def wait_stream(self, stream: object) -> None:
        """It waits, the host does not."""

    def wait_event(self, event: object) -> None:
        """It waits, the host does not."""

    def record_event(self, event: _Event | None = None) -> _Event:
        event = event or _Event()
        event.record(self)
        return event

    def synchronize(self) -> None:
        _gpu().refuse_or_wait("a stream's synchronize")

    def query(self) -> bool:
        return True


_LOCAL = threading.local()
_DEFAULT_STREAM = _Stream()
_GPU: list[PretendedGpu] = []


def _gpu() -> PretendedGpu:
    assert _GPU, "outside of pretended_gpu()"
    return _GPU[-1]


def _tensors(given: Any) -> list[Any]:
    """Every tensor and generator among arguments, those of lists and of keywords too."""
    found: list[Any] = []
    for one in given:
        if type(one) in _NUMBERS:
            continue
        if isinstance(one, _Operands):
            found.append(one)
        elif type(one) in (list, tuple):
            found += _tensors(one)
        elif type(one) is dict:
            found += _tensors(one.values())
    return found


def _values(given: Any) -> Any:
    """Values in place of tensors of the GPU."""
    if type(given) is PretendedTensor:
        return given.elem
    if type(given) in (list, tuple):
        return type(given)([_values(one) for one in given])
    return given


def _in_float32(call: Call, is_in_place: bool, *args: Any, **kwargs: Any) -> Any:
    """Compute a product of bfloat16 in float32: CPUs without its arithmetic take twenty times as long."""
    given = _tensors((args, kwargs))
    if all(one.dtype != torch.bfloat16 for one in given):
        return call(*args, **kwargs)
    widened = [_widened(one) for one in args], {key: _widened(one) for key, one in kwargs.items()}
    made = call(*widened[0], **widened[1])
    return args[0].copy_(made) if is_in_place else made.bfloat16()


def _widened(given: Any) -> Any:
    return given.float() if isinstance(given, Tensor) and given.dtype == torch.bfloat16 else given


def _on_gpu(out: Any, given: Sequence[Any]) -> Any:
    """Tensors of the GPU in place of values: the given ones, where an operation gave them back."""
    if isinstance(out, _Operands):
        for one in given:
            if type(one) is PretendedTensor and one.elem is out:
                return one
        return PretendedTensor(out)  # type: ignore[arg-type]
    if type(out) in (list, tuple):
        return type(out)([_on_gpu(one, given) for one in out])
    return out


def _is_gpu(device: str | int | torch.device) -> bool:
    return torch.device(device).type == "cuda"


def _to_arguments(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, torch.dtype | None, bool, bool]:
    """-> device, dtype, whether it waits, whether it copies in any case; of the three forms of Tensor.to."""
    rest = [*args]
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
        device, dtype = other.device, other.dtype
    is_device = rest and (rest[0] is None or isinstance(rest[0], str | int | torch.device))
    if is_device and not isinstance(rest[0], bool):
        device = rest.pop(0)
    if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
        dtype = rest.pop(0)
    non_blocking = rest.pop(0) if rest else kwargs.get("non_blocking", False)
    copies = rest.pop(0) if rest else kwargs.get("copy", False)
    return device, dtype, not non_blocking, copies


@contextmanager
def _current(stream: _Stream | None) -> Iterator[None]:
    before = getattr(_LOCAL, "stream", _DEFAULT_STREAM)
    _LOCAL.stream = stream or before
    try:
        yield
    finally:
        _LOCAL.stream = before


def _one_kernel(original: Call, name: str) -> Call:
    """What is one kernel on a GPU and would be seen as several operations on the way there."""

    def call(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, PretendedTensor):
            return original(x, *args, **kwargs)
        gpu = _gpu()
        gpu._refuse_mixed(name, _tensors((x, args, kwargs)))
        with _disable_current_modes():
            return gpu.run(name, original, (x, *args), kwargs)

    return call


def _attention(original: Call) -> Call:
    def laid_out(*args: Any, **kwargs: Any) -> Tensor:
        """As a GPU's kernels lay their output out, (B, T, H, D): a CPU has others that do not."""
        made: Tensor = original(*args, **kwargs)
        return made.transpose(1, 2).contiguous().transpose(1, 2)

    kernel = _one_kernel(laid_out, "attention")

    def call(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, **kwargs: Any) -> Any:
        masks = [] if attn_mask is None else [attn_mask]
        dtypes = {one.dtype for one in (q, k, v, *masks) if one.dtype != torch.bool}
        if isinstance(q, PretendedTensor) and len(dtypes) > 1:
            raise MixedDevices(_gpu().ledger.fault(f"attention of {dtypes}"))
        return kernel(q, k, v, attn_mask=attn_mask, **kwargs)

    return call


def _tensor(original: Call) -> Call:
    def call(
        data: Any, *, dtype: Any = None, device: Any = None, pin_memory: bool = False, **kwargs: Any
    ) -> Any:
        device = torch.get_default_device() if device is None else device
        if not _is_gpu(device):
            made = original(data, device=device, **kwargs)
            return _gpu().pin(made) if pin_memory else made
        made = original(data, device=CPU, **kwargs)
        _gpu().copy_in(made, waits=True)
        return PretendedTensor(made)

    return call


def _triton(original: Call) -> Call:
    def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        name = getattr(getattr(kernel, "fn", None), "__name__", "kernel")
        with _disable_current_modes():
            return _gpu().run(f"triton::{name}", partial(original, kernel), args, kwargs)

    return launch


@contextmanager
def pretended_gpu() -> Iterator[PretendedGpu]:
    """Let torch find a GPU, which is pretended, in this thread and in threads that begin within."""
    gpu = PretendedGpu()
    torch._C._ensureCUDADeviceGuardSet()
    run_thread, was_overwriting = (
        threading.Thread.run,
        torch.__future__.get_overwrite_module_params_on_conversion(),
    )

    def run_in_mode(thread: threading.Thread) -> None:
        with _Mode():
            run_thread(thread)

    def enter_no_grad(mode: Any) -> None:
        mode.pretended = torch.no_grad()
        mode.pretended.__enter__()

    def exit_no_grad(mode: Any, *error: Any) -> None:
        mode.pretended.__exit__(*error)

    cuda: dict[str, Any] = {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "is_bf16_supported": lambda including_emulation=True: True,
        "get_device_name": lambda *of: NAME,
        "get_device_capability": lambda *of: (9, 0),
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "memory_allocated": lambda *of: 0,
        "mem_get_info": lambda *of: (MEMORY_BYTES, MEMORY_BYTES),
        "synchronize": lambda *of: gpu.refuse_or_wait("synchronize"),
        "empty_cache": lambda: None,
        "graph_pool_handle": lambda: (0, 1),
        "default_stream": lambda *of: _DEFAULT_STREAM,
        "current_stream": lambda *of: getattr(_LOCAL, "stream", _DEFAULT_STREAM),
        "stream": _current,
        "set_stream": lambda stream: setattr(_LOCAL, "stream", stream),
        "Stream": _Stream,
        "Event": _Event,
        "CUDAGraph": _Graph,
        "graph": _Record,
    }
    methods: dict[str, Any] = {
        "to": lambda tensor, *how, **named: gpu.to(tensor, *how, **named),
        "cpu": lambda tensor, *of: gpu.to(tensor, "cpu"),
        "cuda": lambda tensor, *of, **how: gpu.to(tensor, "cuda"),
        "pin_memory": lambda tensor, *of: gpu.pin(tensor.clone()),
        "is_pinned": lambda tensor, *of: gpu.is_pinned(tensor),
    }
    _GPU.append(gpu)
    with ExitStack() as stack:
        for name, value in cuda.items():
            stack.enter_context(patch.object(torch.cuda, name, value))
        for name, value in methods.items():
            stack.enter_context(patch.object(Tensor, name, value))
        stack.enter_context(patch.object(torch, "tensor", _tensor(torch.tensor)))
        attention = _attention(F.scaled_dot_product_attention)
        stack.enter_context(patch.object(F, "scaled_dot_product_attention", attention))
        stack.enter_context(patch.object(F, "rms_norm", _one_kernel(F.rms_norm, "rms_norm")))
        for module, owner, method in KERNEL_LAUNCHERS:
            with suppress(ImportError):  # a CPU has none
                launcher = getattr(import_module(module), owner)
                stack.enter_context(patch.object(launcher, method, _triton(getattr(launcher, method))))
        # Tensors made under inference mode are no subclasses' own; what is counted is the same without.
        stack.enter_context(patch.object(torch.inference_mode, "__enter__", enter_no_grad))
        stack.enter_context(patch.object(torch.inference_mode, "__exit__", exit_no_grad))
        stack.enter_context(patch.object(threading.Thread, "run", run_in_mode))
        stack.callback(torch.__future__.set_overwrite_module_params_on_conversion, was_overwriting)
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        stack.callback(_GPU.pop)
        stack.enter_context(_Mode())
        yield gpu
