"""What of a checkpoint's networks runs how, on this machine's CPU."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from firstword.app.budget import DEFAULT_LIMITS, Work
from firstword.app.engine import loading
from firstword.app.engine.backend import BackendError, choose
from firstword.app.engine.loading import load_networks
from firstword.app.engine.precision import find_precision
from firstword.app.engine.runtimes import all_runtimes
from firstword.app.engine.text_frontend import text_frontend
from firstword.app.errors import InvalidRequest
from firstword.app.options import LMEngineOptions, NetworkOptions, OtherLanguagesChoice, PrecisionChoice
from firstword.app.text.marks import Reading
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.checkpoint.traits import LANGUAGES
from firstword.models.flow.unet import CausalUNet
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.runtimes.interface import Machine
from firstword.models.runtimes.onnx.estimator import OnnxEstimator
from firstword.models.runtimes.onnx.qwen2 import OnnxQwen2LM
from firstword.models.runtimes.tensorrt import engines, runtime
from firstword.models.runtimes.tensorrt.library import Library
from firstword.models.token2wav import Token2Wav
from firstword.models.token2wav_step import StepInput
from tests.support.checkpoints import small_checkpoint


@pytest.mark.parametrize(
    ("asked", "device", "found"),
    [
        ("auto", "cpu", "int8"),
        ("bfloat16", "cpu", "bfloat16"),
        ("int8", "cpu", "int8"),
        ("int4", "cpu", "int4"),
    ],
)
def test_precision(asked: str, device: str, found: str) -> None:
    assert find_precision(asked, device) == found  # type: ignore[arg-type]


@pytest.mark.parametrize(("has_bfloat16", "found"), [(True, "bfloat16"), (False, "float16")])
def test_half_precision_of_a_gpu(monkeypatch: pytest.MonkeyPatch, has_bfloat16: bool, found: str) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation: has_bfloat16)
    assert find_precision("auto", "cuda") == found
    assert find_precision("float32", "cuda") == "float32"


def test_float16_and_cuda_graphs_are_for_a_gpu() -> None:
    with pytest.raises(
        ValueError, match="float16 was asked for on cpu; it is for a GPU: use int8 or float32"
    ):
        find_precision("float16", "cpu")
    with pytest.raises(ValueError, match="CUDA_GRAPHS is on, which needs a GPU, but the device is cpu"):
        load_networks(NetworkOptions(device="cpu", cuda_graphs=True))


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_few_bits_are_for_the_cpu(precision: PrecisionChoice) -> None:
    expected = f"{precision} was asked for on cuda; it is for the CPU: use bfloat16 or float32"
    with pytest.raises(ValueError, match=expected):
        find_precision(precision, "cuda")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "uses_onnx"), [("int8", True), ("int4", True), ("float32", True), ("bfloat16", False)]
)
def test_a_cpu_runs_graphs_but_in_bfloat16(precision: str, uses_onnx: bool) -> None:
    networks = load_networks(
        NetworkOptions(small_checkpoint("cosyvoice2"), device="cpu", precision=precision)  # type: ignore[arg-type]
    )
    assert isinstance(networks.lm, OnnxQwen2LM if uses_onnx else Qwen2LM)
    assert isinstance(networks.token2wav, Token2Wav)
    assert isinstance(networks.token2wav._flow._estimator, OnnxEstimator if uses_onnx else CausalUNet)


@pytest.mark.slow
def test_flow_and_vocoder_can_run_in_torch_alone() -> None:
    networks = load_networks(
        NetworkOptions(small_checkpoint("cosyvoice2"), device="cpu", flow_backend="torch")
    )
    assert isinstance(networks.lm, OnnxQwen2LM)
    assert isinstance(networks.token2wav, Token2Wav)
    assert isinstance(networks.token2wav._flow._estimator, CausalUNet)


@pytest.mark.slow
def test_the_solver_can_have_fewer_steps() -> None:
    directory = small_checkpoint("cosyvoice2")
    state_bytes = []
    for steps in (0, 5):
        networks = load_networks(NetworkOptions(directory, device="cpu", solver_steps=steps))
        assert isinstance(networks.token2wav, Token2Wav)
        speaker = next(iter(networks.checkpoint.load_speakers().values()))
        state = networks.token2wav.start(networks.token2wav.compute_prompt_state(speaker))
        [sound] = networks.token2wav.step([StepInput(state, list(range(40)), is_last=True)])
        assert len(sound) == 40 * networks.token2wav.samples_per_token
        state_bytes.append(networks.token2wav.bytes_per_chunk)
    assert 0.45 < state_bytes[1] / state_bytes[0] < 0.6, "keys and values of five steps instead of ten"


@pytest.mark.slow
def test_engines_that_are_not_there_are_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The GPU and the library are only said to be there."""
    monkeypatch.setattr(runtime, "installed_modules", lambda: ["tensorrt"])
    monkeypatch.setattr(
        engines, "find_library", lambda: Library(SimpleNamespace(__version__="10.9"), "tensorrt")
    )
    machine, checkpoint = Machine("cuda", data_dir=tmp_path), open_checkpoint(small_checkpoint("cosyvoice2"))
    with pytest.raises(
        BackendError, match=r"^FIRSTWORD_FLOW_BACKEND is tensorrt, but .* build them: firstword tensor"
    ):
        choose("flow", "tensorrt", all_runtimes(NetworkOptions(), LMEngineOptions()), machine, checkpoint)


@pytest.mark.parametrize(
    ("asked", "device", "cores", "found"),
    [(0, "cpu", 2, 2), (0, "cpu", 64, loading.MAX_WORKERS), (0, "cuda", 64, 1), (3, "cpu", 2, 3)],
)
def test_workers(monkeypatch: pytest.MonkeyPatch, asked: int, device: str, cores: int, found: int) -> None:
    monkeypatch.setattr(loading, "_num_cores", lambda: cores)
    assert loading.choose_num_workers(asked, device) == found


@pytest.mark.parametrize(("device", "cores", "found"), [("cpu", 2, 1), ("cpu", 12, 3), ("cuda", 2, 4)])
def test_recordings_at_once(monkeypatch: pytest.MonkeyPatch, device: str, cores: int, found: int) -> None:
    monkeypatch.setattr(loading, "_num_cores", lambda: cores)
    assert loading.choose_num_readers(device) == found


@pytest.mark.parametrize(
    ("languages", "choice", "refuses"),
    [
        (("en",), "refuse", True),
        (("en",), "warn", False),
        (LANGUAGES["cosyvoice2"], "refuse", False),
    ],
)
def test_a_checkpoint_refuses_other_languages_where_it_lists_its_own(
    languages: tuple[str, ...], choice: OtherLanguagesChoice, refuses: bool
) -> None:
    checkpoint = open_checkpoint(small_checkpoint("cosyvoice2"))
    tokenizer = checkpoint.load_tokenizer()
    checkpoint = replace(checkpoint, traits=replace(checkpoint.traits, languages=languages))
    warnings: list[str] = []
    text = text_frontend(tokenizer, checkpoint, other_languages=choice)
    feed = text.open("whole", None, Reading(), warnings, Work(DEFAULT_LIMITS))
    with pytest.raises(InvalidRequest, match="Russian") if refuses else nullcontext():
        feed.read("Сегодня хорошая погода.", flushes=True)
    assert len(warnings) == 1
