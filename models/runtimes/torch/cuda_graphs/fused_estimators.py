"""The flow's estimators in few kernels, over streams' state in pages and over the weights that they have.

Queries, keys and values are one product; what depends on the solver's time alone is computed once; residual
connections are added in place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.flow.dit import NORM_EPS, DiT, DiTBlock, rotary_table, rotate_first_head
from firstword.models.flow.solver import Velocity
from firstword.models.flow.unet import CausalStage, CausalUNet, TransformerBlock
from firstword.models.layers import GeluFeedForward
from firstword.models.runtimes.torch.cuda_graphs.joined import joined
from firstword.models.runtimes.torch.cuda_graphs.pages import PagedContext, PagedContexts

VelocityOver = Callable[[PagedContexts], Velocity]
"""The estimator over a chunk of each stream, for all steps of the solver."""

GELU_FIXED = 16.0  # GELU gives it back unchanged; a power of two, so that nothing is rounded
SPARE_UNITS = 8  # that a product's inner size stays a multiple of
MAX_VALUE_BIAS = 1.0  # of values that are about 1: a larger one would round them more coarsely


def fused_estimator(estimator: CausalUNet | DiT, times: Sequence[float]) -> VelocityOver:
    """Return the estimator in few kernels; times: t of each step of the solver."""
    weight = next(estimator.parameters())
    t = torch.tensor(times, device=weight.device)
    fused = FusedDiT(estimator, t) if isinstance(estimator, DiT) else FusedUNet(estimator, t)
    return fused.over


@dataclass(frozen=True, slots=True, eq=False)
class _DiTBlock:
    block: DiTBlock
    qkv: tuple[Tensor, Tensor | None]
    modulation: Tensor  # (steps, 6, C): shift, 1 + scale and gate, of attention and feed-forward


class FusedDiT:
    """CosyVoice 3's estimator in few kernels. A modulated norm has the weight and bias of the step."""

    def __init__(self, dit: DiT, t: Tensor) -> None:
        self._dit = dit
        self._num_heads, self._head_dim = dit.config.num_heads, dit.config.head_dim
        with torch.no_grad():
            time = F.silu(dit.time(t))  # (steps, C)
            self._blocks = [self._fused(block, time) for block in dit.blocks]
            scale, self._shift = dit.modulation(time).chunk(2, dim=1)
            self._scale = 1 + scale

    @staticmethod
    def _fused(block: nn.Module, time: Tensor) -> _DiTBlock:
        assert isinstance(block, DiTBlock)
        attention = block.attention
        modulation = block.modulation(time).unflatten(1, (6, -1)).clone()
        modulation[:, 1::3] += 1
        return _DiTBlock(block, joined([attention.query, attention.key, attention.value]), modulation)

    def over(self, contexts: PagedContexts) -> Velocity:
        rotation = first_head_rotations(contexts.positions.flatten(), self._head_dim, contexts.bias.dtype)

        def velocity(step: int, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor) -> Tensor:
            context = contexts.at(step)
            h = torch.cat([x, cond, mu, spks[:, :, None].expand_as(x)], dim=1).mT  # (B, T, 4 M)
            h = self._dit.input(h, context)
            for layer, block in enumerate(self._blocks):
                self._run(block, h, block.modulation[step], rotation, context, layer)
            context.finish()
            normed = F.layer_norm(h, h.shape[-1:], self._scale[step], self._shift[step], NORM_EPS)
            made: Tensor = self._dit.out(normed).mT
            return made

        return velocity

    def _run(
        self,
        fused: _DiTBlock,
        x: Tensor,
        modulation: Tensor,
        rotation: Tensor,
        context: PagedContext,
        layer: int,
    ) -> None:
        """Add to x (B, T, C)."""
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = modulation  # (C,) each
        width, num_heads, block = x.shape[-1:], self._num_heads, fused.block
        qkv = F.linear(F.layer_norm(x, width, scale_a, shift_a, NORM_EPS), *fused.qkv)
        first = qkv.view(len(rotation), -1, self._head_dim)[:, 0 : num_heads + 1 : num_heads]  # of q and k
        first.copy_(torch.bmm(first, rotation))
        y = context.attend_joined(layer, qkv.unflatten(-1, (3, num_heads, -1)))
        x.addcmul_(gate_a, block.attention.out(y))
        x.addcmul_(gate_m, block.feedforward(F.layer_norm(x, width, scale_m, shift_m, NORM_EPS)))


def first_head_rotations(positions: Tensor, head_dim: int, dtype: torch.dtype) -> Tensor:
    """positions (N,) -> (N, D, D): x @ matrix is what `rotate_first_head` gives of a head x (D,)."""
    rows = torch.eye(head_dim, dtype=dtype, device=positions.device)[:, None]
    rows = rows.expand(-1, len(positions), -1)  # (D, N, D)
    table = rotary_table(positions[None], head_dim, dtype)
    return rotate_first_head(rows, table, head_dim).transpose(0, 1)


@dataclass(frozen=True, slots=True, eq=False)
class _UNetBlock:
    block: TransformerBlock
    qkv: tuple[Tensor, Tensor]
    bias: Tensor | None  # (C,) to be added behind attention, where the values cannot bring it
    up: tuple[Tensor, Tensor]
    down: Tensor  # (hidden, C)


