"""`firstword alignment-heads`: finds by which heads of a language model word times can be told."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track
from rich.table import Table

from firstword.app.commands.console import CommandFailed, to_stderr, to_stdout

_SHOWN = 8  # heads


def alignment_heads(
    checkpoint: Annotated[Path, typer.Argument(help="Model directory of CosyVoice 2 or 3.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print them.")] = False,
) -> None:
    """Find the heads by which word times are told, and write them into the checkpoint's firstword.json.

    Speaks a few sentences with the language model alone: seconds for the built-in voice, minutes for a
    published checkpoint. Where no head follows the text, word times of that checkpoint stay estimated.
    """
    from firstword.models.checkpoint.alignment_heads import MIN_SCORE, best_heads, num_texts, score_heads
    from firstword.models.checkpoint.open import open_checkpoint
    from firstword.models.checkpoint.traits import write_traits
    from firstword.models.config import TRAITS_FILE

    opened = open_checkpoint(checkpoint)
    rounds = score_heads(opened)
    first = next(rounds)  # refuses what has none
    num_left = num_texts(opened.traits.languages) - 1
    *_, scores = [first, *track(rounds, "speaking", total=num_left, console=to_stderr())]
    table = Table("layer", "head", "score", title=f"The best of {len(scores)} heads")
    for one in scores[:_SHOWN]:
        table.add_row(str(one.layer), str(one.head), f"{one.score:.3f}")
    to_stdout().print(table)
    heads = best_heads(scores)
    if not heads:
        to_stdout().print(f"No head follows the text (the bound is {MIN_SCORE}): word times stay estimated.")
        return
    named = ", ".join(f"{layer}.{head}" for layer, head in heads)
    if dry_run:
        to_stdout().print(f"alignment heads: {named}")
        return
    path = checkpoint / TRAITS_FILE
    try:
        write_traits(path, replace(opened.traits, alignment_heads=heads))
    except OSError as error:
        raise CommandFailed(
            f"{path} cannot be written ({error.strerror}); copy the checkpoint to a directory of your own, "
            'or add "alignment_heads": '
            f"{[list(pair) for pair in heads]} to its {TRAITS_FILE} yourself"
        ) from error
    to_stdout().print(f"{path}: alignment heads {named}")
