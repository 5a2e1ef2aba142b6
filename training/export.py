"""Stage: the trained networks become a model directory, `models/builtin`, with the shipped voices."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from firstword.models.checkpoint.names import QWEN2_LM, UNET_FLOW
from firstword.models.checkpoint.open import QWEN2_CONFIG_FILE, open_checkpoint
from firstword.models.checkpoint.speaker_table import write_speaker_table
from firstword.models.checkpoint.traits import Traits, write_traits
from firstword.models.checkpoint.weights import published_tensors
from firstword.models.config import (
    NUM_MELS,
    SPEAKER_ENCODER_FILE,
    SPEAKER_TABLE_FILE,
    SPEECH_TOKENIZER_FILES,
    TRAITS_FILE,
    Family,
    UNetFlowConfig,
)
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.tokenizer import PRONUNCIATION_FOLDER, QWEN2_FOLDER
from firstword.models.tokenizer.accents import accent_file
from firstword.models.tokenizer.heteronyms import HETERONYMS_FILE
from firstword.models.tokenizer.mandarin import MANDARIN_FILE
from firstword.models.tokenizer.pronunciation import DICTIONARY_FILE, NETWORK_FILE
from training import language_model, speaker_encoder, speech_tokenizer
from training.checkpoint_yaml import qwen2_json, voice_yaml
from training.corpus import trim
from training.language_model import front_end
from training.mandarin.flow_distil import load_flow
from training.mandarin.language_model import load_language_model
from training.mandarin.speakers import MANDARIN_PROMPT_TEXT, speak_prompts
from training.mandarin.speech import Utterance
from training.mandarin.vocoder import load_vocoder
from training.networks.speech_tokenizer import TokenEncoder
from training.onnx_export import export_onnx
from training.pronunciation import stage as pronunciation
from training.settings import BUILTIN, Settings
from training.speaker_encoder import read_embeddings
from training.teachers import open_teacher
from training.teachers.spoken import SAMPLE_RATE_HZ, Samples
from training.text_tokenizer import exported_folder
from training.tokenizer_through_flow import load_tokenizer
from training.trainer import load_average

PROMPT_TEXT = "Hello, my voice was made on a small machine, so please be kind."
FORMER_SPEAKERS = {"rms": "alder", "slt": "wren", "awb": "flint", "kal16": "alder", "lark": "finch"}
"""Who answers, for one release, to names that speakers of earlier checkpoints had."""
_FAMILY: Family = "cosyvoice2"
TRAITS = Traits(
    takes_instruct=False,
    takes_speech_marks=False,
    segment_max_length=40,  # its text tokens are half a word
    segment_min_length=30,
    segment_merge_length=10,
    ends_cut_segments_in_stop=True,
    prompt_before_blocks=True,
)

PHONEME_TRAITS = replace(  # a text token is a sound: five to a word, with the space behind it
    TRAITS,
    segment_max_length=110,
    segment_min_length=80,
    segment_merge_length=26,
    reads_sounds=True,
    continues_prompts=False,  # measured: docs/voice.md, "The language model speaks alone"
    matches_recordings=True,  # its flow knows few voices
    min_token_ratio=1.3,  # 99 in 100 utterances of the corpus have more, none more than 6.4
    max_token_ratio=8.0,
)


def run(settings: Settings) -> None:
    """Writes models/builtin; MODEL_CARD.md in it is written by hand and stays."""
    recordings = {
        voice.name: trim(open_teacher(voice.teacher).speak(PROMPT_TEXT)).waveform
        for voice in settings.voices
        if voice.is_shipped
    }
    write_checkpoint(settings, BUILTIN, recordings, speak_prompts(settings))


def write_checkpoint(
    settings: Settings,
    directory: Path,
    recordings: Mapping[str, Samples],
    prompts: Mapping[str, Utterance],
) -> None:
    """From what the stages left, finished or not; recordings: each speaker of English saying PROMPT_TEXT;
    prompts: each of Mandarin saying MANDARIN_PROMPT_TEXT.

    Raises FileNotFoundError naming a stage that never ran.
    """
    lm, acoustic = load_language_model(settings), load_flow(settings)
    exported = load_vocoder(settings)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / QWEN2_FOLDER).mkdir(exist_ok=True)
    assert isinstance(acoustic.config, UNetFlowConfig), acoustic.config
    yaml = voice_yaml(lm.config, acoustic.config, exported.config)
    (directory / "cosyvoice2.yaml").write_text(yaml)
    traits = PHONEME_TRAITS if settings.language_model.reads == "phonemes" else TRAITS
    heads = language_model.alignment_heads(settings.language_model)
    former = {name: now for name, now in FORMER_SPEAKERS.items() if now in recordings}
    transcripts = dict.fromkeys(recordings, PROMPT_TEXT) | dict.fromkeys(prompts, MANDARIN_PROMPT_TEXT)
    traits = replace(
        traits,
        languages=settings.languages,
        default_speaker=next(iter(recordings)),
        default_speakers={"zh": next(iter(prompts))} if prompts else {},
        former_speakers=former,
        transcripts=transcripts if traits.reads_sounds else {},
        accents=settings.spoken_accents,
        alignment_heads=heads,
        mean_embedding=_mean_embedding(settings) if traits.matches_recordings else (),
    )
    write_traits(directory / TRAITS_FILE, traits)
    if traits.reads_sounds:
        (directory / PRONUNCIATION_FOLDER).mkdir(exist_ok=True)
        tables = [accent_file(accent) for accent in settings.spoken_accents]
        tables += [MANDARIN_FILE] if "zh" in traits.languages else []
        for name in (DICTIONARY_FILE, NETWORK_FILE, HETERONYMS_FILE, *tables):
            shutil.copy(pronunciation.folder(settings) / name, directory / PRONUNCIATION_FOLDER / name)
    (directory / QWEN2_CONFIG_FILE).write_text(qwen2_json(lm.config.qwen2))
    shutil.copy(exported_folder(settings) / "tokenizer.json", directory / QWEN2_FOLDER / "tokenizer.json")
    for name, network, table, dtype in (
        ("llm", lm, QWEN2_LM, torch.float16),
        ("flow", acoustic, UNET_FLOW, torch.float16),
        ("hift", exported, (), torch.float16),
    ):
        save_file(published_tensors(network, table, dtype), directory / f"{name}.safetensors")
    for stage, write in (
        (speech_tokenizer.STAGE, write_speech_tokenizer),
        (speaker_encoder.STAGE, write_speaker_encoder),
    ):
        if (settings.path / f"{stage}.pt").exists():  # else what is shipped stays
            write(settings, directory)
    write_speakers(settings, directory, recordings, prompts)


def _mean_embedding(settings: Settings) -> tuple[float, ...]:
    """(192,) of the corpus' voices, each counting once."""
    means = [one.mean(0) for one in read_embeddings(settings).values()]
    return tuple(round(value, 4) for value in torch.stack(means).mean(0).tolist())


