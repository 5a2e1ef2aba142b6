"""Stage: the language model, text to speech tokens: alone and behind a prompt, whole and interleaved."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from firstword.models.config import AlignmentHeads, Qwen2Config, Qwen2LMConfig
from firstword.models.lm.plan import IGNORED, Layout, Vocabulary, bistream_layout, offline_layout
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.tokenizer.accents import AccentedWords, accent_file
from firstword.models.tokenizer.heteronyms import HETERONYMS_FILE, read_heteronyms
from firstword.models.tokenizer.mandarin import MANDARIN_FILE, Mandarin
from firstword.models.tokenizer.pronunciation import Pronunciation
from firstword.models.tokenizer.qwen2 import Qwen2Tokenizer
from training import trainer
from training.features import Utterance, read_features
from training.layout import prompt_first_layout
from training.networks.language_model import LanguageModelTrainer, LMBatch
from training.networks.speech_tokenizer import NUM_CODES
from training.pronunciation import stage as pronunciation
from training.settings import LanguageModelSettings, Settings
from training.speech_tokenizer import read_tokens
from training.teachers.spoken import PHONES
from training.text.corpus import WORD, KeptOut, read_words
from training.text_tokenizer import read_tokenizer

STAGE = "language_model"
_HELD = 96  # utterances kept from the training, to see how it goes
_PROMPTED = 0.1  # of the rows continue another utterance of their speaker, as zero_shot asks for
_PROMPT_TOKENS = (40, 220)
_ALONE = 0.4  # of the rows say a word or two: without them "No." comes twice; a seventh of the positions
_ALONE_WORDS = 2
_CHAINED = 0.5  # of the rows say several utterances as one: long sentences are rare in the corpus
_COMMAS = 0.5  # of their joins: the sentence goes on behind a comma
_CHAIN_TOKENS = (250, 700)
_MAX_WRONG = 0.3  # of the speech tokens that a row shows
_WRONG_SINCE = 10  # tokens: how far back the wrong ones come from that were said
_INTERLEAVED = 0.4
_PHONE_WEIGHT = 0.3
GUIDE_WEIGHTS = (0.3, 0.2)  # in the first and the second half
_POOL = 1500  # rows sorted by length together
_SILENCE, _R, *_BEFORE_R = map(PHONES.index, "_ɹəɜɚ")
_SPOKEN = re.compile(rf"(?:\[[A-Z]{{1,2}}[0-2]?\])+|{WORD.pattern}")


NOT_KNOWN = (0, -1)  # what text a speech token says


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One utterance as the language model sees it."""

    speaker: str
    text: NDArray[np.int64]  # (X,) text ids
    text_words: NDArray[np.int64]  # (X,), the word a text id is of; -1: of none
    tokens: NDArray[np.int64]  # (T,)
    about: NDArray[np.int64]  # (T, 2), the first and the last text id that a speech token says; NOT_KNOWN
    phones: NDArray[np.int64]  # (T,)


def run(settings: Settings) -> None:
    """Writes <folder>/language_model.pt."""
    plan = settings.language_model
    dice = trainer.seeded(settings, STAGE)
    tokenizer = read_tokenizer(settings)
    lines = read_lines(settings, tokenizer)
    held, lines = lines[:_HELD], lines[_HELD:]
    model = build(settings, tokenizer.vocab_size)
    vocabulary = model.lm.vocabulary
    (period,), (comma,) = tokenizer.encode("."), tokenizer.encode(",")
    rows = Rows(lines, plan, plan.train.batch, vocabulary, (period, comma), dice.numpy)
    check = as_batch([(None, line) for line in held], [False] * len(held), vocabulary, plan)

    def losses_of(share: float) -> trainer.Losses:
        token, phone, guide, right = model(trainer.on_device(next(rows)))
        weight = GUIDE_WEIGHTS[share >= 0.5]
        loss = token + _PHONE_WEIGHT * phone + weight * guide
        return {"loss": loss, "token": token, "right": right, "phone": phone, "guide": guide}

    def after(_: int) -> dict[str, float]:
        token, phone, guide, right = model(trainer.on_device(check))
        return {
            "held token": float(token),
            "right": float(right),
            "phone": float(phone),
            "guide": float(guide),
        }

    trainer.train(settings, plan.train, model, dice, losses_of, after)


