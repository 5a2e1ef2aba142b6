from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from firstword.models.config import (
    CFMConfig,
    DiTConfig,
    DiTFlowConfig,
    HiFTConfig,
    MelConfig,
    ModelConfig,
    Qwen2Config,
    Qwen2LMConfig,
)
from firstword.models.frontend.features import FrontendError, RecordingError
from firstword.models.frontend.prompt_reader import (
    PromptReader,
    SpeakerEncoder,
    SpeechTokenizer,
    align_prompt,
)
from firstword.models.frontend.speaker import SpeakerFeatures
from tests.models.frontend.graphs import write_speaker_encoder, write_speech_tokenizer

MEL_24K = MelConfig(sample_rate_hz=24_000, n_fft=1920, hop_samples=480, win_samples=1920)
MEL_22K = MelConfig(sample_rate_hz=22_050, n_fft=1024, hop_samples=256, win_samples=1024)


def open_reader(folder: Path, token_rate_hz: int = 25, mel: MelConfig = MEL_24K) -> PromptReader:
    write_speech_tokenizer(folder / "tokens.onnx", 100 // token_rate_hz)
    write_speaker_encoder(folder / "campplus.onnx")
    tokenizer = SpeechTokenizer(folder / "tokens.onnx", 6561, token_rate_hz, num_threads=1)
    return PromptReader(tokenizer, SpeakerEncoder(folder / "campplus.onnx", num_threads=1), mel)


@pytest.fixture
def reader(tmp_path: Path) -> PromptReader:
    return open_reader(tmp_path)


def voice(duration_s: float, rate_hz: int) -> npt.NDArray[np.float32]:
    times_s = np.arange(round(duration_s * rate_hz)) / rate_hz
    numbers = np.arange(1, 20)[:, None]
    harmonics = np.sin(2 * np.pi * 150 * numbers * times_s) / numbers
    samples: npt.NDArray[np.float32] = (0.1 * harmonics.sum(axis=0)).astype(np.float32)
    return samples


@pytest.mark.parametrize("rate_hz", [16_000, 22_050, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("duration_s", [1.0, 1.337, 2.71])
def test_a_prompt_has_two_frames_for_each_token(
    reader: PromptReader, rate_hz: int, duration_s: float
) -> None:
    speaker = reader.read_speaker(voice(duration_s, rate_hz), rate_hz, "what it says")

    assert speaker.prompt_text == "what it says"
    assert speaker.prompt_mel.shape == (2 * len(speaker.prompt_tokens), 80)
    assert len(speaker.prompt_tokens) == pytest.approx(25 * duration_s, abs=1)
    assert speaker.embedding.shape == (192,)
    types = (speaker.prompt_tokens.dtype, speaker.prompt_mel.dtype, speaker.embedding.dtype)
    assert types == (torch.int64, torch.float32, torch.float32)


def test_the_first_family_hears_the_prompt_at_its_own_rate_and_keeps_both_lengths(tmp_path: Path) -> None:
    speaker = open_reader(tmp_path, 50, MEL_22K).read_speaker(voice(2.0, 44_100), 44_100)

    assert len(speaker.prompt_tokens) == 100
    assert len(speaker.prompt_mel) == 2 * 22_050 // 256  # not 2 * 24_000 // 256


def test_recordings_read_side_by_side_are_those_read_one_by_one(reader: PromptReader) -> None:
    recordings = [(voice(1.0 + 0.3 * number, rate), rate) for number, rate in enumerate([16_000, 24_000] * 4)]
    alone = [reader.read_speaker(*one) for one in recordings]

    with ThreadPoolExecutor(4) as threads:
        together = [*threads.map(lambda one: reader.read_speaker(*one), recordings)]

    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one.prompt_tokens, other.prompt_tokens)
        assert torch.equal(one.prompt_mel, other.prompt_mel)
        assert torch.equal(one.embedding, other.embedding)


def test_embedding_needs_no_speech_tokens(reader: PromptReader, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = voice(1.5, 24_000)
    expected = reader.read_speaker(samples, 24_000).embedding
    monkeypatch.setattr(SpeechTokenizer, "encode", None)

    assert torch.equal(reader.read_embedding(samples, 24_000), expected)
    with pytest.raises(RecordingError, match=r"lasts 0\.50 s without the silence"):
        reader.read_embedding(voice(0.5, 24_000), 24_000)


@pytest.mark.parametrize(
    ("num_tokens", "num_frames", "length"), [(10, 20, 10), (10, 21, 10), (10, 19, 9), (9, 25, 9), (3, 1, 0)]
)
def test_prompts_are_cut_to_two_frames_a_token(num_tokens: int, num_frames: int, length: int) -> None:
    mel = torch.arange(num_frames)[:, None].expand(-1, 80).float()

    tokens, cut = align_prompt(torch.arange(num_tokens), mel)

    assert tokens.tolist() == list(range(length))
    assert cut[:, 0].tolist() == list(range(2 * length))


def test_silence_around_the_prompt_does_not_count(reader: PromptReader) -> None:
    pause = np.zeros(16_000 * 20, np.float32)
    samples = np.concatenate([pause, voice(2.0, 16_000), pause])

    speaker = reader.read_speaker(samples, 16_000)

    assert len(speaker.prompt_tokens) == pytest.approx(25 * 2.2, abs=1)


def test_stereo_and_mono_of_the_same_sound_are_one_speaker(reader: PromptReader) -> None:
    samples = voice(1.5, 24_000)

    mono = reader.read_speaker(samples, 24_000)
    stereo = reader.read_speaker(np.stack([samples, samples]), 24_000)

    assert_same_speaker(mono, stereo)


def test_source_tokens_keep_the_pauses(reader: PromptReader) -> None:
    samples = np.concatenate([np.zeros(16_000, np.float32), voice(1.0, 16_000)])

    tokens = reader.read_source_tokens(samples, 16_000)

    assert (tokens.shape, tokens.dtype) == ((50,), torch.int64)


@pytest.mark.slow
def test_exactly_30_s_are_taken(reader: PromptReader) -> None:
    assert len(reader.read_speaker(voice(30.0, 44_100), 44_100).prompt_tokens) == 750


@pytest.mark.parametrize(("duration_s", "found"), [(0.8, "0.80 s"), (30.2, "30.20 s")])
def test_a_recording_too_short_or_too_long_is_refused(
    reader: PromptReader, duration_s: float, found: str
) -> None:
    with pytest.raises(RecordingError, match=f"{found} without the silence at its ends; expected 1 to 30 s"):
        reader.read_speaker(voice(duration_s, 16_000), 16_000)
    with pytest.raises(RecordingError, match=f"{found}; expected 1 to 30 s"):
        reader.read_source_tokens(voice(duration_s, 16_000), 16_000)


def test_a_second_of_silence_with_a_click_is_too_short(reader: PromptReader) -> None:
    samples = np.zeros(48_000, np.float32)
    samples[24_000:24_800] = voice(0.05, 16_000)

    with pytest.raises(RecordingError, match="without the silence"):
        reader.read_speaker(samples, 16_000)


def test_a_silent_source_is_refused(reader: PromptReader) -> None:
    with pytest.raises(RecordingError, match="silent"):
        reader.read_source_tokens(np.zeros(32_000, np.float32), 16_000)


def test_the_shortest_prompt_can_be_chosen(tmp_path: Path) -> None:
    open_reader(tmp_path)
    tokenizer = SpeechTokenizer(tmp_path / "tokens.onnx", 6561, 25, num_threads=1)
    encoder = SpeakerEncoder(tmp_path / "campplus.onnx", num_threads=1)
    reader = PromptReader(tokenizer, encoder, MEL_24K, min_duration_s=0.3)

    assert len(reader.read_speaker(voice(0.4, 16_000), 16_000).prompt_tokens) == 10


def model_config() -> ModelConfig:
    flow = DiTFlowConfig(6561, 4, DiTConfig(4, 1, 1, 4, 2, 50), CFMConfig())
    lm = Qwen2LMConfig(6561, Qwen2Config(300, 4, 4, 1, 1, 1), has_cosyvoice3_vocabulary=True)
    hift = HiFTConfig(24_000, 4, (8, 5, 3), (16, 11, 7), (3,), ((1,),), (7,), ((1,),), 4, is_causal=True)
    return ModelConfig("cosyvoice3", 24_000, 25, lm, flow, hift, MEL_24K)


def test_a_model_directory_brings_its_own_extractors(tmp_path: Path) -> None:
    write_speech_tokenizer(tmp_path / "speech_tokenizer_v3.onnx")
    write_speaker_encoder(tmp_path / "campplus.onnx")

    reader = PromptReader.from_folder(tmp_path, model_config(), num_threads=1)

    assert len(reader.read_speaker(voice(2.0, 24_000), 24_000).prompt_tokens) == 50


@pytest.mark.parametrize("name", ["speech_tokenizer_v3.onnx", "campplus.onnx"])
def test_a_file_the_model_directory_lacks_is_named(tmp_path: Path, name: str) -> None:
    write_speech_tokenizer(tmp_path / "speech_tokenizer_v3.onnx")
    write_speaker_encoder(tmp_path / "campplus.onnx")
    (tmp_path / name).unlink()

    with pytest.raises(FrontendError, match=f"{name}: missing"):
        PromptReader.from_folder(tmp_path, model_config(), num_threads=1)


def test_an_error_of_the_prompt_is_an_error_of_the_front_end() -> None:
    assert issubclass(RecordingError, FrontendError)
    assert issubclass(FrontendError, ValueError)


def assert_same_speaker(a: SpeakerFeatures, b: SpeakerFeatures) -> None:
    assert a.prompt_tokens.equal(b.prompt_tokens)
    torch.testing.assert_close(a.prompt_mel, b.prompt_mel)
    torch.testing.assert_close(a.embedding, b.embedding)
