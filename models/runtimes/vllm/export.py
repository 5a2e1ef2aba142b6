"""Convert a checkpoint's language model for vLLM: one table of all ids, the head, Qwen2's layers.

`python -m firstword.models.runtimes.vllm.export CHECKPOINT OUT` does it; the service does so when needed.
"""

import argparse
import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from safetensors.torch import save_file

from firstword.models.checkpoint.open import lm_fingerprint, open_checkpoint
from firstword.models.config import CheckpointError, Dtype, Qwen2LMConfig
from firstword.models.lm.plan import Vocabulary
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.runtimes.engines.joint_model import (
    DTYPES,
    WEIGHTS_FILE,
    qwen2_config,
    tensors_of,
    write_json,
)
from firstword.models.runtimes.vllm.plugin import ARCHITECTURE

EXTRA_KEY: Final = "firstword"  # key of config.json for what Qwen2's own config lacks
ORIGIN_FILE: Final = "origin.json"
FORMAT: Final = 1  # of the files; an export of another format is replaced


def export(directory: Path, out: Path, dtype: Dtype = "float32") -> bool:
    """Write the export. -> whether it was needed: one of the same weights and dtype is left as it is.

    `out` is replaced by the whole new one or not at all.

    Raises:
        CheckpointError: no checkpoint of CosyVoice 2 or 3, or `out` is something else than an export.
    """
    checkpoint = open_checkpoint(directory)
    origin = {"format": FORMAT, "lm_fingerprint": lm_fingerprint(directory), "dtype": dtype}
    if _origin_of(out) == origin:
        return False
    if out.exists() and _origin_of(out) is None and not (out.is_dir() and not any(out.iterdir())):
        raise CheckpointError(f"{out}: exists and was not written by this program; name another directory")
    if not isinstance(checkpoint.config.lm, Qwen2LMConfig):
        raise CheckpointError(
            f"{checkpoint.directory}: a checkpoint of {checkpoint.config.family}, whose language model is no "
            "Qwen2; vLLM runs those of CosyVoice 2 and 3"
        )
    lm = checkpoint.load_lm(DTYPES[dtype])
    assert isinstance(lm, Qwen2LM), lm
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.parent / f".{out.name}.{os.getpid()}.unfinished"
    unfinished.mkdir()
    try:
        write_model(lm, unfinished, dtype)
        write_json(unfinished / ORIGIN_FILE, origin)
        if out.exists():
            old = out.parent / f".{out.name}.{os.getpid()}.old"
            out.rename(old)
            unfinished.rename(out)
            shutil.rmtree(old)
        else:
            unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return True


def write_model(lm: Qwen2LM, directory: Path, dtype: Dtype) -> None:
    """Write what vLLM reads. dtype: that of `lm`, whose numbers are written as they are."""
    save_file(tensors_of(lm), directory / WEIGHTS_FILE, metadata={"format": "pt"})
    write_json(directory / "config.json", config_of(lm.config, dtype))


def config_of(config: Qwen2LMConfig, dtype: Dtype) -> dict[str, Any]:
    """Return config.json: Qwen2's own names, and ours under EXTRA_KEY."""
    return {
        **qwen2_config(config, dtype),
        "architectures": [ARCHITECTURE],
        EXTRA_KEY: {
            "vocabulary": asdict(Vocabulary.of(config)),
            "sampling": asdict(config.sampling),
            "has_head_bias": not config.has_cosyvoice3_vocabulary,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m firstword.models.runtimes.vllm.export", description=__doc__
    )
    parser.add_argument("checkpoint", type=Path, help="model directory of CosyVoice 2 or 3")
    parser.add_argument("out", type=Path, help="directory to write, or to reuse if it is of this checkpoint")
    parser.add_argument("--dtype", choices=list(DTYPES), default="float32")
    arguments = parser.parse_args()
    try:
        is_new = export(arguments.checkpoint, arguments.out, arguments.dtype)
    except CheckpointError as error:
        sys.exit(str(error))
    sys.stdout.write(f"{arguments.out} {'written' if is_new else 'is up to date'}\n")


def _origin_of(out: Path) -> dict[str, Any] | None:
    """Return what an export was made of; None where `out` is not a finished export."""
    try:
        origin = json.loads((out / ORIGIN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return origin if isinstance(origin, dict) else None


if __name__ == "__main__":
    main()
