"""`firstword doctor`: each thing that can be wrong, and what it says about it."""

import socket
import sys
from pathlib import Path

import pytest
import torch

from firstword.app import database
from firstword.app.commands import doctor as checks
from firstword.app.settings import load_settings
from firstword.bench.random_checkpoint import WeightsFormat
from firstword.models.config import Family
from tests.commands.typed import run
from tests.support.checkpoints import FAMILIES, FORMATS, copied_checkpoint, small_checkpoint
from tests.support.damages import DAMAGES


@pytest.fixture(autouse=True)
def _free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTWORD_PORT", "0")


def test_doctor_finds_nothing_wrong_here() -> None:
    result = run("doctor")
    assert result.exit_code == 0, result.output
    assert "WRONG" not in result.output
    assert "ok    checkpoint: cosyvoice2 in " in result.output
    assert "ok    keys: none asked for, and only this machine can call" in result.output


@pytest.mark.parametrize(
    ("variable", "value", "wrong", "fix"),
    [
        ("FIRSTWORD_CHECKPOINT", "nowhere", "checkpoint", "set FIRSTWORD_CHECKPOINT to a model directory"),
        ("FIRSTWORD_DATA_DIR", "file", "data directory", "set FIRSTWORD_DATA_DIR to a directory; /"),
        ("FIRSTWORD_API_KEYS", "s3cret", "keys", "set FIRSTWORD_API_KEYS=name:key,other:key"),
        ("FIRSTWORD_API_KEYS_FILE", "keys.toml", "keys", "change the file, or set FIRSTWORD_API_KEYS_FILE"),
        ("FIRSTWORD_PROT", "1", "settings", "firstword settings"),
    ],
)
def test_doctor_says_what_is_wrong_and_what_fixes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str, wrong: str, fix: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "keys.toml").write_text('[anna]\nkey = "s3cret"\n')
    monkeypatch.setenv(variable, value)
    result = run("doctor")
    assert result.exit_code == 1
    assert result.output.count("WRONG") == 1
    assert f"WRONG {wrong}: " in result.output
    assert f"fix: {fix}" in result.output
    assert "s3cret" not in result.output


def test_a_backend_that_is_not_installed_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstword.models.runtimes.vllm.runtime.vllm_build", lambda: None)
    monkeypatch.setenv("FIRSTWORD_BACKEND", "vllm")
    result = run("doctor")
    assert result.exit_code == 1
    assert "WRONG backend: FIRSTWORD_BACKEND is vllm, but vLLM is not installed" in result.output
    assert "fix: set FIRSTWORD_BACKEND=torch" in result.output


def test_tensorrt_llm_is_installed_or_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTWORD_BACKEND", "trtllm")
    assert "WRONG backend: FIRSTWORD_BACKEND is trtllm, but TensorRT-LLM is not inst" in run("doctor").output
    monkeypatch.setenv("FIRSTWORD_TRTLLM_URL", "http://gpu:8100")
    assert "ok    backend: trtllm runs the language model: as set" in run("doctor").output


def test_a_flow_backend_that_cannot_run_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "ok    flow backend: onnx runs flow and vocoder" in run("doctor").output
    monkeypatch.setenv("FIRSTWORD_FLOW_BACKEND", "tensorrt")
    monkeypatch.setenv("FIRSTWORD_DEVICE", "cpu")
    result = run("doctor")
    assert result.exit_code == 1
    assert (
        "WRONG flow backend: FIRSTWORD_FLOW_BACKEND is tensorrt, which needs an NVIDIA GPU" in result.output
    )


def test_doctor_says_which_backend_runs_and_why() -> None:
    assert "ok    backend: torch runs the language model: the networks run on the CPU" in run("doctor").output


def test_doctor_says_of_each_runtime_whether_it_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTWORD_DEVICE", "cpu")
    output = run("doctor").output
    assert "ok    runtime onnx: can run lm, flow, vocoder\n" in output
    assert (
        "runtime exports: can run lm, flow, vocoder, and is not taken: FIRSTWORD_EXPORTS names no" in output
    )
    said = "FIRSTWORD_FLOW_BACKEND is tensorrt, which needs an NVIDIA GPU"
    assert f"runtime tensorrt: cannot run flow, vocoder here; asked for, it says: {said}" in output


def test_doctor_looks_at_the_checkpoint_it_is_given(tmp_path: Path) -> None:
    result = run("doctor", "--checkpoint", str(tmp_path / "empty"))
    assert result.exit_code == 1
    assert "WRONG checkpoint: " in result.output


