"""The parts of a torch module by their types, which a ModuleList does not tell."""

from typing import TypeVar

from torch import nn

Part = TypeVar("Part", bound=nn.Module)


def each(kind: type[Part], modules: nn.Module) -> list[Part]:
    """The entries of a ModuleList, all of one kind."""
    assert isinstance(modules, nn.ModuleList), modules
    parts = [part for part in modules if isinstance(part, kind)]
    assert len(parts) == len(modules), f"{modules} has others than {kind}"
    return parts
