"""Bounds on how far a reader has to go; `python -m bench.structure` prints the figures."""

from pathlib import Path

import pytest

from firstword.bench.structure import Structure, measure

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def structure() -> Structure:
    return measure(ROOT)


def test_no_two_folders_of_app_import_each_other(structure: Structure) -> None:
    assert [pair for pair in structure.two_way_folders if "app/" in pair] == []


def test_import_chain_is_short(structure: Structure) -> None:
    assert len(structure.import_chain) <= 13, " > ".join(structure.import_chain)


def test_no_file_is_over_500_lines(structure: Structure) -> None:
    assert structure.long_files == []


def test_few_private_functions_are_used_once(structure: Structure) -> None:
    assert structure.private_used_once_share <= 0.12, f"{structure.private_used_once} functions"


@pytest.mark.parametrize(
    ("name", "max_functions", "max_files"),
    [
        ("text", 121, 47),  # words are read in two ways on it, and in an accent
        ("speaker", 80, 26),  # a checkpoint that matches recordings speaks the prompt again and reads that
    ],
)
def test_walk_is_short(structure: Structure, name: str, max_functions: int, max_files: int) -> None:
    walk = structure.walks[name]
    assert walk.functions <= max_functions, f"`python -m bench.structure --walk {name}` lists them"
    assert walk.files <= max_files
