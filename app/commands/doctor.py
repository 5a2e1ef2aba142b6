"""`firstword doctor`: looks at everything the service needs, and says what mends the rest."""

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from app.commands.checks import Finding, findings
from app.commands.console import to_stdout
from app.settings import InvalidSettings, load_settings

_MARKS: Final = {"ok": ("ok   ", "green"), "note": ("note ", "yellow"), "wrong": ("WRONG", "bold red")}


def doctor(
    checkpoint: Annotated[Path | None, typer.Option(help="Model directory to look at.")] = None,
) -> None:
    """Say what is wrong with this installation, and what mends it. Exit code 1 if it cannot serve."""
    found = _found(checkpoint)
    console = to_stdout()
    for finding in found:
        console.print(_line(finding), soft_wrap=True)
    if any(finding.state == "wrong" for finding in found):
        raise typer.Exit(1)


def _found(checkpoint: Path | None) -> list[Finding]:
    try:
        return findings(load_settings(checkpoint=checkpoint))
    except InvalidSettings as error:
        return [Finding("settings", "wrong", str(error), "firstword settings")]


def _line(finding: Finding) -> Text:
    mark, style = _MARKS[finding.state]
    mend = f"\n      mend: {finding.mend}" if finding.mend else ""
    return Text.assemble((mark, style), f" {finding.subject}: {' '.join(finding.said.split())}{mend}")
