"""Tables that a trained network is given new rows in: the rest of it keeps what it knows."""

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize


class NewRows(nn.Module):
    """A table whose new rows are free ones plus sums over components that rows share."""

    components: Tensor | None  # (n, K)

    def __init__(
        self, rows: range, components: Tensor | None = None, width: int = 0, keeps_rest: bool = True
    ) -> None:
        """rows: those that are new. width: of the table. keeps_rest: the others do not learn."""
        super().__init__()
        self._rows, self._keeps_rest = rows, keeps_rest
        self.register_buffer("components", components, persistent=False)
        if components is not None:
            self.table = nn.Parameter(torch.zeros(components.shape[1], width))

    def forward(self, free: Tensor) -> Tensor:
        """free (N, ...) -> (N, ...)."""
        before, new, behind = free.tensor_split([self._rows.start, self._rows.stop])
        if self._keeps_rest:
            before, behind = before.detach(), behind.detach()
        if self.components is not None:
            new = new + self.components @ self.table
        return torch.cat([before, new, behind])


def with_new_rows(module: nn.Module, name: str, new: NewRows, scale: float = 0.0) -> None:
    """Let the parameter `name` of a module be such a table; scale: of the sums to begin with."""
    if new.components is not None:
        nn.init.normal_(new.table, std=scale)
    parametrize.register_parametrization(module, name, new, unsafe=True)


def without_sums(network: nn.Module) -> nn.Module:
    """The network, to train further: its tables as they were before `with_new_rows`."""
    for module in network.modules():
        if isinstance(module, NewRows) and module.components is not None:
            nn.init.zeros_(module.table)
    return network


def fold(module: nn.Module, name: str) -> None:
    """Add the sums into the table, which is an ordinary parameter again."""
    parametrize.remove_parametrizations(module, name)


def widened(table: Tensor, at: int, rows: Tensor) -> Tensor:
    """table (N, ...) with `rows` (n, ...) before its row `at`."""
    return torch.cat([table[:at], rows, table[at:]])


def narrowed(table: Tensor, rows: range) -> Tensor:
    """table (N, ...) without `rows`."""
    return torch.cat([table[: rows.start], table[rows.stop :]])
