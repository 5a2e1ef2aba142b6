"""The examples of the README."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands() -> list[str]:
    return [
        line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines() if line.strip()
    ]


def lines_of(program: str) -> list[str]:
    """The README's commands that begin with it."""
    return [line for line in commands() if line.split()[0] == program]
