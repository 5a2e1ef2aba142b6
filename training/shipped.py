"""`python -m training.shipped`: one stage can be trained further without the others.

Fills the folder, after the stages corpus and features, with what the shipped checkpoint knows: its text
tokenizer, the corpus in its speech tokens, the teachers' embeddings, its weights to begin from. Then, for
instance, `python -m training harmonic_vocos export speaker_embeddings`.

A flow that solves without guidance is what `flow_distil` made. It is that stage's weights too, so that an
export ships it with its own solver; but stage `flow` then has no guided teacher to go on from: it, and what
follows it, need the flow of a whole training, or of an earlier checkpoint whose flow is guided (--guided).

A checkpoint that speaks Mandarin has units behind the codes of English and marks of pinyin behind its text
ids. It is taken whole for the stages of Mandarin, and without them for those before. Only `mandarin_flow`
begins anew: the guided flow that learned Mandarin is in no checkpoint.
"""

import argparse
import shutil
from pathlib import Path

import torch
from torch import nn

from firstword.models.checkpoint.open import Checkpoint, open_checkpoint
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
from training.mandarin import flow as mandarin_flow
from training.mandarin import flow_distil as mandarin_flow_distil
from training.mandarin import language_model as mandarin_language_model
from training.mandarin import vocoder as mandarin_vocoder
from training.networks.flow import unfolded
from training.networks.new_rows import without_sums
from training.networks.speech_tokenizer import NUM_CODES
from training.onnx_export import read_weights
from training.pronunciation import stage as pronunciation
from training.settings import BUILTIN, DEFAULT, Settings, read_settings
from training.speech_tokenizer import write_tokens
from training.text_tokenizer import add_accents, read_tokenizer, take_mandarin_off


def take(settings: Settings, directory: Path, guided: Path | None = None) -> None:
    """guided: a checkpoint whose flow solves with guidance, for the stage `flow`.

    Raises CheckpointError for a broken checkpoint, RuntimeError where the settings ask for other sizes.
    """
    checkpoint = open_checkpoint(directory)
    _take_texts(settings, directory)
    tokenizer = SpeechTokenizer(
        directory / SPEECH_TOKENIZER_FILES["cosyvoice2"], NUM_CODES, TOKEN_RATE_HZ, settings.processes
    )
    write_tokens(settings, lambda log_mel: tokenizer.encode(log_mel))
    encoder = SpeakerEncoder(directory / SPEAKER_ENCODER_FILE, settings.processes)
    speaker_encoder.save_embeddings(
        settings, lambda samples: encoder.embed(without_mean(kaldi_fbank(torch.from_numpy(samples))))
    )
    exported = checkpoint.load_vocoder()
    if not isinstance(exported, HarmonicVocos):
        raise RuntimeError(
            f"{directory} has the vocoder HiFT; expected Harmonic Vocos, as the recipe makes it"
        )
    heard = speech_tokenizer.build(settings)
    read_weights(directory / SPEECH_TOKENIZER_FILES["cosyvoice2"], heard.encoder, "encoder")
    networks: dict[str, nn.Module] = {speech_tokenizer.STAGE: heard, harmonic_vocos.STAGE: exported}
    if "zh" in checkpoint.traits.languages:
        channels = settings.mandarin.vocoder.adversary_channels  # the discriminators are not shipped
        networks[mandarin_vocoder.STAGE] = mandarin_vocoder.AdversarialPair(exported, channels)
    networks |= _language_models(settings, checkpoint) | _flows(settings, checkpoint)
    if guided is not None:
        networks |= {flow.STAGE: _flows(settings, open_checkpoint(guided))[flow.STAGE]}
    for stage, network in networks.items():
        torch.save({"average": network.state_dict()}, settings.path / f"{stage}.pt")


def _take_texts(settings: Settings, directory: Path) -> None:
    """The text tokenizer, for English, and what words are read by."""
    folder = settings.path / "tokenizer"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(directory / QWEN2_FOLDER / "tokenizer.json", folder)
    take_mandarin_off(folder)
    add_accents(folder, settings.spoken_accents)
    if (directory / PRONUNCIATION_FOLDER).is_dir():
        shutil.copytree(directory / PRONUNCIATION_FOLDER, pronunciation.folder(settings), dirs_exist_ok=True)


def _language_models(settings: Settings, checkpoint: Checkpoint) -> dict[str, nn.Module]:
    """By stage, as each trains it."""
    networks: dict[str, nn.Module] = {}
    lm = checkpoint.load_lm().float()
    assert isinstance(lm, Qwen2LM), lm
    num_texts = read_tokenizer(settings).vocab_size
    if lm.config.speech_token_size > NUM_CODES:
        english = mandarin_language_model.without_units(lm, num_texts)
        trained = mandarin_language_model.MandarinTrainer(lm, num_texts)
        networks[mandarin_language_model.STAGE] = without_sums(trained)
        lm = english
    reader = language_model.build(settings, num_texts)
    rows = lm.text_embedding.weight.detach()
    is_accented = len(rows) == num_texts  # else its accents are learned first
    with torch.no_grad():
        reader.embedding_digits.zero_()
        reader.head_digits.zero_()
        reader.lm.text_embedding.weight[: len(rows)] = rows
    state = lm.state_dict() | {"text_embedding.weight": reader.lm.text_embedding.weight.detach()}
    reader.lm.load_state_dict(state)
    networks[language_model.STAGE] = reader
    if settings.spoken_accents and is_accented:
        num_rows = len(accents.counterparts(settings))
        networks[accents.STAGE] = accents.AccentTrainer(reader, rows[-num_rows:])
    return networks


def _flows(settings: Settings, checkpoint: Checkpoint) -> dict[str, nn.Module]:
    """By stage, as each trains it."""
    networks: dict[str, nn.Module] = {}
    acoustic = checkpoint.load_flow().float()
    assert isinstance(acoustic, Flow), acoustic
    if acoustic.config.vocab_size > NUM_CODES:
        networks[mandarin_flow_distil.STAGE] = acoustic
        acoustic = mandarin_flow.without_units(acoustic)
    painter = Flow(flow.config(settings))
    painter.load_state_dict(acoustic.state_dict())
    networks[flow.STAGE] = unfolded(painter)
    if acoustic.config.cfm.inference_cfg_rate == 0:
        networks[flow_distil.STAGE] = networks[flow.STAGE]
    return networks


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.shipped", description=__doc__.split("\n")[0])
    parser.add_argument("--settings", type=Path, default=DEFAULT)
    parser.add_argument("--checkpoint", type=Path, default=BUILTIN)
    parser.add_argument("--guided", type=Path, help="an earlier checkpoint whose flow solves with guidance")
    arguments = parser.parse_args()
    take(read_settings(arguments.settings), arguments.checkpoint, arguments.guided)


if __name__ == "__main__":
    main()
