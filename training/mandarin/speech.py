"""Stage: what the Mandarin teachers say: samples, mel, speech tokens and embeddings.

For the language model they go on unheard: speech tokens follow from durations and pitch, without the sound.
"""

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import NoReturn, TypeVar

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
from training.teachers.pieces import Piece, PieceTeacher
from training.teachers.spoken import Spoken, TeacherError
from training.text.mandarin import make_corpus
from training.tokenizer_through_flow import load_tokenizer

STAGE = "mandarin_speech"
_Kind = TypeVar("_Kind", bound="Tokenized")


@dataclass(frozen=True, slots=True, eq=False)
class Tokenized:
    """A text as one voice says it, T speech tokens long."""

    speaker: str
    text: str
    tokens: NDArray[np.int16]  # (T,)
    marks: NDArray[np.int16]  # (T, 2), the first and the last of the text's pinyin marks that each says

    @property
    def duration_s(self) -> float:
        return len(self.tokens) / TOKEN_RATE_HZ


@dataclass(frozen=True, slots=True, eq=False)
class Utterance(Tokenized):
    """The same, heard."""

    mel: NDArray[np.float16]  # (2 T, 80) natural log
    embedding: NDArray[np.float32]  # (192,)


def run(settings: Settings) -> None:
    """Writes <folder>/mandarin/<number>-<voice>.npz and, with such names, <folder>/mandarin/spoken/ for the
    vocoder and <folder>/mandarin/unheard/ for the language model; those already there are kept."""
    heard = plan(settings)
    unheard = plan_unheard(settings)
    jobs = [partial(speak_shard, settings, shard) for shard in heard if not shard.path.exists()]
    jobs += [partial(speak_unheard, shard) for shard in unheard if not shard.path.exists()]
    work_through(settings, STAGE, jobs, len(heard) + len(unheard))


def plan(settings: Settings) -> list[Shard]:
    """Which voice says what: the same from one run to the next, the texts being kept in a file."""

    def make() -> list[str]:
        english = [text for shard in corpus.plan(settings) for text in shard.texts]
        return make_corpus(settings.mandarin.corpus, english, random.Random(settings.seed))

    size = settings.mandarin.corpus.shard
    return corpus.shared_out(settings.path / "mandarin", make, settings.mandarin.voices, size)


def plan_unheard(settings: Settings) -> list[Shard]:
    """Return the same as `plan`, of what is not heard."""
    unheard = settings.mandarin.unheard
    make = partial(make_corpus, unheard, (), random.Random(settings.seed + 1))
    voices = [replace(one, share=one.unheard_share) for one in settings.mandarin.voices if one.unheard_share]
    return corpus.shared_out(settings.path / "mandarin" / "unheard", make, voices, unheard.shard)


def speak_shard(settings: Settings, shard: Shard) -> float:
    """Returns the hours spoken. What a teacher cannot say, or too short for its tokens, is left out."""
    torch.set_num_threads(1)
    assert isinstance(shard.voice, MandarinVoiceSettings), shard.voice
    listener = Listener(settings)
    kept = []
    for text in shard.texts:
        with suppress(TeacherError):
            kept.append(listener.listen(shard.voice, text))
    samples = spoken_shard(shard)
    samples.path.parent.mkdir(exist_ok=True)
    corpus.write_shard(samples, [(one.text, spoken) for one, spoken in kept], knows_phase=True)
    write_utterances(shard.path, [one for one, _ in kept])
    return sum(one.duration_s for one, _ in kept) / 3600


def speak_unheard(shard: Shard) -> float:
    """As `speak_shard`, of what is not heard; texts with English words are left out too."""
    assert isinstance(shard.voice, MandarinVoiceSettings), shard.voice
    kept = []
    for text in shard.texts:
        with suppress(TeacherError):
            kept.append(tokenized(shard.voice, text))
    write_tokenized(shard.path, kept)
    return sum(one.duration_s for one in kept) / 3600


def tokenized(voice: MandarinVoiceSettings, text: str) -> Tokenized:
    """Not heard. Raises as `Listener.listen`, and TeacherError for English words."""

    def english_tokens(_: Spoken) -> NoReturn:
        raise TeacherError(f"{voice.name}: English in {text!r}, whose speech tokens need its sound")

    laid = lay(*_say(voice, text, is_heard=False), voice.median_hz, english_tokens)
    return Tokenized(voice.name, text, laid.tokens, laid.marks)


def spoken_shard(shard: Shard) -> Shard:
    """The file of what was said for it, which `corpus.read_shard` reads."""
    return replace(shard, path=shard.path.parent / "spoken" / shard.path.name)


class Listener:
    """Hears the teachers by the networks that the earlier stages left."""

    def __init__(self, settings: Settings) -> None:
        self._mel_of = MelExtractor(MEL)
        self._whisper_of = WhisperMelExtractor()
        self._encoder = load_tokenizer(settings).encoder
        self._embed = speaker_encoder.read_encoder(settings)

    @torch.inference_mode()
    def listen(self, voice: MandarinVoiceSettings, text: str) -> tuple[Utterance, Spoken]:
        """Raises TeacherError for what cannot be said, and SettingsError for another kind of teacher."""
        spoken, pieces = _say(voice, text)
        laid = lay(spoken, pieces, voice.median_hz, self._english_tokens)
        mel = self._mel_of(torch.from_numpy(spoken.waveform)).T.half().numpy()
        embedding = self._embed(corpus.heard(spoken)).numpy()
        return Utterance(voice.name, text, laid.tokens, laid.marks, mel, embedding), spoken

    def _english_tokens(self, spoken: Spoken) -> NDArray[np.int16]:
        whisper = self._whisper_of(torch.from_numpy(corpus.heard(spoken)))
        return self._encoder(whisper[None])[0].numpy().astype(np.int16)


def _say(voice: MandarinVoiceSettings, text: str, is_heard: bool = True) -> tuple[Spoken, list[Piece]]:
    """Without the silence at both ends."""
    said, pieces = _teacher(voice.teacher).speak_pieces(text, is_heard)
    spoken = corpus.trim(said)
    num_tokens = len(spoken.samples) // SAMPLES_PER_TOKEN
    if not corpus.MIN_TOKENS <= num_tokens <= corpus.MAX_TOKENS:
        raise TeacherError(f"{voice.name}: {num_tokens} speech tokens for {text!r}")
    return spoken, pieces


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
    write_tokenized(path, utterances, "mel", embedding=np.array([one.embedding for one in utterances]))


def write_tokenized(path: Path, texts: Sequence[Tokenized], *joined: str, **values: ragged.Array) -> None:
    """joined and values: what there is of them beside, as `ragged.save` takes it."""
    names = ("tokens", "marks", *joined)
    columns = {name: [getattr(one, name) for one in texts] for name in names}
    ragged.save(path, columns, text=np.array([one.text for one in texts]), **values)


def read_utterances(settings: Settings) -> list[Utterance]:
    """All that is written, in its order. Raises FileNotFoundError naming the stage where there is nothing."""
    found = _read(Utterance, plan(settings))
    if not found:
        raise FileNotFoundError(f"{settings.path}/mandarin: empty; run `python -m training {STAGE}` first")
    return found


def read_unheard(settings: Settings) -> list[Tokenized]:
    """All that is written, in its order."""
    return _read(Tokenized, plan_unheard(settings))


def _read(kind: type[_Kind], shards: Sequence[Shard]) -> list[_Kind]:
    return [
        kind(shard.voice.name, str(row.pop("text")), **row)
        for shard in shards
        if shard.path.exists()
        for row in ragged.load(shard.path)
    ]
