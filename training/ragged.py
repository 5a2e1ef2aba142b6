"""Utterances in one file: arrays of different lengths are joined, beside the places where each ends."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_ENDS = "_at"  # behind the name of what was joined


def save(path: Path, joined: Mapping[str, Sequence[Array]], **values: Array) -> None:
    """An array, or in `values` one value, for each utterance. The file has its name once it is complete."""
    arrays = dict(values)
    for name, parts in joined.items():
        arrays[name] = np.concatenate(parts)
        arrays[name + _ENDS] = np.cumsum([len(part) for part in parts])
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # takes any name but allow_pickle
    partial.rename(path)


def load(*paths: Path) -> list[dict[str, Any]]:
    """Each utterance's arrays and values by name, out of all the files together."""
    data: dict[str, Array] = {}
    for path in paths:
        with np.load(path) as file:
            data |= file
    ends = {name.removesuffix(_ENDS): data.pop(name) for name in list(data) if name.endswith(_ENDS)}
    columns = [np.split(data[name], ends[name][:-1]) if name in ends else data[name] for name in data]
    return [dict(zip(data, row, strict=True)) for row in zip(*columns, strict=True)]
