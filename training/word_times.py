"""`python -m training.word_times`: when words sound, by the voice itself and by somebody who knows.

Generated speech is set against pocketsphinx's forced alignment; with `--teachers`, the teachers' own speech,
read by the language model as if it had drawn its tokens, against where the teachers' phones begin.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from firstword.app.core.transcript import TimedWord
from firstword.app.core.word_aligner import UtteranceWords
from firstword.app.synthesizer import Synthesizer
from firstword.app.text.words import find_words
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import TOKEN_RATE_HZ, CheckpointError
from firstword.models.lm.alignment_reader import AlignmentReader
from firstword.models.lm.plan import IGNORED, TokenDetail, offline_layout
from firstword.models.lm.qwen2 import Qwen2LM
from training import corpus
from training.settings import BUILTIN, DEFAULT, Settings, read_settings
from training.teachers import open_teacher
from training.teachers.spoken import SAMPLE_RATE_HZ, Samples, Spoken
from training.text.corpus import evaluation_sentences
from training.voice import english_speakers

_PLAIN = re.compile(r"[A-Za-z ,.;:!?']+")
_NEAR_MS = 120

Differences = dict[str, list[float]]  # milliseconds, of each speaker's words


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.word_times", description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=50, help="for each speaker")
    parser.add_argument("--speakers", nargs="+", metavar="NAME", help="all English ones if left out")
    parser.add_argument("--checkpoint", type=Path, default=BUILTIN, help="model directory")
    parser.add_argument("--in-pieces", action="store_true", help="text word by word, as it is written")
    parser.add_argument("--teachers", action="store_true", help="their speech, not the generated")
    parser.add_argument("--settings", type=Path, default=DEFAULT, help="which say each speaker's teacher")
    parser.add_argument("--json", type=Path, help="file for the differences in milliseconds")
    parser.add_argument("--plot", type=Path, help="file for their distribution")
    arguments = parser.parse_args()
    sentences = [text for text in evaluation_sentences() if _PLAIN.fullmatch(text)][: arguments.sentences]
    checkpoint = open_checkpoint(arguments.checkpoint)
    speakers = arguments.speakers or english_speakers(checkpoint)
    if arguments.teachers:
        differences = of_teachers(
            arguments.checkpoint, read_settings(arguments.settings), speakers, sentences
        )
    else:
        differences = of_generated(arguments.checkpoint, speakers, sentences, arguments.in_pieces)
    Console().print(table(differences))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(differences))
    if arguments.plot is not None:
        plot(differences, arguments.plot)


def of_generated(
    directory: Path, speakers: Sequence[str], sentences: Sequence[str], in_pieces: bool
) -> Differences:
    from training.judge.recognise import Pocketsphinx

    recogniser = Pocketsphinx()
    differences: Differences = {}
    with Synthesizer.open(directory) as synthesizer:
        for speaker in speakers:
            found = differences.setdefault(speaker, [])
            for seed, text in enumerate(sentences):
                pieces = re.findall(r"\s*\S+", text) if in_pieces else text
                spoken = list(synthesizer.timed(pieces, speaker=speaker, seed=seed))
                samples = np.concatenate([one.samples for one in spoken])
                words = [word for one in spoken for word in one.words]
                check_words(text, words)
                starts_s = np.array([word.start for word in words]) / synthesizer.sample_rate_hz
                theirs_s = recogniser.word_starts(samples, synthesizer.sample_rate_hz, text)
                found += compared(theirs_s, starts_s)
    return differences


def of_teachers(
    directory: Path, settings: Settings, speakers: Sequence[str], sentences: Sequence[str]
) -> Differences:
    """A sentence that its teacher has in more or fewer words than are written is left out."""
    aligner = ForcedAligner(directory)
    differences: Differences = {}
    for speaker in speakers:
        found, teacher = differences.setdefault(speaker, []), open_teacher(settings.teacher_of(speaker))
        for text in sentences:
            spoken = corpus.trim(teacher.speak(text))
            if spoken.num_words == len(text_words(text)):
                words = aligner.words(text, spoken.waveform)
                check_words(text, words)
                starts_s = np.array([word.start for word in words]) / SAMPLE_RATE_HZ
                found += compared(word_starts(spoken), starts_s)
            else:
                Console(stderr=True).print(f"{speaker}: {spoken.num_words} words in {text!r}")
    return differences


class ForcedAligner:
    """When the words of somebody's speech sound, by the language model that did not draw its tokens."""

    def __init__(self, directory: Path) -> None:
        """Raises CheckpointError."""
        checkpoint = open_checkpoint(directory)
        self._tokenizer = checkpoint.load_tokenizer()
        self._recordings = checkpoint.load_prompt_reader(1)
        lm = checkpoint.load_lm()
        if not isinstance(lm, Qwen2LM) or not lm.alignment_heads:
            raise CheckpointError(f"{directory}: its language model has no alignment heads")
        self._vocabulary, self._reader = lm.vocabulary, AlignmentReader(lm)

    def words(self, text: str, samples: Samples) -> list[TimedWord]:
        """samples: of the text, at SAMPLE_RATE_HZ."""
        ids = self._tokenizer.encode(text)
        tokens = self._recordings.read_source_tokens(samples, SAMPLE_RATE_HZ).tolist()
        layout = offline_layout(self._vocabulary, ids, tokens)
        drawn = [place for place, target in enumerate(layout.targets) if target != IGNORED][: len(tokens)]
        queries = self._reader.open().read(layout.input_ids, drawn, range(1, 1 + len(ids)))
        words = UtteranceWords(SAMPLE_RATE_HZ / TOKEN_RATE_HZ, SAMPLE_RATE_HZ, rate=1.0)
        words.add(text, find_words(text, text, len(ids), self._tokenizer.encode), len(ids), char_start=0)
        details = [TokenDetail(query=query) for query in queries]
        return words.take_ended(details, num_trimmed=0, num_samples=len(samples), is_last=True)


