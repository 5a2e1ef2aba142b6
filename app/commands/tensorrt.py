"""`firstword tensorrt`: builds the engines of FIRSTWORD_FLOW_BACKEND=tensorrt."""

from pathlib import Path
from typing import Annotated

import typer

from firstword.app.commands.console import CommandFailed, to_stderr, to_stdout
from firstword.app.settings import load_settings

DTYPES = ("float32", "bfloat16", "float16")


def tensorrt(
    checkpoint: Annotated[
        Path | None, typer.Argument(help="Model directory of CosyVoice 2 or 3; empty is the one that is set.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Directory of all that is written.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="float32, bfloat16 or float16; empty is what `serve` would take.")
    ] = None,
    onnx: Annotated[
        Path | None, typer.Option(help="Write the ONNX graphs to this directory instead, and build nothing.")
    ] = None,
) -> None:
    """Build TensorRT's engines of flow and vocoder, for this machine's GPU; minutes for a published size.

    What is there already is not built again.
    """
    from firstword.app.engine.precision import engine_dtype
    from firstword.files import write_whole
    from firstword.models.checkpoint.open import open_checkpoint
    from firstword.models.config import ESTIMATOR_FILE
    from firstword.models.flow.flow import Flow
    from firstword.models.runtimes.tensorrt.engines import EnginePlans
    from firstword.models.runtimes.tensorrt.library import Part, find_library
    from firstword.models.runtimes.tensorrt.parts import parts_of
    from firstword.models.runtimes.tensorrt.plans import build_plans
    from firstword.models.runtimes.tensorrt.runtime import ENGINES_DIRECTORY

    settings = load_settings(checkpoint=checkpoint, data_dir=data_dir)
    dtype = precision or engine_dtype(settings.networks.precision)
    if dtype not in DTYPES:
        raise CommandFailed(f"--precision {dtype!r}; expected {', '.join(DTYPES)}")
    opened = open_checkpoint(settings.networks.checkpoint)
    window_s = settings.networks.state.window_s or None
    flow, hift = opened.load_flow(), opened.load_vocoder()
    if not isinstance(flow, Flow):
        raise CommandFailed(f"{opened.directory}: a CosyVoice 1; there are engines of CosyVoice 2 and 3 only")
    out = to_stdout()
    if onnx is not None:
        onnx.mkdir(parents=True, exist_ok=True)
        for part in parts_of(flow, hift, dtype, window_s, opened.directory / ESTIMATOR_FILE):  # type: ignore[arg-type]
            write_whole(onnx / f"{part.name}.onnx", part.write())
            out.print(onnx / f"{part.name}.onnx", markup=False, highlight=False, soft_wrap=True)
        return

    def announce(part: Part) -> None:
        to_stderr().print(f"building {part.name}", markup=False, highlight=False)

    directory = settings.speakers.data_dir / ENGINES_DIRECTORY
    found = EnginePlans(opened, find_library(), dtype, window_s, directory)  # type: ignore[arg-type]
    made = build_plans(found.library, found.parts(flow, hift), found.plans, announce)
    for path in made:
        out.print(path, markup=False, highlight=False, soft_wrap=True)
    if not made:
        out.print(f"{directory}: all there", markup=False, highlight=False, soft_wrap=True)
