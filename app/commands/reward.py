"""`firstword reward`: rewards of speech tokens over HTTP, or as a model of tritonserver."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from firstword.app.commands.console import CommandFailed, to_stdout

NEEDED: Final = ("accelerate", "peft", "pyarrow", "tensorboard")


@contextmanager
def training_errors() -> Iterator[None]:
    """End with one line on what the world can break, or where the extra is missing."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise CommandFailed(f"training needs {', '.join(missing)}; pip install 'firstword[train]'")
    from firstword.finetune.errors import FinetuneError

    try:
        yield
    except FinetuneError as error:
        raise CommandFailed(str(error)) from error


def reward(
    checkpoint: Annotated[Path | None, typer.Argument(help="Model directory; the built-in voice.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="TCP port.")] = 8010,
    recognizer: Annotated[
        str, typer.Option(help="pocketsphinx, faster-whisper:DIR, sensevoice:DIR.")
    ] = "pocketsphinx",
    recognizers: Annotated[int, typer.Option(min=1, help="At work at a time.")] = 1,
    language: Annotated[str, typer.Option(help="Of the texts.")] = "en",
    unit: Annotated[str, typer.Option(help="Of the error rate: words or characters.")] = "words",
    duration_weight: Annotated[
        float, typer.Option(min=0, help="Of the duration, beside 1 of the words.")
    ] = 0.2,
    likeness_weight: Annotated[float, typer.Option(min=0, help="Of the speaker's likeness.")] = 0.2,
    triton: Annotated[
        Path | None, typer.Option(help="Write the model token2wav_asr into this repository instead.")
    ] = None,
) -> None:
    """Serve rewards of speech tokens: spoken, recognized, scored."""
    with training_errors():
        from firstword.app.options import BUILTIN_CHECKPOINT
        from firstword.finetune.reward.formula import RewardWeights
        from firstword.finetune.reward.rewarder import Rewarder, RewardSettings
        from firstword.finetune.reward.server import reward_app
        from firstword.models.checkpoint.open import open_checkpoint

        if unit not in ("words", "characters"):
            raise CommandFailed(f"--unit {unit!r}; expected words or characters")
        weights = RewardWeights(duration_weight, likeness_weight)
        settings = RewardSettings(recognizer, language, unit, weights, recognizers)  # type: ignore[arg-type]
        folder = checkpoint or BUILTIN_CHECKPOINT
        opened = open_checkpoint(folder)
        if triton is not None:
            from firstword.finetune.reward.triton import write_model

            to_stdout().print(f"{write_model(triton, folder, settings)}", markup=False, soft_wrap=True)
            return
        import uvicorn

        uvicorn.run(reward_app(Rewarder(opened, settings, device())), host=host, port=port)


def device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
