"""The language model's prompt of an utterance, by the mode that the speaker and the request allow."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from firstword.app.core.request import VoiceMode
from firstword.app.errors import InvalidRequest
from firstword.models.config import ModelConfig, Qwen2LMConfig, TransformerLMConfig
from firstword.models.frontend.features import ModeError
from firstword.models.frontend.modes import (
    Mode,
    choose_mode,
    cross_lingual,
    instruct,
    instruct2,
    sft,
    uses_flow_prompt,
    zero_shot,
)
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.lm.plan import DEFAULT_RATIOS, LengthRatios
from firstword.models.lm.tokens import TokenRequest
from firstword.models.tokenizer import TextTokenizer
from firstword.models.tokenizer.accents import AccentTokens


@dataclass(frozen=True, slots=True, eq=False)
class PromptBuilder:
    """Builds the prompts of one checkpoint. Threads may share it."""

    config: ModelConfig
    tokenizer: TextTokenizer
    ratios: LengthRatios = DEFAULT_RATIOS
    continues_prompts: bool = True  # of speakers with a transcript, unless a mode is asked for
    accents: Mapping[str, AccentTokens] = field(default_factory=dict)

    @property
    def can_continue_text(self) -> bool:
        return isinstance(self.config.lm, Qwen2LMConfig)

    def utterance(
        self,
        speaker: SpeakerFeatures,
        text_ids: tuple[int, ...] | None,
        instruction: str | None,
        seed: int,
        mode: VoiceMode | None = None,
        accent: str = "",
    ) -> TokenRequest:
        """text_ids None: they are pushed later, as `in_accent` gives them. mode None: chosen by the
        instruction and the speaker.

        Raises InvalidRequest for an instruction, a speaker or a mode that the checkpoint cannot take.
        """
        ids = text_ids or ()
        family, tokenizer = self.config.family, self.tokenizer
        chosen = self._mode(speaker, instruction, mode)
        try:
            match chosen:
                case "instruct":
                    given = instruct(family, speaker, ids, instruction or "", tokenizer)
                case "instruct2":
                    given = instruct2(family, speaker, ids, instruction or "", tokenizer)
                case "sft":
                    given = sft(family, speaker, ids, tokenizer)
                case "zero_shot":
                    given = zero_shot(family, speaker, ids, tokenizer)
                case "cross_lingual":
                    given = cross_lingual(family, speaker, ids, tokenizer)
        except ModeError as error:
            param = "voice_mode" if mode is not None else "speaker" if instruction is None else "instruct"
            raise InvalidRequest(str(error), param) from error
        return TokenRequest(
            text_ids=None if text_ids is None else self.in_accent(given.text_ids, accent),
            prompt_text_ids=given.prompt_text_ids,
            prompt_speech_ids=tuple(given.lm_prompt_tokens.tolist()),
            prefix_text_ids=given.prefix_text_ids,
            speaker=given.lm_embedding if isinstance(self.config.lm, TransformerLMConfig) else None,
            seed=seed,
            ratios=self.ratios,
            uses_flow_prompt=uses_flow_prompt(chosen),
        )

    def in_accent(self, text_ids: tuple[int, ...], accent: str) -> tuple[int, ...]:
        """Return the text tokens that the language model reads in an accent; "" is its own."""
        tokens = self.accents.get(accent)
        return text_ids if tokens is None else tokens.read(text_ids)

    def uses_flow_prompt(
        self, speaker: SpeakerFeatures, instruction: str | None, mode: VoiceMode | None = None
    ) -> bool:
        """Tell if the flow continues the speaker's prompt; CosyVoice 1 follows an instruction without it.

        Raises InvalidRequest for a mode that the speaker cannot have.
        """
        return uses_flow_prompt(self._mode(speaker, instruction, mode))

    def _mode(self, speaker: SpeakerFeatures, instruction: str | None, mode: VoiceMode | None) -> Mode:
        continues = self.continues_prompts
        try:
            return choose_mode(
                self.config.family, speaker, instruction is not None, mode, continues_prompts=continues
            )
        except ModeError as error:
            raise InvalidRequest(str(error), "voice_mode") from error
