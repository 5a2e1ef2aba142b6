"""`make voice-eval`: how the built-in voice is understood and sounds, beside its teachers.

Of each speaker, on unseen sentences: the teacher; its mel through the vocoder; its speech tokens spoken
again, as a stream and in one piece; text spoken as the service speaks it, whole and word by word; hard
sentences (these and word by word in three draws); speakers enrolled from a recording; single words; a
sentence of 60 words. Of the default speaker the tokens of all other sentences, too, since what they lose is
little. Then what `training.unseen` does.
Judged by Whisper tiny.en, DNSMOS and pocketsphinx. A speaker that has ended is kept in the settings' folder
and not heard again, as long as the checkpoint is the same.
"""

import argparse
import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rich.progress import track

from firstword.models.checkpoint.open import Checkpoint, open_checkpoint
from firstword.models.frontend.features import MelExtractor
from training import corpus, report, unseen
from training.features import MEL
from training.offline import OfflineToken2Wav, vocode
from training.settings import BUILTIN, DEFAULT, Settings, read_settings
from training.teachers import open_teacher
from training.teachers.spoken import SAMPLE_RATE_HZ, Samples
from training.text.corpus import LONG_SENTENCE, evaluation_sentences, hard_sentences, read_words
from training.voice import Voice, english_speakers

SINGLE_WORDS = ("Hello.", "Yes.", "Seven.", "Okay.", "No.", "Thank you.", "Goodbye.", "Tomorrow.")
WORD_DRAWS = 4  # of each
FEW_DRAWS = 3  # of a sentence where there are few: one draw of fifty has ten words more wrong than another
ENROLMENTS = 5  # of each teacher
ENROLLED_SENTENCES = 4  # that each of them says
CENTRE_SENTENCES = 6
_APART = 1000  # the seeds of a sentence's draws
_SILENT_DB = -45.0
_ALSO_BY_POCKETSPHINX = ("teacher", "copy", "streamed")
_TEXT_PATHS = ("streamed", "by words", "hard", "enrolled")

Centres = dict[str, torch.Tensor]  # of each speaker's teacher: its mean embedding


@dataclass(slots=True)
class Scores:
    """Of one path of a speaker; lists go along its sentences."""

    errors: list[int] = field(default_factory=list)  # Whisper's
    sphinx_errors: list[int] = field(default_factory=list)  # empty where it did not listen
    words: list[int] = field(default_factory=list)
    p808: list[float] = field(default_factory=list)
    overall: list[float] = field(default_factory=list)
    misheard: dict[str, str] = field(default_factory=dict)  # by Whisper, of what was said

    def wer(self, every: int = 1) -> float:
        """`every`: of each so many sentences one, beginning with the first."""
        return sum(self.errors[::every]) / max(1, sum(self.words[::every]))


@dataclass(slots=True)
class Result:
    """One speaker's figures."""

    speaker: str
    teacher_every: int = 1  # of so many sentences its teacher said one, beginning with the first
    paths: dict[str, Scores] = field(default_factory=dict)
    other_sentences: dict[str, Scores] = field(default_factory=dict)  # of the default speaker, two paths
    durations: list[float] = field(default_factory=list)  # streamed / teacher
    faults: list[str] = field(default_factory=list)
    join_jumps: list[float] = field(default_factory=list)  # the largest of an utterance
    other_jumps: list[float] = field(default_factory=list)
    mel_distance_db: list[float] = field(default_factory=list)
    likeness: list[float] = field(default_factory=list)  # to the own teacher, by an independent encoder
    enrolled_likeness: list[float] = field(default_factory=list)  # to the recording
    enrolled_right: list[bool] = field(default_factory=list)  # nearest of all speakers' recordings
    single_words: dict[str, list[str]] = field(default_factory=dict)  # what was heard, a draw each
    single_durations: list[float] = field(default_factory=list)  # of every draw / teacher
    long_sentence: str = ""
    long_errors: int = 0


