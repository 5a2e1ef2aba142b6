"""What the language model is shown of an utterance, and its loss."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from firstword.models.config import Qwen2Config, Qwen2LMConfig
from firstword.models.lm.plan import IGNORED, Vocabulary
from training.language_model import Line, as_batch, words_of_ids
from training.networks.language_model import TokenCrossEntropy
from training.settings import read_settings

PLAN = read_settings().language_model
VOCABULARY = Vocabulary.of(Qwen2LMConfig(6561, Qwen2Config(100, 32, 32, 2, 2, 1), False, (5, 13)))


def line(first: int, num_text: int, num_tokens: int) -> Line:
    """Text id k is word k; word k is spoken for as many tokens as any other."""
    return Line(
        "slt",
        np.arange(first, first + num_text),
        np.arange(num_text),
        np.arange(num_tokens) + 100 * first,
        np.arange(num_tokens) * num_text // num_tokens,
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
        word = int(whole.words[number if number < 30 else number - 30])
        places = batch.read[0, place].nonzero()[:, 0].tolist()
        assert all(other <= place for other in places)
        wanted = VOCABULARY.first_text + int(whole.text[word])
        assert {int(batch.ids[0, other]) for other in places} <= {wanted}
        shown += len(places)
    assert shown == 70  # the text leads: nothing is spoken before it is there
    assert not batch.read[0][[place for place in range(len(targets)) if place not in spoken]].any()


def test_a_row_without_known_words_is_shown_nothing() -> None:
    said = line(20, 8, 40)
    unknown = Line("slt", said.text, said.text_words, said.tokens, np.full(40, -1), said.phones)
    assert not as_batch([(None, unknown)], [False], VOCABULARY, PLAN).read.any()


def test_pieces_of_a_word_know_which_word_it_is() -> None:
    pieces = ["he", "llo", ",", " h", "ow", " are", " you", "'", "re", "?"]
    assert words_of_ids(pieces).tolist() == [0, 0, -1, 1, 1, 2, 3, 3, 3, -1]


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
