"""Stage: what the Mandarin teachers say: samples, mel, speech tokens and embeddings."""

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from firstword.models.config import SAMPLES_PER_TOKEN, TOKEN_RATE_HZ
from firstword.models.frontend.features import MelExtractor, WhisperMelExtractor
from training import corpus, ragged, speaker_encoder
from training.corpus import Shard
from training.features import MEL
from training.mandarin.tokens import lay
from training.progress import work_through
from training.settings import MandarinVoiceSettings, Settings, SettingsError
from training.teachers import open_teacher
from training.teachers.pieces import PieceTeacher
from training.teachers.spoken import Spoken, TeacherError
from training.text.mandarin import make_corpus
from training.tokenizer_through_flow import load_tokenizer

STAGE = "mandarin_speech"


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """What one voice said once, T speech tokens long."""

    speaker: str
    text: str
    mel: NDArray[np.float16]  # (2 T, 80) natural log
    tokens: NDArray[np.int16]  # (T,)
    marks: NDArray[np.int16]  # (T, 2), the first and the last of the text's pinyin marks that each says
    embedding: NDArray[np.float32]  # (192,)

    @property
    def duration_s(self) -> float:
        return len(self.tokens) / TOKEN_RATE_HZ


def run(settings: Settings) -> None:
    """Writes <folder>/mandarin/<number>-<voice>.npz and, for the vocoder, <folder>/mandarin/spoken/ with the
    same names; those already there are kept."""
    if "zh" not in settings.languages:
        return
    shards = plan(settings)
    jobs = [partial(speak_shard, settings, shard) for shard in shards if not shard.path.exists()]
    work_through(settings, STAGE, jobs, len(shards))


def plan(settings: Settings) -> list[Shard]:
    """Which voice says what: the same from one run to the next, the texts being kept in a file."""
    folder = settings.path / "mandarin"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "texts.txt"
    if not path.exists():
        english = [text for shard in corpus.plan(settings) for text in shard.texts]
        texts = make_corpus(settings.mandarin.corpus, english, random.Random(settings.seed))
        path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    texts = path.read_text(encoding="utf-8").splitlines()
    return corpus.shared_out(folder, texts, settings.mandarin.voices, settings.mandarin.corpus.shard)


def speak_shard(settings: Settings, shard: Shard) -> float:
    """Returns the hours spoken. What a teacher cannot say, or too short for its tokens, is left out."""
    torch.set_num_threads(1)
    assert isinstance(shard.voice, MandarinVoiceSettings), shard.voice
    listener, kept = Listener(settings), []
    for text in shard.texts:
        with suppress(TeacherError):
            kept.append(listener.listen(shard.voice, text))
    samples = spoken_shard(shard)
    samples.path.parent.mkdir(exist_ok=True)
    corpus.write_shard(samples, [(one.text, spoken) for one, spoken in kept], knows_phase=True)
    write_utterances(shard.path, [one for one, _ in kept])
    return sum(one.duration_s for one, _ in kept) / 3600


def spoken_shard(shard: Shard) -> Shard:
    """The file of what was said for it, which `corpus.read_shard` reads."""
    return replace(shard, path=shard.path.parent / "spoken" / shard.path.name)


class Listener:
    """Hears the teachers by the networks that the earlier stages left."""

    def __init__(self, settings: Settings) -> None:
        self._mel_of, self._whisper_of = MelExtractor(MEL), WhisperMelExtractor()
        self._encoder = load_tokenizer(settings).encoder
        self._embed = speaker_encoder.read_encoder(settings)

    @torch.inference_mode()
    def listen(self, voice: MandarinVoiceSettings, text: str) -> tuple[Utterance, Spoken]:
        """Raises TeacherError for what cannot be said, and SettingsError for another kind of teacher."""
        said, pieces = _teacher(voice.teacher).speak_pieces(text)
        spoken = corpus.trim(said)
        num_tokens = len(spoken.samples) // SAMPLES_PER_TOKEN
        if not corpus.MIN_TOKENS <= num_tokens <= corpus.MAX_TOKENS:
            raise TeacherError(f"{voice.name}: {num_tokens} speech tokens for {text!r}")
        laid = lay(spoken, pieces, voice.median_hz, self._english_tokens)
        mel = self._mel_of(torch.from_numpy(spoken.waveform)).T.half().numpy()
        embedding = self._embed(corpus.heard(spoken)).numpy()
        return Utterance(voice.name, text, mel, laid.tokens, laid.marks, embedding), spoken

    def _english_tokens(self, spoken: Spoken) -> NDArray[np.int16]:
        whisper = self._whisper_of(torch.from_numpy(corpus.heard(spoken)))
        return self._encoder(whisper[None])[0].numpy().astype(np.int16)


@cache
def _teacher(call: str) -> PieceTeacher:
    """One a process."""
    teacher = open_teacher(call)
    if not isinstance(teacher, PieceTeacher):
        raise SettingsError(
            f"mandarin.voices: teacher {call!r}; expected one like kokoro mandarin zf_xiaoxiao"
        )
    return teacher


def write_utterances(path: Path, utterances: Sequence[Utterance]) -> None:
    ragged.save(
        path,
        {name: [getattr(one, name) for one in utterances] for name in ("mel", "tokens", "marks")},
        text=np.array([one.text for one in utterances]),
        embedding=np.array([one.embedding for one in utterances]),
    )


def read_utterances(settings: Settings) -> list[Utterance]:
    """All that is written, in its order. Raises FileNotFoundError naming the stage where there is nothing."""
    shards = [shard for shard in plan(settings) if shard.path.exists()]
    if not shards:
        raise FileNotFoundError(f"{settings.path}/mandarin: empty; run `python -m training {STAGE}` first")
    return [
        Utterance(shard.voice.name, str(row.pop("text")), **row)
        for shard in shards
        for row in ragged.load(shard.path)
    ]
