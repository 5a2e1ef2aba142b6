"""`python -m training.shipped`: one stage can be trained further without the others.

Fills the folder, after the stages corpus and features, with what the shipped checkpoint knows: its text
tokenizer, the corpus in its speech tokens, the teachers' embeddings, its weights to begin from. Then, for
instance, `python -m training harmonic_vocos export speaker_embeddings`.

A flow that solves without guidance is what `flow_distil` made. It is that stage's weights too, so that an
export ships it with its own solver; but stage `flow` then has no guided teacher to go on from: it, and what
follows it, need the flow of a whole training.
"""

import argparse
import shutil
from pathlib import Path

import torch
from torch import nn

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import SPEAKER_ENCODER_FILE, SPEECH_TOKENIZER_FILES, TOKEN_RATE_HZ
from firstword.models.flow.flow import Flow
from firstword.models.frontend.features import kaldi_fbank, without_mean
from firstword.models.frontend.prompt_reader import SpeakerEncoder, SpeechTokenizer
from firstword.models.harmonic_vocos.network import HarmonicVocos
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.tokenizer import PRONUNCIATION_FOLDER, QWEN2_FOLDER
from training import (
    accents,
    flow,
    flow_distil,
    harmonic_vocos,
    language_model,
    speaker_encoder,
    speech_tokenizer,
)
from training.networks.flow import unfolded
from training.networks.speech_tokenizer import NUM_CODES
from training.onnx_export import read_weights
from training.pronunciation import stage as pronunciation
from training.settings import BUILTIN, DEFAULT, Settings, read_settings
from training.speech_tokenizer import write_tokens
from training.text_tokenizer import add_accents, read_tokenizer


def take(settings: Settings, directory: Path) -> None:
    """Raises CheckpointError for a broken checkpoint, RuntimeError where the settings ask for other sizes."""
    checkpoint = open_checkpoint(directory)
    (settings.path / "tokenizer").mkdir(parents=True, exist_ok=True)
    shutil.copy(directory / QWEN2_FOLDER / "tokenizer.json", settings.path / "tokenizer")
    add_accents(settings.path / "tokenizer", settings.spoken_accents)
    if (directory / PRONUNCIATION_FOLDER).is_dir():
        shutil.copytree(directory / PRONUNCIATION_FOLDER, pronunciation.folder(settings), dirs_exist_ok=True)
    tokenizer = SpeechTokenizer(
        directory / SPEECH_TOKENIZER_FILES["cosyvoice2"], NUM_CODES, TOKEN_RATE_HZ, settings.processes
    )
    write_tokens(settings, lambda log_mel: tokenizer.encode(log_mel))
    encoder = SpeakerEncoder(directory / SPEAKER_ENCODER_FILE, settings.processes)
    speaker_encoder.save_embeddings(
        settings, lambda samples: encoder.embed(without_mean(kaldi_fbank(torch.from_numpy(samples))))
    )
    lm, acoustic, exported = checkpoint.load_lm(), checkpoint.load_flow(), checkpoint.load_vocoder()
    assert isinstance(lm, Qwen2LM), lm
    assert isinstance(acoustic, Flow), acoustic
    reader = language_model.build(settings, read_tokenizer(settings).vocab_size)
    rows = lm.text_embedding.weight.detach()
    is_accented = len(rows) == reader.lm.config.qwen2.vocab_size  # else its accents are learned first
    with torch.no_grad():
        reader.embedding_digits.zero_()
        reader.head_digits.zero_()
        reader.lm.text_embedding.weight[: len(rows)] = rows
    state = lm.state_dict() | {"text_embedding.weight": reader.lm.text_embedding.weight.detach()}
    reader.lm.load_state_dict(state)
    painter = Flow(flow.config(settings))
    painter.load_state_dict(acoustic.state_dict())
    if not isinstance(exported, HarmonicVocos):
        raise RuntimeError(
            f"{directory} has the vocoder HiFT; expected Harmonic Vocos, as the recipe makes it"
        )
    heard = speech_tokenizer.build(settings)
    read_weights(directory / SPEECH_TOKENIZER_FILES["cosyvoice2"], heard.encoder, "encoder")
    networks: dict[str, nn.Module] = {
        speech_tokenizer.STAGE: heard,
        language_model.STAGE: reader,
        flow.STAGE: unfolded(painter),
        harmonic_vocos.STAGE: exported,
    }
    if acoustic.config.cfm.inference_cfg_rate == 0:
        networks[flow_distil.STAGE] = networks[flow.STAGE]
    if settings.spoken_accents and is_accented:
        num_rows = len(accents.counterparts(settings))
        networks[accents.STAGE] = accents.AccentTrainer(reader, rows[-num_rows:])
    for stage, network in networks.items():
        torch.save({"average": network.state_dict()}, settings.path / f"{stage}.pt")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.shipped", description=__doc__.split("\n")[0])
    parser.add_argument("--settings", type=Path, default=DEFAULT)
    parser.add_argument("--checkpoint", type=Path, default=BUILTIN)
    arguments = parser.parse_args()
    take(read_settings(arguments.settings), arguments.checkpoint)


if __name__ == "__main__":
    main()
