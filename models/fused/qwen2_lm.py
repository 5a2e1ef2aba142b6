"""The language model of CosyVoice 2 and 3 with its step as one call, on a CPU."""

from collections.abc import Sequence

import torch
from torch import Tensor

from models.fused.graph import Product
from models.fused.qwen2_graph import decoder_graph, head_graph
from models.fused.session import FusedGraph
from models.lm.kv_cache import CachePass, KeyValueCache
from models.lm.qwen2 import rotary_angles
from models.lm.qwen2_lm import Qwen2LM
from models.memory import Memory


class FusedQwen2LM:
    """A `models.lm.interface.SpeechLM`: embeds as the given one does, and decodes by graphs made from it."""

    def __init__(self, lm: Qwen2LM, product: Product, num_threads: int):
        """Of `lm` the embeddings and the cache's shape are still used, the decoder no more."""
        self._lm = lm
        self._decoder = FusedGraph(decoder_graph(lm.decoder, product), num_threads)
        self._head = FusedGraph(head_graph(lm.head, product), num_threads)
        self.vocabulary = lm.vocabulary
        self._rotation = torch.zeros(2, 0, lm.config.qwen2.head_dim // 2)

    def new_cache(self) -> KeyValueCache:
        return self._lm.new_cache()

    def prompt_embeddings(self, ids: Sequence[int], speaker: Tensor | None = None) -> Tensor:
        return self._lm.prompt_embeddings(ids, speaker)

    def embed(self, ids: Tensor) -> Tensor:
        return self._lm.embed(ids)

    def __call__(self, x: Tensor, memory: Memory) -> Tensor:
        """x (B, T, C) -> hidden (B, T, C) after the final norm. Rows of several tokens run one by one."""
        assert isinstance(memory, CachePass), memory
        places, ends = memory.places(), memory.ends
        if x.shape[1] == 1:  # a row without a new token computes one too, behind its end
            lasts = [end if count == 0 else end - 1 for count, end in zip(memory.counts, ends, strict=True)]
            return self._run(x, places, lasts)
        hidden = torch.zeros(x.shape)
        for row, (count, end) in enumerate(zip(memory.counts, ends, strict=True)):
            if count:
                part = slice(row, row + 1)
                own = [(keys[part], values[part]) for keys, values in places]
                hidden[part, :count] = self._run(x[part, :count], own, [end - 1])
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden (N, C) -> (N, V)."""
        logits = hidden.new_empty(len(hidden), self.vocabulary.num_classes)
        self._head.run({"hidden": hidden.contiguous()}, {"logits": logits})
        return logits

    def _run(self, x: Tensor, places: list[tuple[Tensor, Tensor]], lasts: list[int]) -> Tensor:
        """x (B, T, C), the position of each row's last -> (B, T, C)."""
        cos, sin = self._rotation_of(places[0][0].shape[2])
        inputs = {
            "x": x.contiguous(),
            "last": torch.tensor(lasts, dtype=torch.int32),
            "total": torch.tensor(max(lasts) + 1, dtype=torch.int32),
            "cos": cos,
            "sin": sin,
        }
        hidden = torch.empty(x.shape)
        outputs = {"hidden": hidden}
        for layer, (keys, values) in enumerate(places):
            inputs |= {f"past_keys_{layer}": keys, f"past_values_{layer}": values}
            outputs |= {f"keys_{layer}": keys, f"values_{layer}": values}
        self._decoder.run(inputs, outputs)
        return hidden

    def _rotation_of(self, num_positions: int) -> Tensor:
        """Cosines and sines of the first positions and maybe more: (2, positions, D / 2)."""
        if self._rotation.shape[1] < num_positions:
            qwen2 = self._lm.config.qwen2
            angles = rotary_angles(torch.arange(num_positions), qwen2.head_dim, qwen2.rope_theta)
            self._rotation = torch.stack([angles.cos(), angles.sin()])
        return self._rotation
