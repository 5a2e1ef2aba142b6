from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import pytest
import torch

from firstword.models.config import Family
from firstword.models.frontend import modes
from firstword.models.frontend.features import ModeError
from firstword.models.frontend.modes import ModelInput
from firstword.models.frontend.speaker import SpeakerFeatures

FAMILIES: tuple[Family, ...] = get_args(Family)
PREFIX = "You are a helpful assistant.<|endofprompt|>"


class CharacterTokenizer:
    """An id is a code point; `<|endofprompt|>` is id 0."""

    vocab_size = 0x110000
    end_of_prompt_id = 0

    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text.replace("<|endofprompt|>", "\0")]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids)).replace("\0", "<|endofprompt|>")


TOKENIZER = CharacterTokenizer()
TEXT = TOKENIZER.encode("hello")
PROMPTED = SpeakerFeatures("said", torch.arange(6), torch.rand(12, 80), torch.rand(192))
BARE = SpeakerFeatures.without_prompt(torch.rand(192))


def summary(model_input: ModelInput) -> tuple[str, str, int]:
    """text, prefix and prompt text, prompt tokens of the language model."""
    return (
        TOKENIZER.decode(model_input.text_ids),
        read_first(model_input),
        len(model_input.lm_prompt_tokens),
    )


def read_first(model_input: ModelInput) -> str:
    """What the language model reads in front of the text."""
    return TOKENIZER.decode([*model_input.prefix_text_ids, *model_input.prompt_text_ids])


@pytest.mark.parametrize(
    ("family", "prefix"), [("cosyvoice1", ""), ("cosyvoice2", ""), ("cosyvoice3", PREFIX)]
)
@pytest.mark.parametrize("speaker", [BARE, PROMPTED])
def test_sft_takes_the_embedding_alone(family: Family, prefix: str, speaker: SpeakerFeatures) -> None:
    model_input = modes.sft(family, speaker, TEXT, TOKENIZER)

    assert summary(model_input) == ("hello", prefix, 0)
    assert model_input.lm_embedding is speaker.embedding


@pytest.mark.parametrize(
    ("family", "prompt_text"),
    [("cosyvoice1", "said"), ("cosyvoice2", "said"), ("cosyvoice3", PREFIX + "said")],
)
def test_zero_shot_gives_both_networks_the_prompt(family: Family, prompt_text: str) -> None:
    model_input = modes.zero_shot(family, PROMPTED, TEXT, TOKENIZER)

    assert summary(model_input) == ("hello", prompt_text, 6)
    assert model_input.lm_embedding is PROMPTED.embedding


@pytest.mark.parametrize(
    ("family", "prefix"), [("cosyvoice1", ""), ("cosyvoice2", ""), ("cosyvoice3", PREFIX)]
)
def test_cross_lingual_keeps_the_prompt_from_the_language_model(family: Family, prefix: str) -> None:
    model_input = modes.cross_lingual(family, PROMPTED, TEXT, TOKENIZER)

    assert summary(model_input) == ("hello", prefix, 0)
    assert model_input.lm_embedding is PROMPTED.embedding


@pytest.mark.parametrize("speaker", [BARE, PROMPTED])
def test_instruct_keeps_the_embedding_from_the_language_model(speaker: SpeakerFeatures) -> None:
    model_input = modes.instruct("cosyvoice1", speaker, TEXT, "a calm man", TOKENIZER)

    assert summary(model_input) == ("hello", "a calm man", 0)
    assert model_input.lm_embedding is None


@pytest.mark.parametrize(
    ("family", "instruction", "prompt_text"),
    [
        ("cosyvoice2", "Calmly.", "Calmly.<|endofprompt|>"),
        ("cosyvoice2", "Calmly.<|endofprompt|>", "Calmly.<|endofprompt|>"),
        ("cosyvoice3", "Calmly.", "You are a helpful assistant. Calmly.<|endofprompt|>"),
        ("cosyvoice3", "Calmly.<|endofprompt|>", "Calmly.<|endofprompt|>"),
        (
            "cosyvoice3",
            "You are a helpful assistant. Calmly.",
            "You are a helpful assistant. Calmly.<|endofprompt|>",
        ),
    ],
)
def test_instruct2_wraps_the_instruction_as_the_model_was_trained(
    family: Family, instruction: str, prompt_text: str
) -> None:
    model_input = modes.instruct2(family, PROMPTED, TEXT, instruction, TOKENIZER)

    assert summary(model_input) == ("hello", prompt_text, 0)


def test_a_stored_speaker_speaks_as_instructed() -> None:
    stored = replace(PROMPTED, prompt_text="", prompt_text_ids=tuple(TOKENIZER.encode("what it said")))

    model_input = modes.instruct2("cosyvoice2", stored, TEXT, "Calmly.", TOKENIZER)

    assert TOKENIZER.decode(model_input.prompt_text_ids) == "Calmly.<|endofprompt|>"


