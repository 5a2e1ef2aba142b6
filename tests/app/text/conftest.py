"""One normaliser for all tests here: loading it is the slow part."""

import pytest

from firstword.app.text.normalize import Normaliser


@pytest.fixture(scope="session")
def normaliser() -> Normaliser:
    return Normaliser()