def write_speech_tokenizer(settings: Settings, directory: Path) -> None:
    """As an ONNX graph with the published inputs and outputs."""
    mel = torch.randn(1, 128, 404)
    length = torch.tensor([404], dtype=torch.int32)
    export_onnx(
        _Tokens(load_tokenizer(settings).encoder),
        (mel, length),
        directory / SPEECH_TOKENIZER_FILES[_FAMILY],
        ["feats", "feats_length"],
        "indices",
        {"feats": {2: torch.export.Dim("T", min=8, max=3000)}, "feats_length": None},
    )


def write_speaker_encoder(settings: Settings, directory: Path) -> None:
    """As an ONNX graph with the published inputs and outputs."""
    voices = speaker_encoder.build(settings)
    load_average(settings, speaker_encoder.STAGE, voices)
    export_onnx(
        voices.encoder.eval(),
        (torch.randn(1, 300, NUM_MELS),),
        directory / SPEAKER_ENCODER_FILE,
        ["input"],
        "output",
        {"fbank": {1: torch.export.Dim("T", min=20, max=3000)}},
    )


def write_speakers(
    settings: Settings, directory: Path, recordings: Mapping[str, Samples], prompts: Mapping[str, Utterance]
) -> None:
    """Each recording of the prompt is enrolled as any other would be; Mandarin prompts keep their units."""
    checkpoint = open_checkpoint(directory)
    reader, tokenizer = checkpoint.load_prompt_reader(num_threads=1), checkpoint.load_tokenizer()
    text_ids = tuple(tokenizer.encode(PROMPT_TEXT))
    speakers = {
        name: replace(reader.read_speaker(samples, SAMPLE_RATE_HZ), prompt_text_ids=text_ids)
        for name, samples in recordings.items()
    }
    written = front_end(settings)
    speakers |= {
        name: SpeakerFeatures(
            prompt_text="",
            prompt_tokens=torch.from_numpy(one.tokens).long(),
            prompt_mel=torch.from_numpy(one.mel).float(),
            embedding=torch.from_numpy(one.embedding),
            prompt_text_ids=tuple(tokenizer.encode(written(one.text))),
        )
        for name, one in prompts.items()
    }
    write_speaker_table(directory / SPEAKER_TABLE_FILE, speakers)


class _Tokens(nn.Module):
    """The tokenizer's encoder as its graph is called."""

    def __init__(self, encoder: TokenEncoder) -> None:
        super().__init__()
        self.encoder = encoder.eval()

    def forward(self, feats: Tensor, feats_length: Tensor) -> Tensor:
        """feats (1, 128, T), feats_length (1,) -> speech tokens (1, T / 4), int32."""
        whole = torch.arange(feats.shape[2]) < feats_length  # (T,)
        return self.encoder(feats * whole).int()
