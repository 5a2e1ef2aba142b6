"""What the language model is shown of an utterance, and its loss."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from firstword.models.config import Qwen2Config, Qwen2LMConfig
from firstword.models.lm.plan import IGNORED, Vocabulary
from training.language_model import NOT_KNOWN, Line, as_batch, ids_of_frames, misdrawn, words_of_ids
from training.networks.language_model import TokenCrossEntropy
from training.settings import read_settings
from training.teachers.spoken import PHONES

PLAN = read_settings().language_model
VOCABULARY = Vocabulary.of(Qwen2LMConfig(6561, Qwen2Config(100, 32, 32, 2, 2, 1), False, (5, 13)))


def line(first: int, num_text: int, num_tokens: int) -> Line:
    """Text id k is word k; word k is spoken for as many tokens as any other."""
    words = np.arange(num_tokens) * num_text // num_tokens
    return Line(
        "alder",
        np.arange(first, first + num_text),
        np.arange(num_text),
        np.arange(num_tokens) + 100 * first,
        np.stack([words, words], axis=1),
        np.arange(num_tokens) % 41,
    )


@pytest.mark.parametrize("is_interleaved", [False, True])
def test_every_token_is_shown_the_text_of_its_word(is_interleaved: bool) -> None:
    prompt, said = line(10, 6, 30), line(20, 8, 40)
    batch = as_batch([(prompt, said)], [is_interleaved], VOCABULARY, PLAN)
    targets = batch.targets[0]
    spoken = [place for place, id in enumerate(targets.tolist()) if 0 <= id < VOCABULARY.num_speech_ids]
    assert [int(targets[place]) for place in spoken] == [*prompt.tokens, *said.tokens]
    assert (batch.phones[0] != IGNORED).nonzero()[:, 0].tolist() == spoken
    shown = 0
    for number, place in enumerate(spoken):
        whole = prompt if number < 30 else said
        word = int(whole.about[number if number < 30 else number - 30, 0])
        places = batch.read[0, place].nonzero()[:, 0].tolist()
        assert all(other <= place for other in places)
        wanted = VOCABULARY.first_text + int(whole.text[word])
        assert {int(batch.ids[0, other]) for other in places} <= {wanted}
        shown += len(places)
    assert shown == 70  # the text leads: nothing is spoken before it is there
    assert not batch.read[0][[place for place in range(len(targets)) if place not in spoken]].any()


def test_a_row_without_known_words_is_shown_nothing() -> None:
    said = line(20, 8, 40)
    unknown = replace(said, about=np.tile(NOT_KNOWN, (40, 1)))
    assert not as_batch([(None, unknown)], [False], VOCABULARY, PLAN).read.any()


def test_pieces_of_a_word_know_which_word_it_is() -> None:
    pieces = ["he", "llo", ",", " h", "ow", " are", " you", "'", "re", "?"]
    assert words_of_ids(pieces).tolist() == [0, 0, -1, 1, 1, 2, 3, 3, 3, -1]


def test_a_sound_is_about_its_own_part_of_the_word() -> None:
    text_words = np.array([0, 0, 0, -1, 1, 1, -1])  # [K][AE1][T] [AE1][T].
    words = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1], np.int16)
    phones = np.array([0, 3, 4, 4, 5, 0, 4, 5, 0], np.uint8)
    about = ids_of_frames(words, phones, text_words)
    assert about[:, 0].tolist() == about[:, 1].tolist() == [0, 0, 1, 1, 2, 3, 4, 5, 5]

    after = np.array([PHONES.index(phone) for phone in "æfftəəɹ"], np.uint8)
    words = np.zeros(len(after), np.int16)
    assert ids_of_frames(words, after, np.zeros(4, np.int64))[:, 0].tolist() == [0, 1, 1, 2, 3, 3, 3]
    assert ids_of_frames(words, after, np.zeros(5, np.int64))[:, 0].tolist() == [0, 1, 1, 2, 3, 3, 4]

    two_for_three = ids_of_frames(words[:4], np.array([3, 3, 4, 4], np.uint8), text_words)
    assert two_for_three.tolist() == [[0, 1], [0, 1], [1, 2], [1, 2]]
    assert ids_of_frames(np.array([7], np.int16), phones[1:2], text_words).tolist() == [[*NOT_KNOWN]]


def test_the_loss_is_the_cross_entropy() -> None:
    torch.manual_seed(0)
    hidden, table = torch.randn(7, 5, requires_grad=True), torch.randn(11, 5, requires_grad=True)
    bias, targets = torch.randn(11, requires_grad=True), torch.randint(11, (7,))
    loss, right = TokenCrossEntropy.apply(hidden, table, bias, targets)
    wanted = F.cross_entropy(hidden @ table.T + bias, targets)
    torch.testing.assert_close(loss, wanted)
    assert float(right) == pytest.approx(
        float(((hidden @ table.T + bias).argmax(1) == targets).float().mean())
    )
    ours = torch.autograd.grad(3 * loss, (hidden, table, bias))
    theirs = torch.autograd.grad(3 * wanted, (hidden, table, bias))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_wrong_tokens_are_shown_and_the_right_ones_asked_for() -> None:
    lines = [line(20, 8, 40), line(28, 8, 400)]
    clean = as_batch([(None, one) for one in lines], [False, False], VOCABULARY, PLAN)
    batch = misdrawn(clean, VOCABULARY, np.random.default_rng(1))
    assert batch.targets.equal(clean.targets)
    assert batch.read.equal(clean.read)
    is_speech = clean.ids < VOCABULARY.num_speech_ids
    assert batch.ids[~is_speech].equal(clean.ids[~is_speech])
    assert (batch.ids[is_speech] < VOCABULARY.num_speech_ids).all()
    share = (batch.ids != clean.ids)[is_speech].float().mean()
    assert 0.01 < share < 0.3
