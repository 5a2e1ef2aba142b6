"""What training leaves: a whole model directory with new weights, and the speakers of the data."""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from firstword.files import write_whole
from firstword.finetune.dataset import Dataset
from firstword.finetune.errors import FinetuneError
from firstword.models.checkpoint.names import DIT_FLOW, QWEN2_LM, TRANSFORMER_LM, UNET_FLOW, Table
from firstword.models.checkpoint.open import CHECKPOINT_FILES, Checkpoint, open_checkpoint
from firstword.models.checkpoint.speaker_table import write_speaker_table
from firstword.models.checkpoint.traits import write_traits
from firstword.models.checkpoint.weights import published_tensors, read_tensors
from firstword.models.config import (
    ESTIMATOR_FILE,
    FLOW_FILES,
    LM_FILES,
    SPEAKER_TABLE_FILE,
    TRAITS_FILE,
    YAML_FILES,
    DiTFlowConfig,
    TransformerLMConfig,
)
from firstword.models.frontend.speaker import SpeakerFeatures

Part = Literal["llm", "flow"]
STATE_FOLDER: Final = "training"
ADAPTER_FOLDERS: Final[dict[Part, str]] = {"llm": "adapter-llm", "flow": "adapter-flow"}
_FLOW_FILES = (*FLOW_FILES, ESTIMATOR_FILE)
_LINKED = (".pt", ".safetensors", ".onnx")  # large, and nobody edits them in place
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_ADDED = 64  # speakers


def write_result(
    checkpoint: Checkpoint,
    out: Path,
    networks: Mapping[Part, nn.Module],
    speakers: Mapping[str, SpeakerFeatures] | None = None,
) -> None:
    """Copy a model directory with the weights of networks replaced, in the dtype that they had.

    speakers: go into its table, behind those that are there. The yaml comes last: what has none is no model
    directory yet. Raises FinetuneError where the disk is full.
    """
    outdated = {name for part in networks for name in (LM_FILES if part == "llm" else _FLOW_FILES)}
    written = {SPEAKER_TABLE_FILE, TRAITS_FILE}
    out.mkdir(parents=True, exist_ok=True)
    partial = out / "weights.partial"
    try:
        for name in {*CHECKPOINT_FILES, ESTIMATOR_FILE} - outdated - written - YAML_FILES.keys():
            _place(checkpoint.directory / name, out / name)
        for part, network in networks.items():
            tensors = published_tensors(network, table_of(checkpoint, part), stored_dtype(checkpoint, part))
            save_file(tensors, partial)
            partial.replace(out / f"{part}.safetensors")
        for name in outdated - {f"{part}.safetensors" for part in networks}:
            (out / name).unlink(missing_ok=True)
        _write_speakers(checkpoint, out, speakers or {})
        for name in YAML_FILES:
            _place(checkpoint.directory / name, out / name)
    except (OSError, SafetensorError) as error:
        partial.unlink(missing_ok=True)
        raise _unwritten(out, error) from error
    open_checkpoint(out).check()


def new_speakers(dataset: Dataset, checkpoint: Checkpoint) -> dict[str, str]:
    """Speakers of the data that the result gets, by the names that the service takes; of many speakers, none.

    Raises FinetuneError for one whose name the checkpoint's table has already for somebody else.
    """
    names = {_NOT_A_NAME.sub("-", name): name for name in sorted(set(dataset.speakers))}
    if len(names) > _MAX_ADDED:
        return {}
    known = checkpoint.load_speakers()
    clash = [
        name
        for name, inner in names.items()
        if name in known and not known[name].prompt_tokens.equal(dataset.prompt_of(inner).prompt_tokens)
    ]
    if clash:
        raise FinetuneError(
            f"the speaker {clash[0]!r} of the data is in {checkpoint.directory} already; prepare it with "
            "another name"
        )
    return names


def table_of(checkpoint: Checkpoint, part: Part) -> Table:
    """How the tensors of a network are named in its file."""
    config = checkpoint.config
    if part == "llm":
        return TRANSFORMER_LM if isinstance(config.lm, TransformerLMConfig) else QWEN2_LM
    return DIT_FLOW if isinstance(config.flow, DiTFlowConfig) else UNET_FLOW


def stored_dtype(checkpoint: Checkpoint, part: Part) -> torch.dtype:
    """Of the weights in the checkpoint's file."""
    names = LM_FILES if part == "llm" else FLOW_FILES
    path = next(checkpoint.directory / name for name in names if (checkpoint.directory / name).exists())
    return next(value.dtype for value in read_tensors(path).values() if value.is_floating_point())


def with_solver(text: str, num_steps: int, cfg_rate: float) -> str:
    """A checkpoint's yaml with other steps and guidance of its flow. Raises FinetuneError."""
    pattern = r"^(\s*)inference_cfg_rate:[^\n]*\n"
    if len(re.findall(pattern, text, re.MULTILINE)) != 1:
        raise FinetuneError("the yaml has no single inference_cfg_rate to replace")
    text = re.sub(r"^\s*n_timesteps:[^\n]*\n", "", text, flags=re.MULTILINE)
    return re.sub(
        pattern,
        rf"\g<1>inference_cfg_rate: {cfg_rate}\n\g<1>n_timesteps: {num_steps}\n",
        text,
        flags=re.MULTILINE,
    )


def write_solver(out: Path, num_steps: int, cfg_rate: float) -> None:
    """Rewrite the yaml of a directory of ours. Raises FinetuneError where the disk is full."""
    path = next(out / name for name in YAML_FILES if (out / name).exists())
    try:
        write_whole(path, with_solver(path.read_text(encoding="utf-8"), num_steps, cfg_rate).encode())
    except OSError as error:
        raise _unwritten(out, error) from error
    open_checkpoint(out).check()


def _unwritten(out: Path, error: Exception) -> FinetuneError:
    return FinetuneError(f"{out} cannot be written: {error}; make room, and run the same command again")


def load_weights(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Put what was trained into a network; the rest stays."""
    unknown = network.load_state_dict(dict(weights), strict=False).unexpected_keys
    assert not unknown, unknown


def _write_speakers(checkpoint: Checkpoint, out: Path, added: Mapping[str, SpeakerFeatures]) -> None:
    speakers = {**checkpoint.load_speakers(), **added}
    if speakers:
        write_speaker_table(out / SPEAKER_TABLE_FILE, speakers)
    traits = checkpoint.traits
    if (checkpoint.directory / TRAITS_FILE).exists():
        said = {name: one.prompt_text for name, one in added.items()} if traits.reads_sounds else {}
        write_traits(out / TRAITS_FILE, replace(traits, transcripts={**traits.transcripts, **said}))


def _place(source: Path, target: Path) -> None:
    """Link what is large, copy the rest, if it is there; a target that is there is replaced."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if not source.is_file():
        return
    if source.suffix in _LINKED:
        try:
            os.link(source, target)
            return
        except OSError:  # another file system, or one without links
            pass
    shutil.copy(source, target)