def test_a_stored_prompt_text_is_taken_as_ids() -> None:
    stored = replace(PROMPTED, prompt_text="", prompt_text_ids=(65, 66))

    model_input = modes.zero_shot("cosyvoice2", stored, TEXT, TOKENIZER)

    assert model_input.prompt_text_ids == (65, 66)


@pytest.mark.parametrize("prompt_text", ["Be brief.<|endofprompt|>said", PREFIX + "said"])
def test_a_prompt_text_with_its_own_end_of_prompt_is_left_alone(prompt_text: str) -> None:
    speaker = replace(PROMPTED, prompt_text=prompt_text)

    model_input = modes.zero_shot("cosyvoice3", speaker, TEXT, TOKENIZER)

    assert read_first(model_input) == prompt_text


def test_a_text_with_its_own_end_of_prompt_keeps_it() -> None:
    text_ids = TOKENIZER.encode("Be brief.<|endofprompt|>hello")
    for mode in (modes.sft, modes.cross_lingual):
        model_input = mode("cosyvoice3", PROMPTED, text_ids, TOKENIZER)
        assert TOKENIZER.decode(model_input.prefix_text_ids) == "Be brief.<|endofprompt|>"
        assert TOKENIZER.decode(model_input.text_ids) == "hello"


def test_the_third_family_has_its_prefix_apart_from_the_prompt_text() -> None:
    model_input = modes.zero_shot("cosyvoice3", PROMPTED, TEXT, TOKENIZER)
    assert TOKENIZER.decode(model_input.prefix_text_ids) == PREFIX
    assert TOKENIZER.decode(model_input.prompt_text_ids) == "said"
    model_input = modes.instruct2("cosyvoice3", PROMPTED, TEXT, "Calmly.<|endofprompt|>so", TOKENIZER)
    assert TOKENIZER.decode(model_input.prefix_text_ids) == "Calmly.<|endofprompt|>"
    assert TOKENIZER.decode(model_input.prompt_text_ids) == "so"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_flow_continues_the_prompt_but_for_an_embedding_alone_and_instruct(family: Family) -> None:
    def is_used(speaker: SpeakerFeatures, has_instruction: bool = False) -> bool:
        return modes.uses_flow_prompt(modes.choose_mode(family, speaker, has_instruction))

    assert is_used(PROMPTED)
    assert is_used(replace(PROMPTED, prompt_text=""))
    assert not is_used(BARE)
    assert is_used(PROMPTED, has_instruction=True) == (family != "cosyvoice1")


@pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])
def test_only_the_first_family_has_instruct(family: Family) -> None:
    with pytest.raises(ModeError, match=f"{family} has no mode instruct; it has .*instruct2"):
        modes.instruct(family, PROMPTED, TEXT, "Calmly.", TOKENIZER)


def test_the_first_family_has_no_instruct2() -> None:
    with pytest.raises(ModeError, match=r"cosyvoice1 has no mode instruct2; it has .*instruct$"):
        modes.instruct2("cosyvoice1", PROMPTED, TEXT, "Calmly.", TOKENIZER)


def test_modes_that_continue_a_prompt_refuse_a_speaker_without_one() -> None:
    with pytest.raises(ModeError, match="zero_shot needs a speaker with a recorded prompt"):
        modes.zero_shot("cosyvoice2", BARE, TEXT, TOKENIZER)
    with pytest.raises(ModeError, match="cross_lingual needs a speaker"):
        modes.cross_lingual("cosyvoice2", BARE, TEXT, TOKENIZER)
    with pytest.raises(ModeError, match="instruct2 needs a speaker"):
        modes.instruct2("cosyvoice2", BARE, TEXT, "Calmly.", TOKENIZER)


@pytest.mark.parametrize("prompt_text_ids", [None, ()])
def test_zero_shot_refuses_a_prompt_without_its_text(prompt_text_ids: tuple[int, ...] | None) -> None:
    untold = replace(PROMPTED, prompt_text="", prompt_text_ids=prompt_text_ids)

    with pytest.raises(ModeError, match="cross_lingual"):
        modes.zero_shot("cosyvoice3", untold, TEXT, TOKENIZER)


@pytest.mark.parametrize("instruction", ["", "  \n"])
def test_an_empty_instruction_is_refused(instruction: str) -> None:
    with pytest.raises(ModeError, match="needs an instruction"):
        modes.instruct("cosyvoice1", PROMPTED, TEXT, instruction, TOKENIZER)
    with pytest.raises(ModeError, match="needs an instruction"):
        modes.instruct2("cosyvoice3", PROMPTED, TEXT, instruction, TOKENIZER)
