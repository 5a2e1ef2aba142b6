"""A text gives the tokens that it gave before: a change of how it is read is meant, or a mistake."""

import asyncio
import hashlib
import json
from pathlib import Path

import pytest

from firstword.app.budget import DEFAULT_LIMITS, Work
from firstword.app.engine.text_frontend import text_frontend
from firstword.app.options import BUILTIN_CHECKPOINT
from firstword.app.text.marks import Reading
from firstword.app.text.stream import Mode
from firstword.models.checkpoint.open import open_checkpoint
from tests.support.checkpoints import small_checkpoint
from tests.support.small_lm import finished, new_generator, utterance
from tests.text.examples import SENTENCES, random_texts

MODES: tuple[Mode, ...] = ("whole", "segments", "continuous")
SMALL = "c79aadeba6da51b51160ab2e8f24c91e89341cbe6fb806c08ab2efae75a6a94a"
# Of the segments of every text, taken when "1,000" with a wide comma became one number in Chinese, of the
# built-in, which has its dictionary, when it began to speak Mandarin (CosyVoice 3 speaks more languages); and
# of the speech tokens of three seeds, of commit e25a51a and networks with heads of 32.
SEGMENTS = {
    "built-in": "d3c0996cac814e61b732849dc339d96e1b778e389a0359293ab0d444b03ff141",
    "cosyvoice1": SMALL,
    "cosyvoice2": SMALL,
    "cosyvoice3": "1e1d6445c35a3ba138fb9955c2fe1e53e759cc6c5f24d75439b9816dc52d1a8b",
}
SPEECH = "5526c7808c9a981279ff3fc513086ec8e7a0ddb7a0630ab1bb99319be698f4dc"


def digest(*values: object) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


@pytest.mark.parametrize("name", SEGMENTS)
def test_text_tokens_are_those_of_before(name: str) -> None:
    directory = BUILTIN_CHECKPOINT if name == "built-in" else small_checkpoint(name)  # type: ignore[arg-type]
    checkpoint = open_checkpoint(Path(directory))
    frontend = text_frontend(checkpoint.load_tokenizer(), checkpoint, "warn")
    found = hashlib.sha256()
    for text in [text for texts in SENTENCES.values() for text in texts] + random_texts(300):
        for normalize in (True, False):
            for mode in MODES:
                feed = frontend.open(mode, None, Reading(normalize), [], Work(DEFAULT_LIMITS))
                items = [*feed.read(text[:7], False), *feed.read(text[7:], False), *feed.read("", True)]
                said = [(one.source, one.spoken, one.language, list(one.text_ids)) for one in items]  # type: ignore[union-attr]
                found.update(json.dumps(said).encode("utf-8", "surrogatepass"))
    assert found.hexdigest() == SEGMENTS[name]


def test_speech_tokens_are_those_of_before() -> None:
    async def spoken() -> list[list[int]]:
        generator = new_generator()
        try:
            return [await finished(generator.start(utterance(seed=seed))) for seed in (1, 2, 3)]
        finally:
            await generator.aclose()

    assert digest(asyncio.run(spoken())) == SPEECH
