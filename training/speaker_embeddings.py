"""Stage, after the export: tunes the embeddings of speakers until a recogniser of phones reads them clearly.

Every network stands still, so no other speaker changes. The embedding is moved by the gradient of what the
recogniser reads in the speaker's mel. That is made of the first voice's speech tokens, which the language
model speaks in, and as in a stream: behind the speaker's prompt, in chunks, by the checkpoint's solver. The
distance from the mel of the embedding before is added to the loss: where it weighs little, the
speaker becomes another one that is read more clearly.
"""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.checkpoint.speaker_table import write_speaker_table
from firstword.models.config import FRAMES_PER_TOKEN, NUM_MELS, SPEAKER_TABLE_FILE
from firstword.models.flow.encoder import without_lookahead
from firstword.models.flow.flow import Flow
from firstword.models.frontend.speaker import SpeakerFeatures, align_prompt
from firstword.models.token2wav import DEFAULT_FIRST_HOP_TOKENS, aligned_cut
from training import trainer
from training.crops import Crops
from training.features import read_features
from training.networks.speech_tokenizer import PhoneRecogniser
from training.phone_recogniser import trained_recogniser, unlike
from training.settings import BUILTIN, Settings, SettingsError
from training.speech_tokenizer import read_tokens

STAGE = "speaker_embeddings"


def run(settings: Settings) -> None:
    """Changes the speaker table of models/builtin. Raises as `tune` does."""
    tune(settings, BUILTIN)


def tune(settings: Settings, directory: Path) -> None:
    """Begins with the embeddings in a checkpoint's speaker table and writes the tuned ones there.

    What an earlier run left in <folder>/speaker_embeddings.<speaker>.pt is gone on with. Raises SettingsError
    for a speaker that the checkpoint does not have, CheckpointError for a broken one.
    """
    plan, checkpoint = settings.speaker_embeddings, open_checkpoint(directory)
    speakers = dict(checkpoint.load_speakers())
    if not set(plan.tuned) <= set(speakers):
        raise SettingsError(f"stage {STAGE}: tuned {plan.tuned}; expected speakers of {', '.join(speakers)}")
    flow, recogniser = checkpoint.load_flow(), trained_recogniser(settings)
    assert isinstance(flow, Flow), checkpoint.config.family
    flow.to(trainer.device())
    first = settings.voices[0].name
    crops = Crops(
        [
            (one.speaker, (tokens, one.phones))
            for one, tokens in zip(read_features(settings), read_tokens(settings), strict=True)
            if one.speaker == first
        ],
        (1, FRAMES_PER_TOKEN),
    )
    for name in plan.tuned:
        reading = Reading(flow, recogniser, speakers[name])
        embedding = _tuned(settings, f"{STAGE}.{name}", reading, crops)
        speakers[name] = replace(speakers[name], embedding=embedding)
    write_speaker_table(directory / SPEAKER_TABLE_FILE, speakers)


class Reading:
    """What a recogniser of phones reads in a speaker's mel, by the embedding that it is made with."""

    def __init__(self, flow: Flow, recogniser: PhoneRecogniser, speaker: SpeakerFeatures) -> None:
        tokens, mel = align_prompt(speaker.prompt_tokens, speaker.prompt_mel)
        cut = aligned_cut(len(tokens), DEFAULT_FIRST_HOP_TOKENS, flow.chunk_tokens)
        self._flow, self._recogniser = flow, recogniser
        prompt = tokens[cut:], mel[FRAMES_PER_TOKEN * cut :], speaker.embedding
        self._tokens, self._mel, self.embedding = trainer.on_device(prompt)

    def noise(self, rows: int, num_tokens: int, generator: torch.Generator) -> Tensor:
        """-> (B, M, all frames), the prompt's too."""
        num_frames = FRAMES_PER_TOKEN * (len(self._tokens) + num_tokens)
        return torch.randn(rows, NUM_MELS, num_frames, generator=generator).to(self._mel)

    def mel(self, tokens: Tensor, embedding: Tensor, noise: Tensor) -> Tensor:
        """tokens (B, T), embedding (192,) -> (B, 2 T, M), the prompt cut off; differentiable."""
        rows, flow = len(tokens), self._flow
        ids = torch.cat([self._tokens.expand(rows, -1), tokens], dim=1)
        mu = flow.mu(without_lookahead(ids, flow.config.lookahead_tokens), is_streaming=True)
        prompt = self._mel.expand(rows, -1, -1)
        return flow.mel(mu, prompt, embedding.expand(rows, -1), noise, is_streaming=True).mT

    def losses(
        self, tokens: Tensor, phones: Tensor, embedding: Tensor, noise: Tensor, kept_weight: float
    ) -> trainer.Losses:
        """tokens (B, T), phones (B, 2 T): what they say; noise as `noise` draws it.

        clear: the phones' cross entropy; moved: how far the mel is from that of the embedding before.
        """
        mel = self.mel(tokens, embedding, noise)
        with torch.no_grad():
            before = self.mel(tokens, self.embedding, noise)
        clear = unlike(self._recogniser, mel, before, phones)[0].mean()
        moved = (mel - before).abs().mean()
        return {"loss": clear + kept_weight * moved, "clear": clear, "moved": moved}


def _tuned(settings: Settings, stage: str, reading: Reading, crops: Crops) -> Tensor:
    """-> (192,)."""
    plan, dice = settings.speaker_embeddings, trainer.seeded(settings, stage)
    embedding = nn.Parameter(reading.embedding.clone())

    def losses_of(_: float) -> trainer.Losses:
        rows, length = plan.train.batch, plan.crop_tokens
        tokens, phones = crops.batch(rows, length, dice.numpy)[1]
        tokens, phones = trainer.on_device((tokens.long(), phones.long()))
        noise = reading.noise(rows, length, dice.torch)
        return reading.losses(tokens, phones, embedding, noise, plan.kept_weight)

    trainer.train(settings, plan.train, nn.ParameterList([embedding]), dice, losses_of)
    return embedding.detach()
