"""The prompt of each mode, of small checkpoints."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from firstword.app.core.request import VoiceChoice
from firstword.app.core.tokens import PromptBuilder
from firstword.app.errors import InvalidRequest
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import Family
from firstword.models.frontend.speaker import SpeakerFeatures
from tests.support.checkpoints import small_checkpoint


def built(family: Family) -> tuple[PromptBuilder, SpeakerFeatures]:
    checkpoint = open_checkpoint(small_checkpoint(family))
    builder = PromptBuilder(checkpoint.config, checkpoint.load_tokenizer())
    return builder, checkpoint.load_speakers()["random-prompt"]


def hello(builder: PromptBuilder) -> tuple[int, ...]:
    return tuple(builder.tokenizer.encode("Hello."))


@pytest.mark.parametrize(("family", "is_used"), [("cosyvoice1", False), ("cosyvoice2", True)])
def test_an_instruction_takes_the_prompt_from_the_first_familys_flow_alone(
    family: Family, is_used: bool
) -> None:
    builder, speaker = built(family)
    calmly = VoiceChoice(instruct="Calmly.")
    assert builder.uses_flow_prompt(speaker, VoiceChoice())
    assert builder.uses_flow_prompt(speaker, calmly) is is_used
    request = builder.utterance(speaker, hello(builder), calmly, seed=1)
    assert request.prompt_speech_ids == ()
    assert request.speaker is None


def test_the_third_familys_prefix_is_apart_from_the_prompt_text() -> None:
    builder, speaker = built("cosyvoice3")
    speaker = replace(speaker, prompt_text_ids=(7, 8, 9))
    request = builder.utterance(speaker, hello(builder), VoiceChoice(), seed=1)
    assert request.prefix_text_ids[-1] == builder.tokenizer.end_of_prompt_id
    assert request.prompt_text_ids == (7, 8, 9)
    assert request.text_ids == hello(builder)


class NextIds:
    """An accent whose text ids are the ones behind the usual."""

    def read(self, ids: Sequence[int]) -> tuple[int, ...]:
        return tuple(id + 1 for id in ids)


@pytest.mark.parametrize("accent", ["", "british", "of another checkpoint"])
def test_text_is_read_in_the_accent_that_is_asked_for(accent: str) -> None:
    builder, speaker = built("cosyvoice2")
    builder = replace(builder, accents={"british": NextIds()})
    text, is_read = hello(builder), accent == "british"
    request = builder.utterance(speaker, text, VoiceChoice(), 1, accent)
    assert request.text_ids == tuple(id + is_read for id in text) == builder.in_accent(text, accent)


def test_an_empty_instruction_is_refused() -> None:
    builder, speaker = built("cosyvoice2")
    with pytest.raises(InvalidRequest, match="needs an instruction"):
        builder.utterance(speaker, hello(builder), VoiceChoice(instruct=" "), seed=1)


@pytest.mark.parametrize("family", ["cosyvoice1", "cosyvoice2"])
def test_mode_that_is_asked_for_is_taken_or_refused(family: Family) -> None:
    builder, speaker = built(family)
    speaker = replace(speaker, prompt_text_ids=(7, 8, 9))
    text = hello(builder)
    assert builder.utterance(speaker, text, VoiceChoice(mode="zero_shot"), 1).prompt_text_ids == (7, 8, 9)
    assert builder.utterance(speaker, text, VoiceChoice(mode="cross_lingual"), 1).prompt_text_ids == ()
    silent = replace(speaker, prompt_text_ids=())
    with pytest.raises(InvalidRequest, match="needs the text that the prompt says"):
        builder.utterance(silent, text, VoiceChoice(mode="zero_shot"), 1)
    if family == "cosyvoice1":
        assert not builder.uses_flow_prompt(speaker, VoiceChoice(mode="sft"))
    else:
        with pytest.raises(InvalidRequest, match="sft is for speakers without"):
            builder.uses_flow_prompt(speaker, VoiceChoice(mode="sft"))


def test_a_checkpoint_may_keep_prompts_from_its_language_model_unless_asked() -> None:
    builder, speaker = built("cosyvoice2")
    speaker = replace(speaker, prompt_text_ids=(7, 8, 9))
    builder = replace(builder, continues_prompts=False)
    text = hello(builder)
    alone = builder.utterance(speaker, text, VoiceChoice(), seed=1)
    assert (alone.prompt_text_ids, alone.prompt_speech_ids) == ((), ())
    assert builder.uses_flow_prompt(speaker, VoiceChoice())
    assert builder.utterance(speaker, text, VoiceChoice(mode="zero_shot"), 1).prompt_text_ids == (7, 8, 9)
