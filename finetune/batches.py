"""Which rows make which batch: dynamic sizes, a pure function of seed, step and rank.

Nothing is drawn on the way, so a run that goes on has the batches it would have had, and processes share the
rows that one would have with a batch so many times larger. What has fewer rows than processes is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from firstword.finetune.errors import FinetuneError

POOL_ROWS = 4096  # sorted by length together; rows of the same shards, so that few are read at a time


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """size: padded positions of a batch of one process. accumulate: batches of a step."""

    size: int
    accumulate: int = 1
    seed: int = 0


class BatchPlan:
    """lengths, shards: of the rows that may be used, by their numbers."""

    def __init__(
        self,
        rows: Sequence[int],
        lengths: Sequence[int],
        shards: Sequence[int],
        settings: BatchSettings,
        world: int,
    ) -> None:
        """world: processes; each gets at least a row of every batch. Raises FinetuneError for fewer rows."""
        if len(rows) < world:
            raise FinetuneError(f"{len(rows)} utterances cannot be shared by {world} processes; start fewer")
        self._rows = list(rows)
        self._lengths, self._shards = lengths, shards
        self._settings, self._world = settings, world
        self._epochs: list[list[list[list[int]]]] = []  # epoch, step, batch of all processes, row

    def epoch_of(self, step: int) -> tuple[int, int]:
        """-> the epoch, and the step's number within it."""
        epoch = 0
        while True:
            while len(self._epochs) <= epoch:
                self._epochs.append(self._plan(len(self._epochs)))
            if step < len(self._epochs[epoch]):
                return epoch, step
            step -= len(self._epochs[epoch])
            epoch += 1

    def steps_in(self, epochs: int) -> int:
        while len(self._epochs) < epochs:
            self._epochs.append(self._plan(len(self._epochs)))
        return sum(len(steps) for steps in self._epochs[:epochs])

    def batches(self, step: int, rank: int) -> list[list[int]]:
        """The rows of each batch of a step, of one process."""
        epoch, number = self.epoch_of(step)
        return [batch[rank :: self._world] for batch in self._epochs[epoch][number]]

    def _plan(self, epoch: int) -> list[list[list[int]]]:
        rng = np.random.default_rng((self._settings.seed, epoch))
        by_shard: dict[int, list[int]] = {}
        for row in self._rows:
            by_shard.setdefault(self._shards[row], []).append(row)
        order = list(by_shard)
        rng.shuffle(order)
        steps: list[list[list[int]]] = []
        pool: list[int] = []
        for number, shard in enumerate(order):
            pool += by_shard[shard]
            if len(pool) >= POOL_ROWS or number + 1 == len(order):
                steps += self._cut(pool, rng)
                pool = []
        return steps

    def _cut(self, pool: list[int], rng: np.random.Generator) -> list[list[list[int]]]:
        """A pool's rows in batches of about one length, those in steps; what fills no batch is left out."""
        rng.shuffle(pool)
        pool = sorted(pool, key=lambda row: self._lengths[row])  # stable: equal lengths stay shuffled
        most = self._settings.size * self._world
        batches: list[list[int]] = []
        for row in pool:
            longest = self._lengths[row]
            last = batches[-1] if batches else None
            if last is None or (len(last) >= self._world and (len(last) + 1) * longest > most):
                batches.append([row])
            else:
                last.append(row)
        batches = [batch for batch in batches if len(batch) >= self._world]
        rng.shuffle(batches)
        count = min(self._settings.accumulate, len(batches))
        return [batches[at : at + count] for at in range(0, len(batches) - count + 1, count)] if count else []