class Examiner:
    """Lets one speaker of a voice say everything, and listens."""

    def __init__(
        self,
        voice: Voice,
        checkpoint: Checkpoint,
        settings: Settings,
        num_sentences: int,
        result: Result,
        centres: Centres,
        is_default: bool,
    ) -> None:
        from training.judge.likeness import SpeakerJudge
        from training.judge.recognise import Pocketsphinx, Whisper

        self.voice, self.whisper, self.sphinx = voice, Whisper(), Pocketsphinx()
        self.judge = SpeakerJudge()
        self.teacher = open_teacher(settings.teacher_of(result.speaker))
        self.speaker = checkpoint.load_speakers()[result.speaker]
        self.reader = checkpoint.load_prompt_reader(num_threads=1)
        self.offline = OfflineToken2Wav(checkpoint)
        self.mel = MelExtractor(MEL)
        sentences = evaluation_sentences()
        self.sentences = sentences[:num_sentences]
        self.other_sentences = sentences[num_sentences:] if is_default else []
        self.hard = hard_sentences()[:num_sentences]
        self.result = result
        self.centres = centres

    def run(self) -> Result:
        result, voice, name = self.result, self.voice, self.result.speaker
        for place, text in enumerate(self.sentences):
            chunks = voice.speak(text, name, seed=place)
            streamed = np.concatenate(chunks)
            self._check_level(text, streamed)
            self._measure_joins(chunks)
            if place % result.teacher_every == 0:
                teacher = self._teach(text)
                result.durations.append(round(len(streamed) / len(teacher), 3))
                self._compare(text, teacher, place)
            self._listen("streamed", text, streamed)
            result.likeness.append(float(self._embed(streamed) @ self.centres[name]))
            if place % report.BY_WORDS_EVERY == 0:
                words = text.split()
                pieces = [words[0], *(f" {word}" for word in words[1:])]
                for seed in _seeds(place):
                    self._listen("by words", text, self._say(pieces, seed))
        for text in self.other_sentences:
            teacher = self._teach(text)
            self._listen("teacher", text, teacher, result.other_sentences)
            self._listen("tokens", text, voice.respeak(teacher, name), result.other_sentences)
        for place, text in enumerate(self.hard):
            if place % result.teacher_every == 0:
                self._listen("hard, teacher", text, self._teach(text))
            for seed in _seeds(place):
                self._listen("hard", text, self._say(text, seed))
        self._enroll()
        self._say_words()
        result.faults += voice.faults
        return result

    def _compare(self, text: str, teacher: Samples, place: int) -> None:
        """What the teacher says, and what each network makes of it."""
        result, name = self.result, self.result.speaker
        self._listen("teacher", text, teacher)
        mel = self.mel(torch.from_numpy(teacher))[None]
        self._listen("copy", text, vocode(self.offline.vocoder, mel, place))
        again = self.voice.respeak(teacher, name)
        self._listen("tokens", text, again)
        result.mel_distance_db.append(self._mel_distance(teacher, again))
        tokens = self.reader.read_source_tokens(teacher, SAMPLE_RATE_HZ).tolist()
        whole = self.offline.solve(tokens, self.speaker, seed=place)
        if len(whole) != len(again):
            result.faults.append(f"{text}: {len(again)} samples streamed, {len(whole)} offline")
        self._listen("offline", text, whole)

    def _teach(self, text: str) -> Samples:
        """What the teacher says, as long as whole speech tokens."""
        return corpus.trim(self.teacher.speak(text)).waveform

    def _listen(self, path: str, text: str, samples: Samples, paths: dict[str, Scores] | None = None) -> None:
        """paths: of the result, where its scores go; `result.paths` by default."""
        from training.judge.quality import quality
        from training.judge.words import fewest_errors

        scores = (self.result.paths if paths is None else paths).setdefault(path, Scores())
        heard = self.whisper(samples, SAMPLE_RATE_HZ)
        errors, words = fewest_errors(text, heard)
        scores.errors.append(errors)
        scores.words.append(words)
        if path in _ALSO_BY_POCKETSPHINX:
            sphinx_errors, _ = fewest_errors(text, " ".join(self.sphinx(samples, SAMPLE_RATE_HZ)))
            scores.sphinx_errors.append(sphinx_errors)
        score = quality(samples, SAMPLE_RATE_HZ)
        scores.p808.append(round(score.p808, 3))
        scores.overall.append(round(score.overall, 3))
        if errors:
            scores.misheard[text] = heard

    def _check_level(self, text: str, samples: Samples) -> None:
        level_db = 10 * np.log10(float(np.square(samples).mean()) + 1e-12)
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

    def _embed(self, samples: Samples) -> torch.Tensor:
        return self.judge.embed(samples, SAMPLE_RATE_HZ)

    def _enroll(self) -> None:
        """The teacher reads unseen sentences; the voice says other ones as that speaker."""
        for place in range(ENROLMENTS):
            recorded = self.sentences[-1 - place] + " " + self.sentences[-1 - place - ENROLMENTS]
            samples = self.teacher.speak(recorded).waveform
            speaker = self.voice.enroll(samples, recorded)
            said = []
            for text in self.sentences[place * ENROLLED_SENTENCES :][:ENROLLED_SENTENCES]:
                said.append(np.concatenate(self.voice.speak(text, seed=place, reference=speaker)))
                self._listen("enrolled", text, said[-1])
            embedding = self._embed(np.concatenate(said))
            self.result.enrolled_likeness.append(float(embedding @ self._embed(samples)))
            nearest = max(self.centres, key=lambda name: float(embedding @ self.centres[name]))
            self.result.enrolled_right.append(nearest == self.result.speaker)

    def _say_words(self) -> None:
        for text in SINGLE_WORDS:
            num_teacher_samples = len(self._teach(text))
            for draw in range(WORD_DRAWS):
                samples = self._say(text, draw)
                heard = " ".join(read_words(self.whisper(samples, SAMPLE_RATE_HZ)))
                self.result.single_words.setdefault(text, []).append(heard)
                self.result.single_durations.append(len(samples) / num_teacher_samples)
        self.result.long_sentence = self.whisper(self._say(LONG_SENTENCE), SAMPLE_RATE_HZ)
        self.result.long_errors = report.num_errors(LONG_SENTENCE, self.result.long_sentence)

    def _say(self, text: str | Sequence[str], seed: int = 0) -> Samples:
        return np.concatenate(self.voice.speak(text, self.result.speaker, seed))


