"""The layers of a Qwen2 at fixed shapes, in few kernels: an id of each row, or several of one row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.lm.qwen2 import Qwen2Decoder, Qwen2Layer, rotary_table, rotate_halves
from firstword.models.runtimes.torch.cuda_graphs.joined import joined

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""Layer, q (N, H, D), k and v (N, G, D) of N ids -> (N, H D), the heads in the order of `FusedDecoder`."""


@dataclass(frozen=True, slots=True, eq=False)
class _FusedLayer:
    attention_norm: nn.Module
    qkv: tuple[Tensor, Tensor | None]
    out: Tensor  # (H D, C)
    mlp_norm: nn.Module
    gate_up: Tensor
    down: Tensor  # (hidden, C)


class FusedDecoder(nn.Module):
    """`Qwen2Decoder` over its weights, for ids one after the other in a dimension.

    Projections of one input are one product; the last product of attention and MLP adds to what there is.
    What attention gives has its H = G x R heads in the order (R, G), in which it comes of G heads of R
    queries without a copy. The weights of attention's last product lie in that order from here on, in the
    decoder too, whose heads are put into it where it runs by itself: no weight is kept twice. So the
    decoder's `state_dict` has, under the same key, columns in another order: do not save it.

    A rotation is a product with the matrix of its position. That is computed in float32 and rounded to the
    weights' dtype, where `Qwen2Decoder` rotates in float32: in bfloat16 that adds less than the rounding of
    q and k does.
    """

    def __init__(self, decoder: Qwen2Decoder, num_positions: int):
        super().__init__()
        config = decoder.config
        self.num_groups, self.head_dim = config.num_key_value_heads, config.head_dim
        self.num_positions = num_positions  # the last of which is scratch
        self.norm = decoder.norm
        self._layers = [self._fused(layer) for layer in decoder.layers]
        like = self._layers[0].down
        self.numbers = torch.arange(num_positions, device=like.device)
        self.rotations: Tensor = rotation_matrices(num_positions, config.head_dim, config.rope_theta, like)
        minus_infinity = like.new_full((num_positions, num_positions), float("-inf"))
        self.unseen = minus_infinity.triu(1)  # row p: what is added to the scores of a query at p

    def new_keys_values(self, num_rows: int) -> list[Tensor]:
        """Return zeros for each layer's keys and values: (rows, 2, G, positions, D)."""
        shape = num_rows, 2, self.num_groups, self.num_positions, self.head_dim
        return [self.rotations.new_zeros(shape) for _ in self._layers]

    def forward(self, x: Tensor, position: Tensor, attend: Attend) -> Tensor:
        """x (N, C), overwritten, position (N,) -> (N, C)."""
        rotation = self.rotations.index_select(0, position)  # (N, D, D)
        for number, layer in enumerate(self._layers):
            heads = F.linear(layer.attention_norm(x), *layer.qkv).unflatten(1, (-1, self.head_dim))
            turned, v = heads[:, : -self.num_groups], heads[:, -self.num_groups :]
            turned = torch.bmm(turned, rotation)  # (N, H + G, D)
            y = attend(number, turned[:, : -self.num_groups], turned[:, -self.num_groups :], v)
            x.addmm_(y, layer.out)
            gate, up = F.linear(layer.mlp_norm(x), layer.gate_up).chunk(2, dim=1)
            x.addmm_(F.silu(gate).mul_(up), layer.down)
        normed: Tensor = self.norm(x)
        return normed

    def _fused(self, layer: nn.Module) -> _FusedLayer:
        assert isinstance(layer, Qwen2Layer)
        attention, mlp = layer.attention, layer.mlp
        if not isinstance(attention.out, ReorderedLinear):
            attention.out = ReorderedLinear(attention.out, self.num_groups, self.head_dim)
        return _FusedLayer(
            layer.attention_norm,
            joined([attention.query, attention.key, attention.value]),
            attention.out.weight.detach().mT,
            layer.mlp_norm,
            joined([mlp.gate, mlp.up])[0],
            mlp.down.weight.detach().mT,
        )


