"""The formula, the recognizers, the server and tritonserver's model."""

import json
import sys
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

from firstword.finetune.errors import FinetuneError
from firstword.finetune.reward import recognizers
from firstword.finetune.reward.formula import (
    Measures,
    RewardWeights,
    duration_score,
    error_rate,
    expected_duration_s,
    reward_of,
    units,
)
from firstword.finetune.reward.recognizers import RATE_HZ, Samples, open_recognizer
from firstword.finetune.reward.rewarder import Rewarder, RewardItem, RewardSettings
from firstword.finetune.reward.server import RemoteRewarder, reward_app
from firstword.finetune.reward.triton import TOKEN_OFFSET, TritonPythonModel, write_model
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.flow.flow import Flow
from firstword.models.token2wav import Token2Wav
from firstword.models.token2wav_step import StepInput
from tests.support.checkpoints import small_checkpoint

TEXT = "hello there my friend"


def test_the_reward_is_the_documented_one() -> None:
    seconds = expected_duration_s(TEXT)
    assert reward_of(Measures(0.0, seconds, 1.0), TEXT) == pytest.approx(1.0)
    weights = RewardWeights(duration=0.5, likeness=0.25)
    found = reward_of(Measures(0.25, seconds, 0.4), TEXT, weights)
    assert found == pytest.approx((0.75 + 0.5 + 0.25 * 0.4) / 1.75)
    assert reward_of(Measures(0.25, seconds, None), TEXT, weights) == pytest.approx((0.75 + 0.5) / 1.5)
    assert reward_of(Measures(3.0, seconds, -0.5), TEXT, RewardWeights(0, 1)) == 0
    assert reward_of(Measures(0.0, seconds, 1.0, has_ended=False), TEXT) == 0
    assert reward_of(Measures(0.0, 0.0, None), TEXT) == 0


def test_a_duration_counts_within_bounds() -> None:
    seconds = expected_duration_s(TEXT)
    assert [duration_score(share * seconds, TEXT) for share in (0.6, 1.0, 1.6)] == [1, 1, 1]
    assert duration_score(0.2 * seconds, TEXT) == duration_score(4 * seconds, TEXT) == 0
    assert 0 < duration_score(0.4 * seconds, TEXT) < 1
    assert 0 < duration_score(2 * seconds, TEXT) < 1
    assert expected_duration_s("你好世界") == pytest.approx(1.0)


def test_errors_are_counted_without_case_and_punctuation() -> None:
    assert units("It's 你好, OK?", "words") == ["it's", "你", "好", "ok"]
    assert error_rate("Hello, there!", "hello THERE") == 0
    assert error_rate("one two three four", "one too three") == pytest.approx(2 / 4)
    assert error_rate("abcd", "abxd", "characters") == pytest.approx(1 / 4)
    assert error_rate("", "noise") == 1


class Echo:
    """Hears always the same."""

    def __init__(self, directory: Path | None = None, language: str = "en") -> None:
        self.lengths: list[int] = []

    def __call__(self, samples: Samples) -> str:
        assert samples.dtype == np.float32
        self.lengths.append(len(samples))
        return "hello there"


@pytest.fixture
def rewarder(monkeypatch: pytest.MonkeyPatch) -> Rewarder:
    monkeypatch.setitem(recognizers.OPENERS, "echo", Echo)
    return Rewarder(open_checkpoint(small_checkpoint("cosyvoice2")), RewardSettings("echo", recognizers=2))


def items(speaker: str = "") -> list[RewardItem]:
    return [
        RewardItem(tuple(range(40)), "Hello there.", speaker),
        RewardItem(tuple(range(100, 120)), "Good bye.", speaker),
        RewardItem((), "Nothing.", speaker, has_ended=False),
    ]


