"""`firstword triton`: makes a model repository for NVIDIA's tritonserver."""

from pathlib import Path
from typing import Annotated

import typer

from firstword.app.commands.console import CommandFailed, to_stdout

triton = typer.Typer(name="triton", help="Model repositories for NVIDIA's tritonserver.")


@triton.callback()
def group() -> None:
    """Typer takes a single command for the group itself without this."""


@triton.command()
def init(
    checkpoint: Annotated[str, typer.Argument(help="Model directory; `builtin` is the built-in voice.")],
    directory: Annotated[Path, typer.Argument(help="Where the repository is written.")],
    max_batch_size: Annotated[int, typer.Option(min=1, help="Requests that Triton hands on at once.")] = 16,
    queue_delay_us: Annotated[
        int, typer.Option(min=0, help="Microseconds that Triton waits for more of them.")
    ] = 0,
    instances: Annotated[
        int, typer.Option(min=1, help="Engines; each loads the networks again, and one runs many streams.")
    ] = 1,
    decoupled: Annotated[
        bool, typer.Option(help="Stream over gRPC and generate_stream; without it one answer has the whole.")
    ] = True,
) -> None:
    """Write the models of a checkpoint for tritonserver's Python backend; run again, it writes them anew."""
    from importlib.util import find_spec

    from firstword.app.hosts.triton.repository import BUILTIN, RepositoryOptions, write_repository
    from firstword.app.options import BUILTIN_CHECKPOINT
    from firstword.models.checkpoint.open import open_checkpoint

    if find_spec("grpc") is None:
        raise CommandFailed("the models need gRPC, which is not installed; pip install 'firstword[grpc]'")
    is_builtin = checkpoint == BUILTIN
    folder = BUILTIN_CHECKPOINT if is_builtin else Path(checkpoint).expanduser().resolve()
    options = RepositoryOptions(
        model_dir=BUILTIN if is_builtin else str(folder),
        family=open_checkpoint(folder).config.family,
        max_batch_size=max_batch_size,
        queue_delay_us=queue_delay_us,
        num_instances=instances,
        is_decoupled=decoupled,
    )
    names = write_repository(directory, options)
    to_stdout().print(
        f"{directory}: {', '.join(names)}\nServe them: tritonserver --model-repository {directory}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
