"""`python -m training.live ws://localhost:8000`: what a stop in mid-sentence or a leading mark costs.

A running server speaks each sentence whole, flushed and paused behind a quarter, a half and three quarters of
its words, by each English speaker, and behind a leading mark; Whisper tiny.en counts what is wrong.
Paused is where the server stops by itself for a writer who rests there: an article or the like waits.
Whole sentences that are cut open at the same places tell what a silence alone costs the recognizer; all
is therefore heard twice, as it was spoken and with each silence shortened, whole sentences too.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.request import urlopen

import numpy as np
from rich.progress import track
from websockets.sync.client import connect

from training.judge.recognise import Whisper
from training.judge.words import fewest_errors
from training.report import show
from training.teachers.spoken import SAMPLE_RATE_HZ, Samples
from training.text.corpus import evaluation_sentences

PLACES = 0.25, 0.5, 0.75  # shares of a sentence's words
MARKS = "...", "… ", "— ", "- ", ", ", '"', "(", "* "
_DRAWS = 2000  # of the bootstrap

_CUT_WITHIN_S = 0.06  # of where a word ends
_SILENCE_S = 0.4
_SHORT_S = 0.08  # what is left of a silence within a sentence, by far less than one that ends it
_SILENT_DB = -40.0  # below the loud parts
_RESTS_S = 5.0  # without a message: what was written is spoken to its end

Counts = tuple[int, int]  # errors, words
Word = dict[str, Any]  # as `audio` messages have it


def speak(
    url: str, pieces: Sequence[str], ways: dict[str, object], flushes: bool = False
) -> tuple[Samples, list[Word]]:
    """Return the samples (n,) of one context, and its words. flushes: behind each piece but the last.

    Raises RuntimeError with the server's error.
    """
    spoken, words = b"", list[Word]()
    with connect(f"{url}/tts/stream", max_size=None) as socket:
        socket.send(json.dumps({"type": "start", "timestamps": "word", **ways}))
        for number, piece in enumerate(pieces):
            if number and flushes:
                socket.send(json.dumps({"type": "flush"}))
            socket.send(json.dumps({"type": "text", "text": piece}))
        socket.send(json.dumps({"type": "end"}))
        for message in socket:
            if isinstance(message, bytes):
                spoken += message
                continue
            event = json.loads(message)
            words += event.get("words", [])
            if event["type"] == "error":
                raise RuntimeError(str(event["error"]))
            if event["type"] == "done":
                break
    return np.frombuffer(spoken, "<i2").astype(np.float32) / np.float32(32768), words


def pauses_behind(url: str, head: str) -> list[int]:
    """Return behind how many characters the server pauses while a writer rests behind `head`.

    Raises RuntimeError where it does not.
    """
    with connect(f"{url}/tts/stream", max_size=None) as socket:
        socket.send(json.dumps({"type": "start"}))
        socket.send(json.dumps({"type": "text", "text": head}))
        with suppress(TimeoutError):
            while True:
                socket.recv(timeout=_RESTS_S)
        socket.send(json.dumps({"type": "end"}))
        for message in socket:
            event = {} if isinstance(message, bytes) else json.loads(message)
            if pauses := event.get("stats", {}).get("pauses"):
                return [int(place) for place in pauses]
            if event.get("type") in ("done", "error"):
                break
    raise RuntimeError(f"the server does not pause behind {head!r}")


def cut_open(samples: Samples, words: Sequence[Word], num_chars: int) -> Samples:
    """samples (n,) of a whole sentence -> it with a silence behind its first `num_chars` characters.

    The cut is where the sound is faintest around the end of the word.
    """
    ends_ms = [word["end_ms"] for word in words if word["char_end"] <= num_chars]
    hop = SAMPLE_RATE_HZ // 200
    first = max(0, round(SAMPLE_RATE_HZ * (ends_ms[-1] / 1000 - _CUT_WITHIN_S)))
    near = samples[first : first + 2 * round(SAMPLE_RATE_HZ * _CUT_WITHIN_S)]
    loudness = np.square(near[: len(near) // hop * hop]).reshape(-1, hop).sum(axis=1)
    place = first + hop * int(loudness.argmin()) + hop // 2
    silence = np.zeros(round(SAMPLE_RATE_HZ * _SILENCE_S), np.float32)
    return np.concatenate([samples[:place], silence, samples[place:]])


def shorten_silences(samples: Samples) -> Samples:
    """samples (n,) -> them with 80 ms left of each silence within that is longer."""
    hop = SAMPLE_RATE_HZ // 200
    frames = samples[: len(samples) // hop * hop].reshape(-1, hop)
    loudness = np.sqrt(np.square(frames).mean(axis=1))
    is_quiet = loudness < np.quantile(loudness, 0.95) * 10 ** (_SILENT_DB / 20)
    edges = np.flatnonzero(np.diff(is_quiet, prepend=False, append=False)).reshape(-1, 2)
    is_kept, margin = np.ones(len(frames), bool), round(_SHORT_S / 2 * SAMPLE_RATE_HZ / hop)
    for first, end in edges:
        if first and end < len(frames):
            is_kept[first + margin : max(first + margin, end - margin)] = False
    return np.ascontiguousarray(frames[is_kept].reshape(-1))


def heads_of(text: str) -> list[str]:
    """Return what of a sentence comes before each place."""
    words = text.split(" ")
    return [" ".join(words[: max(1, round(place * len(words)))]) + " " for place in PLACES]


def ways_of(
    url: str, text: str, head: str, pauses: Sequence[int], mark: str, voice: dict[str, object]
) -> Iterator[tuple[str, Samples]]:
    """Give each way's name with its samples, "whole" first. pauses: of a writer who rests behind `head`."""
    whole, times = speak(url, [text], voice)
    yield "whole", whole
    yield "cut open", cut_open(whole, times, len(head) - 1)
    yield "flushed", speak(url, [head, text[len(head) :]], voice, flushes=True)[0]
    yield "paused", speak(url, [text], {**voice, "pauses": pauses})[0]
    yield "behind a mark", speak(url, [mark + text], voice)[0]


