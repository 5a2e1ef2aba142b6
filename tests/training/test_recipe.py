"""The whole recipe on a corpus of hums: what comes out is a checkpoint that opens and speaks."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from firstword.app.speakers.enrolment import builtin_speakers
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import Qwen2LMConfig
from firstword.models.flow.flow import Flow
from firstword.models.tokenizer.accents import accent_tokens
from firstword.models.tokenizer.qwen2 import PINYIN_TOKENS
from tests.training.recipe import (
    HummingTeacher,
    greeting,
    hum,
    tiny_settings,
    write_corpus,
    write_mandarin,
    write_words,
)
from training import (
    accents,
    corpus,
    export,
    features,
    flow,
    flow_distil,
    flow_enrolment,
    harmonic_vocos,
    language_model,
    parallel,
    phone_recogniser,
    shipped,
    speaker_embeddings,
    speaker_encoder,
    speech_tokenizer,
    tokenizer_through_flow,
    trainer,
)
from training.export import PROMPT_TEXT
from training.mandarin import flow as mandarin_flow
from training.mandarin import flow_distil as mandarin_flow_distil
from training.mandarin import language_model as mandarin_language_model
from training.mandarin import vocoder as mandarin_vocoder
from training.mandarin.speakers import MANDARIN_PROMPT_TEXT, speak_prompts
from training.mandarin.units import SILENCE, final_id, initial_id
from training.networks.flow import folded
from training.networks.speech_tokenizer import NUM_CODES
from training.offline import OfflineToken2Wav
from training.pronunciation import stage as pronunciation
from training.settings import Settings, SettingsError
from training.text_tokenizer import read_tokenizer
from training.voice import Voice

# torch.onnx.export speaks of itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """All stages but the first and the last have run."""
    made = tiny_settings(tmp_path_factory.mktemp("voice"))
    write_corpus(made)
    write_words(made, {"hello": "həlˈO", "days": "dˈAz", "week": "wˈik"}, {"week": "wˈɛk"})  # noqa: RUF001
    speakers = (features, speech_tokenizer, speaker_encoder)
    flows = (flow, flow_enrolment, tokenizer_through_flow, flow_distil)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "open_teacher", lambda call: {"hibari": HummingTeacher()}[call])
        for stage in (*speakers, pronunciation, language_model, accents, *flows):
            stage.run(made)
    write_mandarin(made)
    vocoder = harmonic_vocos.build(made)  # its stage needs a teacher that tells its spectra
    torch.save({"average": vocoder.state_dict()}, made.path / f"{harmonic_vocos.STAGE}.pt")
    for stage in (mandarin_language_model, mandarin_flow, mandarin_flow_distil, mandarin_vocoder):
        stage.run(made)
    return made


@pytest.fixture(scope="module")
def directory(settings: Settings) -> Path:
    directory = settings.path / "checkpoint"
    recordings = {name: hum(100.0 + 40 * i, "").waveform for i, name in enumerate(("low", "high"))}
    export.write_checkpoint(settings, directory, recordings, {"lotus": greeting("lotus", 0)})
    return directory


def test_the_checkpoint_speaks(directory: Path) -> None:
    recording = hum(140.0, "").waveform
    checkpoint = open_checkpoint(directory)
    tokens = checkpoint.load_prompt_reader(num_threads=1).read_source_tokens(recording, 24_000).tolist()
    speaker = checkpoint.load_speakers()["low"]
    assert len(OfflineToken2Wav(checkpoint).solve(tokens, speaker)) == 960 * len(tokens)
    with Voice(directory) as voice:
        assert sorted(voice.synthesizer.speakers) == ["high", "lotus", "low"]
        assert len(voice.respeak(recording, "low")) == 960 * len(tokens)
        assert sum(map(len, voice.speak("Hello there.", "low"))) > 0
        assert sum(map(len, voice.speak("你好。", "lotus"))) > 0
        assert sum(map(len, voice.speak(["Hello", " there", "."], "low"))) > 0
        again = voice.enroll(recording, "hello there")
        assert len(again.features.prompt_mel) == 2 * len(again.features.prompt_tokens)
        assert sum(map(len, voice.speak("Hello.", reference=again))) > 0


def test_the_yaml_says_what_was_trained(directory: Path, settings: Settings) -> None:
    config = open_checkpoint(directory).config
    tokenizer = read_tokenizer(settings)
    english = language_model.config(settings.language_model, tokenizer.vocab_size)
    assert config.lm == mandarin_language_model.config(english, tokenizer.vocab_size + len(PINYIN_TOKENS))
    assert isinstance(config.lm, Qwen2LMConfig)
    assert config.lm.mix_ratio == (10, 13)
    assert config.lm.prompt_before_blocks
    assert config.lm.alignment_heads == language_model.alignment_heads(settings.language_model)
    checkpoint = open_checkpoint(directory)
    assert checkpoint.traits.reads_sounds
    assert checkpoint.traits.accents == ("british",)
    table = checkpoint.load_accented_words()["british"]
    assert [*table.find("One week's days.")] == [(4, 10, ("[W]", "[EH1]", "[K]", "[S]"))]
    speakers = builtin_speakers(checkpoint, checkpoint.load_tokenizer())
    assert {name: one.transcript for name, one in speakers.items()} == {
        "high": PROMPT_TEXT,
        "lotus": MANDARIN_PROMPT_TEXT,
        "low": PROMPT_TEXT,
    }
    two_steps = flow_distil.config(settings)
    assert config.flow == mandarin_flow.units_config(two_steps, two_steps.cfm)
    assert checkpoint.traits.languages == ("en", "zh")
    assert checkpoint.traits.default_speakers == {"zh": "lotus"}
    assert config.vocoder == harmonic_vocos.config(settings)
    assert config.mel == features.MEL


def test_exported_graphs_hear_what_the_networks_hear(directory: Path, settings: Settings) -> None:
    reader = open_checkpoint(directory).load_prompt_reader(num_threads=1)
    encoder = tokenizer_through_flow.load_tokenizer(settings).encoder
    (shard, *_) = corpus.spoken_shards(settings)
    samples = corpus.read_shard(shard.path)[0][1].waveform
    heard = reader.read_source_tokens(samples, 24_000)
    whisper = reader._whisper_mel(reader_input(samples))
    with torch.inference_mode():
        assert heard.tolist() == encoder(whisper[None])[0].tolist()
    # What the language model was trained on is what a recording of it gives, but for resampling.
    trained = torch.from_numpy(speech_tokenizer.read_tokens(settings)[0].astype(np.int64))
    assert len(trained) == len(heard)
    assert (trained == heard).float().mean() > 0.8


def reader_input(samples: np.ndarray) -> torch.Tensor:  # type: ignore[type-arg]
    from firstword.models.frontend.features import Recording

    return Recording(samples, 24_000).resampled(16_000)


def test_a_stage_goes_on_where_it_stopped(settings: Settings) -> None:
    before = torch.load(settings.path / "flow.pt", weights_only=False)
    assert before["step"] == 2
    flow.run(settings)  # nothing is left to do
    after = torch.load(settings.path / "flow.pt", weights_only=False)
    assert after["step"] == 2
    for name, value in before["average"].items():
        assert torch.equal(value, after["average"][name]), name


def test_an_accent_changes_its_own_text_tokens_alone(directory: Path, settings: Settings) -> None:
    tokenizer = read_tokenizer(settings)
    before = language_model.build(settings, tokenizer.vocab_size)
    trainer.load_average(settings, language_model.STAGE, before)
    own = before.folded().state_dict()
    spoken = accents.load_language_model(settings).state_dict()
    usual = accents.counterparts(settings)
    assert len(usual) == len(accent_tokens("british"))
    for name, value in own.items():
        rows = len(value) - len(usual) if name == "text_embedding.weight" else None
        assert torch.equal(value[:rows], spoken[name][:rows]), name
    table = spoken["text_embedding.weight"]
    moved = table[-len(usual) :] - table[usual]
    assert 0 < moved.abs().max() < 0.1
    assert tokenizer.decode(usual[:3]) == "[AH0][ER1][ER2]"
    assert tokenizer.decode(usual[-1:]) == "[R]"


def test_folding_the_digit_tables_changes_no_answer(settings: Settings) -> None:
    torch.manual_seed(0)
    tokenizer = read_tokenizer(settings)
    model = language_model.build(settings, tokenizer.vocab_size).eval()
    lines = [
        language_model.as_line(one, tokens.astype(np.int64), tokenizer, language_model.front_end(settings))
        for one, tokens in zip(
            features.read_features(settings)[:4], speech_tokenizer.read_tokens(settings)[:4], strict=True
        )
    ]
    batch = language_model.as_batch(
        [(lines[0], lines[1]), (None, lines[2])], [True, False], model.lm.vocabulary, settings.language_model
    )
    with torch.no_grad():
        before = model(batch)
        model.folded()
        after = model(batch)
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_folding_the_digit_sums_changes_no_answer_of_the_flow(settings: Settings) -> None:
    torch.manual_seed(0)
    model = flow.build(settings).eval()
    tokens = torch.randint(NUM_CODES, (1, 30))
    with torch.no_grad():
        before = model.mu(tokens, is_streaming=True)
        after = folded(model).mu(tokens, is_streaming=True)
    torch.testing.assert_close(before, after, atol=1e-5, rtol=1e-5)
    assert "front.embedding.weight" in model.state_dict()


def test_a_tokenizer_is_the_same_whatever_was_drawn_before(settings: Settings, tmp_path: Path) -> None:
    fresh = replace(settings, folder=str(tmp_path / "fresh"))
    fresh.path.mkdir()
    for name in ("corpus", "features", "phone_recogniser.pt"):
        (fresh.path / name).symlink_to(settings.path / name)
    torch.manual_seed(5)
    speech_tokenizer.run(fresh)
    before, after = (
        torch.load(one.path / "speech_tokenizer.pt", weights_only=False)["average"]
        for one in (settings, fresh)
    )
    for name, value in before.items():
        assert torch.equal(value, after[name]), name


@pytest.fixture
def _graphs_stay(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """A copy of `directory` keeps its graphs, whose export takes seconds, where it is written again."""
    monkeypatch.setattr(export, "export_onnx", lambda *arguments: None)


@pytest.mark.usefixtures("_graphs_stay")
def test_a_stage_goes_on_from_the_shipped_voice(
    directory: Path, settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fresh = replace(settings, folder=str(tmp_path / "fresh"))
    fresh.path.mkdir()
    for name in ("corpus", "features"):
        (fresh.path / name).symlink_to(settings.path / name)
    shipped.take(fresh, directory)
    encoder = tokenizer_through_flow.load_tokenizer(settings).encoder
    heard = features.read_features(settings, whisper=True)
    for one, tokens in zip(heard, speech_tokenizer.read_tokens(fresh), strict=True):
        with torch.inference_mode():
            assert tokens.tolist() == encoder(torch.from_numpy(one.heard.T)[None].float())[0].tolist()
    written = tokenizer_through_flow.load_tokenizer(fresh).encoder.state_dict()
    assert all(torch.equal(value, written[name]) for name, value in encoder.state_dict().items())
    again = tmp_path / "again"
    shutil.copytree(directory, again)
    export.write_checkpoint(fresh, again, {"low": hum(100.0, "").waveform}, {})
    for name in ("llm", "flow", "hift"):
        before = safetensors.torch.load_file(directory / f"{name}.safetensors")
        after = safetensors.torch.load_file(again / f"{name}.safetensors")
        for key, tensor in before.items():
            assert torch.equal(tensor, after[key]), key
    assert open_checkpoint(again).config.flow.cfm == open_checkpoint(directory).config.flow.cfm
    assert "mandarin_flow_distil.pt has not done the stage's 2 steps" in caplog.text
    with pytest.raises(FileNotFoundError, match="--guided DIRECTORY"):
        mandarin_flow.run(fresh)
    flow.run(fresh)
    assert torch.load(fresh.path / "flow.pt", weights_only=False)["step"] == 2


def test_the_flow_that_was_trained_last_is_exported(
    directory: Path, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    last, before = mandarin_flow_distil.load_flow(settings), folded(flow_enrolment.load_flow(settings))
    assert "flow_distil" not in caplog.text
    first = flow.build(settings)
    trainer.load_average(settings, flow.STAGE, first)
    written = open_checkpoint(directory).load_flow().state_dict()
    name = "estimator.out.weight"
    torch.testing.assert_close(written[name], last.state_dict()[name], atol=1e-3, rtol=1e-3)
    for other in (before, first, folded(flow_distil.load_flow(settings))):
        assert not torch.equal(last.state_dict()[name], other.state_dict()[name])
    cfm = open_checkpoint(directory).config.flow.cfm
    assert (cfm.num_steps, cfm.inference_cfg_rate) == (2, 0.0)


def test_a_shifted_voice_is_also_told_in_what_hibari_says(settings: Settings) -> None:
    found = parallel.read_parallel(settings, settings.shipped)
    utterances = zip(features.read_features(settings), speech_tokenizer.read_tokens(settings), strict=True)
    alders = [(one, tokens) for one, tokens in utterances if one.speaker == "alder"]
    assert {one.speaker for one, _ in found} == {"alder"}
    assert not parallel.read_parallel(settings, ("wren",))
    for (one, tokens), (same, own) in zip(found, alders, strict=True):
        assert one.text == same.text
        assert len(tokens) == len(own)
        assert not np.array_equal(tokens, own)


def test_a_taught_voice_is_one_that_is_shipped(settings: Settings) -> None:
    plan = replace(settings.flow_enrolment, taught=("wren", "iris"))
    with pytest.raises(SettingsError, match=r"taught .*iris.*expected voices with is_shipped: true"):
        flow_enrolment.run(replace(settings, flow_enrolment=plan))


@pytest.mark.usefixtures("_graphs_stay")
def test_english_alone_is_exported_unless_mandarin_is_shipped(
    directory: Path, settings: Settings, tmp_path: Path
) -> None:
    copy = shutil.copytree(directory, tmp_path / "checkpoint")
    alone = replace(settings, mandarin=replace(settings.mandarin, is_shipped=False))
    export.write_checkpoint(alone, copy, {"low": hum(100.0, "").waveform}, speak_prompts(alone))
    checkpoint = open_checkpoint(copy)
    assert checkpoint.traits.languages == ("en",)
    assert not checkpoint.traits.default_speakers
    assert [*checkpoint.load_speakers()] == ["low"]
    assert checkpoint.config.flow == flow_distil.config(settings)
    before = accents.load_language_model(settings).state_dict()
    for name, value in checkpoint.load_lm().state_dict().items():
        torch.testing.assert_close(value.float(), before[name], atol=1e-3, rtol=1e-3)


def test_the_mean_embedding_is_that_of_the_corpus(directory: Path, settings: Settings) -> None:
    mean = open_checkpoint(directory).traits.mean_embedding
    voices = [one.mean(0) for one in speaker_encoder.read_embeddings(settings).values()]
    torch.testing.assert_close(torch.tensor(mean), torch.stack(voices).mean(0), atol=1e-4, rtol=0)


def test_a_flow_needs_voices_that_are_not_shipped_to_learn_from(settings: Settings) -> None:
    with pytest.raises(SettingsError, match="every voice has is_shipped: true"):
        flow_enrolment.run(replace(settings, voices=settings.voices[:3]))


def test_a_tuned_embedding_is_read_more_clearly_and_all_else_stands_still(
    directory: Path, settings: Settings, tmp_path: Path
) -> None:
    copy = shutil.copytree(directory, tmp_path / "checkpoint")
    before = open_checkpoint(copy).load_speakers()
    speaker_embeddings.tune(settings, copy)
    after = open_checkpoint(copy).load_speakers()
    assert torch.equal(after["high"].embedding, before["high"].embedding)
    assert torch.equal(after["low"].prompt_mel, before["low"].prompt_mel)

    flow = open_checkpoint(copy).load_flow()
    assert isinstance(flow, Flow)
    reading = speaker_embeddings.Reading(flow, phone_recogniser.trained_recogniser(settings), before["low"])
    wrens = [
        (torch.from_numpy(tokens[:36].astype(np.int64)), torch.from_numpy(one.phones[:72].astype(np.int64)))
        for one, tokens in zip(
            features.read_features(settings), speech_tokenizer.read_tokens(settings), strict=True
        )
        if one.speaker == "wren"
    ]
    tokens, phones = (torch.stack(column) for column in zip(*wrens, strict=True))
    noise = reading.noise(len(tokens), 36, torch.Generator().manual_seed(0))
    then, now = (
        reading.losses(tokens, phones, one["low"].embedding, noise, kept_weight=0.0)
        for one in (before, after)
    )
    assert now["clear"] < then["clear"]
    assert then["moved"] < 1e-4 < now["moved"]
    for name in ("flow", "hift", "llm"):
        written = (copy / f"{name}.safetensors").read_bytes()
        assert written == (directory / f"{name}.safetensors").read_bytes()


def test_a_tuned_speaker_is_one_of_the_checkpoint(directory: Path, settings: Settings) -> None:
    plan = replace(settings.speaker_embeddings, tuned=("iris",))
    with pytest.raises(SettingsError, match=r"tuned .*iris.*expected speakers of .*low"):
        speaker_embeddings.tune(replace(settings, speaker_embeddings=plan), directory)


def test_english_rows_stand_still_while_units_are_learned(settings: Settings) -> None:
    trainer.seeded(settings, mandarin_language_model.STAGE)
    before = accents.load_language_model(settings)
    start = mandarin_language_model.build(settings, before).folded().state_dict()
    spoken = mandarin_language_model.load_language_model(settings)
    english = mandarin_language_model.without_units(spoken, before.config.qwen2.vocab_size).state_dict()
    learned = spoken.state_dict()
    for name, value in before.state_dict().items():
        if not name.startswith("decoder"):
            assert torch.equal(value, english[name]), name
    for name in ("speech_embedding.weight", "head.weight", "head.bias"):
        assert name in english
        for unit in (SILENCE, initial_id("n"), final_id("i", 3, 0, 1)):
            assert 0 < (learned[name][unit] - start[name][unit]).abs().max() < 0.1, (name, unit)
    unsaid = initial_id("f")  # so the start is the one that it was
    assert torch.equal(learned["speech_embedding.weight"][unsaid], start["speech_embedding.weight"][unsaid])
