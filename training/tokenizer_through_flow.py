"""The tokenizer's encoder goes on against the flow that was trained on its tokens.

The flow stands still, so a token keeps its meaning and the language model its tokens; the encoder learns to
choose those of which the flow makes what was said.
"""

import torch
from torch import Tensor, nn

from firstword.finetune.flow_matching import FlowBatch, draw, flow_losses
from firstword.models.config import FRAMES_PER_TOKEN
from firstword.models.flow.encoder import ConformerFront
from training import speech_tokenizer, trainer
from training.crops import Crops
from training.features import WHISPER_FRAMES_PER_TOKEN, read_features
from training.flow_enrolment import load_flow
from training.networks.flow import folded
from training.networks.speech_tokenizer import NUM_CODES, NUM_LEVELS, POWERS, TokenizerTrainer
from training.phone_recogniser import trained_recogniser, unlike
from training.settings import Settings
from training.speaker_encoder import draw_embeddings, read_embeddings
from training.speech_tokenizer import louder_or_softer

STAGE = "tokenizer_through_flow"
_MU_WEIGHT = 0.5  # of what is said of `mu`, which knows no speaker


class ChosenCodes(nn.Module):
    """The flow's table of codes; what it gives can be differentiated by the digits of a code.

    By a digit the table has no slope: it is taken from the code's two neighbors in that digit.
    """

    table: Tensor  # (codes, C)
    slopes: Tensor  # (codes, 8, C)

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table)
        code = torch.arange(NUM_CODES)
        steps = []
        for power in POWERS:
            digit = code // power % NUM_LEVELS
            above = code + power * (digit < NUM_LEVELS - 1)
            below = code - power * (digit > 0)
            steps.append((table[above] - table[below]) / ((above - below) / power)[:, None])
        self.register_buffer("slopes", torch.stack(steps, dim=1))
        self.digits = torch.zeros(0)  # (B, T, 8), of the codes that come next, not rounded

    def forward(self, codes: Tensor) -> Tensor:
        """codes (B, T + more) -> (B, T + more, C)."""
        moved = self.digits - self.digits.detach()  # nothing, but its gradient
        own = codes[:, : moved.shape[1]]
        moves = torch.einsum("btd,btdc->btc", moved, self.slopes[own])
        values = nn.functional.embedding(codes, self.table)
        return torch.cat([values[:, : moved.shape[1]] + moves, values[:, moved.shape[1] :]], dim=1)


def run(settings: Settings) -> None:
    """Goes on from the stages speech_tokenizer and flow; writes <folder>/tokenizer_through_flow.pt."""
    plan = settings.tokenizer_through_flow
    dice = trainer.seeded(settings, STAGE)
    utterances = read_features(settings, whisper=True, of_each=settings.speech_tokenizer.shards)
    columns = [(one.speaker, (one.heard, one.mel, one.phones)) for one in utterances]
    crops = Crops(columns, (WHISPER_FRAMES_PER_TOKEN, FRAMES_PER_TOKEN, FRAMES_PER_TOKEN))
    embeddings = read_embeddings(settings)
    recogniser = trained_recogniser(settings)
    encoder = load_tokenizer(settings).encoder
    painter = load_flow(settings)
    front = folded(painter).requires_grad_(False).front
    assert isinstance(front, ConformerFront), front
    chosen = ChosenCodes(front.embedding.weight.detach().clone())
    front.embedding = chosen  # type: ignore[assignment]
    painter.to(trainer.device())

    def losses_of(_: float) -> trainer.Losses:
        speakers, (heard, mel, phones) = crops.batch(plan.train.batch, plan.crop_tokens, dice.numpy)
        voices = draw_embeddings(embeddings, speakers, dice.numpy)
        heard, phones = trainer.on_device((louder_or_softer(heard.float(), dice), phones.long()))
        chosen.digits = encoder.digits_of(heard.mT)
        codes = encoder.codes_of(chosen.digits.detach()).cpu()  # where the generator of all draws is
        lengths = torch.full((plan.train.batch,), plan.crop_tokens)
        batch = FlowBatch(codes, lengths, mel.float(), voices)
        draws = draw(painter, batch, dice.torch)
        draws.t.zero_()  # later the mel itself tells what was said
        draws.is_unconditional.zero_()
        batch, draws = trainer.on_device(batch), trainer.on_device(draws)
        losses = flow_losses(painter, batch, draws)
        clear, matched = (one.mean() for one in unlike(recogniser, losses.mu, batch.mel, phones))
        heard_guess = unlike(recogniser, losses.guess, batch.mel, phones)
        guess_clear, guess_matched = (one.mean() for one in heard_guess)
        near = (losses.guess - batch.mel).abs().mean()
        of_mu, of_guess = losses.prior + clear + matched, near + guess_clear + guess_matched
        return {
            "loss": of_guess + _MU_WEIGHT * of_mu,
            "l1": near,
            "clear": guess_clear,
            "matched": guess_matched,
            "mu_l1": losses.prior,
            "mu_clear": clear,
            "mu_matched": matched,
        }

    trainer.train(settings, plan.train, encoder, dice, losses_of)


def load_tokenizer(settings: Settings) -> TokenizerTrainer:
    """Its encoder as it was trained last."""
    model = speech_tokenizer.build(settings)
    trainer.load_average(settings, speech_tokenizer.STAGE, model)
    if (settings.path / f"{STAGE}.pt").exists():
        trainer.load_average(settings, STAGE, model.encoder)
    return model
