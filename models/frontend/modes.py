"""The request modes: what of the text and the speaker the networks are given."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from firstword.models.config import Family
from firstword.models.frontend.features import ModeError
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.tokenizer import TextTokenizer
from firstword.models.tokenizer.qwen2 import END_OF_PROMPT

Mode = Literal["sft", "zero_shot", "cross_lingual", "instruct", "instruct2"]

MODES: dict[Family, tuple[Mode, ...]] = {
    "cosyvoice1": ("sft", "zero_shot", "cross_lingual", "instruct"),
    "cosyvoice2": ("sft", "zero_shot", "cross_lingual", "instruct2"),
    "cosyvoice3": ("sft", "zero_shot", "cross_lingual", "instruct2"),
}

_NO_PROMPT = "{} needs a speaker with a recorded prompt; this one has none: use sft"
ASSISTANT = "You are a helpful assistant."  # opens every text CosyVoice 3 was trained on


@dataclass(frozen=True, slots=True, eq=False)
class ModelInput:
    """What a mode gives the language model; what it leaves out is empty.

    The language model reads prefix_text_ids, prompt_text_ids and text_ids, then continues lm_prompt_tokens.
    """

    text_ids: tuple[int, ...]
    prefix_text_ids: tuple[int, ...]  # CosyVoice 3's instruction up to `<|endofprompt|>`; not spoken
    prompt_text_ids: tuple[int, ...]
    lm_prompt_tokens: Tensor  # (P,) int64 or (0,)
    lm_embedding: Tensor | None  # (192,); only CosyVoice 1's language model has a use for it


def choose_mode(
    family: Family,
    speaker: SpeakerFeatures,
    has_instruction: bool,
    wanted: Mode | None = None,
    *,
    continues_prompts: bool = True,
) -> Mode:
    """Return the mode in which a speaker is spoken with: an instruction first, then the prompt it has.

    wanted: instead, with "instruct" for both modes of that kind. continues_prompts False: the language model
    is given a prompt only where zero_shot is wanted. Raises ModeError where the mode cannot be had.
    """
    if wanted == "sft" and speaker.has_prompt and family != "cosyvoice1":
        raise ModeError(
            f"{family} continues the recorded prompt of a speaker that has one; sft is for speakers without: "
            "use zero_shot or cross_lingual"
        )
    if wanted is not None and wanted != "instruct":
        return wanted
    if has_instruction:
        return "instruct" if family == "cosyvoice1" else "instruct2"
    if not speaker.has_prompt:
        return "sft"
    has_text = bool(speaker.prompt_text or speaker.prompt_text_ids)
    return "zero_shot" if has_text and continues_prompts else "cross_lingual"


def uses_flow_prompt(mode: Mode) -> bool:
    """Whether the flow continues the speaker's prompt; otherwise it is given the embedding alone."""
    return mode not in ("sft", "instruct")


def model_input(
    mode: Mode,
    family: Family,
    speaker: SpeakerFeatures,
    text_ids: Sequence[int],
    instruction: str,
    tokenizer: TextTokenizer,
) -> ModelInput:
    """Return what a text is in a mode. instruction: for the two that take one. Raises ModeError."""
    if mode == "instruct" or mode == "instruct2":
        instructed = instruct if mode == "instruct" else instruct2
        return instructed(family, speaker, text_ids, instruction, tokenizer)
    plain = {"sft": sft, "zero_shot": zero_shot, "cross_lingual": cross_lingual}[mode]
    return plain(family, speaker, text_ids, tokenizer)


def sft(
    family: Family, speaker: SpeakerFeatures, text_ids: Sequence[int], tokenizer: TextTokenizer
) -> ModelInput:
    """The speaker's embedding alone, as the model was fine-tuned to it; a prompt is not used."""
    require_mode(family, "sft")
    prefix, text_ids = _split_prefix(family, text_ids, tokenizer)
    return ModelInput(text_ids, prefix, (), speaker.prompt_tokens[:0], speaker.embedding)