@dataclass(frozen=True, slots=True, eq=False)
class _UNetStage:
    stage: CausalStage
    time: Tensor  # (steps, C)
    blocks: Sequence[_UNetBlock]


class FusedUNet:
    """CosyVoice 2's estimator in few kernels. A residual connection is one product.

    It adds the bias too: behind a feed-forward by a hidden unit that is always `GELU_FIXED`, behind attention
    by a bias of the values, all of which attention averages.
    """

    def __init__(self, unet: CausalUNet, t: Tensor) -> None:
        self._unet = unet
        with torch.no_grad():
            time = F.mish(unet.time(t))  # (steps, C_time)
            down, *mid = (self._fused(stage, time) for stage in (*unet.down, *unet.mid))
            self._down, self._mid, self._up = down, mid, self._fused(unet.up[0], time)

    @staticmethod
    def _fused(stage: nn.Module, time: Tensor) -> _UNetStage:
        assert isinstance(stage, CausalStage)
        blocks = []
        for block in stage.blocks:
            assert isinstance(block, TransformerBlock)
            attention, feedforward = block.attention, block.feedforward
            qkv, bias = joined([attention.query, attention.key, attention.value])
            assert bias is None, "a bias that is not added"
            added, rest = value_bias(attention.out)
            whole = F.pad(added, (len(qkv) - len(added), 0))
            blocks.append(_UNetBlock(block, (qkv, whole), rest, *with_spare_units(feedforward)))
        return _UNetStage(stage, stage.resnet.time(time), blocks)

    def over(self, contexts: PagedContexts) -> Velocity:
        unet = self._unet

        def velocity(step: int, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor) -> Tensor:
            context = contexts.at(step)
            h = torch.cat([x.mT, mu.mT, spks[:, None].expand_as(x.mT), cond.mT], dim=2)  # (B, T, 4 M)
            skip, h = self._run(self._down, h, step, context)
            for stage in self._mid:
                _, h = self._run(stage, h, step, context)
            _, h = self._run(self._up, torch.cat([h, skip], dim=2), step, context)
            made: Tensor = unet.out(unet.final(h, context)).mT
            context.finish()
            return made

        return velocity

    @staticmethod
    def _run(fused: _UNetStage, x: Tensor, step: int, context: PagedContext) -> tuple[Tensor, Tensor]:
        """As `CausalStage.forward`, with the time of a step."""
        stage, resnet = fused.stage, fused.stage.resnet
        h = resnet.block1(x, context).add_(fused.time[step])
        h = resnet.block2(h, context).add_(resnet.residual(x))
        rows = h.view(-1, h.shape[-1])  # (B T, C), in the same memory
        for one in fused.blocks:
            attention = one.block.attention
            qkv = F.linear(one.block.attention_norm(h), *one.qkv)
            y = context.attend_joined(attention.layer, qkv.unflatten(-1, (3, attention.num_heads, -1)))
            rows.addmm_(y.flatten(0, 1), attention.out.weight.mT)
            if one.bias is not None:
                rows.add_(one.bias)
            hidden = F.gelu(F.linear(one.block.feedforward_norm(rows), *one.up))
            rows.addmm_(hidden, one.down)
        return h, h if stage.conv is None else stage.conv(h, context)


def value_bias(out: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """Return the smallest v (H D,) that `out`, whose bias is not added, turns into its bias; None beside it.

    Where there is none, or none within `MAX_VALUE_BIAS`: zeros, and the bias to be added by itself.
    """
    weight, bias = out.weight.detach().double().cpu(), out.bias.detach().double().cpu()
    found = torch.linalg.lstsq(weight, bias[:, None], driver="gelsd").solution[:, 0]
    is_exact = torch.allclose(weight @ found, bias, rtol=0, atol=1e-6 * max(1.0, bias.abs().max().item()))
    if not is_exact or found.abs().max() > MAX_VALUE_BIAS:
        return out.weight.new_zeros(out.in_features), out.bias.detach()
    return found.to(out.weight), None


def with_spare_units(feedforward: GeluFeedForward) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return up's weight and bias, and down's weight (hidden, C), with `SPARE_UNITS` hidden units behind.

    The first of these is always `GELU_FIXED`, and adds down's bias. The module's own become views of them:
    weights are not kept twice.
    """
    up, down = feedforward.up, feedforward.down
    size = up.out_features
    with torch.inference_mode(False), torch.no_grad():
        fixed = up.bias.new_zeros(SPARE_UNITS)
        fixed[0] = GELU_FIXED
        added = down.weight.new_zeros(SPARE_UNITS, down.out_features)
        added[0] = down.bias / GELU_FIXED
        up_weight = torch.cat([up.weight, up.weight.new_zeros(SPARE_UNITS, up.in_features)])
        up_bias = torch.cat([up.bias, fixed])
        down_weight = torch.cat([down.weight.mT, added])
        for linear, name, view in (
            (up, "weight", up_weight[:size]),
            (up, "bias", up_bias[:size]),
            (down, "weight", down_weight[:size].mT),
        ):
            setattr(linear, name, nn.Parameter(view, requires_grad=getattr(linear, name).requires_grad))
    return (up_weight, up_bias), down_weight
