"""The request modes: what of the text and the speaker each network is given."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from firstword.models.config import Family
from firstword.models.frontend.features import ModeError
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.tokenizer import TextTokenizer
from firstword.models.tokenizer.qwen2 import END_OF_PROMPT

Mode = Literal["sft", "zero_shot", "cross_lingual", "instruct", "instruct2", "voice_conversion"]

MODES: dict[Family, tuple[Mode, ...]] = {
    "cosyvoice1": ("sft", "zero_shot", "cross_lingual", "instruct", "voice_conversion"),
    "cosyvoice2": ("sft", "zero_shot", "cross_lingual", "instruct2", "voice_conversion"),
    "cosyvoice3": ("sft", "zero_shot", "cross_lingual", "instruct2", "voice_conversion"),
}

ASSISTANT = "You are a helpful assistant."  # opens every text CosyVoice 3 was trained on


@dataclass(frozen=True, slots=True, eq=False)
class ModelInput:
    """One request as the networks see it; what a mode leaves out is empty.

    The language model reads prompt_text_ids, then text_ids, then continues lm_prompt_tokens; the flow
    continues flow_prompt_mel. In voice conversion the recording's own speech tokens go to the flow.
    """

    text_ids: tuple[int, ...]
    prompt_text_ids: tuple[int, ...]
    lm_prompt_tokens: Tensor  # (P,) int64 or (0,)
    flow_prompt_tokens: Tensor  # (P,) int64 or (0,)
    flow_prompt_mel: Tensor  # (F, 80) float32 or (0, 80)
    lm_embedding: Tensor | None  # (192,); only CosyVoice 1's language model has a use for it
    flow_embedding: Tensor  # (192,)

    @property
    def flow_speaker(self) -> SpeakerFeatures:
        """What of the speaker the flow is given in this mode, for `Token2Wav.compute_prompt_state`."""
        return SpeakerFeatures("", self.flow_prompt_tokens, self.flow_prompt_mel, self.flow_embedding)


def sft(
    family: Family, speaker: SpeakerFeatures, text_ids: Sequence[int], tokenizer: TextTokenizer
) -> ModelInput:
    """The speaker's embedding alone, as the model was fine-tuned to it; a prompt is not used."""
    require_mode(family, "sft")
    prefix, text_ids = _split_prefix(family, text_ids, tokenizer)
    return _without_prompt(speaker, text_ids, prefix, speaker.embedding)


def zero_shot(
    family: Family, speaker: SpeakerFeatures, text_ids: Sequence[int], tokenizer: TextTokenizer
) -> ModelInput:
    """Both networks continue the prompt. Raises ModeError for a speaker without a prompt or its text."""
    require_mode(family, "zero_shot")
    _require_prompt(speaker, "zero_shot")
    prompt_text_ids = speaker.prompt_text_ids
    if prompt_text_ids is None:
        prompt_text_ids = tuple(tokenizer.encode(speaker.prompt_text))
    if not prompt_text_ids:
        raise ModeError("zero_shot needs the text that the prompt says; without it, use cross_lingual")
    prefix, prompt_text_ids = _split_prefix(family, prompt_text_ids, tokenizer)
    return _with_prompt(speaker, text_ids, (*prefix, *prompt_text_ids), speaker.prompt_tokens)


def cross_lingual(
    family: Family, speaker: SpeakerFeatures, text_ids: Sequence[int], tokenizer: TextTokenizer
) -> ModelInput:
    """The flow continues the prompt, the language model does not hear it: the languages may differ.

    CosyVoice 1 wants the text's language in front of it, such as `<|en|>`; the caller writes it.
    Raises ModeError for a speaker without a prompt.
    """
    require_mode(family, "cross_lingual")
    _require_prompt(speaker, "cross_lingual")
    prefix, text_ids = _split_prefix(family, text_ids, tokenizer)
    return _with_prompt(speaker, text_ids, prefix)


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
    return _without_prompt(speaker, text_ids, tokenizer.encode(instruction), None)


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
    _require_prompt(speaker, "instruct2")
    _require_instruction(instruction, "instruct2")
    return _with_prompt(speaker, text_ids, tokenizer.encode(instruction_text(family, instruction)))


def voice_conversion(family: Family, speaker: SpeakerFeatures) -> ModelInput:
    """The flow alone. Raises ModeError for a speaker without a prompt."""
    require_mode(family, "voice_conversion")
    _require_prompt(speaker, "voice_conversion")
    return ModelInput(
        text_ids=(),
        prompt_text_ids=(),
        lm_prompt_tokens=speaker.prompt_tokens[:0],
        flow_prompt_tokens=speaker.prompt_tokens,
        flow_prompt_mel=speaker.prompt_mel,
        lm_embedding=None,
        flow_embedding=speaker.embedding,
    )


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
    caller to write one in front of the text. It is no text to be spoken: as prompt text it reads the
    same and does not count into the minimum and maximum length. Other families have no prefix.
    """
    if family != "cosyvoice3":
        return (), tuple(ids)
    end = tokenizer.end_of_prompt_id
    assert end is not None, "CosyVoice 3 with a tokenizer of another family"
    if end not in ids:
        return tuple(tokenizer.encode(ASSISTANT + END_OF_PROMPT)), tuple(ids)
    place = tuple(ids).index(end) + 1
    return tuple(ids[:place]), tuple(ids[place:])


def _with_prompt(
    speaker: SpeakerFeatures,
    text_ids: Sequence[int],
    prompt_text_ids: Sequence[int],
    lm_prompt_tokens: Tensor | None = None,
) -> ModelInput:
    return ModelInput(
        text_ids=tuple(text_ids),
        prompt_text_ids=tuple(prompt_text_ids),
        lm_prompt_tokens=speaker.prompt_tokens[:0] if lm_prompt_tokens is None else lm_prompt_tokens,
        flow_prompt_tokens=speaker.prompt_tokens,
        flow_prompt_mel=speaker.prompt_mel,
        lm_embedding=speaker.embedding,
        flow_embedding=speaker.embedding,
    )


def _without_prompt(
    speaker: SpeakerFeatures,
    text_ids: Sequence[int],
    prompt_text_ids: Sequence[int],
    lm_embedding: Tensor | None,
) -> ModelInput:
    return ModelInput(
        text_ids=tuple(text_ids),
        prompt_text_ids=tuple(prompt_text_ids),
        lm_prompt_tokens=speaker.prompt_tokens[:0],
        flow_prompt_tokens=speaker.prompt_tokens[:0],
        flow_prompt_mel=speaker.prompt_mel[:0],
        lm_embedding=lm_embedding,
        flow_embedding=speaker.embedding,
    )


def _require_prompt(speaker: SpeakerFeatures, mode: Mode) -> None:
    if not speaker.has_prompt:
        raise ModeError(f"{mode} needs a speaker with a recorded prompt; this one has none: use sft")


def _require_instruction(instruction: str, mode: Mode) -> None:
    if not instruction.strip():
        raise ModeError(f"{mode} needs an instruction; the given one is empty")
