"""How soon text that is still being written is heard: from its first token to the first audible sound.

One listener at a time, over the WebSocket in mode `continuous`, as a chatbot's text comes: by tokens (a word,
or four letters of a longer one) at several speeds, and by words at the speed of speech and of a fast model.
"""

import argparse
import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from firstword.bench.arguments import count
from firstword.bench.client import Ask, Client
from firstword.bench.estimates import Quantile, quantile
from firstword.bench.hearing import Piece, ServerAnswer, heard
from firstword.bench.server import ServerDidNotStart, own_server
from firstword.bench.terminal import milliseconds, progress_of, show_line
from firstword.bench.texts import sentences

SHARES = (0.5, 0.95)
SPEEDS = (("words", 3.0), ("words", 20.0), ("tokens", 10.0), ("tokens", 20.0), ("tokens", 50.0))
_TOKEN = re.compile(r"\s*\S{1,4}")
_WORD = re.compile(r"\s*\S+")


async def measure(url: str, num_texts: int, speaker: str | None = None) -> dict[str, tuple[Quantile, ...]]:
    """-> by speed the seconds, at SHARES. Raises ServerAnswer where a stream fails."""
    texts = [text for text in sentences("en") if len(text) > 60][:num_texts]
    found: dict[str, tuple[Quantile, ...]] = {}
    async with Client(url, speaker=speaker) as client:
        with progress_of(len(texts) * len(SPEEDS)) as bar:
            for unit, per_s in SPEEDS:
                times_s: list[float] = []
                bar.say(f"{per_s:g} {unit} a second")
                for seed, text in enumerate(texts):
                    pieces = pieces_of(text, unit)
                    times_s.append(await _heard_after_s(client, Ask(text, "en", seed, "ws"), pieces, per_s))
                    bar.advance(1)
                quantiles = [quantile(times_s, share) for share in SHARES]
                found[f"{per_s:g} {unit} a second"] = tuple(one for one in quantiles if one is not None)
    return found


def pieces_of(text: str, unit: str) -> list[str]:
    """Blanks lead; the pieces concatenate to the text."""
    return (_WORD if unit == "words" else _TOKEN).findall(text)


async def _heard_after_s(client: Client, ask: Ask, pieces: Sequence[str], per_s: float) -> float:
    """From the first piece to the first sound, the text written on meanwhile."""
    async with client.socket() as socket:
        await socket.send(client.start(ask, mode="continuous"))
        began_s = time.perf_counter()

        async def write() -> None:
            for number, piece in enumerate(pieces):
                await asyncio.sleep(max(0.0, began_s + number / per_s - time.perf_counter()))
                await socket.send(json.dumps({"type": "text", "text": piece}))
            await socket.send(json.dumps({"type": "end"}))

        writing = asyncio.create_task(write())
        came: list[Piece] = []
        try:
            async for message in socket:
                if isinstance(message, bytes):
                    came.append(Piece(time.perf_counter(), message))
                elif (event := json.loads(message))["type"] == "error":
                    raise ServerAnswer(event["error"]["code"], event["error"]["message"])
                found = heard(came, began_s, client.sample_rate_hz)
                if found is not None and found.ttfa_s is not None:
                    return found.ttfa_s
        finally:
            writing.cancel()
            await asyncio.wait([writing])
    raise ServerAnswer("silent", f"no sound of {ask.text!r}")


def lines_of(found: dict[str, tuple[Quantile, ...]]) -> Iterator[str]:
    for speed, quantiles in found.items():
        num_texts = quantiles[0].num_values
        yield f"first token to speech, {speed}, ms, p50 / p95 of {num_texts}: {milliseconds(quantiles)}"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench first_words", description=__doc__)
    parser.add_argument("--texts", type=count, default=20)
    parser.add_argument("--speaker")
    parser.add_argument("--url", help="of a running server; its own if left out")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(words)
    try:
        if given.url:
            found = asyncio.run(measure(given.url, given.texts, given.speaker))
        else:
            with own_server() as server:
                found = asyncio.run(measure(server.url, given.texts, given.speaker))
    except (ServerDidNotStart, ServerAnswer, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    for line in lines_of(found):
        show_line(line)
    if given.json:
        content = {speed: [asdict(one) for one in quantiles] for speed, quantiles in found.items()}
        given.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0
