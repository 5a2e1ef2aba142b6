"""Steps of the language model with their draws as CUDA graphs: nothing of a step waits for the host.

What a row goes on from, its last id, position and history, is in memory that the graphs read and write, so
that the next step can be asked for before the last one's ids are known.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from firstword.models.config import SamplingConfig
from firstword.models.lm.decoder import float_bits
from firstword.models.lm.kv_cache import FIRST_LENGTH
from firstword.models.lm.plan import Forbidden
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.sampling import RowSampling, class_masks, possible_scores, sample_scores
from firstword.models.runtimes.torch.cuda_graphs.buckets import BATCHES, bucket
from firstword.models.runtimes.torch.cuda_graphs.capture import (
    captured,
    graph_memory,
    recorded_or_eager,
)
from firstword.models.runtimes.torch.cuda_graphs.lm import DecoderRun, DecoderStep, FusedDecoder

LENGTHS = tuple(FIRST_LENGTH << power for power in range(4))
"""Positions that a step sees at most; a row has memory for the last."""

RUNS = (*((16, length) for length in LENGTHS), (128, 256), (256, 256), (512, 512), (1024, 1024))
"""Ids of a run, and positions that it sees, at most; few ids are a block of text that was pushed."""

MAX_WINDOW = MAX_CANDIDATES = 100  # of a request's own sampling

# Columns of the numbers of a row. Those of a step begin with whether it is wanted and whether the state is
# given; those of a run with its row and how many ids it has, which stand at its end.
DRAW, NUM_DRAW = 2, 8  # rule, uniform, is greedy, top p, top k, repeats, window, temperature
STATE = DRAW + NUM_DRAW  # is alive, id, position, then the history
ALIVE, ID, POSITION, HISTORY = range(4)
NOT_DRAWN = -2  # the result of a row without a step; -1: nothing could be drawn


def draw_numbers(
    rule: Forbidden, uniform: float, is_greedy: bool, sampling: SamplingConfig
) -> tuple[int, ...]:
    """Return the columns of one draw."""
    top_p, temperature = float_bits(sampling.top_p), float_bits(sampling.temperature)
    rest = sampling.top_k, sampling.min_repeats, sampling.win_size, temperature
    return rule, float_bits(uniform), int(is_greedy), top_p, *rest


@dataclass(frozen=True, slots=True)
class TokenSizes:
    """window: of the histories. num_candidates: of the draws."""

    max_rows: int
    window: int
    num_candidates: int

    @property
    def num_columns(self) -> int:
        return STATE + HISTORY + self.window

    @property
    def num_run_columns(self) -> int:
        return self.num_columns + max(length for length, _ in RUNS)

    def fits(self, sampling: SamplingConfig) -> bool:
        return sampling.win_size <= self.window and sampling.top_k <= self.num_candidates


class TokenGraphs:
    """The memory of up to `max_rows` rows, and the graphs over it; what could not be recorded runs eagerly.

    results: of the last step and run (rows, 2) float64, the drawn id and its log-probability.
    """

    @torch.inference_mode()
    def __init__(self, lm: Qwen2LM, max_rows: int, sampling: SamplingConfig) -> None:
        self._lm = lm
        window = max(MAX_WINDOW, sampling.win_size)
        candidates = min(max(MAX_CANDIDATES, sampling.top_k), lm.vocabulary.num_classes)
        self.sizes = TokenSizes(max_rows, window, candidates)
        self._decoder = FusedDecoder(lm.decoder, LENGTHS[-1] + 1)
        self.keys_values = self._decoder.new_keys_values(max_rows)
        self.device = self.keys_values[0].device
        self._masks = class_masks(lm.vocabulary, self.device)  # (4, V)
        self._from_end = torch.arange(window, 0, -1, device=self.device)
        columns = self.sizes.num_columns
        self._numbers = torch.zeros(max_rows, columns, dtype=torch.long, device=self.device)
        self._run_numbers = self._numbers.new_zeros(1, self.sizes.num_run_columns)
        self._state = self._numbers.new_zeros(max_rows, columns - STATE)
        self.results = torch.zeros(max_rows, 2, dtype=torch.float64, device=self.device)
        memory = graph_memory(self.device)
        self._batches = sorted({min(rows, max_rows) for rows in BATCHES})
        self._steps: dict[tuple[int, int], Callable[[], Tensor]] = {}
        self._runs: dict[tuple[int, int], Callable[[], Tensor]] = {}
        self._run_numbers[:, 1] = 1  # a run of one id, while it is recorded
        for visible in LENGTHS:
            for rows in self._batches:
                step, what = partial(self._step, rows, visible), f"a step of {rows} utterances"
                self._steps[rows, visible] = self._recorded(step, what, memory)
        for length, visible in RUNS:
            run, what = partial(self._run, length, visible), f"a prompt of {length} ids"
            self._runs[length, visible] = self._recorded(run, what, memory)

    def _recorded(self, run: Callable[[], Tensor], what: str, memory: object) -> Callable[[], Tensor]:
        return recorded_or_eager(lambda: captured(run, self.device, memory=memory), what) or run

    @torch.inference_mode()
    def step(self, numbers: Tensor, num_rows: int, num_positions: int) -> None:
        """Run the id of each of the first rows that is wanted, and draw the next one.

        numbers: (max_rows, columns), pinned; those behind `num_rows` want nothing.
        """
        rows, visible = bucket(self._batches, num_rows), bucket(LENGTHS, num_positions)
        assert rows is not None, f"{num_rows} rows"
        assert visible is not None, f"{num_positions} positions"
        self._numbers[:rows].copy_(numbers[:rows], non_blocking=True)
        self._steps[rows, visible]()

    @staticmethod
    def run_size(start: int, num_ids: int) -> tuple[int, int] | None:
        """Return the size of RUNS for so many ids from a position on; None: there is none."""
        fits = (
            (length, visible)
            for length, visible in RUNS
            if num_ids <= length and start + num_ids <= visible and start + length <= LENGTHS[-1]
        )
        return min(fits, default=None)

    @torch.inference_mode()
    def run(self, numbers: Tensor, size: tuple[int, int]) -> None:
        """Run the ids of a row, and draw what follows them. numbers: (1, columns and ids), pinned."""
        self._run_numbers.copy_(numbers, non_blocking=True)
        self._runs[size]()

    def _step(self, rows: int, visible: int) -> Tensor:
        numbers = self._numbers[:rows]
        flags = numbers > 0
        is_wanted, is_given = flags[:, :DRAW].unbind(1)
        state = torch.where(is_given[:, None], numbers[:, STATE:], self._state[:rows])
        is_active = is_wanted & (state[:, ALIVE] > 0)
        step = DecoderStep(self._decoder, self.keys_values, visible)
        hidden = step(self._lm.embed(state[:, ID]), state[:, POSITION], is_active)  # (B, C)
        drawn, results = self._draw(hidden, numbers, flags, state[:, HISTORY:])
        after = self._after(state, drawn, state[:, POSITION] + 1)
        torch.where(is_active[:, None], after, state, out=self._state[:rows])
        results = torch.where(is_active[:, None], results, NOT_DRAWN)
        torch.where(is_wanted[:, None], results, self.results[:rows], out=self.results[:rows])
        return self.results

    def _run(self, length: int, visible: int) -> Tensor:
        columns = self.sizes.num_columns
        numbers = self._run_numbers[:, :columns]
        row, count, state = numbers[:, 0], numbers[:, 1], numbers[:, STATE:]
        start = state[:, POSITION]
        run = DecoderRun(self._decoder, self.keys_values, visible)
        ids = self._run_numbers[0, columns : columns + length]
        hidden = run(self._lm.embed(ids), row, start)  # (T, C)
        last = hidden.index_select(0, count - 1)
        drawn, results = self._draw(last, numbers, numbers > 0, state[:, HISTORY:])
        self._state.index_copy_(0, row, self._after(state, drawn, start + count))
        self.results.index_copy_(0, row, results)
        return self.results

    def _draw(self, hidden: Tensor, numbers: Tensor, flags: Tensor, history: Tensor) -> tuple[Tensor, Tensor]:
        """hidden (B, C), history (B, W), flags: which numbers are above 0 -> ids (B,), results (B, 2)."""
        draw = numbers[:, DRAW:STATE]
        rule, _, _, _, top_k, min_repeats, window, _ = draw.unbind(1)
        reals = draw.view(torch.float64)
        singles = reals.float()
        sampling = RowSampling(
            singles[:, 3, None],
            top_k[:, None],
            min_repeats[:, None],
            singles[:, 7, None],
            self.sizes.num_candidates,
        )
        scores = possible_scores(self._lm.logits(hidden), self._masks[rule])  # (B, V)
        drawn = sample_scores(
            scores,
            history.masked_fill(self._from_end > window[:, None], -1),
            reals[:, 1],
            flags[:, DRAW + 2],
            sampling,
        )
        logprob = scores.log_softmax(1).gather(1, drawn.clamp(min=0)[:, None])
        return drawn, torch.stack([drawn.double(), logprob[:, 0].double()], dim=1)

    def _after(self, state: Tensor, drawn: Tensor, position: Tensor) -> Tensor:
        """State (B, columns) with a drawn id (B,); a class of the stop set, or none, ends the row's steps."""
        id = drawn.clamp(0, self._lm.vocabulary.num_speech_ids - 1)
        is_alive = (id == drawn).long()
        front = (part[:, None] for part in (is_alive, id, position))
        return torch.cat([*front, state[:, HISTORY + 1 :], drawn[:, None]], dim=1)
