"""An utterance's plan: which ids the language model runs, and what it may draw."""

from app.engine.interface import InvalidRequest
from app.engine.tokens.interface import Utterance
from models.lm.interleaved_plan import InterleavedPlan
from models.lm.plan import OneWayPlan, Plan
from models.lm.vocabulary import Vocabulary


def plan_of(utterance: Utterance, vocabulary: Vocabulary, mix_ratio: tuple[int, int] | None) -> Plan:
    """mix_ratio: text : speech tokens of a block where text is pushed; None: it cannot be.

    Raises InvalidRequest for ids that the model does not have.
    """
    prompt = utterance.prompt_text_ids, utterance.prompt_speech_ids
    try:
        if utterance.text_ids is not None:
            text = utterance.prefix_text_ids + utterance.prompt_text_ids
            return OneWayPlan(vocabulary, utterance.text_ids, text, prompt[1])
        assert mix_ratio is not None, "text pushed to a model that reads all of it first"
        return InterleavedPlan(vocabulary, *prompt, utterance.prefix_text_ids, mix_ratio=mix_ratio)
    except ValueError as error:
        raise InvalidRequest(str(error), "text") from error
