"""`python -m training.say "…" [--speaker slt] [-o out.wav]`: the built-in voice speaks, without a server."""

import argparse
import sys
import time
import wave
from pathlib import Path

import numpy as np

from training.export import BUILTIN
from training.voice import Samples, Voice


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.say", description="Speaks a text into a WAV file."
    )
    parser.add_argument("text")
    parser.add_argument("--speaker", default="slt")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, default=BUILTIN)
    parser.add_argument("-o", "--output", type=Path, default=Path("out.wav"))
    arguments = parser.parse_args()
    if not arguments.text.strip():
        parser.error("the text is empty; give the words to speak")
    voice = Voice(arguments.checkpoint)
    if arguments.speaker not in voice.speakers:
        parser.error(f"no speaker is named {arguments.speaker!r}; there are {', '.join(voice.speakers)}")
    speaker = voice.speakers[arguments.speaker]
    began = time.perf_counter()
    tokens = voice.read(arguments.text, speaker, arguments.seed)
    samples = np.concatenate(voice.stream(tokens.ids, speaker, arguments.seed))
    taken = time.perf_counter() - began
    write_wav(arguments.output, samples, voice.sample_rate_hz)
    seconds = len(samples) / voice.sample_rate_hz
    sys.stdout.write(
        f"{arguments.output}: {seconds:.2f} s of speech in {taken:.2f} s (RTF {taken / seconds:.2f})\n"
    )


def write_wav(path: Path, samples: Samples, sample_rate_hz: int) -> None:
    """samples (n,) within ±1 -> 16 bits, mono."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate_hz)
        file.writeframes((samples.clip(-1, 1) * 32767).astype("<i2").tobytes())


if __name__ == "__main__":
    main()