class ReorderedLinear(nn.Linear):
    """The same product, over weights whose input lies in the order (R, G) of its heads instead of (G, R)."""

    def __init__(self, linear: nn.Linear, num_groups: int, head_dim: int):
        assert linear.bias is None, "a bias that is not added"
        super().__init__(linear.in_features, linear.out_features, bias=False, device="meta")
        self._heads: tuple[int, int, int] = num_groups, -1, head_dim
        with torch.inference_mode(False), torch.no_grad():
            weight = self._reordered(linear.weight)  # (C, H D)
            self.weight = nn.Parameter(weight, requires_grad=linear.weight.requires_grad)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., H D), the heads in the order (G, R) -> (..., C)."""
        return F.linear(self._reordered(x), self.weight)

    def _reordered(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, self._heads).transpose(-3, -2).flatten(-3)


def rotation_matrices(num_positions: int, head_dim: int, theta: float, like: Tensor) -> Tensor:
    """Return the matrix of each position, (positions, D, D): x @ matrix is what `rotate_halves` gives."""
    table = rotary_table(torch.arange(num_positions, device=like.device)[:, None], head_dim, theta)
    rows = torch.eye(head_dim, device=like.device)[:, None].expand(num_positions, -1, -1, -1)
    return rotate_halves(rows, table)[:, :, 0].to(like.dtype)


class DecoderStep(nn.Module):
    """A step of the decoder over keys and values that are its own for good; the rest is in the arguments."""

    def __init__(self, decoder: FusedDecoder, keys_values: Sequence[Tensor], num_visible: int):
        """keys_values: as of `new_keys_values`, of at least B rows. num_visible: covers every position."""
        super().__init__()
        self.decoder = decoder
        self._keys_values, self._num_visible = list(keys_values), num_visible

    def forward(self, x: Tensor, position: Tensor, is_active: Tensor) -> Tensor:
        """x (B, C), overwritten, position (B,) of the new id, is_active (B,) -> hidden (B, C).

        Rows that are not active write to the scratch, and compute a value that nobody sees.
        """
        decoder, visible = self.decoder, self._num_visible
        position = torch.where(is_active, position, decoder.num_positions - 1)
        bias = decoder.unseen[:, :visible].index_select(0, position)[:, None, None]  # (B, 1, 1, visible)
        rows = decoder.numbers[: len(x)]

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self._keys_values[layer][: len(x)].unbind(1)  # (B, G, positions, D)
            keys[rows, :, position] = k
            values[rows, :, position] = v
            grouped = q.unflatten(1, (decoder.num_groups, -1))  # (B, G, R, D)
            keys, values = keys[:, :, :visible], values[:, :, :visible]
            y = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=bias)
            return y.transpose(1, 2).flatten(1)

        hidden: Tensor = decoder(x, position, attend)
        return hidden


class DecoderRun(nn.Module):
    """A run of several new ids of one row over keys and values that stay."""

    def __init__(self, decoder: FusedDecoder, keys_values: Sequence[Tensor], num_visible: int):
        super().__init__()
        self.decoder = decoder
        self._keys_values, self._num_visible = list(keys_values), num_visible

    def forward(self, x: Tensor, row: Tensor, start: Tensor) -> Tensor:
        """x (T, C), overwritten, in `row` (1,) from `start` (1,) on -> hidden (T, C).

        What it writes there behind the run's own ids is written again before it is seen.
        """
        decoder, visible = self.decoder, self._num_visible
        position = start + decoder.numbers[: len(x)]  # (T,)
        bias = decoder.unseen[:, :visible].index_select(0, position)  # (T, visible)
        rows = row.expand(len(x))

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self._keys_values[layer].unbind(1)
            keys[rows, :, position] = k
            values[rows, :, position] = v
            seen = self._keys_values[layer][:, :, :, :visible].index_select(0, row)[0]  # (2, G, visible, D)
            grouped = q.unflatten(1, (decoder.num_groups, -1)).permute(1, 2, 0, 3)  # (G, R, T, D)
            keys, values = seen[:, :, None].expand(-1, -1, grouped.shape[1], -1, -1).unbind(0)
            y = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=bias)
            return y.permute(2, 1, 0, 3).flatten(1)

        hidden: Tensor = decoder(x, position, attend)
        return hidden
