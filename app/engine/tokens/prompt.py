"""Build the language model's prompt of an utterance.

A text and a speaker as the language model reads them, and what of the speaker the flow is given.

An utterance's plan: which ids the language model runs, and what it may draw.
"""

from dataclasses import dataclass

from firstword.app.engine.interface import Mode
from firstword.app.engine.tokens.interface import TokenRequest
from firstword.app.errors import InvalidRequest
from firstword.models.config import LMConfig, ModelConfig, Qwen2LMConfig, TransformerLMConfig
from firstword.models.frontend.features import ModeError
from firstword.models.frontend.modes import ModelInput, cross_lingual, instruct, instruct2, sft, zero_shot
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.lm.plan import BistreamPlan, OfflinePlan, Plan, Vocabulary
from firstword.models.tokenizer import TextTokenizer


@dataclass(frozen=True, slots=True, eq=False)
class PromptBuilder:
    """How one checkpoint is prompted. Threads may share it."""

    config: ModelConfig
    tokenizer: TextTokenizer

    @property
    def can_continue_text(self) -> bool:
        return mix_ratio_of(self.config.lm) is not None

    def utterance(
        self, speaker: SpeakerFeatures, text: str, mode: Mode, instruction: str | None, seed: int
    ) -> TokenRequest:
        """`text` is left out in mode "continuous": it is pushed later.

        Raises InvalidRequest for an instruction or a speaker that the checkpoint cannot take.
        """
        is_pushed = mode == "continuous"
        ids = () if is_pushed else tuple(self.tokenizer.encode(text))
        given = self._given(speaker, ids, instruction)
        prefix, prompt_text = self._split(given.prompt_text_ids)
        return TokenRequest(
            text_ids=None if is_pushed else given.text_ids,
            prompt_text_ids=prompt_text,
            prompt_speech_ids=tuple(given.lm_prompt_tokens.tolist()),
            prefix_text_ids=prefix,
            speaker=given.lm_embedding if isinstance(self.config.lm, TransformerLMConfig) else None,
            seed=seed,
        )

    def _given(self, speaker: SpeakerFeatures, ids: tuple[int, ...], instruction: str | None) -> ModelInput:
        family, tokenizer = self.config.family, self.tokenizer
        try:
            if instruction is not None:
                take = instruct if family == "cosyvoice1" else instruct2
                return take(family, speaker, ids, instruction, tokenizer)
            if not speaker.has_prompt:
                return sft(family, speaker, ids, tokenizer)
            if speaker.prompt_text or speaker.prompt_text_ids:
                return zero_shot(family, speaker, ids, tokenizer)
            return cross_lingual(family, speaker, ids, tokenizer)
        except ModeError as error:
            raise InvalidRequest(str(error), "speaker" if instruction is None else "instruct") from error

    def _split(self, ids: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """CosyVoice 3's instruction, which goes right behind sos, and the rest."""
        end = self.tokenizer.end_of_prompt_id
        if self.config.family != "cosyvoice3" or end not in ids:
            return (), ids
        place = ids.index(end) + 1
        return ids[:place], ids[place:]


def mix_ratio_of(config: LMConfig) -> tuple[int, int] | None:
    """Text and speech tokens of a block where text is pushed; None: the model reads all text first."""
    return config.mix_ratio if isinstance(config, Qwen2LMConfig) else None


def plan_of(request: TokenRequest, vocabulary: Vocabulary, mix_ratio: tuple[int, int] | None) -> Plan:
    """Return the decoding plan. Raises InvalidRequest for ids that the model does not have."""
    prompt_text, prompt_speech = request.prompt_text_ids, request.prompt_speech_ids
    try:
        if request.text_ids is not None:
            text = request.prefix_text_ids + prompt_text
            return OfflinePlan(vocabulary, request.text_ids, text, prompt_speech)
        assert mix_ratio is not None, "text pushed to a model that reads all of it first"
        prefix = request.prefix_text_ids
        return BistreamPlan(vocabulary, prompt_text, prompt_speech, prefix, mix_ratio=mix_ratio)
    except ValueError as error:
        raise InvalidRequest(str(error), "text") from error
