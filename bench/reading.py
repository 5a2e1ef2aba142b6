"""How many of the cases of tests/text/cases are read as they say, by language and class."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from firstword.app.text.normalize import Normalizer

CASES: Final = Path(__file__).resolve().parents[1] / "tests" / "text" / "cases"
HEADER: Final = "source\tspoken"
TASTE: Final = "taste"


@dataclass(frozen=True, slots=True)
class Case:
    """kind: the class, such as "money". is_taste: another reading is as good, so a difference is none."""

    language: str
    kind: str
    source: str
    spoken: str
    is_taste: bool = False


def read_cases(folder: Path = CASES) -> list[Case]:
    r"""Read `<language>/<class>.tsv`: source, spoken and, for taste, a third column; "\n" is a new line.

    Raises ValueError for a line that is no case, OSError.
    """
    cases: list[Case] = []
    for path in sorted(folder.glob("*/*.tsv")):
        header, *lines = path.read_text("utf-8").splitlines()
        if header != HEADER:
            raise ValueError(f"{path}: its first line is {header!r}; expected {HEADER!r}")
        for number, line in enumerate(lines, 2):
            source, _, rest = line.partition("\t")
            spoken, _, note = rest.partition("\t")
            if not source or not spoken or note not in ("", TASTE):
                raise ValueError(f"{path}:{number}: expected source, tab, spoken, and nothing or {TASTE!r}")
            case = Case(path.parent.name, path.stem, source.replace("\\n", "\n"), spoken, note == TASTE)
            cases.append(case)
    return cases


def wrong_readings(cases: Sequence[Case], normalizer: Normalizer) -> list[tuple[Case, str]]:
    """Return the cases that are read otherwise, each with how; those of taste are left out."""
    readings = [(case, normalizer(case.source, case.language)) for case in cases]
    return [(case, spoken) for case, spoken in readings if spoken != case.spoken and not case.is_taste]


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench reading", description=__doc__)
    parser.add_argument("--cases", type=Path, default=CASES, metavar="FOLDER", help="<language>/<class>.tsv")
    parser.add_argument("--wrong", action="store_true", help="print the cases that are read otherwise")
    arguments = parser.parse_args(words)
    try:
        cases = read_cases(arguments.cases)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if not cases:
        parser.error(f"{arguments.cases} has no cases; expected <language>/<class>.tsv")
    normalizer = Normalizer()
    num_wrong = 0
    for (language, kind), group in groupby(cases, key=lambda case: (case.language, case.kind)):
        of_class = list(group)
        wrong = wrong_readings(of_class, normalizer)
        num_wrong += len(wrong)
        print(f"{language:4}{kind:14}{1 - len(wrong) / len(of_class):6.3f} of {len(of_class)}")
        if arguments.wrong:
            for case, spoken in wrong:
                print(f"  {case.source!r}\n    expected {case.spoken}\n    read     {spoken}")
    print(f"{'all':18}{1 - num_wrong / len(cases):6.3f} of {len(cases)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
