"""Find the alignment heads of a checkpoint: which heads' attention walks through the text as it is spoken."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch

from firstword.models.checkpoint.open import Checkpoint
from firstword.models.config import AlignmentHeads, CheckpointError
from firstword.models.lm.alignment import text_attention
from firstword.models.lm.decoder import Emitted, RowRequest, SpeechDecoder
from firstword.models.lm.plan import OfflinePlan, TextAttention
from firstword.models.lm.qwen2 import Qwen2LM

MIN_SCORE = 0.3  # below it a head does not follow the text
MAX_HEADS = 4
_NEAR_BEST = 0.8  # of the best score
_LONGEST_STEP = 2  # text tokens that one speech token may go on
_TEXTS = {
    "en": (
        "The kettle was already boiling when she came home from the market.",
        "Seven gray geese flew over the harbor, and nobody looked up.",
        "Please leave your shoes at the door before you walk across the carpet.",
    ),
    "zh": (
        "\u4eca\u5929\u7684\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u4e00\u8d77\u53bb\u516c\u56ed\u6563\u6b65\u3002",
        "\u4ed6\u628a\u4e66\u653e\u5728\u684c\u5b50\u4e0a\uff0c\u5c31\u51fa\u95e8\u4e86\u3002",
    ),
}


@dataclass(frozen=True, slots=True)
class HeadScore:
    """score: the mean attention on the best way through the text, from its first token to its last."""

    layer: int
    head: int
    score: float


@torch.inference_mode()
def score_heads(checkpoint: Checkpoint) -> Iterator[list[HeadScore]]:
    """Speak a fixed set of texts; yield after each the heads' mean scores so far, the best first.

    Raises CheckpointError for a checkpoint without a Qwen2 language model.
    """
    lm = checkpoint.load_lm()
    if not isinstance(lm, Qwen2LM):
        raise CheckpointError(
            f"{checkpoint.directory}: a checkpoint of {checkpoint.config.family}; alignment heads are "
            "those of the Qwen2 language models of CosyVoice 2 and 3"
        )
    qwen2 = lm.config.qwen2
    heads = tuple(product(range(qwen2.num_hidden_layers), range(qwen2.num_attention_heads)))
    lm.config = replace(lm.config, alignment_heads=heads)
    tokenizer = checkpoint.load_tokenizer()
    speaker = next((one for one in checkpoint.load_speakers().values() if one.prompt_text_ids), None)
    prompt_text = () if speaker is None else speaker.prompt_text_ids or ()
    prompt_speech = () if speaker is None else speaker.prompt_tokens.tolist()
    totals = np.zeros(len(heads))
    for seed, text in enumerate(_texts(checkpoint.traits.languages)):
        plan = OfflinePlan(
            lm.vocabulary, tokenizer.encode(text), prompt_text, prompt_speech, checkpoint.ratios
        )
        totals += [way_score(one) for one in _attention(lm, plan, seed).transpose(1, 0, 2)]
        scores = [
            HeadScore(*head, float(total / (seed + 1))) for head, total in zip(heads, totals, strict=True)
        ]
        yield sorted(scores, key=lambda one: -one.score)


def num_texts(languages: Sequence[str]) -> int:
    """How many texts `score_heads` speaks."""
    return len(_texts(languages))


def best_heads(scores: list[HeadScore]) -> AlignmentHeads:
    """Those that follow the text about as well as the best; () where none does. scores: the best first."""
    bound = max(MIN_SCORE, _NEAR_BEST * scores[0].score)
    return tuple((one.layer, one.head) for one in scores[:MAX_HEADS] if one.score >= bound)


def way_score(attention: TextAttention) -> float:
    """attention (speech tokens, text tokens) of a head -> the mean on its best way from corner to corner.

    A way never goes back, and goes on by two text tokens at most. 0 where no way is long enough.
    """
    totals = np.full(attention.shape[1], -np.inf)
    totals[0] = 0.0
    for index, row in enumerate(attention):
        if index:
            steps = [
                np.concatenate([np.full(step, -np.inf), totals])[: len(totals)]
                for step in range(_LONGEST_STEP + 1)
            ]
            totals = np.max(steps, axis=0)
        totals = totals + row
    return max(0.0, float(totals[-1]) / len(attention)) if np.isfinite(totals[-1]) else 0.0


def _texts(languages: Sequence[str]) -> list[str]:
    return [text for language in languages for text in _TEXTS.get(language, ())] or [*_TEXTS["en"]]


def _attention(lm: Qwen2LM, plan: OfflinePlan, seed: int) -> TextAttention:
    """Speak it -> (speech tokens, heads, text tokens)."""
    decoder = SpeechDecoder(lm, lm.config.sampling)
    decoder.add(RowRequest(plan, seed, wants_attention=True))
    rows = []
    while decoder.rows:
        rows += [event.detail.query for event in decoder.step() if isinstance(event, Emitted)]
    return np.array(text_attention([row for row in rows if row is not None]))
