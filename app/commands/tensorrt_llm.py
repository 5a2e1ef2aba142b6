"""`firstword tensorrt-llm`: the language model for TensorRT-LLM, and the commands that build it there."""

import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from firstword.app.commands.console import CommandFailed, to_stdout

SCRIPT: Final = "build.sh"
DTYPES: Final = ("bfloat16", "float16", "float32")


def tensorrt_llm(
    checkpoint: Annotated[Path, typer.Argument(help="Model directory of CosyVoice 2 or 3.")],
    directory: Annotated[Path, typer.Argument(help="Where the merged model is written.")],
    dtype: Annotated[str, typer.Option(help="bfloat16, float16 or float32.")] = "bfloat16",
    tp: Annotated[int, typer.Option(min=1, help="GPUs that share each layer.")] = 1,
    pp: Annotated[int, typer.Option(min=1, help="Groups of GPUs that share the layers.")] = 1,
    weight_only: Annotated[
        str | None, typer.Option(help="int8 or int4: weights alone in so many bits.")
    ] = None,
    smoothquant: Annotated[
        float | None, typer.Option(min=0, max=1, help="Alpha of SmoothQuant; 8 bits throughout.")
    ] = None,
    max_batch_size: Annotated[int, typer.Option(min=1, help="Texts at once.")] = 16,
) -> None:
    """Write the language model as a Hugging Face directory, and beside it the exact build commands.

    They run where TensorRT-LLM and its examples are, with the directory of those examples as argument.
    """
    from firstword.models.runtimes.tensorrt_llm.export import export

    if dtype not in DTYPES:
        raise CommandFailed(f"--dtype {dtype!r}; expected {', '.join(DTYPES)}")
    if weight_only not in (None, "int8", "int4"):
        raise CommandFailed(f"--weight-only {weight_only!r}; expected int8 or int4")
    if weight_only and smoothquant is not None:
        raise CommandFailed("--weight-only and --smoothquant both came; give one")
    ids = export(checkpoint, directory, dtype)  # type: ignore[arg-type]
    quantized = ""
    if weight_only:
        quantized = f" --use_weight_only --weight_only_precision {weight_only}"
    if smoothquant is not None:
        quantized = f" --smoothquant {smoothquant:g} --per_token --per_channel"
    lines = build_lines(directory.resolve(), dtype, tp, pp, quantized, max_batch_size)
    script = directory / SCRIPT
    script.write_text("#!/bin/sh -e\n" + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    script.chmod(0o755)
    to_stdout().print(
        f"{directory}: {ids.num_ids} ids, speech tokens from {ids.speech} on, end {ids.eos}\n"
        f"Build it: {script} TENSORRT_LLM/examples/models/core/qwen",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def build_lines(
    model: Path, dtype: str, tp: int, pp: int, quantized: str, max_batch_size: int
) -> tuple[str, str]:
    """The conversion, and the build."""
    converted, engines = (shlex.quote(str(model / name)) for name in ("converted", "engines"))
    plugin = "auto" if dtype == "float32" else dtype
    return (
        f'python3 "$1/convert_checkpoint.py" --model_dir {shlex.quote(str(model))} --output_dir {converted}'
        f" --dtype {dtype} --tp_size {tp} --pp_size {pp}{quantized}",
        f"trtllm-build --checkpoint_dir {converted} --output_dir {engines} --max_batch_size {max_batch_size}"
        f" --max_num_tokens 32768 --gemm_plugin {plugin}",
    )
