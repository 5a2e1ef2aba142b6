"""`python -m training.say "…" [--speaker slt] [-o out.wav]`: the built-in voice speaks, without a server."""

import argparse
import sys
import time
import wave
from pathlib import Path

import numpy as np
import torch

from training.voice import BUILTIN, Samples, Voice


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.say", description="Speaks a text into a WAV file."
    )
    parser.add_argument("text")
    parser.add_argument("--speaker", help="the checkpoint's default if none is named")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, default=BUILTIN)
    parser.add_argument("--plain", action="store_true", help="torch calls instead of graphs")
    parser.add_argument("-o", "--output", type=Path, default=Path("out.wav"))
    arguments = parser.parse_args()
    if not arguments.text.strip():
        parser.error("the text is empty; give the words to speak")
    voice = Voice(arguments.checkpoint, has_graphs=not arguments.plain)
    name = arguments.speaker or voice.checkpoint.traits.default_speaker or next(iter(voice.speakers))
    if name not in voice.speakers:
        parser.error(f"no speaker is named {name!r}; there are {', '.join(voice.speakers)}")
    speaker = voice.speakers[name]
    voice.stream([0] * 30, speaker)  # prepares the speaker and warms the networks
    torch.set_num_threads(1)  # two threads speak: one reads, one makes sound
    sys.setswitchinterval(1e-4)  # and hand the interpreter to each other often
    began = time.perf_counter()
    chunks = voice.speak(arguments.text, speaker, arguments.seed)
    first = next(chunks)
    first_s = time.perf_counter() - began
    samples = np.concatenate([first, *chunks])
    taken = time.perf_counter() - began
    write_wav(arguments.output, samples, voice.sample_rate_hz)
    seconds = len(samples) / voice.sample_rate_hz
    figures = f"in {taken:.2f} s (RTF {taken / seconds:.2f}), the first after {1000 * first_s:.0f} ms"
    sys.stdout.write(f"{arguments.output}: {seconds:.2f} s of speech {figures}\n")


def write_wav(path: Path, samples: Samples, sample_rate_hz: int) -> None:
    """samples (n,) within ±1 -> 16 bits, mono."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate_hz)
        file.writeframes((samples.clip(-1, 1) * 32767).astype("<i2").tobytes())


if __name__ == "__main__":
    main()
