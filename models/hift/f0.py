"""Fundamental frequency from mel frames."""

from torch import Tensor, nn

from models.hift.left_context import LeftContext

NUM_CONVS = 5
LOOKAHEAD_FRAMES = 3  # of the causal predictor


class F0Predictor(nn.Module):
    """Five convolutions and a linear layer; -> Hz, one value a frame.

    The causal one looks `LOOKAHEAD_FRAMES` ahead in its first convolution and back in the others. The
    result is integrated, so a loaded HiFT keeps the weights in float64.
    """

    def __init__(self, num_mels: int, channels: int, is_causal: bool):
        super().__init__()
        self._is_causal = is_causal
        layers: list[nn.Module] = []
        for index in range(NUM_CONVS):
            kernel = LOOKAHEAD_FRAMES + 1 if is_causal and index == 0 else 3
            padding = 0 if is_causal else 1
            layers += [
                nn.Conv1d(channels if index else num_mels, channels, kernel, padding=padding),
                nn.ELU(),
            ]
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, 1)

    def forward(self, mel: Tensor, context: LeftContext) -> Tensor:
        """mel (B, M, T) -> F0 (B, T); the causal one takes (B, M, T + lookahead). In the weights' dtype."""
        x = mel.to(self.classifier.weight.dtype)
        for index, layer in enumerate(self.layers):
            if self._is_causal and isinstance(layer, nn.Conv1d) and index:
                x = context.extend(x, 2)
            x = layer(x)
        return self.classifier(x.mT)[..., 0].abs()
