"""Parts that the estimators share."""

import pytest
import torch
import torch.nn.functional as F

from firstword.models.flow.unet import CausalConv1d, PointwiseConv1d
from firstword.models.layers import FullContext


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_a_causal_convolution_is_the_same_with_and_without_gradients(kernel: int) -> None:
    torch.manual_seed(0)
    conv, x = CausalConv1d(6, 4, kernel, index=0), torch.randn(2, 9, 6)
    expected = F.conv1d(F.pad(x.mT, (kernel - 1, 0)), conv.weight, conv.bias).mT
    torch.testing.assert_close(conv(x, FullContext()), expected)
    with torch.no_grad():
        torch.testing.assert_close(conv(x, FullContext()), expected)


def test_a_pointwise_convolution_mixes_the_channels_of_a_frame() -> None:
    torch.manual_seed(0)
    conv, x = PointwiseConv1d(6, 4), torch.randn(2, 9, 6)
    torch.testing.assert_close(conv(x), F.conv1d(x.mT, conv.weight, conv.bias).mT)


def test_what_came_before_stands_in_front_along_either_dimension() -> None:
    x = torch.randn(2, 3, 4)
    context = FullContext()
    torch.testing.assert_close(context.extend(0, x, 2), F.pad(x, (2, 0)))
    torch.testing.assert_close(context.extend(0, x, 2, dim=1), context.extend(0, x.mT, 2).mT)
