"""`firstword settings`: every setting with its default, unit and reason, as a `.env` file or as a table."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from app.settings import BUILTIN_CHECKPOINT, Settings, variable_of

_UNITS: Final = {
    "_s": "seconds",
    "_mb": "MiB",
    "_bytes": "bytes",
    "_chars": "characters",
    "_tokens": "speech tokens",
    "_per_minute": "requests a minute",
}
_HEAD: Final = """\
# Every setting of Firstword with its default. Copy this file to `.env` and take away the `# ` in front of
# what you change. The environment goes before this file; an empty value is the default.
"""


@dataclass(frozen=True, slots=True)
class SettingLine:
    variable: str
    default: str  # as one would write it; "" where it is empty, or found by the program
    unit: str
    description: str


def setting_lines() -> Iterator[SettingLine]:
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True)
        yield SettingLine(variable_of(name), _written(default), _unit_of(name), field.description or "")


def env_text() -> str:
    """The text of `.env.example`."""
    return _HEAD + "".join(
        f"\n# {line.description}.{f' [{line.unit}]' if line.unit else ''}\n# {line.variable}={line.default}\n"
        for line in setting_lines()
    )


def markdown_table() -> str:
    """The table of docs/configuration.md."""
    rows = (
        f"| `{line.variable}` | {_code(line.default)} | {line.unit} | {line.description} |\n"
        for line in setting_lines()
    )
    return "| variable | default | unit | what |\n|---|---|---|---|\n" + "".join(rows)


def settings(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="As the table of docs/configuration.md.")
    ] = False,
) -> None:
    """List every setting with its default, ready to be a .env file."""
    typer.echo(markdown_table() if markdown else env_text(), nl=False)


def _written(default: object) -> str:
    if default is None or default == BUILTIN_CHECKPOINT or default in ((), {}):
        return ""
    return f"{default:g}" if isinstance(default, float) else str(default)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _unit_of(name: str) -> str:
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")
