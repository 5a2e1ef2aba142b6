"""How the flow is initialised, so that it need not learn first to let its inputs through.

The answer of a flow is nearly `mu - x`: what it should become less the noise it is. A U-Net between layer
norms, with log-mel far from zero, takes hours to find that; here its paths are laid so from the beginning.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from firstword.models.config import NUM_MELS
from firstword.models.flow.encoder import ConformerFront
from firstword.models.flow.flow import Flow
from firstword.models.flow.unet import CausalResnet, CausalStage, CausalUNet, TransformerBlock
from training.networks.speech_tokenizer import NUM_DIGITS, NUM_LEVELS, digits_of_codes

_NUM_ANCHORS = 32  # channels that hold a constant, so that a layer norm scales the others by nearly the same
_ANCHOR = 4.0
_SCALE = 6.0  # what `mu - x` is divided by inside
_GAIN, _LIFT = 1.5, 2.5  # into the part of Mish that is nearly straight
_QUIET = 0.3  # of the usual size, for what stands beside the laid path


class DigitSums(nn.Module):
    """A table of codes: a free one plus a sum over a code's digits, which codes share."""

    digits: Tensor  # (codes, 24)

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(NUM_DIGITS * NUM_LEVELS, width) * 0.2)
        self.register_buffer("digits", digits_of_codes(), persistent=False)

    def forward(self, free: Tensor) -> Tensor:
        """free (codes, C) -> (codes, C)."""
        return free + self.digits @ self.table


def with_digit_sums(flow: Flow) -> Flow:
    """The same flow; what is trained is the table and the sums."""
    front = _front(flow)
    nn.init.normal_(front.embedding.weight, std=0.01)
    parametrize.register_parametrization(
        front.embedding, "weight", DigitSums(front.embedding.embedding_dim), unsafe=True
    )
    return flow


def folded(flow: Flow) -> Flow:
    """The same flow, the sums added into its table."""
    parametrize.remove_parametrizations(_front(flow).embedding, "weight")
    return flow


@torch.no_grad()
def unfolded(flow: Flow) -> Flow:
    """The same flow to train further: its whole table is free, the sums are zero."""
    embedding = _front(flow).embedding
    table = embedding.weight.clone()
    with_digit_sums(flow)
    for name, parameter in embedding.named_parameters():
        parameter.copy_(table) if name.endswith("original") else parameter.zero_()
    return flow


@torch.no_grad()
def initialise(flow: Flow, mean: Tensor) -> None:
    """mean (M,): of the log-mel. `mu` begins there, the velocity at `mu - x`."""
    estimator = flow.estimator
    assert isinstance(estimator, CausalUNet), estimator
    front = _front(flow)
    front.projection.bias.copy_(mean)
    stages = [*estimator.down, *estimator.mid, *estimator.up]
    down, *inner, up = (stage for stage in stages if isinstance(stage, CausalStage))
    assert down.conv is not None, down
    assert up.conv is not None, up
    for stage in (down, *inner, up):
        _quieten(stage)
    for conv in (down.resnet.block1.conv, down.resnet.residual):
        conv.weight[:, : 2 * NUM_MELS].div_(_SCALE)  # noise on its way to mel, and mu
        conv.weight[:, 3 * NUM_MELS :].div_(_SCALE)  # the prompt
    _enter(down.resnet, mean)
    for stage in (*inner, up):
        _pass(stage.resnet.residual)  # of the up stage: what comes from below, not the skip
    for conv in (down.conv, up.conv, estimator.final.conv):
        _pass(conv)
    _leave(estimator, mean)


def _front(flow: Flow) -> ConformerFront:
    assert isinstance(flow.front, ConformerFront), flow.front
    return flow.front


def _quieten(stage: CausalStage) -> None:
    stage.resnet.block2.norm.weight.mul_(_QUIET)
    for block in stage.blocks:
        assert isinstance(block, TransformerBlock), block
        block.attention.out.weight.mul_(_QUIET)
        block.feedforward.down.weight.mul_(_QUIET)


def _enter(resnet: CausalResnet, mean: Tensor) -> None:
    """Channels 0..M become (mu - x - mean / 2) / _SCALE, the next _NUM_ANCHORS a constant."""
    weight, bias = resnet.residual.weight, resnet.residual.bias
    assert bias is not None
    weight[: NUM_MELS + _NUM_ANCHORS] = 0
    bin_ = torch.arange(NUM_MELS)
    weight[bin_, bin_] = -1 / _SCALE
    weight[bin_, NUM_MELS + bin_] = 1 / _SCALE
    bias[:NUM_MELS] = -mean / 2 / _SCALE
    sign = 1 - 2 * (torch.arange(_NUM_ANCHORS) % 2)
    bias[NUM_MELS:][:_NUM_ANCHORS] = _ANCHOR * sign


def _pass(conv: nn.Conv1d) -> None:
    """Each channel through as it is, at the newest place of the kernel."""
    assert conv.bias is not None
    conv.weight.mul_(_QUIET)
    laid = NUM_MELS + _NUM_ANCHORS
    conv.weight[:laid] = 0
    conv.bias[:laid] = 0
    channel = torch.arange(conv.out_channels)
    conv.weight[channel, channel, -1] += 1


def _leave(estimator: CausalUNet, mean: Tensor) -> None:
    """Out of the last layer norm and Mish, both nearly straight here, and back to the velocity's size."""
    norm, out = estimator.final.norm, estimator.out
    assert out.bias is not None
    norm.weight[:NUM_MELS] = _GAIN
    norm.bias[:NUM_MELS] = _LIFT
    low, middle, high = F.mish(torch.tensor([_LIFT - 1, _LIFT, _LIFT + 1])).tolist()
    deviation = (_NUM_ANCHORS / norm.weight.numel()) ** 0.5 * _ANCHOR
    scale = 2 * _SCALE * deviation / (_GAIN * (high - low))
    out.weight.mul_(_QUIET)
    bin_ = torch.arange(NUM_MELS)
    out.weight[bin_, bin_, 0] += scale
    out.bias.copy_(mean / 2 - scale * middle)
