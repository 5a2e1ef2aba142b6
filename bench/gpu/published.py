"""Published figures of another implementation on one H100, to be shown beside ours.

yuekaizhang/faster-cosyvoice at d55cbbf: CosyVoice 3 with MPS, 1,088 texts of seed-tts in English, one voice,
raw PCM at 24 kHz, 60 s of each load. One at a time: docs/assets_final/README.md of 2026-09-02, its best,
whose first chunk is 760 ms of audio, ours 200 or 400. The rest, of before that:
docs/cosyvoice3-h100-nari-benchmark-results-2026-08-28.md.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Published:
    """Milliseconds to the first packet; realtime: seconds of audio a second, where it was published."""

    p50_ms: float
    p95_ms: float
    realtime: float | None = None


SOURCE: Final = "faster-cosyvoice, CosyVoice 3, one H100"
CLOSED: Final = {
    1: Published(72.8, 82),
    2: Published(129, 161, 29.8),
    4: Published(186, 236, 39.9),
    8: Published(341, 400, 45.5),
    10: Published(355, 472, 47.3),
    16: Published(447, 525, 47.8),
}
"""By requests at a time."""

POISSON: Final = {
    1: Published(81, 201),
    2: Published(91, 224),
    4: Published(151, 299),
    6: Published(241, 416),
    8: Published(335, 452),
    10: Published(7700, 12700),
}
"""By requests a second."""


def published(load: str, amount: float) -> Published | None:
    table = CLOSED if load == "closed" else POISSON
    return table.get(round(amount)) if amount == round(amount) else None