def word_starts(spoken: Spoken) -> list[float]:
    """Seconds at which the first phone of each word begins."""
    begins_s = np.concatenate([[0.0], spoken.ends_s[:-1]])
    return [float(begins_s[np.argmax(spoken.words == word)]) for word in range(spoken.num_words)]


def check_words(text: str, words: Sequence[TimedWord]) -> None:
    if [word.text.lower() for word in words] != [word.lower() for word in text_words(text)]:
        sys.exit(f"{text!r} has the words {[word.text for word in words]}")


def text_words(text: str) -> list[str]:
    return [word.strip(".,;:!?'") for word in text.split() if word.strip(".,;:!?'")]


def compared(theirs_s: list[float], ours_s: NDArray[np.float64]) -> list[float]:
    """Milliseconds by which each word starts later by our times; none where theirs are missing."""
    return [1000 * (ours - theirs) for ours, theirs in zip(ours_s, theirs_s, strict=True)] if theirs_s else []


def table(differences: Differences) -> Table:
    shown = Table("speaker", "words", "median ms", "median of size", "95 % within", f"within {_NEAR_MS} ms")
    for speaker, values in [*differences.items(), ("all", [*chain(*differences.values())])]:
        sizes = np.abs(values)
        shown.add_row(
            speaker,
            str(len(values)),
            f"{np.median(values):.0f}",
            f"{np.median(sizes):.0f}",
            f"{np.percentile(sizes, 95):.0f}",
            f"{100 * np.mean(sizes <= _NEAR_MS):.1f} %",
        )
    return shown


def plot(differences: Differences, path: Path) -> None:
    """The share of words that start within so many milliseconds of the alignment's."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    for speaker, values in differences.items():
        shares = 100 * np.arange(1, len(values) + 1) / len(values)
        axes.step(np.sort(np.abs(values)), shares, where="post", label=speaker)
    axes.set(xlabel="ms between the word's start by us and by them", ylabel="% of words", xlim=(0, 200))
    axes.axvline(_NEAR_MS, color="grey", linewidth=0.8)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main()
