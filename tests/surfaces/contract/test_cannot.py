"""The table of what wires cannot do names stories and surfaces that are there."""

import importlib
from pathlib import Path

from tests.surfaces.contract.cannot import CANNOT
from tests.surfaces.contract.surfaces import ALL


def test_the_table_names_stories_and_surfaces_that_are_there() -> None:
    folder = Path(__file__).parent
    stories = {
        name
        for path in folder.glob("test_*.py")
        for name in vars(importlib.import_module(f"{__package__}.{path.stem}"))
        if name.startswith("test_")
    }
    assert set(CANNOT) <= stories
    assert {name for row in CANNOT.values() for name in row} <= {surface.name for surface in ALL}
