"""Writes down what the teachers will say, leaving out whatever the evaluation will ask."""

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from training.settings import CorpusSettings
from training.text import documents, numbers, prose
from training.text.drills import drills
from training.text.grammar import Grammar
from training.text.lexicon import lexicon

WORD = re.compile(r"[a-z']*[a-z][a-z']*")  # in small letters, as the teachers count them
_FOLDER = Path(__file__).parent
_KEPT_OUT_WORDS = 4
_COMMON = 60  # the words that stand between rare ones
_LONG_WORDS = 60

LONG_SENTENCE = (  # the evaluation's one of 63 words
    "When we finally arrived at the small hotel near the lake, the owner came out with a big smile, gave us "
    "two cups of hot tea and a plate of fresh bread, showed us a quiet room with a view of the mountains, "
    "and told us that breakfast would be ready at eight o'clock in the morning, so we went to bed early."
)


def evaluation_sentences() -> list[str]:
    """The 200 sentences written by hand that no voice is trained on."""
    return (_FOLDER / "evaluation.txt").read_text().splitlines()


def hard_sentences() -> list[str]:
    """40 more, of names, numbers, lists, tongue twisters and abbreviations."""
    return (_FOLDER / "hard.txt").read_text().splitlines()


def read_words(text: str) -> list[str]:
    """The words of a text in small letters."""
    return WORD.findall(text.lower())


def make_texts(settings: CorpusSettings, rng: random.Random) -> list[str]:
    """Different sentences, numbers in words, shuffled; short ones may come back."""
    grammar = Grammar(_FOLDER / "everyday.txt", {**numbers.WORDS, "word": rare_word})
    kept_out = KeptOut()
    everyday = different(settings.everyday, kept_out, lambda: grammar.sentence(rng))
    texts = [_capital(text) for text in everyday]
    texts += prose.examples(rng, settings.examples)
    texts += prose.definitions(rng, settings.definitions)
    told = prose.prose(rng, settings.prose + 3 * settings.long)
    texts += told[: settings.prose]
    texts += [_join(told[i:][: rng.randrange(2, 4)]) for i in range(settings.prose, len(told), 3)]
    texts += prose.names(rng, settings.names)
    texts += [_capital(text) for text in documents.sentences(rng, settings.documents)]
    texts += [_capital(text) for text in different(settings.words, kept_out, lambda: _words(rng))]
    texts += drills(rng, settings.drills)
    texts += [_capital(grammar.sentence(rng, "short")) for _ in range(settings.short)]
    texts = [text for text in texts if kept_out.allows(text)]  # joined ones have new neighbours
    rng.shuffle(texts)
    return texts


def _capital(text: str) -> str:
    """As it is written: sentences begin with a capital, and so does "I"."""
    text = re.sub(r"\bi\b", "I", text)
    return re.sub(r"(^|[.?!] )([a-z])", lambda match: match[1] + match[2].upper(), text)


def rare_word(rng: random.Random) -> str:
    """Any word of the lexicon, common ones more often."""
    reach = rng.choice([6_000, 6_000, 6_000, 40_000, 40_000, 40_000, len(lexicon())])
    return lexicon()[int(reach * rng.random() ** 1.2)]


class KeptOut:
    """The evaluation's sentences and every few words in a row of theirs."""

    def __init__(
        self,
        sentences: Sequence[str] | None = None,
        read: Callable[[str], list[str]] = read_words,
        run: int = _KEPT_OUT_WORDS,
    ) -> None:
        """read: cuts a text into words. run: how many of them in a row are kept out."""
        if sentences is None:
            sentences = [*evaluation_sentences(), *hard_sentences(), LONG_SENTENCE]
        self.read, self._run = read, run
        self._runs = {words for sentence in sentences for words in self._cut(sentence)}

    def allows(self, text: str) -> bool:
        return self._runs.isdisjoint(self._cut(text))

    def _cut(self, text: str) -> list[tuple[str, ...]]:
        words = self.read(text)
        last = max(1, len(words) - self._run + 1)
        return [tuple(words[i : i + self._run]) for i in range(last)]


def different(number: int, kept_out: KeptOut, make: Callable[[], str]) -> list[str]:
    """That many texts which the evaluation allows."""
    texts: dict[str, None] = {}
    while len(texts) < number:
        text = make()
        if len(kept_out.read(text)) <= _LONG_WORDS and kept_out.allows(text):
            texts[text] = None
    return list(texts)


def _join(sentences: list[str]) -> str:
    words = 0
    taken = []
    for sentence in sentences:
        words += len(read_words(sentence))
        if words > _LONG_WORDS:
            break
        taken.append(sentence)
    return " ".join(taken)


def _words(rng: random.Random) -> str:
    said = []
    for _ in range(rng.randrange(2, 8)):
        if rng.random() < 0.35:
            said.append(rng.choice(lexicon()[:_COMMON]))
        said.append(rare_word(rng) + ("," if rng.random() < 0.08 else ""))
    return " ".join(said).rstrip(",") + rng.choice("..?!")