def test_tokens_are_spoken_recognized_and_scored(rewarder: Rewarder) -> None:
    first, second, silent = rewarder.score(items())
    assert first.transcript == "hello there"
    assert first.error_rate == 0
    assert first.duration_s == pytest.approx(40 / 25)
    assert first.likeness is not None
    assert second.error_rate == 1
    assert first.reward > second.reward > silent.reward == 0


def test_a_batch_is_spoken_as_each_alone(rewarder: Rewarder) -> None:
    checkpoint = open_checkpoint(small_checkpoint("cosyvoice2"))
    flow = checkpoint.load_flow()
    assert isinstance(flow, Flow)
    token2wav = Token2Wav(flow, checkpoint.load_hift())
    prompt = token2wav.compute_prompt_state(next(iter(checkpoint.load_speakers().values())))
    for item, samples in zip(items(), rewarder.speak(items()), strict=True):
        if item.tokens:
            (alone,) = token2wav.step([StepInput(token2wav.start(prompt), item.tokens, is_last=True)])
            np.testing.assert_allclose(samples, alone.numpy(), atol=1e-4)


def test_cosyvoice1_is_scored_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(recognizers.OPENERS, "echo", Echo)
    one = Rewarder(open_checkpoint(small_checkpoint("cosyvoice1")), RewardSettings("echo"))
    (score,) = one.score(items()[:1])
    assert score.duration_s > 0.5


def test_what_cannot_be_spoken_is_refused(rewarder: Rewarder) -> None:
    with pytest.raises(FinetuneError, match="no speaker 'nobody'; expected one of"):
        rewarder.score(items("nobody"))
    with pytest.raises(FinetuneError, match="speech token 99999"):
        rewarder.score([RewardItem((99999,), "Hello.")])


def test_the_server_gives_what_the_library_gives(rewarder: Rewarder) -> None:
    client = TestClient(reward_app(rewarder))
    assert client.get("/health").json() == {"status": "ok"}
    wanted = rewarder.score(items())
    for found, one in zip(RemoteRewarder(client).score(items()), wanted, strict=True):
        assert astuple(found) == pytest.approx(astuple(one), abs=1e-5)  # threads may sum in another order
    with pytest.raises(FinetuneError, match="no speaker"):
        RemoteRewarder(client).score(items("nobody"))
    assert client.post("/v1/rewards", json={"items": [{"token": [1]}]}).status_code == 422


def test_a_server_that_is_away_is_named() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    client = httpx.Client(transport=httpx.MockTransport(refuse), base_url="http://nowhere")
    with pytest.raises(FinetuneError, match="does not answer: refused"):
        RemoteRewarder(client).score(items())


def test_pocketsphinx_hears_nothing_in_noise_and_only_english() -> None:
    noise = np.random.default_rng(0).standard_normal(RATE_HZ).astype(np.float32) * 1e-3
    assert error_rate(TEXT, open_recognizer("pocketsphinx")(noise)) > 0.5
    with pytest.raises(FinetuneError, match="for zh take faster-whisper"):
        open_recognizer("pocketsphinx", "zh")


def test_an_unknown_recognizer_is_named() -> None:
    with pytest.raises(FinetuneError, match="expected pocketsphinx, faster-whisper, sensevoice"):
        open_recognizer("whisperer")
    with pytest.raises(FinetuneError, match="/nowhere: not a directory"):
        open_recognizer("faster-whisper:/nowhere")


def test_recognizers_of_other_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [SimpleNamespace(name="theirs", load=lambda: Echo)]
    monkeypatch.setattr(recognizers, "entry_points", lambda group: points)
    assert open_recognizer("theirs")(np.zeros(10, np.float32)) == "hello there"


