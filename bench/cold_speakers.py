"""What a cold speaker costs before the first byte: of a registered one and of a recording, new and known."""

import random
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

import httpx
from rich.table import Table

from firstword.bench.client import PATIENCE_S
from firstword.bench.estimates import Interval, quantile, ratio_of_medians
from firstword.bench.terminal import show

SENTENCE = "Here is a voice to copy for a moment, and then a little longer."
TEXT = "Good morning to you all."
WAYS = ("registered", "reference, warm", "reference, cold")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Seconds until the first byte of each request, by way, in the order of WAYS."""

    ttfb_s: dict[str, list[float]]

    def ratio(self, way: str) -> Interval:
        """Of its median to that of a registered speaker."""
        return ratio_of_medians(self.ttfb_s[way], self.ttfb_s["registered"])


def measure(url: str, num_rounds: int, api_key: str | None = None) -> Comparison:
    """Registers a speaker for as long as it takes. Raises httpx.HTTPError."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    name = f"bench-{secrets.token_hex(4)}"
    with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S) as client:
        spoken = client.post("/tts", json={"text": SENTENCE, "seed": 1, "stream": False}).raise_for_status()
        voice = {"name": name, "transcript": SENTENCE}
        client.post("/speakers", data=voice, files={"audio": spoken.content}).raise_for_status()
        try:
            return _compared(client, name, spoken.content, num_rounds)
        finally:
            client.delete(f"/speakers/{name}")


def show_report(found: Comparison) -> None:
    table = Table(title="first byte, ms", title_justify="left", box=None, pad_edge=False)
    for column in ("speaker", "p50", "p90", "÷ registered"):
        table.add_column(column, justify="left" if column == "speaker" else "right")
    for way, times_s in found.ttfb_s.items():
        shares = [quantile([1000 * time_s for time_s in times_s], share) for share in (0.5, 0.9)]
        table.add_row(way, *map(str, shares), str(found.ratio(way)))
    show(table)


def _compared(client: httpx.Client, name: str, recording: bytes, num_rounds: int) -> Comparison:
    ttfb_s: dict[str, list[float]] = {way: [] for way in WAYS}
    order = random.Random(0)
    run = secrets.token_hex(4)  # so that what an earlier run left in memory is not taken for this one's
    _first_byte_s(client, 0, {"reference_text": SENTENCE}, recording)
    for number in range(num_rounds):
        for way in order.sample(WAYS, len(WAYS)):
            voice = {"speaker": name}
            if way != "registered":
                is_cold = way == "reference, cold"
                voice = {"reference_text": f"{SENTENCE} {run} {number}" if is_cold else SENTENCE}
            time_s = _first_byte_s(client, number, voice, b"" if way == "registered" else recording)
            ttfb_s[way].append(time_s)
    return Comparison(ttfb_s)


def _first_byte_s(client: httpx.Client, seed: int, voice: dict[str, str], recording: bytes) -> float:
    fields = {"text": TEXT, "format": "pcm", "seed": str(seed)} | voice
    files: Sequence[tuple[str, tuple[str | None, bytes]]] = [
        (field, (None, text.encode())) for field, text in fields.items()
    ]
    if recording:
        files = [*files, ("reference_audio", ("voice.wav", recording))]
    began_s = time.perf_counter()
    with client.stream("POST", "/tts", files=files) as answer:
        answer.raise_for_status()
        pieces = answer.iter_raw()
        next(pieces)
        took_s = time.perf_counter() - began_s
        for _ in pieces:
            pass
    return took_s