def zero_shot(
    family: Family, speaker: SpeakerFeatures, text_ids: Sequence[int], tokenizer: TextTokenizer
) -> ModelInput:
    """Both networks continue the prompt. Raises ModeError for a speaker without a prompt or its text."""
    require_mode(family, "zero_shot")
    if not speaker.has_prompt:
        raise ModeError(_NO_PROMPT.format("zero_shot"))
    prompt_text_ids = speaker.prompt_text_ids
    if prompt_text_ids is None:
        prompt_text_ids = tuple(tokenizer.encode(speaker.prompt_text))
    if not prompt_text_ids:
        raise ModeError("zero_shot needs the text that the prompt says; without it, use cross_lingual")
    prefix, prompt_text_ids = _split_prefix(family, prompt_text_ids, tokenizer)
    return ModelInput(tuple(text_ids), prefix, prompt_text_ids, speaker.prompt_tokens, speaker.embedding)


def cross_lingual(
    family: Family, speaker: SpeakerFeatures, text_ids: Sequence[int], tokenizer: TextTokenizer
) -> ModelInput:
    """The flow continues the prompt, the language model is not given it: the languages may differ.

    CosyVoice 1 wants the text's language in front of it, such as `<|en|>`; the caller writes it.
    Raises ModeError for a speaker without a prompt.
    """
    require_mode(family, "cross_lingual")
    if not speaker.has_prompt:
        raise ModeError(_NO_PROMPT.format("cross_lingual"))
    prefix, text_ids = _split_prefix(family, text_ids, tokenizer)
    return ModelInput(text_ids, prefix, (), speaker.prompt_tokens[:0], speaker.embedding)


def instruct(
    family: Family,
    speaker: SpeakerFeatures,
    text_ids: Sequence[int],
    instruction: str,
    tokenizer: TextTokenizer,
) -> ModelInput:
    """CosyVoice 1: a description of the manner stands for the prompt text.

    The language model is not given the embedding, so that the manner comes from the instruction.
    Raises ModeError for another family or an empty instruction.
    """
    require_mode(family, "instruct")
    _require_instruction(instruction, "instruct")
    instruction_ids = tuple(tokenizer.encode(instruction))
    return ModelInput(tuple(text_ids), (), instruction_ids, speaker.prompt_tokens[:0], None)


def instruct2(
    family: Family,
    speaker: SpeakerFeatures,
    text_ids: Sequence[int],
    instruction: str,
    tokenizer: TextTokenizer,
) -> ModelInput:
    """CosyVoice 2 and 3: an instruction for the language model, the prompt for the flow.

    The given instruction counts, for a stored speaker too; published code takes the speaker's prompt text
    instead. Raises ModeError for CosyVoice 1, a speaker without a prompt or an empty instruction.
    """
    require_mode(family, "instruct2")
    if not speaker.has_prompt:
        raise ModeError(_NO_PROMPT.format("instruct2"))
    _require_instruction(instruction, "instruct2")
    instruction_ids = tokenizer.encode(instruction_text(family, instruction))
    prefix, rest = _split_prefix(family, instruction_ids, tokenizer)
    return ModelInput(tuple(text_ids), prefix, rest, speaker.prompt_tokens[:0], speaker.embedding)


def require_mode(family: Family, mode: Mode) -> None:
    """Raises ModeError, listing the modes there are, where the family has no such mode."""
    if mode not in MODES[family]:
        raise ModeError(f"{family} has no mode {mode}; it has {', '.join(MODES[family])}")


def instruction_text(family: Family, instruction: str) -> str:
    """The instruction as the model was trained on it; one that has `<|endofprompt|>` is left alone."""
    if END_OF_PROMPT in instruction:
        return instruction
    if family == "cosyvoice3" and not instruction.startswith(ASSISTANT):
        instruction = f"{ASSISTANT} {instruction}"
    return instruction + END_OF_PROMPT


def _split_prefix(
    family: Family, ids: Sequence[int], tokenizer: TextTokenizer
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """CosyVoice 3's `You are a helpful assistant.<|endofprompt|>`, and the ids behind it.

    Its language model refuses a text without an end of prompt; the published front end leaves it to the
    caller to write one in front of the text. It is not spoken and does not count into the minimum and
    maximum length. Other families have no prefix.
    """
    if family != "cosyvoice3":
        return (), tuple(ids)
    end = tokenizer.end_of_prompt_id
    assert end is not None, "CosyVoice 3 with a tokenizer of another family"
    if end not in ids:
        return tuple(tokenizer.encode(ASSISTANT + END_OF_PROMPT)), tuple(ids)
    start = tuple(ids).index(end) + 1
    return tuple(ids[:start]), tuple(ids[start:])


def _require_instruction(instruction: str, mode: Mode) -> None:
    if not instruction.strip():
        raise ModeError(f"{mode} needs an instruction; the given one is empty")