@pytest.mark.parametrize(
    "name",
    [
        "spk2info.pt of garbage",
        "a safetensors file of an impossible shape",
        "an ONNX file of garbage",
        "ONNX with weights of another file",
        "a tensor missing",
    ],
)
def test_doctor_refuses_the_files_that_loading_refuses(tmp_path: Path, name: str) -> None:
    directory = copied_checkpoint(tmp_path)
    damage, message = DAMAGES[name]
    damage(directory)
    found = {finding.subject: finding for finding in checks.findings(load_settings(checkpoint=directory))}
    assert found["checkpoint"].state == "wrong"
    assert message in found["checkpoint"].message


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("weights_format", FORMATS)
def test_whole_checkpoint_is_ok(family: Family, weights_format: WeightsFormat) -> None:
    settings = load_settings(checkpoint=small_checkpoint(family, weights_format))
    finding = checks.check_checkpoint(settings, is_whole=True)
    assert finding.state == "ok", finding


def test_port_that_is_taken_is_wrong() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        finding = checks.check_port(load_settings(port=port))
    assert finding.state == "wrong"
    assert f"127.0.0.1:{port} cannot be listened on: Address already in use" in finding.message


def test_metrics_port_that_is_taken_is_wrong() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        found = {finding.subject: finding for finding in checks.findings(load_settings(metrics_port=port))}
    assert found["metrics port"].state == "wrong"
    assert found["port"].state == "ok"
    assert f"127.0.0.1:{port} cannot be listened on: Address already in use" in found["metrics port"].message


def test_one_port_for_speech_and_for_metrics_is_wrong() -> None:
    finding = checks.check_metrics_port(load_settings(port=9000, metrics_port=9000))
    assert (finding.state, "FIRSTWORD_PORT" in finding.message) == ("wrong", True)
    assert checks.check_metrics_port(load_settings(port=9000)).state == "ok"


def test_gpu_that_is_not_there_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert checks.check_device(load_settings(device="cuda")).state == "wrong"
    assert checks.check_device(load_settings(device="auto")).state == "ok"


def test_missing_torch_is_wrong_and_what_needs_it_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found = {finding.subject: finding for finding in checks.findings(load_settings())}
    assert found["torch"].state == "wrong"
    assert "device" not in found


def test_old_python_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert checks.check_python(load_settings()).state == "wrong"


@pytest.mark.parametrize(
    ("host", "keys", "state"),
    [
        ("0.0.0.0", "", "note"),
        ("::", "", "note"),
        ("speech.example", "", "note"),
        ("0.0.0.0", "anna:s3cret", "ok"),
        ("127.0.0.2", "", "ok"),
        ("::1", "", "ok"),
        ("localhost", "", "ok"),
    ],
)
def test_server_open_to_the_network_is_noted(host: str, keys: str, state: str) -> None:
    finding = checks.check_keys(load_settings(host=host, api_keys=keys))
    assert finding.state == state
    assert "s3cret" not in f"{finding}"


def test_keys_of_the_file_are_counted(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text('a = { key = ["s3cret", "next"], scopes = ["speak"] }')
    settings = load_settings(host="0.0.0.0", api_keys="b:other", api_keys_file="keys.toml")
    assert checks.check_keys(settings) == checks.Finding("keys", "ok", "3 of them")


def test_a_data_directory_on_a_network_file_system_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"40 22 0:40 / {tmp_path} rw,relatime - nfs4 server:/export rw\n")
    monkeypatch.setattr(database, "MOUNTS", mounts)
    found = checks.check_data_dir(load_settings(data_dir=tmp_path / "data"))
    assert found.state == "wrong"
    assert "network file system (nfs4)" in found.message
    store = "postgresql://db/firstword"
    assert checks.check_data_dir(load_settings(data_dir=tmp_path / "data", store=store)).state == "ok"


def test_looking_at_a_data_directory_leaves_nothing_behind(tmp_path: Path) -> None:
    assert checks.check_data_dir(load_settings(data_dir=tmp_path / "new" / "data")).state == "ok"
    assert checks.check_data_dir(load_settings(data_dir=tmp_path)).state == "ok"
    assert list(tmp_path.iterdir()) == []


def test_grpc_without_its_extra_or_with_a_taken_port_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.check_grpc(load_settings()).message.startswith("not served")
    assert checks.check_grpc(load_settings(port=9000, grpc_port=9001)).state == "ok"
    assert checks.check_grpc(load_settings(port=9000, grpc_port=9000)).state == "wrong"
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    finding = checks.check_grpc(load_settings(port=9000, grpc_port=9001))
    assert (finding.state, finding.fix) == (
        "wrong",
        "pip install 'firstword[grpc]', or set FIRSTWORD_GRPC_PORT to nothing",
    )
    assert checks.check_grpc in checks.ESSENTIAL, "`serve` refuses it before it loads anything"
