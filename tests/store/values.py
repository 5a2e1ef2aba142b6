"""Speakers to store, and how a test waits for what another server hears of."""

import time
from collections.abc import Callable

from firstword.app.speakers.interface import KnownSpeaker, PromptInfo, Quality
from firstword.app.speakers.tables import SpeakerRow, StoredSpeaker

CREATED_AT = "2026-05-01T12:00:00+00:00"


def speaker(name: str = "mia", recording: bytes = b"sound", owner: str = "") -> StoredSpeaker:
    quality = Quality(30.0, 0.0, 0.6, 0.9)
    row = SpeakerRow(
        name,
        CREATED_AT,
        PromptInfo(2.5, "Grüße, 你好 👋🏽", "en", 62),
        quality,
        "checkpoint-1",
        owner,
        "private" if owner else "shared",
    )
    return StoredSpeaker(row, recording, b"features")


def info(row: SpeakerRow) -> KnownSpeaker:
    return KnownSpeaker(
        row.name,
        "registered",
        row.created_at,
        row.prompt,
        row.quality,
        cached=False,
        owner=row.owner or None,
        access=row.access,
    )


def seconds_until(condition: Callable[[], bool], limit_s: float = 10.0) -> float:
    began_at = time.monotonic()
    while not condition():
        assert time.monotonic() - began_at < limit_s, f"not within {limit_s} s"
        time.sleep(0.005)
    return time.monotonic() - began_at
