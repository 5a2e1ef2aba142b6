import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import helper

from firstword.models.frontend.features import FrontendError
from firstword.models.frontend.prompt_reader import SpeakerEncoder, SpeechTokenizer
from tests.models.frontend.graphs import (
    FLOAT,
    INT32,
    INT64,
    Value,
    write_graph,
    write_speaker_encoder,
    write_speech_tokenizer,
)


def speech_tokenizer(path: Path, token_rate_hz: int = 25) -> SpeechTokenizer:
    return SpeechTokenizer(path, vocab_size=6561, token_rate_hz=token_rate_hz, num_threads=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graph.onnx"


@pytest.mark.parametrize(("frames_per_token", "token_rate_hz"), [(4, 25), (2, 50)])
@pytest.mark.parametrize("output_type", [INT32, INT64])
@pytest.mark.parametrize("num_frames", [100, 103, 3000])
def test_speech_tokens_come_at_the_models_rate(
    path: Path, frames_per_token: int, token_rate_hz: int, output_type: int, num_frames: int
) -> None:
    write_speech_tokenizer(path, frames_per_token, output_type=output_type)
    log_mel = torch.rand(128, num_frames) * 100

    tokens = speech_tokenizer(path, token_rate_hz).encode(log_mel)

    expected = (log_mel.mean(dim=0)[::frames_per_token] * 10).floor().long()
    assert tokens.dtype == torch.int64
    assert (tokens - expected).abs().max() <= 1  # the graph sums in another order


def test_inputs_go_by_position_whatever_their_names(path: Path) -> None:
    nodes = [
        helper.make_node("Concat", ["b"] * 25, ["many"], axis=0),
        helper.make_node("Identity", ["many"], ["c"]),
    ]
    write_graph(path, nodes, [("a", FLOAT, ["N", 128, "T"]), ("b", INT32, ["N"])], [("c", INT32, ["L"])], {})

    tokens = speech_tokenizer(path).encode(torch.zeros(128, 100))

    assert tokens.tolist() == [100] * 25  # the second input is the length


def test_a_recording_over_30_s_is_refused(path: Path) -> None:
    write_speech_tokenizer(path)

    with pytest.raises(FrontendError, match=r"30\.0 s.*takes 30 s"):
        speech_tokenizer(path).encode(torch.zeros(128, 3001))


@pytest.mark.parametrize("first_id", [-5, 6561])
def test_an_id_outside_the_vocabulary_is_refused(path: Path, first_id: int) -> None:
    write_speech_tokenizer(path, first_id=first_id)

    with pytest.raises(FrontendError, match=rf"graph\.onnx: speech token {first_id}, expected 0 to 6560"):
        speech_tokenizer(path).encode(torch.zeros(128, 100))


def test_a_tokenizer_of_another_rate_is_refused(path: Path) -> None:
    write_speech_tokenizer(path, frames_per_token=2)

    with pytest.raises(FrontendError, match=r"50 speech tokens from 100 frames, expected about 25"):
        speech_tokenizer(path).encode(torch.zeros(128, 100))


def test_the_embedding_is_the_graphs_output(path: Path) -> None:
    write_speaker_encoder(path)
    fbank = torch.rand(98, 80)

    embedding = SpeakerEncoder(path, num_threads=2).embed(fbank)

    expected = fbank.mean(dim=0)[torch.arange(192) % 80]
    torch.testing.assert_close(embedding, expected)


def test_an_embedding_of_another_size_is_refused(path: Path) -> None:
    write_speaker_encoder(path, num_values=512)

    with pytest.raises(FrontendError, match=r"outputs are output tensor\(float\) \[B, 512\]"):
        SpeakerEncoder(path, num_threads=1)


def test_an_embedding_whose_size_was_not_declared_is_refused(path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["fbank", "shape"], ["values"])]
    inputs: list[Value] = [("fbank", FLOAT, ["B", "T", 80])]
    write_graph(path, nodes, inputs, [("values", FLOAT, ["B", "D"])], {"shape": np.array([1, -1])})

    with pytest.raises(FrontendError, match=r"graph\.onnx: output of shape \(1, 7840\)"):
        SpeakerEncoder(path, num_threads=1).embed(torch.rand(98, 80))


def test_an_embedding_that_is_not_finite_is_refused(path: Path) -> None:
    write_speaker_encoder(path, scale=float("inf"))

    with pytest.raises(FrontendError, match="not finite"):
        SpeakerEncoder(path, num_threads=1).embed(torch.rand(98, 80))


class PretendedCuda:
    """In the place of `onnxruntime.InferenceSession`: a build for CUDA, whose provider may not start."""

    def __init__(self, session: Any, outcome: str) -> None:
        self._session, self._outcome = session, outcome
        self.asked: list[list[str]] = []

    def __call__(self, path: str, options: Any, providers: list[Any], enable_fallback: int) -> Any:
        names = [one if isinstance(one, str) else one[0] for one in providers]
        self.asked.append(names)
        if "CUDAExecutionProvider" in names and self._outcome == "no driver":
            raise RuntimeError("CUDA failure 35")
        session = self._session(path, options, providers=["CPUExecutionProvider"])
        if self._outcome == "runs":
            session.get_providers = lambda: names
        return session


