"""Plain words: the terms of docs/architecture.md, in names, docstrings, comments, messages and documents.

`python -m tests.test_wording` prints how often each banned word stands, `-v` also where.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "models/builtin/MODEL_CARD.md")

# A part of a name in snake_case or CamelCase -> what the field says.
NAME_PARTS = {
    "forgive": "clear",
    "bury": "close",
    "furnished": "build",
    "fused": "onnx, OrtSession",
    "heard": "received, playback",
    "hearing": "playback metrics",
    "house": "fixture",
    "interleaved": "bistream",
    "keeper": "supervisor",
    "kept": "cache layer, conv state",
    "lefts": "conv state, left context",
    "leg": "decode request",
    "legs": "decode requests",
    "lend": "borrow",
    "lent": "borrowed",
    "mend": "fix",
    "obey": "dispatch",
    "payload": "EncodedChunk, data",
    "payloads": "chunks",
    "place": "slot, device, index, path, position: whichever it is",
    "places": "slots, devices, indices, paths, positions: whichever they are",
    "pyramid": "multi-resolution",
    "regulated": "cosyvoice1",
    "rig": "pipeline",
    "room": "ring KV cache",
    "rooms": "ring KV cache",
    "said": "transcript, spoken",
    "settle": "commit",
    "site": "layer, slot",
    "sites": "layers, slots",
    "stir": "touch",
    "stretch": "sampling span",
    "talker": "audio task",
    "tell": "send, publish, set",
    "tells": "sends, publishes, sets",
    "told": "sent, published, given",
    "turn": "StreamSession",
    "turns": "sessions",
    "twin": "CFG batch, duplicate_for_cfg",
    "twins": "CFG batch, duplicate_for_cfg",
    "workshop": "enrolment",
}
# Whole names, without leading underscores.
NAMES = {
    "Draws": "SamplingState",
    "OneWayPlan": "OfflinePlan",
    "Over": "Stop",
    "Reader": "text task",
    "Said": "Transcript",
    "Speech": "text",
    "has_special_rows": "the family said",
}
# In docstrings, comments, messages and documents.
PROSE = {
    r"rooms": "ring KV cache, or folders",
    r"lend(s|ing)?|lent": "borrow",
    r"settle(s|d)?|settling": "commit",
    r"twins?": "CFG batch",
    r"legs?": "decode request",
    r"stretch(es|ed)?": "span",
    r"keepers?": "supervisor",
    r"workshops?": "enrolment",
    r"talkers?": "audio task",
    r"furnish(ed|es)?": "build",
    r"mend(s|ed|ing)?": "fix",
    r"obey(s|ed)?": "follow, dispatch",
    r"stir(s|red)?": "touch",
    r"forgives?|forgiven|forgave": "clear",
    r"bury|buries|buried": "close",
    r"lefts": "conv state, left context",
    r"fused": "ONNX graph",
    r"regulated": "CosyVoice 1",
    r"pyramids?": "multi-resolution",
    r"one-way": "offline, unidirectional",
    r"interleaved?": "bistream",
    r"special rows": "CosyVoice 3 vocabulary",
    r"dwells?|dwelt": "stay",
    r"thence|hence|whence": "from there, so",
    r"lest": "so that … not",
    r"ere": "before",
}
# British words that US spelling writes with z, as what stands before "is".
_STEMS = """
apolog author canonical capital categor central character critic custom digit discret emphas energ equal
factor final general ideal initial linear local material maxim memor minim modular neutral normal optim organ
parallel penal polar priorit quant random real recogn regular sanit scrutin serial social special stabil
standard summar symbol synthes terminal token util vector visual vocal
"""
_BRITISH = (
    rf"(?:un|re|de)?(?:{'|'.join(_STEMS.split())})is(?:e[sdr]?|ers|ing|ations?)",
    r"analys(?:e[sdr]?|ing)",
    r"(?:behavi|col|fav|hon|lab|neighb|flav)our(?:s|ed|ing|able|ite|hoods?)?",
    r"cent(?:re|res|red|ring)",
    r"licences?|artefacts?|catalogues?|greys?|programmes?|judgements?|metres?|fulfil|whilst|amongst",
    r"(?:label|model|travel|level|signal)l(?:ed|ing|er)",
    r"misspelt|spelt|learnt|burnt|dreamt",
)
BRITISH = re.compile(r"\b(?:" + "|".join(_BRITISH) + r")\b", re.IGNORECASE)
_BANNED = {re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE): better for pattern, better in PROSE.items()}

# (file, word as it stands, in lower case) -> why it may.
EXCEPTIONS = {
    ("app/settings.py", "customise"): "settings_customise_sources is a method of pydantic-settings",
    ("models/flow/dit.py", "interleaved"): "the field's term for the layout of rotary pairs",
    ("models/layers.py", "interleaved"): "the field's term for the layout of rotary pairs",
}
# Files whose string literals are English or wire data, not our prose; docstrings and comments still count.
DATA_FILES = {
    "app/text/english_vocabulary.py": "words that the normalizer reads",
    "app/text/english_numbers.py": "words that the normalizer reads",
}


@dataclass(frozen=True, slots=True)
class Hit:
    path: str
    line: int
    word: str
    better: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word} -> {self.better}"


def parts(name: str) -> list[str]:
    """The words of a name in snake_case or CamelCase, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def defined_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """What a file itself names: not what it takes from libraries."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno


def names_hits(path: str, tree: ast.AST) -> Iterator[Hit]:
    named = [*defined_names(tree), *((part.removesuffix(".py"), 1) for part in path.split("/"))]
    for name, line in named:
        whole = name.strip("_")
        if whole in NAMES:
            yield Hit(path, line, name, NAMES[whole])
        for word in parts(name):
            if word in NAME_PARTS and not (word == "place" and "in_place" in name):
                yield Hit(path, line, word, NAME_PARTS[word])
            elif BRITISH.fullmatch(word):
                yield Hit(path, line, word, "US spelling")


def prose_hits(path: str, line: int, text: str) -> Iterator[Hit]:
    for number, part in enumerate(text.splitlines(), start=line):
        for pattern, better in _BANNED.items():
            for match in pattern.finditer(part):
                yield Hit(path, number, match[0].lower(), better)
        for match in BRITISH.finditer(part):
            yield Hit(path, number, match[0].lower(), "US spelling")


def prose_of(path: str, source: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Comments and strings, docstrings among them."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, documented)]
    docstrings = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
    for node in ast.walk(tree):
        is_string = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_string and (path not in DATA_FILES or id(node) in docstrings):
            yield node.lineno, node.value


def sources() -> list[Path]:
    return [path for folder in ("app", "models") for path in sorted((ROOT / folder).rglob("*.py"))]


def documents() -> list[Path]:
    return [ROOT / name for name in DOCUMENTS] + sorted((ROOT / "docs").rglob("*.md"))


def hits_of(file: Path) -> list[Hit]:
    path, text = file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        tree = ast.parse(text)
        found = list(names_hits(path, tree))
        for line, part in prose_of(path, text, tree):
            found.extend(prose_hits(path, line, part))
    else:
        found = list(prose_hits(path, 1, text))
    return [hit for hit in found if (path, hit.word.lower()) not in EXCEPTIONS]


def test_names_comments_and_messages_use_plain_words() -> None:
    assert [str(hit) for file in sources() for hit in hits_of(file)] == []


def test_documents_use_plain_words() -> None:
    assert [str(hit) for file in documents() for hit in hits_of(file)] == []


def test_every_exception_is_needed() -> None:
    used = set()
    for file in [*sources(), *documents()]:
        path, text = file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8").lower()
        used |= {(known, word) for known, word in EXCEPTIONS if known == path and word in text}
    assert set(EXCEPTIONS) == used
    assert {name for name in DATA_FILES if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("TurnEncoder", ["turn"]),
        ("_tell_text", ["tell"]),
        ("num_places", ["places"]),
        ("replace_in_place", []),
        ("Reader", ["Reader"]),
        ("PromptReader", []),
        ("is_normalised", ["normalised"]),
        ("return_all", []),
    ],
)
def test_names_are_taken_apart(name: str, found: list[str]) -> None:
    assert [hit.word for hit in names_hits("app/x.py", ast.parse(f"{name} = 1"))] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It settles what was lent.", ["settles", "lent"]),
        ("A recording from a quiet room.", []),
        ("Normalised colours and neighbours.", ["normalised", "colours", "neighbours"]),
        ("Raise otherwise; a precise noise, cancelled.", []),
    ],
)
def test_prose_is_read_word_by_word(text: str, found: list[str]) -> None:
    assert sorted(hit.word for hit in prose_hits("x.md", 1, text)) == sorted(found)


def main() -> None:
    hits = [hit for file in [*sources(), *documents()] for hit in hits_of(file)]
    counts = Counter((hit.word.lower(), hit.better) for hit in hits)
    lines = [str(hit) for hit in hits] if "-v" in sys.argv else []
    lines += [f"{count:5} {word:16} -> {better}" for (word, better), count in counts.most_common()]
    sys.stdout.write("\n".join([*lines, f"{len(hits):5} in all", ""]))


if __name__ == "__main__":
    main()
