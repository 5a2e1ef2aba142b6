"""Runs that go on, processes that share a batch, disks that fill."""

import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from firstword.finetune import trainer as trainer_module
from firstword.finetune.errors import FinetuneError
from firstword.finetune.task import Task
from firstword.finetune.trainer import STATE_FILE, Trainer, TrainSettings, recompute_activations
from tests.finetune.runs import SETTINGS, fitted, flow_task, lm_task, parameters, plan_of
from tests.support.checkpoints import small_checkpoint
from tests.support.training_data import prepared

TASKS = pytest.mark.parametrize("make", [lm_task, flow_task], ids=["llm", "flow"])


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@TASKS
def test_a_resumed_run_equals_an_uninterrupted_one(make: Callable[[Path], Task], tmp_path: Path) -> None:
    data = prepared("cosyvoice2")
    whole = make(data)
    _, reports = fitted(whole, tmp_path / "whole")
    fitted(make(data), tmp_path / "cut", stop=4)  # saved at 3, then lost
    resumed = make(data)
    trainer, rest = fitted(resumed, tmp_path / "cut")
    assert [report.step for report in rest] == [4, 5, 6]
    assert [report.values for report in rest] == [report.values for report in reports[3:]]
    assert torch.equal(parameters(resumed), parameters(whole))
    assert trainer.averaged().keys() == dict(resumed.network.named_parameters()).keys()


@TASKS
def test_training_lowers_the_loss(make: Callable[[Path], Task], tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=16, lr=3e-3, save_every=100)
    _, reports = fitted(make(prepared("cosyvoice2")), tmp_path, settings, size=10_000)
    losses = [report.values["loss"] for report in reports]
    assert sum(losses[-3:]) < 0.97 * sum(losses[:3])


def test_a_run_with_other_settings_is_refused(tmp_path: Path) -> None:
    data = prepared("cosyvoice2")
    fitted(lm_task(data), tmp_path, stop=1)
    with pytest.raises(FinetuneError, match=r"other settings \(lr\)"):
        Trainer(lm_task(data), tmp_path, replace(SETTINGS, lr=1.0))


def test_a_run_of_another_version_goes_on_or_is_refused_in_words(tmp_path: Path) -> None:
    data, path = prepared("cosyvoice2"), tmp_path / "settings.json"
    fitted(lm_task(data), tmp_path, stop=3)
    written = json.loads(path.read_text())

    def goes_on(settings: dict[str, Any], now: TrainSettings = SETTINGS, asked: Any = None) -> bool:
        path.write_text(json.dumps(settings))
        return Trainer(lm_task(data), tmp_path, now, asked).step == 3

    older = {name: value for name, value in written.items() if name != "schedule"}
    assert goes_on(older)
    with pytest.raises(FinetuneError, match=r"other settings \(schedule\)"):
        goes_on(older, replace(SETTINGS, schedule="cosine"))
    for before, asked in ((written | {"dropout": 0.1}, {}), (written, {"dropout": 0.1})):
        with pytest.raises(
            FinetuneError, match=r"another version of Firstword \(only one .* knows dropout\)"
        ):
            goes_on(before, asked=asked)
    for damaged in (path.read_text()[:9], "[]", "null", '"steps"'):
        path.write_text(damaged)
        with pytest.raises(FinetuneError, match=r"settings\.json is damaged: it should be a JSON object"):
            Trainer(lm_task(data), tmp_path, SETTINGS)


def test_weights_of_other_names_are_not_passed_over(tmp_path: Path) -> None:
    data = prepared("cosyvoice2")
    fitted(lm_task(data), tmp_path, stop=3)
    state = torch.load(tmp_path / STATE_FILE, weights_only=True)
    state["weights"] = {name.replace("head", "output"): value for name, value in state["weights"].items()}
    torch.save(state, tmp_path / STATE_FILE)
    with pytest.raises(FinetuneError, match=r"another version of Firstword \(only one .* trains .*head"):
        Trainer(lm_task(data), tmp_path, SETTINGS)


def test_settings_that_were_half_written_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = lm_task(prepared("cosyvoice2"))

    def full(descriptor: int) -> None:
        os.truncate(descriptor, 9)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(FinetuneError, match=r"settings\.json cannot be written: the disk is full"):
            Trainer(task, tmp_path, SETTINGS)
    assert Trainer(task, tmp_path, SETTINGS).step == 0


def test_a_full_disk_leaves_the_last_state_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = prepared("cosyvoice2")
    fitted(lm_task(data), tmp_path, stop=4)
    before = (tmp_path / STATE_FILE).read_bytes()

    def full(values: Any, file: Any) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(trainer_module.torch, "save", full)
        with pytest.raises(FinetuneError, match="the disk is full; what was saved before is whole"):
            fitted(lm_task(data), tmp_path)
    assert (tmp_path / STATE_FILE).read_bytes() == before
    assert not list(tmp_path.glob("*.partial"))
    _, rest = fitted(lm_task(data), tmp_path)
    assert [report.step for report in rest] == [4, 5, 6]