@pytest.mark.parametrize("outcome", ["runs", "no driver", "no libraries"])
def test_graphs_run_on_a_gpu_where_onnx_runtime_can(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, outcome: str
) -> None:
    """And on the CPU, with a warning, where its provider does not start."""
    write_speaker_encoder(path)
    caplog.set_level(logging.WARNING)
    pretended = PretendedCuda(onnxruntime.InferenceSession, outcome)
    monkeypatch.setattr(onnxruntime, "InferenceSession", pretended)
    cpu, cuda = ["CPUExecutionProvider"], ["CUDAExecutionProvider", "CPUExecutionProvider"]

    SpeakerEncoder(path, 1, "cuda")
    assert pretended.asked == [cpu], "this build knows no CUDA"
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: cuda)
    SpeakerEncoder(path, 1, "cpu")
    assert pretended.asked == [cpu] * 2
    fbank = torch.rand(98, 80)
    embedding = SpeakerEncoder(path, 1, "cuda").embed(fbank)

    assert pretended.asked[2:] == ([cuda] if outcome == "runs" else [cuda, cpu])
    reason = {"runs": "", "no driver": "CUDA failure 35", "no libraries": "libraries are missing"}[outcome]
    assert reason in caplog.text
    assert ("graph.onnx runs on the CPU" in caplog.text) == (outcome != "runs")
    torch.testing.assert_close(embedding, fbank.mean(dim=0)[torch.arange(192) % 80])


def test_a_broken_file_says_nothing_of_a_gpu(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(b"no graph")
    cuda = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    pretended = PretendedCuda(onnxruntime.InferenceSession, "runs")
    monkeypatch.setattr(onnxruntime, "InferenceSession", pretended)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: cuda)
    with pytest.raises(FrontendError, match=r"graph\.onnx: not a readable ONNX file"):
        SpeakerEncoder(path, 1, "cuda")
    assert pretended.asked[0] == cuda
    assert not caplog.records


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(FrontendError, match=r"graph\.onnx: missing"):
        speech_tokenizer(path)


@pytest.mark.parametrize("kept_bytes", [0, 10, 200])
def test_a_broken_file_is_named(path: Path, kept_bytes: int) -> None:
    write_speech_tokenizer(path)
    path.write_bytes(path.read_bytes()[:kept_bytes])

    with pytest.raises(FrontendError, match=r"graph\.onnx: "):
        speech_tokenizer(path)


def test_a_file_that_is_not_onnx_is_named(path: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\n")

    with pytest.raises(FrontendError, match=r"graph\.onnx: not a readable ONNX file"):
        speech_tokenizer(path)


def test_the_two_files_exchanged_are_refused(path: Path, tmp_path: Path) -> None:
    write_speech_tokenizer(path)
    other = tmp_path / "campplus.onnx"
    write_speaker_encoder(other)

    with pytest.raises(FrontendError, match=r"campplus\.onnx: inputs are input tensor\(float\) \[B, T, 80\]"):
        speech_tokenizer(other)
    with pytest.raises(FrontendError, match=r"graph\.onnx: inputs are .* expected"):
        SpeakerEncoder(path, num_threads=1)


@pytest.mark.parametrize(
    ("mel", "lengths"),
    [
        ((FLOAT, [1, 80, "T"]), (INT32, [1])),
        ((FLOAT, [128, "T"]), (INT32, [1])),
        ((INT32, [1, 128, "T"]), (INT32, [1])),
        ((FLOAT, [1, 128, "T"]), (INT64, [1])),
    ],
)
def test_inputs_of_another_type_or_shape_are_refused(
    path: Path, mel: tuple[int, list[int | str]], lengths: tuple[int, list[int | str]]
) -> None:
    nodes = [helper.make_node("Cast", ["lengths"], ["ids"], to=INT32)]
    write_graph(path, nodes, [("mel", *mel), ("lengths", *lengths)], [("ids", INT32, [1])], {})

    with pytest.raises(FrontendError, match=r"expected tensor\(float\) \[1, 128, \?\], tensor\(int32\)"):
        speech_tokenizer(path)


def test_an_output_of_another_type_is_refused(path: Path) -> None:
    nodes = [helper.make_node("Identity", ["mel"], ["features"])]
    inputs: list[Value] = [("mel", FLOAT, [1, 128, "T"]), ("n", INT32, [1])]
    write_graph(path, nodes, inputs, [("features", FLOAT, [1, 128, "T"])], {})

    with pytest.raises(FrontendError, match=r"outputs are features tensor\(float\)"):
        speech_tokenizer(path)


def test_a_graph_that_fails_says_which(path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["n", "shape"], ["ids"])]
    inputs: list[Value] = [("mel", FLOAT, [1, 128, "T"]), ("n", INT32, ["N"])]
    write_graph(path, nodes, inputs, [("ids", INT32, ["A", "B"])], {"shape": np.array([3, 5])})

    with pytest.raises(FrontendError, match=r"graph\.onnx: the graph failed on inputs of shapes"):
        speech_tokenizer(path).encode(torch.zeros(128, 100))
