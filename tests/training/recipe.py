"""A recipe so small that its stages take seconds, and a corpus for it that no teacher spoke."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from firstword.models.tokenizer import PRONUNCIATION_FOLDER
from firstword.models.tokenizer.accents import accent_file
from firstword.models.tokenizer.heteronyms import HETERONYMS_FILE, write_heteronyms
from firstword.models.tokenizer.mandarin import MANDARIN_FILE
from firstword.models.tokenizer.pronunciation import DICTIONARY_FILE
from training import corpus
from training.mandarin import speech
from training.mandarin.units import SILENCE, final_id, initial_id
from training.pronunciation import stage
from training.pronunciation.dictionary import write_dictionary
from training.settings import BUILTIN, Settings, TrainSettings, read_settings
from training.teachers.spoken import PHONES, STEP_RATE_HZ, Spoken
from training.text.arpabet import marks_of

TEXTS = ("hello there, my friend.", "seven days a week.", "where is the nearest station?", "yes, of course.")


def tiny_settings(folder: Path) -> Settings:
    """Networks of a few thousand weights, two steps each."""
    whole = read_settings()

    def short(plan: TrainSettings, batch: int) -> TrainSettings:
        return replace(plan, steps=2, batch=batch, warmup=1, bf16=False)

    return replace(
        whole,
        folder=str(folder),
        processes=1,
        voices=tuple(
            replace(voice, share=1, is_shipped=place < 3) for place, voice in enumerate(whole.voices[:4])
        ),
        corpus=replace(whole.corpus, shard=40),
        speech_tokenizer=replace(
            whole.speech_tokenizer,
            crop_tokens=20,
            frame_width=16,
            token_width=16,
            recogniser=short(whole.speech_tokenizer.recogniser, 2),
            train=short(whole.speech_tokenizer.train, 2),
        ),
        speaker_encoder=replace(
            whole.speaker_encoder, recordings=2, width=16, train=short(whole.speaker_encoder.train, 4)
        ),
        pronunciation=replace(
            whole.pronunciation, width=16, layers=2, train=short(whole.pronunciation.train, 4)
        ),
        language_model=replace(
            whole.language_model,
            merges=20,
            width=32,
            feedforward=32,
            layers=2,
            heads=2,
            kv_heads=1,
            train=short(whole.language_model.train, 300),
        ),
        accents=replace(whole.accents, train=short(whole.accents.train, 300)),
        harmonic_vocos=replace(
            whole.harmonic_vocos,
            channels=16,
            layers=3,
            f0_channels=8,
            f0_layers=1,
            told_frames=48,
            told_rows=1,
            crop_frames=48,
            train=short(whole.harmonic_vocos.train, 2),
        ),
        tokenizer_through_flow=replace(
            whole.tokenizer_through_flow, crop_tokens=20, train=short(whole.tokenizer_through_flow.train, 2)
        ),
        flow_enrolment=replace(
            whole.flow_enrolment, taught=("alder",), train=short(whole.flow_enrolment.train, 400)
        ),
        flow_distil=replace(whole.flow_distil, train=short(whole.flow_distil.train, 400)),
        mandarin=replace(
            whole.mandarin,
            is_shipped=True,
            voices=tuple(
                replace(voice, is_shipped=place == 0) for place, voice in enumerate(whole.mandarin.voices[:2])
            ),
            corpus=replace(whole.mandarin.corpus, shard=20),
            language_model=replace(
                whole.mandarin.language_model, train=short(whole.mandarin.language_model.train, 300)
            ),
            flow=replace(
                whole.mandarin.flow,
                recogniser=short(whole.mandarin.flow.recogniser, 2),
                train=short(whole.mandarin.flow.train, 400),
            ),
            flow_distil=replace(
                whole.mandarin.flow_distil, train=short(whole.mandarin.flow_distil.train, 400)
            ),
            vocoder=replace(
                whole.mandarin.vocoder,
                plain_share=0.5,
                adversary_channels=2,
                train=short(whole.mandarin.vocoder.train, 2),
            ),
        ),
        speaker_embeddings=replace(
            whole.speaker_embeddings,
            tuned=("low",),
            crop_tokens=20,
            kept_weight=0.3,
            train=replace(short(whole.speaker_embeddings.train, 2), steps=8, rate=0.05),
        ),
        flow=replace(
            whole.flow,
            encoder_width=16,
            encoder_feedforward=16,
            encoder_layers=1,
            width=112,
            heads=2,
            head_dim=8,
            mid_blocks=1,
            train=short(whole.flow.train, 400),
        ),
    )


def write_corpus(settings: Settings) -> None:
    """What `training.corpus` would leave: a hum of its own for each voice, one shard each."""
    folder = settings.path / "corpus"
    folder.mkdir(parents=True)
    lines = [TEXTS[i % len(TEXTS)] for i in range(settings.corpus.shard * len(settings.voices))]
    (folder / "texts.txt").write_text("\n".join(lines) + "\n")
    for number, shard in enumerate(corpus.plan(settings)):
        f0_hz = 100.0 + 40 * number
        corpus.write_shard(
            shard, [(text, corpus.trim(hum(f0_hz, text))) for text in shard.texts], knows_phase=True
        )


def write_mandarin(settings: Settings) -> None:
    """What `training.mandarin.speech` would leave: a shard of each voice, and an unheard one."""
    folder = settings.path / "mandarin"
    folder.mkdir()
    size = settings.mandarin.corpus.shard
    (folder / "texts.txt").write_text("你好。\n" * size * len(settings.mandarin.voices), encoding="utf-8")
    for shard in speech.plan(settings):
        said = [greeting(shard.voice.name, seed) for seed in range(size)]
        speech.write_utterances(shard.path, said)
        samples = speech.spoken_shard(shard)
        samples.path.parent.mkdir(exist_ok=True)
        corpus.write_shard(samples, [("你好。", hum(200.0, "你好。"))], knows_phase=True)
    (folder / "unheard").mkdir()
    (folder / "unheard" / "texts.txt").write_text("你好。\n" * size, encoding="utf-8")
    for shard in speech.plan_unheard(settings):
        speech.write_tokenized(shard.path, [greeting(shard.voice.name, size + seed) for seed in range(size)])


def greeting(speaker: str, seed: int) -> speech.Utterance:
    """Three seconds of 你好 in noise: silence, four pieces that have a mark of pinyin each, silence."""
    rng = np.random.default_rng(seed)
    n, i, h, au = initial_id("n"), final_id("i", 3, 0, 1), initial_id("x"), final_id("au", 3, 1, 0)
    tokens = np.repeat([SILENCE, n, i, h, au, SILENCE], [5, 5, 25, 5, 30, 5]).astype(np.int16)
    marks = np.repeat([[0, -1], [0, 0], [1, 1], [2, 2], [3, 3], [0, -1]], [5, 5, 25, 5, 30, 5], axis=0)
    mel = rng.normal(-5, 1, (2 * len(tokens), 80)).astype(np.float16)
    embedding = rng.standard_normal(192).astype(np.float32)
    return speech.Utterance(speaker, "你好。", tokens, marks.astype(np.int16), mel, embedding)


class HummingTeacher:
    """Says any text in the times of the corpus, at a pitch of its own."""

    knows_phase = True

    def speak(self, text: str) -> Spoken:
        return hum(90.0, text)


def write_words(settings: Settings, words: Mapping[str, str], british: Mapping[str, str]) -> None:
    """A pronouncing dictionary of misaki's symbols, before the stage asks a teacher for one; no word of it is
    read in two ways. british: words that are read otherwise there."""
    folder = stage.folder(settings)
    folder.mkdir(parents=True)
    for name, symbols_of in ((DICTIONARY_FILE, words), (accent_file("british"), british)):
        marks = {word: marks_of(symbols) for word, symbols in symbols_of.items()}
        write_dictionary(folder / name, {word: read for word, read in marks.items() if read})
    write_heteronyms(folder / HETERONYMS_FILE, {}, ())
    shutil.copy(BUILTIN / PRONUNCIATION_FOLDER / MANDARIN_FILE, folder)


def hum(f0_hz: float, text: str) -> Spoken:
    """Two seconds of a voice-like tone with as many words as the text, one phone a word.

    It rises and falls four times a second, as syllables do: what does not is no voice to be registered.
    """
    rng = np.random.default_rng(len(text))
    time = np.arange(48_000) / 24_000
    tone = sum(np.sin(2 * np.pi * f0_hz * k * time) / k for k in range(1, 12))
    loudness = 0.6 + 0.4 * np.cos(2 * np.pi * 4 * time)
    samples = 3000 * loudness * tone + 100 * rng.standard_normal(len(time))
    num_words = len(text.split())
    ends = np.linspace(0, 2.0, num_words + 3)[1:]
    phones = np.array([0, *rng.integers(1, len(PHONES), num_words), 0], np.uint8)
    words = np.array([-1, *range(num_words), -1], np.int32)
    return Spoken(
        samples.astype(np.int16),
        phones,
        ends.astype(np.float32),
        words,
        num_words,
        np.full(2 * STEP_RATE_HZ, f0_hz, np.float32),
        np.arange(2 * STEP_RATE_HZ) * f0_hz / STEP_RATE_HZ,
        "hʌm",
    )