def test_a_gradient_that_is_not_finite_changes_nothing(tmp_path: Path) -> None:
    task = lm_task(prepared("cosyvoice2"))
    trainer = Trainer(task, tmp_path, SETTINGS)
    batch = task.collate([0, 1], 0)
    before = parameters(task).clone()
    with torch.no_grad():
        task.network.head.weight[0, 0] = torch.inf
    report = trainer.train_step([batch])
    assert not torch.isfinite(torch.tensor(report.norm))
    with torch.no_grad():
        task.network.head.weight[0, 0] = before[(parameters(task) == torch.inf).nonzero()[0]][0]
    assert torch.equal(parameters(task), before)


@TASKS
def test_recomputed_activations_change_no_gradient(make: Callable[[Path], Task]) -> None:
    task = make(prepared("cosyvoice2"))
    batch = task.collate([0, 1, 2], 0)
    gradients = []
    for recomputes in (False, True):
        if recomputes:
            recompute_activations(task.network)
        task.zero_grad()
        task.train()(batch).loss.backward()
        gradients.append(torch.cat([one.grad.flatten() for one in task.parameters() if one.grad is not None]))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-5, atol=1e-7)


def test_accumulated_batches_equal_one_of_all_rows(tmp_path: Path) -> None:
    data = prepared("cosyvoice2")
    gradients = []
    for number, groups in enumerate(([[0, 1, 2, 3, 4]], [[0], [1, 2, 3], [4]])):
        task = lm_task(data)
        trainer = Trainer(task, tmp_path / str(number), SETTINGS)
        trainer.train_step([task.collate(rows, 0) for rows in groups])
        gradients.append(torch.cat([one.grad.flatten() for one in task.parameters() if one.grad is not None]))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-7)


SIZES = {"llm": 300, "flow": 500}  # of which no batch has a single row, which two processes cannot share
SCRIPT = """
import os
import sys
from dataclasses import replace
from pathlib import Path
import torch
torch.set_num_threads(1)
from tests.finetune.runs import SETTINGS, fitted, flow_task, lm_task, parameters
data, model, out, *sizes = sys.argv[1:]
settings = replace(SETTINGS, steps=10, lr=1e-5, save_every=100)
second = os.fork()
rank = "0" if second else "1"
os.environ |= {"RANK": rank, "LOCAL_RANK": rank}
for make, size in zip((lm_task, flow_task), sizes, strict=True):
    folder = Path(out, make.__name__)
    trainer, reports = fitted(make(Path(data), model=Path(model)), folder, settings, int(size))
    if trainer.is_main:
        losses = [report.values["loss"] for report in reports]
        torch.save({"parameters": trainer.averaged(), "losses": losses}, folder / "result.pt")
if not second:
    os._exit(0)  # at an ordinary exit libraries would wait for threads that a fork does not copy
sys.exit(os.waitstatus_to_exitcode(os.waitpid(second, 0)[1]))
"""


@pytest.fixture(scope="module")
def of_two_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what either task came to, in the environment of torchrun.

    One process forks once it has imported, which takes longer than the training.
    """
    folder = tmp_path_factory.mktemp("two")
    script = folder / "run.py"
    script.write_text(SCRIPT)
    words = [script, prepared("cosyvoice2"), small_checkpoint("cosyvoice2"), folder, *SIZES.values()]
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    launched = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", **address}
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1", **launched}
    subprocess.run([sys.executable, *map(str, words)], check=True, env=environment, timeout=240)
    return folder


@pytest.mark.slow
@TASKS
def test_two_processes_equal_one_with_the_doubled_batch(
    make: Callable[[Path], Task], tmp_path: Path, of_two_processes: Path
) -> None:
    """Rows of unequal lengths, whose losses count by their tokens over both processes."""
    size = SIZES["llm" if make is lm_task else "flow"]
    task = make(prepared("cosyvoice2"))
    settings = replace(SETTINGS, steps=10, lr=1e-5, save_every=100)
    trainer, reports = fitted(task, tmp_path / "one", settings, 2 * size)
    two = torch.load(of_two_processes / make.__name__ / "result.pt", weights_only=True)
    assert two["losses"] == pytest.approx([report.values["loss"] for report in reports], rel=1e-5)
    for name, parameter in trainer.averaged().items():
        difference = (two["parameters"][name] - parameter).norm()
        assert float(difference) <= 1e-5 * float(parameter.norm()), name


@TASKS
def test_processes_share_the_rows_of_one_batch(make: Callable[[Path], Task]) -> None:
    task = make(prepared("cosyvoice2"))
    size = SIZES["llm" if make is lm_task else "flow"]
    alone, shared = plan_of(task, 2 * size), plan_of(task, size, world=2)
    for step in range(8):
        (whole,) = alone.batches(step, 0)
        parts = [shared.batches(step, rank)[0] for rank in range(2)]
        assert sorted(parts[0] + parts[1]) == sorted(whole)


def test_fewer_rows_than_processes_are_refused() -> None:
    with pytest.raises(FinetuneError, match="1 utterances cannot be shared by 2 processes"):
        plan_of(lm_task(prepared("cosyvoice2", 1)), 300, world=2)