def difference(errors: Sequence[Counts], whole: Sequence[Counts]) -> tuple[float, float, float]:
    """Errors and words of the same texts in the same order -> WER more than whole, and 95 % of its draws."""
    a, b = np.array(errors, float), np.array(whole, float)
    rng = np.random.default_rng(0)
    draws = [slice(None), *rng.integers(len(a), size=(_DRAWS, len(a)))]
    found = [a[draw, 0].sum() / a[draw, 1].sum() - b[draw, 0].sum() / b[draw, 1].sum() for draw in draws]
    low, high = np.quantile(found[1:], (0.025, 0.975))
    return float(found[0]), float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", help="of a server, ws://…")
    parser.add_argument("--sentences", type=int, default=20, metavar="N")
    parser.add_argument("--speakers", nargs="+", metavar="NAME", help="all English ones if none is named")
    given = parser.parse_args()
    with urlopen(given.url.replace("ws", "http", 1) + "/speakers") as answer:
        known = [(one["name"], one["description"]) for one in json.load(answer)["speakers"]]
    english = [name for name, who in known if who is None or who["language"].startswith("en")]
    speakers = given.speakers or english
    every = evaluation_sentences()
    texts = every[:: len(every) // given.sentences][: given.sentences]
    whisper = Whisper()
    told: dict[tuple[str, str], list[Counts]] = {}
    beside: dict[tuple[str, str], list[Counts]] = {}  # the same texts whole

    places = [
        (text, head, pauses_behind(given.url, head))
        for text in track(texts, "resting")
        for head in heads_of(text)
    ]
    asked = [(*place, speaker) for place in places for speaker in speakers]
    for number, (text, head, pauses, speaker) in enumerate(track(asked, "speaking")):
        voice: dict[str, object] = {"speaker": speaker, "seed": number}  # each place is drawn anew
        whole = dict[str, Counts]()
        for way, spoken in ways_of(given.url, text, head, pauses, MARKS[number % len(MARKS)], voice):
            for form, samples in (("as spoken", spoken), ("short silences", shorten_silences(spoken))):
                heard = whisper(samples, SAMPLE_RATE_HZ)
                counts = fewest_errors(text, heard)
                whole.setdefault(form, counts)
                told.setdefault((form, way), []).append(counts)
                beside.setdefault((form, way), []).append(whole[form])
                if counts[0] > whole[form][0]:
                    show(f"{speaker}, {way}, {form}: {text} → {heard}")
    show("| | | texts | WER | more than whole, 95 % |\n|---|---|---|---|---|")
    for (form, way), counted in told.items():
        wer = sum(errors for errors, _ in counted) / sum(words for _, words in counted)
        more, low, high = difference(counted, beside[form, way])
        show(f"| {form} | {way} | {len(counted)} | {wer:.4f} | {more:+.4f} ({low:+.4f} to {high:+.4f}) |")


if __name__ == "__main__":
    main()
