"""Images of others by digest: what the command writes, with digests of the test's own."""

from pathlib import Path

import pytest

from deploy.pins import FILES, pin

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_image_of_others_is_pinned_and_ours_is_not(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    pinned, names = pin(text, lambda name: DIGEST)
    assert names
    assert not any(name.startswith("firstword") for name in names)
    assert all(f"{name}@{DIGEST}" in pinned for name in names)
    assert pin(pinned, lambda name: DIGEST) == (pinned, names)


def test_a_stage_of_the_build_file_is_no_image() -> None:
    text = "FROM python:3.11-slim AS service\nFROM service AS cpu\n"
    pinned, names = pin(text, lambda name: DIGEST)
    assert names == ["python:3.11-slim"]
    assert pinned == f"FROM python:3.11-slim@{DIGEST} AS service\nFROM service AS cpu\n"
