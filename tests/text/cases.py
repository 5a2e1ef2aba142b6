"""The cases of how text is read: `cases/<language>/<class>.tsv`, source and spoken, a third column for taste."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

CASES: Final = Path(__file__).parent / "cases"
HEADER: Final = ["source", "spoken"]
TASTE: Final = "taste"


@dataclass(frozen=True, slots=True)
class Case:
    """is_taste: another reading is as good, so a difference is none."""

    language: str
    kind: str
    source: str
    spoken: str
    is_taste: bool = False


def read_cases() -> list[Case]:
    """Raises ValueError for a line that is no case."""
    cases: list[Case] = []
    for path in sorted(CASES.glob("*/*.tsv")):
        header, *lines = path.read_text("utf-8").splitlines()
        if header.split("\t") != HEADER:
            raise ValueError(f"{path.name}: its first line is {header!r}; expected {HEADER}")
        for number, line in enumerate(lines, 2):
            source, _, rest = line.partition("\t")
            spoken, _, note = rest.partition("\t")
            if not source or not spoken or note not in ("", TASTE):
                raise ValueError(f"{path.name}:{number}: expected source, tab, spoken, and nothing or {TASTE!r}")
            text = source.replace("\\n", "\n")
            cases.append(Case(path.parent.name, path.stem, text, spoken, note == TASTE))
    return cases
