"""`firstword export`: parts of a checkpoint as TorchScript, AOTInductor or ONNX."""

from pathlib import Path
from typing import Annotated, Final, get_args

import typer

from firstword.app.commands.console import CommandFailed, to_stdout

DTYPES: Final = ("float32", "float16", "bfloat16")


def export(
    checkpoint: Annotated[Path, typer.Argument(help="Model directory of CosyVoice 1, 2 or 3.")],
    directory: Annotated[Path, typer.Argument(help="A new directory for the programs.")],
    format: Annotated[str, typer.Option(help="torchscript, aoti or onnx.")] = "torchscript",
    dtype: Annotated[str, typer.Option(help="float32, float16 or bfloat16.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu or cuda: where they will run.")] = "cpu",
) -> None:
    """Write the published parts: encoders, estimator, vocoder, and CosyVoice 1's language model.

    FIRSTWORD_EXPORTS lets the server run those of TorchScript and AOTInductor. They are programs: load only
    what you exported yourself.
    """
    import torch

    from firstword.models.checkpoint.open import open_checkpoint
    from firstword.models.runtimes.torch.exports.directory import export_checkpoint
    from firstword.models.runtimes.torch.exports.formats import ExportError, Format

    for name, given, known in (
        ("format", format, get_args(Format)),
        ("dtype", dtype, DTYPES),
        ("device", device, ("cpu", "cuda")),
    ):
        if given not in known:
            raise CommandFailed(f"--{name} {given!r}; expected {', '.join(known)}")
    try:
        opened = open_checkpoint(checkpoint)
        for part in export_checkpoint(opened, directory, format, getattr(torch, dtype), device):  # type: ignore[arg-type]
            to_stdout().print(f"{part} is exported", markup=False, highlight=False)
    except ExportError as error:
        raise CommandFailed(str(error)) from error
    to_stdout().print(
        f"All of it is in {directory}: FIRSTWORD_EXPORTS={directory}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
