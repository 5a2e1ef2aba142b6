"""One normalizer for all tests here: loading it is the slow part."""

import pytest

from firstword.app.text.normalize import Normalizer


@pytest.fixture(scope="session")
def normalizer() -> Normalizer:
    return Normalizer()
