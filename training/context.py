"""`python -m training.context`: what `context: full` gains in sound and costs in time, on the same tokens."""

import argparse
import statistics
import time
from typing import Literal

import numpy as np
from rich.console import Console

from firstword.app.synthesizer import Synthesizer
from training.text.corpus import evaluation_sentences

CONTEXTS: tuple[Literal["chunks"], Literal["full"]] = ("chunks", "full")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.context", description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=60, help="of the 200")
    parser.add_argument("--speakers", nargs="+", metavar="NAME", help="the default one if left out")
    arguments = parser.parse_args()
    from training.judge.quality import quality
    from training.judge.recognise import Whisper
    from training.judge.words import fewest_errors

    whisper = Whisper()
    errors, num_words = dict.fromkeys(CONTEXTS, 0), 0
    seconds: dict[str, list[float]] = {context: [] for context in CONTEXTS}
    p808: dict[str, list[float]] = {context: [] for context in CONTEXTS}
    overall: dict[str, list[float]] = {context: [] for context in CONTEXTS}
    audio_s = 0.0
    with Synthesizer.open(max_streams=1) as voice:
        for speaker in arguments.speakers or [None]:
            for seed, text in enumerate(evaluation_sentences()[: arguments.sentences]):
                for context in CONTEXTS[:: 1 if seed % 2 else -1]:  # in turn
                    began_s = time.perf_counter()
                    samples = voice.speak(text, stream=False, speaker=speaker, seed=seed, context=context)
                    seconds[context].append(time.perf_counter() - began_s)
                    wrong, words = fewest_errors(text, whisper(samples, voice.sample_rate_hz))
                    errors[context] += wrong
                    score = quality(samples, voice.sample_rate_hz)
                    p808[context].append(score.p808)
                    overall[context].append(score.overall)
                num_words += words
                audio_s += len(samples) / voice.sample_rate_hz
    console = Console(highlight=False)
    for context in CONTEXTS:
        console.print(
            f"{context:8} WER {errors[context] / num_words:.2%}  P.808 {statistics.mean(p808[context]):.3f}  "
            f"OVRL {statistics.mean(overall[context]):.3f}  "
            f"{1000 * sum(seconds[context]) / audio_s:.0f} ms per second of audio"
        )
    for name, scores in (("P.808", p808), ("OVRL", overall)):
        gain = np.subtract(scores["full"], scores["chunks"])
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        console.print(f"{name} full - chunks: {gain.mean():+.3f} ± {1.96 * error:.3f}, {len(gain)} sentences")


if __name__ == "__main__":
    main()
