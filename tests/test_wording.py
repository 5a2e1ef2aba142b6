"""A few words that do not belong here, and US spelling, in sources and documents."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = (
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "app").rglob("*.py"),
    *(ROOT / "models").rglob("*.py"),
)
WORDS = re.compile(
    r"\b(dwells?|dwelt|thence|hence|whence|lest|ere|forgives?|forgiven|bury|buries|buried|furnish(ed|es)?|obeys?|"
    r"talkers?|keepers?|twins?|whilst|amongst|(behavi|col|fav|neighb)our(s|ed|ing)?|cent(re|res|red)|licences?|"
    r"(normal|initial|recogn|organ|optim|synthes|token)is(e[sdr]?|ing|ations?)|analys(e[sd]?|ing)|artefacts?|"
    r"(label|model|travel|level|signal)l(ed|ing)|grey|spelt|learnt)\b",
    re.IGNORECASE,
)
DATA = {"contexts.py", "vocabulary.py", "numbers.py"}  # words that the normalizer reads


def test_plain_words_in_us_spelling() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {match[0]}"
        for file in FILES
        if file.name not in DATA
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        for match in WORDS.finditer(line)
    ]
    assert found == []
