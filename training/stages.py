"""`python -m training.stages`: what each stage by itself loses, on unseen sentences, before any export.

teacher; its mel through the vocoder ("copy"); its speech tokens through the decoder they were learned with
("decoded"); its speech tokens through flow and vocoder ("respoken"). A stage that never ran is left out.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from rich.progress import track
from torch import Tensor

from firstword.models.frontend.features import MelExtractor, WhisperMelExtractor, kaldi_fbank, without_mean
from training import corpus, flow, speaker_encoder, speech_tokenizer
from training.export import PROMPT_TEXT
from training.features import MEL
from training.flow_enrolment import load_flow
from training.harmonic_vocos import load_vocoder
from training.networks.flow import folded
from training.offline import vocode
from training.report import show
from training.settings import DEFAULT, Settings, VoiceSettings, read_settings
from training.teachers import open_teacher
from training.teachers.spoken import SAMPLE_RATE_HZ, Samples, Spoken
from training.text.corpus import evaluation_sentences
from training.tokenizer_through_flow import load_tokenizer
from training.trainer import load_average

Stage = Callable[[Spoken, int], Samples]


@dataclass(frozen=True, slots=True)
class Heard:
    """One sentence of one voice after one stage."""

    voice: str
    stage: str
    text: str
    heard: str
    errors: int
    words: int
    p808: float
    overall: float
    distill_mos: float


class Chain:
    """The stages of a folder as they are now, finished or not, for one voice."""

    def __init__(self, settings: Settings, voice: VoiceSettings) -> None:
        self.teacher = open_teacher(voice.teacher)
        self._mel_of, self._whisper_of = MelExtractor(MEL), WhisperMelExtractor()
        self._place = settings.names.index(voice.name)
        self._vocoder = load_vocoder(settings).float()
        self._tokenizer = speech_tokenizer.build(settings)
        self._voices = speaker_encoder.build(settings)
        self.stages: dict[str, Stage] = {"teacher": lambda spoken, _: spoken.waveform, "copy": self.copy}
        if (settings.path / f"{speech_tokenizer.STAGE}.pt").exists():
            self._tokenizer = load_tokenizer(settings)
            self.stages["decoded"] = self.decoded
        if (settings.path / f"{flow.STAGE}.pt").exists():
            self._flow = load_flow(settings)
            load_average(settings, speaker_encoder.STAGE, self._voices)
            folded(self._flow)
            self._prompt = corpus.trim(self.teacher.speak(PROMPT_TEXT))
            self.stages["respoken"] = self.respoken

    def copy(self, spoken: Spoken, seed: int) -> Samples:
        return vocode(self._vocoder, self._mel(spoken)[None], seed)

    def decoded(self, spoken: Spoken, seed: int) -> Samples:
        digits = self._tokenizer.encoder.digits_of(self._whisper(spoken)[None]).round()
        mel, _ = self._tokenizer.decoder(digits, torch.tensor([self._place]))
        return vocode(self._vocoder, (mel * self._tokenizer.mel_std + self._tokenizer.mel_mean).mT, seed)

    def respoken(self, spoken: Spoken, seed: int) -> Samples:
        fbank = kaldi_fbank(torch.from_numpy(corpus.heard(self._prompt)))
        embedding = self._voices.encoder(without_mean(fbank)[None])
        mel = self._flow(
            self._tokens(spoken), self._tokens(self._prompt), self._mel(self._prompt).T[None], embedding
        )
        return vocode(self._vocoder, mel, seed)

    def _tokens(self, spoken: Spoken) -> Tensor:
        return self._tokenizer.encoder(self._whisper(spoken)[None])

    def _mel(self, spoken: Spoken) -> Tensor:
        """-> (80, T)."""
        return self._mel_of(torch.from_numpy(spoken.waveform))

    def _whisper(self, spoken: Spoken) -> Tensor:
        return self._whisper_of(torch.from_numpy(corpus.heard(spoken)))


@torch.inference_mode()
def judge(settings: Settings, voice: VoiceSettings, texts: list[str], wanted: list[str]) -> list[Heard]:
    """wanted: names of stages; those that never ran are left out."""
    from training.judge.naturalness import distill_mos
    from training.judge.quality import quality
    from training.judge.recognise import Whisper
    from training.judge.words import fewest_errors

    torch.set_num_threads(1)
    chain, whisper = Chain(settings, voice), Whisper()
    results = []
    for place, text in enumerate(texts):
        spoken = corpus.trim(chain.teacher.speak(text))
        for name, stage in chain.stages.items():
            if name in wanted:
                samples = stage(spoken, place)
                said = whisper(samples, SAMPLE_RATE_HZ)
                score = quality(samples, SAMPLE_RATE_HZ)
                errors = fewest_errors(text, said)
                scores = score.p808, score.overall, distill_mos(samples, SAMPLE_RATE_HZ)
                results.append(Heard(voice.name, name, text, said, *errors, *scores))
    return results


def table(results: list[Heard]) -> Iterator[str]:
    """Lines of Markdown; behind the means what two standard errors are."""
    yield "| voice | stage | sentences | WER | P.808 | overall | Distill-MOS |"
    yield "|---|---|---|---|---|---|---|"
    for voice in dict.fromkeys(one.voice for one in results):
        for stage in dict.fromkeys(one.stage for one in results):
            mine = [one for one in results if (one.voice, one.stage) == (voice, stage)]
            if mine:
                rate = sum(one.errors for one in mine) / sum(one.words for one in mine)
                scores = " | ".join(
                    _mean([getattr(one, name) for one in mine]) for name in ("p808", "overall", "distill_mos")
                )
                yield f"| {voice} | {stage} | {len(mine)} | {rate:.3f} | {scores} |"


def _mean(values: list[float]) -> str:
    error = 2 * np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):.2f} ± {error:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.stages", description=__doc__.split("\n")[0])
    parser.add_argument("--settings", type=Path, default=DEFAULT)
    parser.add_argument("--voices", nargs="+", metavar="NAME", help="those that are shipped if none is named")
    parser.add_argument("--stages", nargs="+", default=["teacher", "copy", "decoded", "respoken"])
    parser.add_argument("--sentences", type=int, default=40, help="of the 200, taken evenly")
    parser.add_argument("--output", type=Path, help="a JSON file of what was heard")
    arguments = parser.parse_args()
    settings = read_settings(arguments.settings)
    everything = evaluation_sentences()
    texts = everything[:: max(1, len(everything) // arguments.sentences)][: arguments.sentences]
    chosen = [
        voice
        for voice in settings.voices
        if (voice.name in arguments.voices if arguments.voices else voice.is_shipped)
    ]
    with ProcessPoolExecutor(settings.processes) as pool:
        jobs = [pool.submit(judge, settings, voice, texts, arguments.stages) for voice in chosen]
        results = [one for job in track(jobs, "voices") for one in job.result()]
    show("\n".join(table(results)))
    if arguments.output:
        arguments.output.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n")


if __name__ == "__main__":
    main()
