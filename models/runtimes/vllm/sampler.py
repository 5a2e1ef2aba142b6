"""Repetition-aware sampling as a vLLM logits processor.

The id is drawn here, from the exact distribution and with the utterance's own random numbers, and vLLM is
handed logits that leave it no other choice (it takes the largest). So what was drawn is known on the
device at once: the repetition window is kept there, nothing waits for the host, and a seed gives the same
speech here and in the torch decoder.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from vllm import SamplingParams
from vllm.config import VllmConfig
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from firstword.models.config import SamplingConfig
from firstword.models.cuda import to_device
from firstword.models.lm.plan import Vocabulary
from firstword.models.lm.sampling import class_masks, sample
from firstword.models.runtimes.engines.sampling_state import MAX_WINDOW, SamplingState
from firstword.models.runtimes.vllm.export import EXTRA_KEY

NUM_NO_DRAW_CLASSES = 1
"""The sampler's answers have one more class than the model: drawn where nothing could be drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class _UnconfirmedRequest:
    """A request without a kept id so far: vLLM also samples for a part of a prompt, and drops that id."""

    slot: int
    sampling: SamplingState
    max_tokens: int
    output_ids: list[int]  # vLLM's own list, which grows
    num_before: int  # of them when the request joined; more than 0 if it was preempted


class RepetitionAwareSampler(LogitsProcessor):
    """A request has a slot in tensors on the device; `_slots` says which, row by row of vLLM's batch."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        extra = getattr(vllm_config.model_config.hf_config, EXTRA_KEY)
        self._config = SamplingConfig(**extra["sampling"])
        vocabulary = Vocabulary(**extra["vocabulary"])
        num_slots = vllm_config.scheduler_config.max_num_seqs
        max_draws = vllm_config.model_config.max_model_len
        self._masks = class_masks(vocabulary, device)  # (4, V)
        self._uniforms = torch.zeros(num_slots, max_draws, dtype=torch.float64, device=device)
        window = max(MAX_WINDOW, self._config.win_size)
        self._history = torch.full((num_slots, window), -1, device=device)
        self._configs = [self._config] * num_slots  # of each slot
        self._rules = torch.zeros(num_slots, 4, dtype=torch.long, device=device)
        """Draws done, draws under the first rule, the first rule, the later one."""
        self._is_greedy = torch.zeros(num_slots, dtype=torch.bool, device=device)
        self._slots = list(range(num_slots))  # of each row; always a permutation
        self._row_slots = torch.arange(num_slots, device=device)
        self._unconfirmed: list[_UnconfirmedRequest] = []

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Raises ValueError for a request without our extra arguments."""
        SamplingState.read(sampling_params.extra_args)

    def is_argmax_invariant(self) -> bool:
        return False

    def apply(self, logits: Tensor) -> Tensor:
        """logits (R, V) -> (R, V + 1): 0 for the id that is drawn, -inf elsewhere.

        The last class stands for "no id": logits that are not finite.
        """
        slots = self._row_slots[: len(logits)]
        alike: dict[SamplingConfig, list[int]] = {}  # rows that are drawn together; mostly all
        for row in range(len(logits)):
            alike.setdefault(self._configs[self._slots[row]], []).append(row)
        answers = logits.new_full((len(logits), logits.shape[1] + NUM_NO_DRAW_CLASSES), -math.inf)
        for config, rows in alike.items():
            if len(alike) == 1:
                ids = self._draw(logits, slots, config)
                return answers.scatter_(1, torch.where(ids < 0, logits.shape[1], ids)[:, None], 0.0)
            indices = self._on_device(rows)
            ids = self._draw(logits[indices], slots[indices], config)
            answers[indices, torch.where(ids < 0, logits.shape[1], ids)] = 0.0
        return answers

    def _draw(self, logits: Tensor, slots: Tensor, config: SamplingConfig) -> Tensor:
        """logits (R, V) of requests in `slots` (R,) -> ids (R,); the draws are noted in the slots."""
        num_drawn, num_first, first, later = self._rules[slots].unbind(1)
        history = self._history[slots]
        ids = sample(
            logits,
            forbidden=self._masks[torch.where(num_drawn < num_first, first, later)],
            history=history[:, -config.win_size :],
            uniforms=self._uniforms[slots, num_drawn.clamp(max=self._uniforms.shape[1] - 1)],
            is_greedy=self._is_greedy[slots],
            config=config,
        )  # (R,)
        self._history[slots] = torch.cat([history[:, 1:], ids[:, None]], dim=1)
        self._rules[slots, 0] = num_drawn + 1
        return ids

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Take over, before each step, which rows joined, left and moved."""
        self._undo_forgotten_draws()
        if batch_update is None:
            return
        for row in batch_update.removed:
            self._forget(self._slots[row])
        for row, params, _, output_ids in batch_update.added:
            assert params.max_tokens is not None
            slot, state = self._slots[row], SamplingState.read(params.extra_args)
            self._forget(slot)
            one = _UnconfirmedRequest(slot, state, params.max_tokens, output_ids, len(output_ids))
            self._write(one)
            self._unconfirmed.append(one)
        for row, other, direction in batch_update.moved:
            if direction is MoveDirectionality.UNIDIRECTIONAL:
                self._forget(self._slots[other])  # its request has left; the slots may swap all the same
            self._slots[row], self._slots[other] = self._slots[other], self._slots[row]
        self._row_slots.copy_(self._on_device(self._slots), non_blocking=True)

    def _forget(self, slot: int) -> None:
        self._unconfirmed = [one for one in self._unconfirmed if one.slot != slot]

    def _undo_forgotten_draws(self) -> None:
        """Reset the requests that joined in the last step and have no id yet."""
        waiting, self._unconfirmed = self._unconfirmed, []
        for one in waiting:
            if len(one.output_ids) <= one.num_before:
                self._write(one)
                self._unconfirmed.append(one)

    def _write(self, one: _UnconfirmedRequest) -> None:
        state, slot = one.sampling, one.slot
        generator = torch.Generator().manual_seed(state.seed)
        numbers = torch.rand(state.num_drawn + one.max_tokens, generator=generator, dtype=torch.float64)
        numbers = numbers[state.num_drawn :]
        self._uniforms[slot, : len(numbers)] = numbers.to(self._uniforms.device, non_blocking=True)
        width = self._history.shape[1]
        window = [*state.history, *one.output_ids[: one.num_before]][-width:]
        padded = [-1] * (width - len(window)) + window
        self._configs[slot] = state.config or self._config
        self._history[slot] = self._on_device(padded)
        rules = one.num_before, state.num_first, state.first_rule, state.later_rule
        self._rules[slot] = self._on_device(rules)
        self._is_greedy[slot : slot + 1] = state.is_greedy

    def _on_device(self, numbers: Sequence[int]) -> Tensor:
        return to_device(numbers, self._history.device)
