"""Which engine runs the language model, and what is said where the one asked for cannot."""

import pytest

from firstword.app.engine import backend
from firstword.app.engine.backend import BackendError, Device, choose_backend
from firstword.app.options import BackendChoice
from firstword.models.config import Family


@pytest.mark.parametrize(
    ("asked", "installed", "device", "family", "name", "reason"),
    [
        ("torch", "cuda", "cuda", "cosyvoice2", "torch", "as set"),
        ("vllm", "cuda", "cuda", "cosyvoice3", "vllm", "as set"),
        ("vllm", "cpu", "cpu", "cosyvoice2", "vllm", "as set"),
        ("auto", "cuda", "cuda", "cosyvoice2", "vllm", "there is a GPU"),
        ("auto", "cuda", "cuda", "cosyvoice1", "torch", "CosyVoice 2 and 3 only"),
        ("auto", None, "cuda", "cosyvoice2", "torch", "pip install 'firstword[vllm]'"),
        ("auto", "cpu", "cuda", "cosyvoice2", "torch", "pip install 'firstword[vllm]'"),
        ("auto", "cuda", "cpu", "cosyvoice2", "torch", "on the CPU"),
    ],
)
def test_backend_is_chosen_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
    asked: BackendChoice,
    installed: Device | None,
    device: Device,
    family: Family,
    name: str,
    reason: str,
) -> None:
    monkeypatch.setattr(backend, "vllm_build", lambda: installed)
    chosen = choose_backend(asked, device, family)
    assert chosen.name == name
    assert reason in chosen.reason


@pytest.mark.parametrize(
    ("installed", "device", "family", "said"),
    [
        (None, "cpu", "cosyvoice2", r"not installed; pip install 'firstword\[vllm\]'.*make setup-vllm"),
        ("cpu", "cuda", "cosyvoice2", "built for cpu; set FIRSTWORD_DEVICE=cpu"),
        ("cuda", "cpu", "cosyvoice2", "built for cuda; set FIRSTWORD_DEVICE=cuda"),
        ("cpu", "cpu", "cosyvoice1", "FIRSTWORD_BACKEND=torch"),
    ],
)
def test_vllm_that_cannot_run_here_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, installed: Device | None, device: Device, family: Family, said: str
) -> None:
    monkeypatch.setattr(backend, "vllm_build", lambda: installed)
    with pytest.raises(BackendError, match=said) as raised:
        choose_backend("vllm", device, family)
    assert "\n" not in str(raised.value)
