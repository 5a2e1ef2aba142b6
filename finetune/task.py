"""What the trainer asks of a task: batches of rows, how much they weigh, and their loss."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True, slots=True, eq=False)
class TaskLoss:
    """loss: the mean over what `Task.weigh` counts; metrics: means over the same, for the log."""

    loss: Tensor
    metrics: dict[str, Tensor] = field(default_factory=dict)


class Task(nn.Module, ABC):
    """Holds the network that is trained; `forward` takes a batch and gives its TaskLoss."""

    network: nn.Module

    def __init__(self) -> None:
        super().__init__()
        self.step_values: dict[str, float] = {}  # of the last step, for the log, beside the losses

    @abstractmethod
    def collate(self, rows: Sequence[int], step: int) -> Any:
        """Read rows and draw all that is random of them: a function of the rows, the step and the seed."""

    @abstractmethod
    def weigh(self, batch: Any) -> float:
        """What a batch's loss is the mean of: the batches of a step count by it."""

    @abstractmethod
    def to_device(self, batch: Any) -> Any:
        """The batch where the network is."""