def _seeds(place: int) -> range:
    """Of the draws of a sentence where there are few sentences."""
    return range(place, place + FEW_DRAWS * _APART, _APART)


def centres_of(settings: Settings, speakers: Sequence[str]) -> Centres:
    from training.judge.likeness import SpeakerJudge

    judge, centres = SpeakerJudge(), {}
    for name in speakers:
        teacher = open_teacher(settings.teacher_of(name))
        said = [
            judge.embed(teacher.speak(text).waveform, SAMPLE_RATE_HZ)
            for text in evaluation_sentences()[:CENTRE_SENTENCES]
        ]
        centres[name] = F.normalize(torch.stack(said).mean(0), dim=0)
    return centres


def examine(
    directory: Path,
    settings: Settings,
    speaker: str,
    num_sentences: int,
    centres: Centres,
    is_default: bool = False,
    teacher_every: int = 1,
) -> Result:
    """As it was kept, or heard now and kept."""
    folder = settings.path / "evaluation" / _fingerprint(directory)
    path = folder / f"{speaker}-{num_sentences}-{teacher_every}.json"
    if path.exists():
        return read_result(path)
    with Voice(directory) as voice:
        result = Result(speaker, 1 if is_default else teacher_every)
        checkpoint = open_checkpoint(directory)
        Examiner(voice, checkpoint, settings, num_sentences, result, centres, is_default).run()
    folder.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(result)))
    os.replace(partial, path)
    return result


def read_result(path: Path) -> Result:
    fields = json.loads(path.read_text())
    for of in ("paths", "other_sentences"):
        fields[of] = {name: Scores(**one) for name, one in fields[of].items()}
    return Result(**fields)


def figures(results: Sequence[Result]) -> str:
    """As JSON for the repository: numbers to a hundredth, and what was misheard of texts, not of teachers."""
    kept = []
    for result in results:
        paths = {
            name: replace(one, misheard=one.misheard if name in _TEXT_PATHS else {})
            for name, one in result.paths.items()
        }
        others = {name: replace(one, misheard={}) for name, one in result.other_sentences.items()}
        kept.append(_rounded(asdict(replace(result, paths=paths, other_sentences=others))))
    return json.dumps(kept, separators=(",", ":")) + "\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 2)
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


def _fingerprint(directory: Path) -> str:
    """Of all that a checkpoint's files say."""
    digest = hashlib.sha256()
    for path in sorted(path for path in directory.rglob("*") if path.suffix not in (".md", ".py", ".pyc")):
        if path.is_file():
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.evaluate", description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, default=BUILTIN)
    parser.add_argument("--settings", type=Path, default=DEFAULT)
    parser.add_argument("--sentences", type=int, default=100, help="of the 200")
    parser.add_argument(
        "--teacher-every",
        type=int,
        default=1,
        metavar="N",
        help="compare with the teacher in every Nth sentence only, but for the default speaker",
    )
    parser.add_argument("--speakers", nargs="+", metavar="NAME", help="all English ones by default")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--output", type=Path, default=Path("docs"), help="folder of voice.json and voice.png"
    )
    arguments = parser.parse_args()
    if arguments.sentences < (fewest := ENROLMENTS * ENROLLED_SENTENCES):
        parser.error(
            f"--sentences {arguments.sentences}; expected {fewest} or more, for the enrolled speakers"
        )
    if arguments.teacher_every < 1:
        parser.error(f"--teacher-every {arguments.teacher_every}; expected 1 or more")
    settings = read_settings(arguments.settings)
    checkpoint = open_checkpoint(arguments.checkpoint)
    speakers, english = checkpoint.load_speakers(), english_speakers(checkpoint)
    names = arguments.speakers or english
    if unknown := set(names) - set(speakers):
        parser.error(f"no speaker is named {sorted(unknown)}; there are {', '.join(speakers)}")
    default = checkpoint.traits.default_speaker or names[0]
    with ProcessPoolExecutor(arguments.processes) as pool:
        strangers = pool.submit(unseen.listen_to, arguments.checkpoint, settings)
        centres = pool.submit(centres_of, settings, tuple(dict.fromkeys((*english, *names)))).result()
        jobs = [
            pool.submit(
                examine,
                arguments.checkpoint,
                settings,
                name,
                arguments.sentences,
                centres,
                name == default,
                arguments.teacher_every,
            )
            for name in names
        ]
        results = [job.result() for job in track(jobs, "speakers")]
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "voice.json").write_text(figures(results))
    report.show(report.markdown(results, default))
    report.show(unseen.markdown(strangers.result()))
    with Voice(arguments.checkpoint) as voice:
        report.draw(voice, settings, sorted(english), arguments.output / "voice.png")
    musts = report.musts(results, default) + unseen.musts(strangers.result())
    missed = [must.name for must in musts if not must.is_met]
    if missed:
        raise SystemExit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
