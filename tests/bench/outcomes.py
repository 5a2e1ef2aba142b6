"""Outcomes as a client would have them."""

from firstword.bench.client import Ask, Outcome, Status
from firstword.bench.hearing import Heard

ASK = Ask("Hello there.", "en", 0)


def outcome(
    status: Status = "ok",
    asked_s: float = 0.0,
    ttfa_s: float = 0.1,
    underrun_s: float = 0.0,
    audio_s: float = 2.0,
    total_s: float = 1.0,
    why: str = "",
) -> Outcome:
    found = Heard(0.9 * ttfa_s, ttfa_s, 0.3, underrun_s, audio_s, total_s) if status == "ok" else None
    return Outcome(ASK, status, asked_s, asked_s + total_s, found, why)