def test_sensevoice_is_called_as_sherpa_onnx_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A contract test, as no weights are at hand: the stand-in takes what the package's API has alone."""
    asked: dict[str, Any] = {}

    class Stream:
        result = SimpleNamespace(text="hello")

        def accept_waveform(self, sample_rate: int, waveform: Samples) -> None:
            asked["heard"] = (sample_rate, len(waveform))

    class OfflineRecognizer:
        @classmethod
        def from_sense_voice(
            cls, model: str, tokens: str, num_threads: int = 1, language: str = "", use_itn: bool = False
        ) -> "OfflineRecognizer":
            asked.update(model=model, tokens=tokens, language=language, use_itn=use_itn)
            return cls()

        def create_stream(self) -> Stream:
            return Stream()

        def decode_stream(self, s: Stream) -> None:
            asked["decoded"] = "heard" in asked

    sherpa = ModuleType("sherpa_onnx")
    sherpa.OfflineRecognizer = OfflineRecognizer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sherpa_onnx", sherpa)
    with pytest.raises(FinetuneError, match=r"expected model\.onnx"):
        open_recognizer(f"sensevoice:{tmp_path}", "zh")
    (tmp_path / "model.int8.onnx").touch()
    (tmp_path / "tokens.txt").touch()
    assert open_recognizer(f"sensevoice:{tmp_path}", "zh")(np.zeros(160, np.float32)) == "hello"
    assert asked == {
        "model": str(tmp_path / "model.int8.onnx"),
        "tokens": str(tmp_path / "tokens.txt"),
        "language": "zh",
        "use_itn": False,
        "heard": (RATE_HZ, 160),
        "decoded": True,
    }


class FakeTensor:
    def __init__(self, name: str, array: Any) -> None:
        self.name, self._array = name, array

    def as_numpy(self) -> Any:
        return self._array


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """tritonserver's module, which only its own process has."""
    module = ModuleType("triton_python_backend_utils")

    class TritonError(Exception):
        INVALID_ARG = 3

        def __init__(self, message: str, code: int) -> None:
            super().__init__(message)
            self.code = code

    def response(output_tensors: Sequence[FakeTensor] = (), error: Any = None) -> SimpleNamespace:
        return SimpleNamespace(outputs={one.name: one.as_numpy() for one in output_tensors}, error=error)

    module.Tensor = FakeTensor  # type: ignore[attr-defined]
    module.TritonError = TritonError  # type: ignore[attr-defined]
    module.InferenceResponse = response  # type: ignore[attr-defined]
    module.get_input_tensor_by_name = lambda request, name: request.get(name)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", module)
    return module


def test_tritons_model_gives_rewards_and_transcripts(
    backend: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(recognizers.OPENERS, "echo", Echo)
    settings = RewardSettings("echo")
    checkpoint = small_checkpoint("cosyvoice2")
    folder = write_model(tmp_path, checkpoint, settings)
    written = (folder / "config.pbtxt").read_text().split("string_value: ")[1].split("\n")[0]
    value = json.JSONDecoder().raw_decode(written)[0]
    model = TritonPythonModel()
    config = {"parameters": {"settings": {"string_value": value}}}
    model.initialize({"model_config": json.dumps(config)})

    def request(tokens: list[int], text: str, **more: Any) -> dict[str, FakeTensor]:
        given = {
            "TOKENS": np.array([tokens], np.int32),
            "GT_TEXT": np.array([[text.encode()]], np.object_),
            **more,
        }
        return {name: FakeTensor(name, array) for name, array in given.items()}

    first, second = items()[:2]
    offset = [token + TOKEN_OFFSET for token in first.tokens]
    padded = request([*second.tokens, 0, 0], second.text, TOKEN_LENS=np.array([[len(second.tokens)]]))
    responses = model.execute([request(offset, first.text), padded])
    wanted = Rewarder(open_checkpoint(checkpoint), settings).score([first, second])
    rewards = [float(one.outputs["REWARDS"][0, 0]) for one in responses]
    assert rewards == pytest.approx([one.reward for one in wanted], abs=1e-3)
    assert responses[0].outputs["TRANSCRIPTS"].tolist() == [[b"hello there"]]
    (refused,) = model.execute([request([1, 2], "Hi.", SPEAKER=np.array([[b"nobody"]], np.object_))])
    assert "no speaker" in str(refused.error)
