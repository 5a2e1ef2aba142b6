"""What the language model is trained with and does not keep.

Three things make it learn to read from hours instead of thousands of hours: one head of two layers is
shown which text a speech token is about, the middle of the network has to name the phone, and the tables
of speech tokens begin as sums over the eight digits of a token.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.lm.plan import IGNORED
from firstword.models.lm.qwen2 import Qwen2LM
from training.networks.speech_tokenizer import NUM_CODES, NUM_DIGITS, NUM_LEVELS, digits_of_codes

_HIDDEN = -30_000.0  # a score that softmax does not see; finite, so that bfloat16 has no infinities


@dataclass(frozen=True, slots=True, eq=False)
class LMBatch:
    """Rows padded on the right; their targets there are IGNORED."""

    ids: Tensor  # (B, T) of the joint vocabulary
    targets: Tensor  # (B, T) output classes
    phones: Tensor  # (B, T), IGNORED where no speech token is answered
    read: Tensor  # (B, T, T) bool: the text that the token answered at a place is about


class GuidedContext:
    """Causal attention over the whole row. In `layers`, head 0 should look at the text being read."""

    def __init__(self, read: Tensor, layers: tuple[int, ...]) -> None:
        self._read, self._layers = read, layers
        self.losses: list[Tensor] = []

    def positions(self, length: int, device: torch.device) -> Tensor:
        return torch.arange(length, device=device)[None]

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        groups = q.shape[1] // k.shape[1]
        if layer in self._layers:
            self.losses.append(_guide(q[:, 0], k[:, 0], self._read))
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _guide(q: Tensor, k: Tensor, read: Tensor) -> Tensor:
    """q, k (B, T, D), read (B, T, T) -> minus the log of the attention on what is read, on average."""
    length = q.shape[1]
    scores = (q @ k.mT).float() * (1 / math.sqrt(q.shape[-1]))
    scores = scores + torch.full((length, length), _HIDDEN, device=q.device).triu(1)
    rows = read.any(-1)
    scores, read = scores[rows], read[rows]
    on_text = scores.masked_fill(~read, _HIDDEN).logsumexp(-1) - scores.logsumexp(-1)
    return -on_text.mean()


class LanguageModelTrainer(nn.Module):
    digits: Tensor  # (codes, 24), which three values of eight digits a code has

    def __init__(
        self, lm: Qwen2LM, num_phones: int, guided_layers: tuple[int, ...], phone_layer: int
    ) -> None:
        super().__init__()
        width = lm.config.qwen2.hidden_size
        self.lm = lm
        self.phones = nn.Linear(width, num_phones)
        self.embedding_digits = nn.Parameter(torch.randn(NUM_DIGITS * NUM_LEVELS, width) * 0.02)
        self.head_digits = nn.Parameter(torch.randn(NUM_DIGITS * NUM_LEVELS, width) * 0.02)
        self._guided_layers, self._phone_layer = guided_layers, phone_layer
        self.register_buffer("digits", digits_of_codes(), persistent=False)
        self._initialise()

    @torch.no_grad()
    def _initialise(self) -> None:
        nn.init.normal_(self.lm.text_embedding.weight, std=0.05)
        nn.init.normal_(self.lm.special_embedding.weight, std=0.05)
        nn.init.normal_(self.lm.speech_embedding.weight, std=0.005)
        nn.init.zeros_(self.lm.head.weight)
        nn.init.zeros_(self.lm.head.bias)
        residual = 0.02 / math.sqrt(2 * len(self.lm.decoder.layers))
        for name, parameter in self.lm.decoder.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif name.endswith(("attention.out.weight", "mlp.down.weight")):
                nn.init.normal_(parameter, std=residual)
            elif parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.04)

    def forward(
        self, batch: LMBatch, last_rows: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """-> next-token, phone and guide losses, and the share of next tokens that are right.

        last_rows (n, width): instead of the last ones of the text table.
        """
        context = GuidedContext(batch.read, self._guided_layers)
        special, text = self.lm.special_embedding.weight, self.lm.text_embedding.weight
        if last_rows is not None:
            text = torch.cat([text[: -len(last_rows)], last_rows])
        x = F.embedding(batch.ids, torch.cat([self._speech_table(), special, text]))
        middle: list[Tensor] = []
        hook = self.lm.decoder.layers[self._phone_layer].register_forward_hook(
            lambda _, __, y: middle.append(y)
        )
        hidden = self.lm.decoder(x, context)
        hook.remove()
        answered = batch.targets != IGNORED
        spoken = batch.phones != IGNORED
        phone = F.cross_entropy(self.phones(middle[0][spoken]).float(), batch.phones[spoken])
        loss, right = TokenCrossEntropy.apply(
            hidden[answered], self._head_table(), self.lm.head.bias, batch.targets[answered]
        )
        return loss, phone, torch.stack(context.losses).mean(), right

    @torch.no_grad()
    def folded(self) -> Qwen2LM:
        """The language model alone, the digit tables added into its own. Changes this module's."""
        self.lm.speech_embedding.weight.copy_(self._speech_table())
        self.lm.head.weight.copy_(self._head_table())
        self.embedding_digits.zero_()
        self.head_digits.zero_()
        return self.lm

    def _speech_table(self) -> Tensor:
        table = self.lm.speech_embedding.weight
        return table + F.pad(self.digits @ self.embedding_digits, (0, 0, 0, len(table) - NUM_CODES))

    def _head_table(self) -> Tensor:
        table = self.lm.head.weight
        return table + F.pad(self.digits @ self.head_digits, (0, 0, 0, len(table) - NUM_CODES))


class TokenCrossEntropy(torch.autograd.Function):
    """Cross-entropy over thousands of classes without ever holding their float32 probabilities."""

    @staticmethod
    def forward(ctx, hidden: Tensor, table: Tensor, bias: Tensor, targets: Tensor):  # type: ignore[no-untyped-def]
        """hidden (N, C), table (V, C), bias (V,), targets (N,) -> mean loss, share that is right."""
        dtype = torch.bfloat16 if torch.is_autocast_enabled(hidden.device.type) else torch.float32
        hidden, table = hidden.to(dtype), table.to(dtype)
        logits = torch.addmm(bias.to(dtype), hidden, table.T)
        wanted = logits.gather(1, targets[:, None])[:, 0].float()
        highest, best = logits.max(1, keepdim=True)
        exponentials = logits.sub_(highest).exp_()
        total = exponentials.sum(1, dtype=torch.float32)
        loss = (total.log() + highest[:, 0].float() - wanted).mean()
        right = (best[:, 0] == targets).float().mean()
        ctx.save_for_backward(hidden, table, targets, exponentials, total)
        ctx.mark_non_differentiable(right)
        return loss, right

    @staticmethod
    def backward(ctx, gradient: Tensor, _):  # type: ignore[no-untyped-def]
        hidden, table, targets, probabilities, total = ctx.saved_tensors
        probabilities.mul_(total.reciprocal().to(probabilities.dtype)[:, None])
        probabilities[torch.arange(len(targets)), targets] -= 1
        scale = gradient / len(targets)
        to_hidden = (probabilities @ table) * scale
        to_table = (probabilities.T @ hidden).float() * scale if ctx.needs_input_grad[1] else None
        return to_hidden.float(), to_table, probabilities.sum(0, dtype=torch.float32) * scale, None
