"""`make voice-eval`: how well the built-in voice is understood, beside its teachers, on unseen sentences.

Four paths for each of 100 sentences and four speakers: the teacher; its speech tokens spoken again; text
spoken whole; text spoken as a stream. Every second sentence also comes word by word. Then speakers
enrolled from a recording, single words and a sentence of 60 words.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from rich.progress import track

from firstword.models.frontend.features import MelExtractor
from firstword.models.frontend.speaker import SpeakerFeatures
from training import report
from training.features import MEL, teacher_samples
from training.flite import SAMPLE_RATE_HZ as TEACHER_RATE_HZ
from training.flite import SPEAKERS, Flite
from training.recognise import Recogniser, word_errors
from training.text.corpus import LONG_SENTENCE, evaluation_sentences, read_words
from training.voice import BUILTIN, Samples, Tokens, Voice

SINGLE_WORDS = ("Hello.", "Yes.", "Seven.", "Okay.", "No.", "Thank you.", "Goodbye.", "Tomorrow.")
WORD_DRAWS = 4  # of each
ENROLMENTS = 5  # of each teacher: 20 tries
_SILENT_DB = -45.0
_LOOP_TOKENS = 25  # one token so many times in a row


@dataclass(slots=True)
class Result:
    """One speaker's figures; lists go along the sentences."""

    speaker: str
    errors: dict[str, list[int]] = field(default_factory=dict)
    words: dict[str, list[int]] = field(default_factory=dict)
    heard: dict[str, list[str]] = field(default_factory=dict)
    durations: list[float] = field(default_factory=list)  # streamed / teacher
    faults: list[str] = field(default_factory=list)
    join_jumps: list[float] = field(default_factory=list)  # the largest of an utterance
    other_jumps: list[float] = field(default_factory=list)
    mel_distance_db: list[float] = field(default_factory=list)
    own_similarity: list[float] = field(default_factory=list)
    other_similarity: list[float] = field(default_factory=list)
    enrolled_right: list[bool] = field(default_factory=list)
    single_words: dict[str, list[str]] = field(default_factory=dict)  # what was heard, a draw each
    single_durations: list[float] = field(default_factory=list)  # of every draw / teacher
    long_sentence: str = ""
    long_errors: int = 0

    def wer(self, path: str, every: int = 1) -> float:
        """Word error rate; `every`: of each so many sentences one, beginning with the first."""
        return sum(self.errors[path][::every]) / max(1, sum(self.words[path][::every]))


