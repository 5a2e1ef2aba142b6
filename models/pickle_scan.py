"""Checks, without running it, that a pickle builds nothing but tensors in plain containers.

`torch.load(weights_only=True)` keeps a pickle from executing anything, but not from asking for memory:
`bytearray(1 << 40)` is accepted, as is filling a thousand dicts from one. Only what `torch.save` writes
for named tensors passes here, and what passes needs memory in proportion to its length.
"""

import pickletools
from typing import Final

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
    """Raises ValueError, saying what is not of a file of tensors."""
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
            _check_attributes(*entries)
            self._stack.append(entries[0])
        elif name not in FILLS:
            kept = KEY if name in KEYS else name
            self._stack += [kept] * len(opcode.stack_after)

    def _pop(self, opcode: pickletools.OpcodeInfo) -> list[str]:
        """What the operation takes; for FILLS what goes into the container, which stays."""
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
    """The kind of a call's result."""
    if function == ORDERED_DICT and arguments == "EMPTY_TUPLE":
        return "OrderedDict"
    if function not in REBUILDERS:
        raise ValueError(f"its pickle calls {function.replace(' ', '.', 1):.80}")
    return OTHER


def _check_attributes(owner: str, attributes: str) -> None:
    """`torch.save` gives attributes to a state dict alone: the versions of its modules."""
    if owner != "OrderedDict" or attributes != FRESH_DICT:
        raise ValueError("its pickle sets attributes of what is no state dict")
