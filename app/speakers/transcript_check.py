"""Check that a recording says the whole of its transcript, by the checkpoint's own language model.

The model is asked how likely the recording's speech tokens are after the transcript, and after the transcript
without its first or its last third. Words that are said make the tokens much likelier; a third that makes no
difference is not in the recording. A model that recognizes nothing of the speech cannot tell: where none of
these texts made the tokens likelier than chance, the transcript's ends alone are tried too, since a model
that reads in order may know the last words by themselves only.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from firstword.models.lm.decoder import SpeechLM
from firstword.models.lm.plan import offline_layout

NUM_PARTS = 3
MIN_TEXT_TOKENS = 9  # fewer are too few for three parts
MIN_KNOWN = 0.05  # of the surprise of tokens drawn at random; below, the model does not recognize the speech


@torch.inference_mode()
def transcript_fit(
    lm: SpeechLM,
    text_ids: Sequence[int],
    speech_ids: Sequence[int],
    prefix_ids: Sequence[int] = (),
    speaker: Tensor | None = None,
) -> float | None:
    """Return how much likelier the less useful of the two thirds makes the speech.

    In nats for each speech token that a third of the recording has: about 3 where all is said, 0 or less
    where a third is not. prefix_ids: before the transcript, not spoken. None: it cannot be told, since the
    transcript is too short or the model recognizes nothing of the speech.
    """
    text, num_ids, num_speech = [*text_ids], len(text_ids), len(speech_ids)
    if num_ids < MIN_TEXT_TOKENS or not num_speech:
        return None

    def fit(ids: Sequence[int]) -> float:
        return _log_likelihood(lm, ids, speech_ids, prefix_ids, speaker)

    third = num_ids // NUM_PARTS
    whole, best_part = fit(text), max(fit(text[third:]), fit(text[:-third]))
    known = -num_speech * math.log(lm.vocabulary.num_speech_ids) * (1 - MIN_KNOWN)
    if max(whole, best_part) < known and max(fit(text[num_ids // 2 :]), fit(text[-third:])) < known:
        return None
    return (whole - best_part) * NUM_PARTS / num_speech


def _log_likelihood(
    lm: SpeechLM,
    text_ids: Sequence[int],
    speech_ids: Sequence[int],
    prefix_ids: Sequence[int],
    speaker: Tensor | None,
) -> float:
    """Of the speech tokens and the end behind them, in nats."""
    layout = offline_layout(lm.vocabulary, text_ids, speech_ids, prefix_ids)
    x = lm.prompt_embeddings(layout.input_ids, speaker)  # (1, T, C)
    cache = lm.new_cache()
    cache.add_row()
    hidden = lm(x, cache.open_pass(range(1), [x.shape[1]]))[0, -len(speech_ids) - 1 :]  # (N, C)
    logits = lm.logits(hidden).float()  # (N, V)
    drawn = torch.tensor([*speech_ids, lm.vocabulary.eos], device=logits.device)[:, None]
    return float((logits.gather(1, drawn)[:, 0] - logits.logsumexp(dim=-1)).sum())
