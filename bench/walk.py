"""Counts the functions and files of a checkout that one text passes on its way through the server.

    python -m bench walk [CHECKOUT] [--names]

Starts `firstword serve` of the checkout (default: this one), waits until its speakers are ready, speaks a
text until nothing new is loaded, and then speaks it once more under `sys.setprofile` in every thread. Each
function of the package that was called counts once, leaves included; lambdas, comprehensions and what
libraries do are not counted.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PACKAGES = ("app", "models")
TEXT = "The old clock on the tower has been late for years."
TIMEOUT_S = 300

# Runs inside of the server's process, before anything is imported there.
PROFILED = """
import json, os, signal, sys, threading, time, urllib.request

address, text, result = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
called, is_recording = set(), False

def note(frame, event, argument):
    if event == "call" and is_recording:
        called.add((frame.f_code.co_filename, frame.f_code.co_qualname))

def speak():
    body = json.dumps({"text": text, "format": "pcm", "seed": 1}).encode()
    request = urllib.request.Request(address + "/tts", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        answer.read()

def are_speakers_ready():
    with urllib.request.urlopen(address + "/speakers") as answer:
        return all(speaker["cached"] for speaker in json.load(answer)["speakers"])

def drive():
    global is_recording
    sys.setprofile(None)
    while True:
        try:
            urllib.request.urlopen(address + "/readyz").close()
            break
        except OSError:
            time.sleep(0.2)
    # They are prepared behind the start, by functions that no text passes, as many as memory is for.
    deadline_s = time.monotonic() + 120
    while not are_speakers_ready() and time.monotonic() < deadline_s:
        time.sleep(0.2)
    for _ in range(3):
        speak()
    is_recording = True
    speak()
    time.sleep(1)  # what is done behind the last byte
    is_recording = False
    with open(result, "w") as file:
        json.dump(sorted(called), file)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=drive, daemon=True).start()
threading.setprofile(note)
sys.setprofile(note)
from firstword.app.cli import main
main()
"""


class NotWalked(Exception):
    """The server of the checkout did not speak."""


def walk(checkout: Path) -> list[tuple[str, str]]:
    """Return file and function of each that was called, sorted. Raises NotWalked."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "called.json"
        settings = {
            "PORT": str(port),
            "HOST": "127.0.0.1",
            "DATA_DIR": folder,
            "API_KEYS": "",
            "MAX_STREAMS": "1",
        }
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTWORD_")}
        environment |= {f"FIRSTWORD_{name}": value for name, value in settings.items()}
        environment["PYTHONPATH"] = str(checkout)
        arguments = (f"http://127.0.0.1:{port}", TEXT, str(result), "serve")
        done = subprocess.run(
            [sys.executable, "-c", PROFILED, *arguments],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if not result.exists():
            raise NotWalked(f"the server of {checkout} did not speak: {done.stderr[-500:]}")
        called = json.loads(result.read_text(encoding="utf-8"))
    found = set()
    for file, function in called:
        path = Path(file).resolve()
        if not path.is_relative_to(checkout):
            continue
        name = path.relative_to(checkout).as_posix().removeprefix("firstword/")
        if (
            name.startswith(tuple(f"{package}/" for package in PACKAGES))
            and "<" not in function.rpartition(".")[2]
        ):
            found.add((name, function))
    return sorted(found)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench walk",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkout", type=Path, nargs="?", default=Path(__file__).resolve().parents[1])
    parser.add_argument("--names", action="store_true", help="print each function")
    given = parser.parse_args(words)
    try:
        found = walk(given.checkout.resolve())
    except (NotWalked, subprocess.TimeoutExpired, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if given.names:
        for file, function in found:
            print(f"{file}: {function}")
    print(f"{len(found)} functions in {len({file for file, _ in found})} files")
    return 0