def build(settings: Settings, text_vocab_size: int) -> LanguageModelTrainer:
    lm = Qwen2LM(config(settings.language_model, text_vocab_size))
    middle = settings.language_model.layers // 2
    return LanguageModelTrainer(lm, len(PHONES), (middle - 1, middle), middle)


def alignment_heads(plan: LanguageModelSettings) -> AlignmentHeads:
    """The earlier of the heads that are shown which text a speech token is about; the later looks ahead."""
    return ((plan.layers // 2 - 1, 0),)


def config(plan: LanguageModelSettings, text_vocab_size: int) -> Qwen2LMConfig:
    qwen2 = Qwen2Config(
        vocab_size=text_vocab_size,
        hidden_size=plan.width,
        intermediate_size=plan.feedforward,
        num_hidden_layers=plan.layers,
        num_attention_heads=plan.heads,
        num_key_value_heads=plan.kv_heads,
        rope_theta=10_000.0,
    )
    return Qwen2LMConfig(
        NUM_CODES,
        qwen2,
        has_cosyvoice3_vocabulary=False,
        mix_ratio=plan.mix_ratio,
        prompt_before_blocks=True,
        alignment_heads=alignment_heads(plan),
        sampling=plan.sampling,
    )


def front_end(settings: Settings, accent: str = "") -> Callable[[str], str]:
    """What a text goes through before it is cut into tokens."""
    if settings.language_model.reads == "letters":
        return str
    folder = pronunciation.folder(settings)
    sounds, heteronyms = Pronunciation(folder), read_heteronyms(folder / HETERONYMS_FILE)
    words = AccentedWords(folder / accent_file(accent), heteronyms) if accent else heteronyms
    if not settings.reads_mandarin:
        return lambda text: sounds.write(words.write(text))
    mandarin = Mandarin(folder / MANDARIN_FILE)
    return lambda text: sounds.write(mandarin.write(words.write(text)))


def read_lines(settings: Settings, tokenizer: Qwen2Tokenizer) -> list[Line]:
    """Return the corpus in the voice's own accent, but for what the evaluation asks."""
    written = front_end(settings)
    kept_out = KeptOut()
    return [
        as_line(one, tokens.astype(np.int64), tokenizer, written)
        for one, tokens in zip(read_features(settings), read_tokens(settings), strict=True)
        if one.tells_sounds and not settings.accent_of(one.speaker) and kept_out.allows(one.text)
    ]


def as_line(
    one: Utterance,
    tokens: NDArray[np.int64],
    tokenizer: Qwen2Tokenizer,
    written: Callable[[str], str] = str,
) -> Line:
    ids = tokenizer.encode(written(one.text))
    spoken = read_words(one.text)
    text_words = words_of_ids([tokenizer.decode([id]) for id in ids])
    about = ids_of_frames(one.words, one.phones, text_words)[1::2]
    if one.num_words != len(spoken):
        about = np.tile(NOT_KNOWN, (len(tokens), 1))
    phones = one.phones[1::2].astype(np.int64)
    return Line(one.speaker, np.array(ids), text_words, tokens, about, phones)


def words_of_ids(pieces: list[str]) -> NDArray[np.int64]:
    """The number of the word each piece of text stands in, in letters or marks; -1 for punctuation."""
    text = "".join(pieces)
    words = np.full(len(text), -1)
    for number, match in enumerate(_SPOKEN.finditer(text)):
        words[match.start() : match.end()] = number
    ends = np.cumsum([len(piece) for piece in pieces])
    return np.array([words[end - len(piece) : end].max() for piece, end in zip(pieces, ends, strict=True)])


def ids_of_frames(
    words: NDArray[np.int16], phones: NDArray[np.uint8], text_words: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The first and the last text id that each frame says, (F, 2): of its word, as far as its phone is in it.

    words, phones (F,): those of the frames, in which a silence has the word after it. text_words (X,): the
    word of each text id. Where a word has as many ids as phones, each phone is one of them. A silence says
    what stands between the words, where something does.
    """
    about = np.tile(NOT_KNOWN, (len(words), 1))
    for word in np.unique(words):
        places, frames = np.flatnonzero(text_words == word), np.flatnonzero(words == word)
        sounds = frames[phones[frames] != _SILENCE]
        if not len(places) or not len(sounds):
            continue
        about[frames] = places[-1]
        before = np.flatnonzero(text_words[: places[0]] >= 0)
        behind = before[-1] + 1 if len(before) else places[0]
        about[frames[frames < sounds[0]]] = (behind, places[0] - 1) if behind < places[0] else places[0]
        heard = phones[sounds]
        begins = np.append(False, heard[1:] != heard[:-1])
        if begins.sum() + 1 != len(places):  # `[ER0]` is two of the teachers' phones
            begins[1:] &= ~((heard[1:] == _R) & np.isin(heard[:-1], _BEFORE_R))
        phone = np.cumsum(begins)
        num_phones = phone[-1] + 1
        first, stop = phone * len(places) // num_phones, -(-(phone + 1) * len(places) // num_phones)
        about[sounds] = np.stack([places[first], places[stop - 1]], axis=1)
    return about


def as_batch(
    pairs: list[tuple[Line | None, Line]],
    are_interleaved: list[bool],
    vocabulary: Vocabulary,
    plan: LanguageModelSettings,
) -> LMBatch:
    """Each row a line, behind a prompt or alone."""
    rows = []
    for (prompt, line), is_interleaved in zip(pairs, are_interleaved, strict=True):
        whole = line if prompt is None else joined(prompt, line)
        layout = _layout(vocabulary, prompt, line, plan.mix_ratio, is_interleaved)
        rows.append((whole, np.array(layout.input_ids), np.array(layout.targets)))
    length = max(len(ids) for _, ids, _ in rows)
    shape = (len(rows), length)
    ids, targets, phones = np.zeros(shape, np.int64), np.full(shape, IGNORED), np.full(shape, IGNORED)
    read = np.zeros((*shape, length), bool)
    for row, (whole, row_ids, row_targets) in enumerate(rows):
        ids[row, : len(row_ids)] = row_ids
        targets[row, : len(row_targets)] = row_targets
        answers = np.flatnonzero((row_targets >= 0) & (row_targets < vocabulary.num_speech_ids))
        phones[row, answers] = whole.phones
        text = np.flatnonzero(row_ids >= vocabulary.first_text)
        first, last = whole.about.T[:, :, None]
        said = (first <= np.arange(len(text))) & (np.arange(len(text)) <= last)
        read[np.ix_(np.array([row]), answers, text)] = said & (text <= answers[:, None])
    return LMBatch(*(torch.from_numpy(part) for part in (ids, targets, phones, read)))


def misdrawn(
    batch: LMBatch, vocabulary: Vocabulary, rng: np.random.Generator, tokens: range | None = None
) -> LMBatch:
    """The same answers behind speech tokens some of which are wrong: any other, or one said shortly before.

    What it will read of its own draws has faults too, and so the text is to tell it more than they do.
    tokens: those that others are drawn from; all by default.
    """
    tokens = tokens or range(vocabulary.num_speech_ids)
    ids = batch.ids.numpy()
    is_wrong = rng.random(ids.shape) < rng.uniform(0, _MAX_WRONG, (len(ids), 1))
    column = np.arange(ids.shape[1]) - rng.integers(1, _WRONG_SINCE + 1, ids.shape)
    before = np.take_along_axis(ids, np.maximum(column, 0), axis=1)
    is_repeat = (rng.random(ids.shape) < 0.5) & (before < vocabulary.num_speech_ids)
    wrong = np.where(is_repeat, before, rng.integers(tokens.start, tokens.stop, ids.shape))
    is_speech = ids < vocabulary.num_speech_ids
    return replace(batch, ids=torch.from_numpy(np.where(is_wrong & is_speech, wrong, ids)))


def _layout(
    vocabulary: Vocabulary, prompt: Line | None, line: Line, mix_ratio: tuple[int, int], is_interleaved: bool
) -> Layout:
    """Interleaved where asked and the line's speech is long enough for its blocks."""
    block_text, block_speech = mix_ratio
    text, tokens = line.text.tolist(), line.tokens.tolist()
    if is_interleaved and len(tokens) * block_text > len(text) * block_speech:
        if prompt is None:
            return bistream_layout(vocabulary, text, tokens, (), mix_ratio)
        own = prompt.text.tolist(), prompt.tokens.tolist()
        return prompt_first_layout(vocabulary, own, text, tokens, mix_ratio)
    if prompt is not None:
        text, tokens = [*prompt.text.tolist(), *text], [*prompt.tokens.tolist(), *tokens]
    return offline_layout(vocabulary, text, tokens)


def joined(prompt: Line, line: Line) -> Line:
    num_words = prompt.text_words.max(initial=-1) + 1
    text_words = np.where(line.text_words >= 0, line.text_words + num_words, -1)
    return Line(
        line.speaker,
        np.concatenate([prompt.text, line.text]),
        np.concatenate([prompt.text_words, text_words]),
        np.concatenate([prompt.tokens, line.tokens]),
        np.concatenate([prompt.about, line.about + len(prompt.text)]),
        np.concatenate([prompt.phones, line.phones]),
    )


class Rows(Iterator[LMBatch]):
    """Batches of about as many positions each, of rows about equally long, for ever."""

    def __init__(
        self,
        lines: list[Line],
        plan: LanguageModelSettings,
        positions: int,
        vocabulary: Vocabulary,
        stops: tuple[int, int],
        rng: np.random.Generator,
        tokens: range | None = None,
    ) -> None:
        """positions: of a batch. stops: the text ids of a full stop and of a comma. tokens: as `misdrawn`."""
        self._lines, self._plan, self._positions = lines, plan, positions
        self._tokens = tokens
        self._vocabulary, self._stops, self._rng = vocabulary, stops, rng
        self._short = [one for one in lines if one.text_words.max(initial=-1) < _ALONE_WORDS]
        shortest, longest = _PROMPT_TOKENS
        self._prompts = {
            speaker: [
                one for one in lines if one.speaker == speaker and shortest <= len(one.tokens) <= longest
            ]
            for speaker in {one.speaker for one in lines}
        }
        self._waiting: list[list[tuple[Line | None, Line]]] = []

    def __next__(self) -> LMBatch:
        if not self._waiting:
            self._waiting = self._pool()
        pairs = self._waiting.pop()
        chosen = (self._rng.random(len(pairs)) < _INTERLEAVED).tolist()
        batch = as_batch(pairs, chosen, self._vocabulary, self._plan)
        return misdrawn(batch, self._vocabulary, self._rng, self._tokens)

    def _pool(self) -> list[list[tuple[Line | None, Line]]]:
        pairs = [self._pair() for _ in range(_POOL)]
        pairs.sort(key=_length)
        batches: list[list[tuple[Line | None, Line]]] = [[]]
        for pair in pairs:
            if (len(batches[-1]) + 1) * _length(pair) > self._positions and batches[-1]:
                batches.append([])
            batches[-1].append(pair)
        self._rng.shuffle(batches)
        return batches

    def _pair(self) -> tuple[Line | None, Line]:
        if self._rng.random() < _ALONE and self._short:
            line = self._short[self._rng.integers(len(self._short))]
        else:
            line = self._lines[self._rng.integers(len(self._lines))]
            if self._rng.random() < _CHAINED:
                line = self._chained(line)
        prompts = self._prompts[line.speaker]
        if self._rng.random() < _PROMPTED and prompts:
            prompt = prompts[self._rng.integers(len(prompts))]
            if len(prompt.tokens) + len(line.tokens) <= self._plan.max_tokens:
                return prompt, line
        return None, line

    def _chained(self, line: Line) -> Line:
        """The line and others of its speaker behind it, as long as they fit."""
        wanted = self._rng.integers(*_CHAIN_TOKENS)
        others = self._prompts[line.speaker]
        while others:
            other = others[self._rng.integers(len(others))]
            if len(line.tokens) + len(other.tokens) > wanted:
                break
            line = joined(self._unfinished(line), other)
        return line

    def _unfinished(self, line: Line) -> Line:
        """The line, as often as not with a comma for its full stop."""
        period, comma = self._stops
        if line.text[-1] != period or self._rng.random() >= _COMMAS:
            return line
        return replace(line, text=np.append(line.text[:-1], comma))


def _length(pair: tuple[Line | None, Line]) -> int:
    return sum(len(one.text) + len(one.tokens) for one in pair if one is not None) + 2
