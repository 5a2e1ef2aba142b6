"""Repetition-aware sampling as a logits processor of TensorRT-LLM.

As in vLLM (models/runtimes/vllm/sampler.py) the id is drawn here, with the utterance's own random numbers,
and the runtime is handed logits that leave it no other choice.
"""

import math
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor

from firstword.models.config import SamplingConfig
from firstword.models.lm.plan import Vocabulary
from firstword.models.lm.sampling import class_masks, sample
from firstword.models.runtimes.engines.sampling_state import SamplingState


@dataclass(slots=True, eq=False)
class RepetitionAwareProcessor:
    """The draws of one request; made by the server, called by the process that runs the model.

    first_class: the id of the model's first output class in the merged vocabulary. head_bias: (V,) that a
    Qwen2 of Hugging Face cannot have at its head; None for a checkpoint without one.
    """

    state: SamplingState
    config: SamplingConfig
    vocabulary: Vocabulary
    first_class: int
    head_bias: Tensor | None
    _num_ids_at_start: int | None = None
    _drawn: list[int] = field(default_factory=list)

    def __call__(
        self,
        req_id: int,
        logits: Tensor,
        token_ids: list[list[int]],
        stream_ptr: int | None,
        client_id: int | None,
    ) -> None:
        """logits (..., ids), of one beam: replaced by 0 for the id that is drawn and -inf elsewhere.

        Where nothing could be drawn, the id behind the last class is left.
        """
        if self._num_ids_at_start is None:
            self._num_ids_at_start = len(token_ids[0])
        del self._drawn[len(token_ids[0]) - self._num_ids_at_start :]  # a step that is run again
        stream = (
            nullcontext() if stream_ptr is None else torch.cuda.stream(torch.cuda.ExternalStream(stream_ptr))
        )
        with stream:
            drawn = self._draw(logits)
            self._drawn.append(drawn)
            logits.fill_(-math.inf)
            logits[..., self.first_class + (self.vocabulary.num_classes if drawn < 0 else drawn)] = 0.0

    def _draw(self, logits: Tensor) -> int:
        state, device = self.state, logits.device
        config = state.config or self.config
        classes = logits[..., self.first_class :][..., : self.vocabulary.num_classes]
        classes = classes.reshape(-1, self.vocabulary.num_classes)[-1:].float()
        if self.head_bias is not None:
            classes = classes + self.head_bias.to(device)
        num_done = len(self._drawn)
        rule = state.first_rule if num_done < state.num_first else state.later_rule
        history = [*state.history, *self._drawn][-config.win_size :]
        padded = [-1] * (config.win_size - len(history)) + history
        generator = torch.Generator().manual_seed(state.seed)
        numbers = torch.rand(state.num_drawn + num_done + 1, generator=generator, dtype=torch.float64)
        ids = sample(
            classes,
            forbidden=class_masks(self.vocabulary, device)[rule][None],
            history=torch.tensor([padded], device=device),
            uniforms=numbers[-1:].to(device),
            is_greedy=torch.tensor([state.is_greedy], device=device),
            config=config,
        )
        return int(ids)