class Examiner:
    """Lets one speaker of a voice say everything, and listens."""

    def __init__(self, directory: Path, speaker: str, num_sentences: int) -> None:
        torch.set_num_threads(1)
        self.voice, self.flite, self.recogniser = Voice(directory), Flite(speaker), Recogniser()
        self.speaker = self.voice.speakers[speaker]
        self.mel = MelExtractor(MEL)
        self.sentences = evaluation_sentences()[:num_sentences]
        self.result = Result(speaker)
        self.centres = {name: self._teacher_embedding(name) for name in SPEAKERS}

    def run(self) -> Result:
        result = self.result
        for place, text in enumerate(self.sentences):
            teacher = teacher_samples(self.flite, text)
            self._listen("teacher", text, teacher)
            said = self.voice.reader.read_source_tokens(teacher, self.voice.sample_rate_hz).tolist()
            again = self.voice.sound(said, self.speaker)
            self._listen("tokens", text, again)
            result.mel_distance_db.append(self._mel_distance(teacher, again))
            tokens = self.voice.read(text, self.speaker, seed=place)
            chunks = self.voice.stream(tokens.ids, self.speaker, seed=place)
            streamed = np.concatenate(chunks)
            self._check(text, tokens, streamed, len(teacher))
            self._measure_joins(chunks)
            self._listen("streamed", text, streamed)
            whole = self.voice.offline(tokens.ids, self.speaker, seed=place)
            if len(whole) != len(streamed):
                result.faults.append(f"{text}: {len(streamed)} samples streamed, {len(whole)} offline")
            self._listen("offline", text, whole)
            own, other = self._similarity(streamed)
            result.own_similarity.append(own)
            result.other_similarity.append(other)
            if place % report.BY_WORDS_EVERY == 0:
                words = text.split()
                pieces = [words[0], *(f" {word}" for word in words[1:])]
                by_words = self.voice.read_pieces(pieces, self.speaker, seed=place)
                self._listen("by words", text, self.voice.sound(by_words.ids, self.speaker, seed=place))
        self._enrol()
        self._say_words()
        return result

    def _listen(self, path: str, text: str, samples: Samples) -> None:
        wanted, heard = read_words(text), self.recogniser(samples, self.voice.sample_rate_hz)
        self.result.errors.setdefault(path, []).append(word_errors(wanted, heard))
        self.result.words.setdefault(path, []).append(len(wanted))
        self.result.heard.setdefault(path, []).append(" ".join(heard))

    def _check(self, text: str, tokens: Tokens, samples: Samples, num_teacher_samples: int) -> None:
        ratio = len(samples) / num_teacher_samples
        self.result.durations.append(ratio)
        runs, longest = 1, 1
        for left, right in zip(tokens.ids, tokens.ids[1:], strict=False):
            runs = runs + 1 if left == right else 1
            longest = max(longest, runs)
        level_db = 10 * np.log10(float(np.square(samples).mean()) + 1e-12)
        if tokens.reason != "eos":
            self.result.faults.append(f"{text}: does not stop")
        if longest >= _LOOP_TOKENS:
            self.result.faults.append(f"{text}: one token {longest} times")
        if level_db < _SILENT_DB:
            self.result.faults.append(f"{text}: silent, {level_db:.0f} dB")

    def _measure_joins(self, chunks: list[Samples]) -> None:
        jumps = np.abs(np.diff(np.concatenate(chunks)))
        joins = np.cumsum([len(chunk) for chunk in chunks])[:-1] - 1
        if len(joins):
            self.result.join_jumps.append(float(jumps[joins].max()))
            self.result.other_jumps.append(float(np.delete(jumps, joins).max()))

    def _mel_distance(self, teacher: Samples, again: Samples) -> float:
        """Mean absolute difference of two mels of the same speech, in decibels."""
        a, b = (self.mel(torch.from_numpy(samples)) for samples in (teacher, again))
        frames = min(a.shape[1], b.shape[1])
        return float((a[:, :frames] - b[:, :frames]).abs().mean()) * 20 / np.log(10)

    def _embed(self, samples: Samples, rate_hz: int) -> torch.Tensor:
        return F.normalize(self.voice.reader.read_speaker(samples, rate_hz).embedding, dim=0)

    def _teacher_embedding(self, name: str) -> torch.Tensor:
        flite = Flite(name)
        said = [flite.speak(text).waveform for text in self.sentences[:10]]
        return F.normalize(
            torch.stack([self._embed(samples, TEACHER_RATE_HZ) for samples in said]).mean(0), dim=0
        )

    def _similarity(self, samples: Samples) -> tuple[float, float]:
        """Cosine to the own teacher, and to the nearest other one; NaN for what is too short to tell."""
        if len(samples) < 1.2 * self.voice.sample_rate_hz:
            return float("nan"), float("nan")
        embedding = self._embed(samples, self.voice.sample_rate_hz)
        cosines = {name: float(embedding @ centre) for name, centre in self.centres.items()}
        own = cosines.pop(self.result.speaker)
        return own, max(cosines.values())

    def _enrol(self) -> None:
        """The teacher reads an unseen sentence; the voice says another one as that speaker."""
        for place in range(ENROLMENTS):
            recorded = self.sentences[-1 - place] + " " + self.sentences[-1 - place - ENROLMENTS]
            samples = self.flite.speak(recorded).waveform
            speaker: SpeakerFeatures = self.voice.enrol(samples, TEACHER_RATE_HZ, recorded)
            for text in self.sentences[4 * place : 4 * place + 4]:
                tokens = self.voice.read(text, speaker, seed=place)
                said = self.voice.sound(tokens.ids, speaker, seed=place)
                self._listen("enrolled", text, said)
            own, other = self._similarity(said)
            self.result.enrolled_right.append(own > other)

    def _say_words(self) -> None:
        for text in SINGLE_WORDS:
            num_teacher_samples = len(teacher_samples(self.flite, text))
            for draw in range(WORD_DRAWS):
                samples = self._say(text, draw)
                heard = self.recogniser(samples, self.voice.sample_rate_hz)
                self.result.single_words.setdefault(text, []).append(" ".join(heard))
                self.result.single_durations.append(len(samples) / num_teacher_samples)
        heard = self.recogniser(self._say(LONG_SENTENCE), self.voice.sample_rate_hz)
        self.result.long_sentence = " ".join(heard)
        self.result.long_errors = word_errors(read_words(LONG_SENTENCE), heard)

    def _say(self, text: str, seed: int = 0) -> Samples:
        tokens = self.voice.read(text, self.speaker, seed)
        if tokens.reason != "eos":
            self.result.faults.append(f"{text}: does not stop")
        return self.voice.sound(tokens.ids, self.speaker, seed)


def examine(directory: Path, speaker: str, num_sentences: int) -> Result:
    return Examiner(directory, speaker, num_sentences).run()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.evaluate", description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, default=BUILTIN)
    parser.add_argument("--sentences", type=int, default=len(evaluation_sentences()))
    parser.add_argument("--speakers", nargs="+", default=list(SPEAKERS), choices=SPEAKERS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--output", type=Path, default=Path("docs"), help="folder of voice.json and voice.png"
    )
    arguments = parser.parse_args()
    with ProcessPoolExecutor(arguments.processes) as pool:
        jobs = [
            pool.submit(examine, arguments.checkpoint, name, arguments.sentences)
            for name in arguments.speakers
        ]
        results = [job.result() for job in track(jobs, "speakers")]
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "voice.json").write_text(
        json.dumps([asdict(result) for result in results], indent=1) + "\n"
    )
    report.print_tables(results)
    report.draw(arguments.checkpoint, arguments.output / "voice.png")
    missed = [must.name for must in report.musts(results) if not must.is_met]
    if missed:
        raise SystemExit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
