"""The language model of a stream: an utterance's prompt, its tokens, its failures as a client sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from firstword.app.core.request import VoiceChoice
from firstword.app.errors import InvalidRequest, Restarting, SynthesisFailed, TextTooLong, TtsError
from firstword.models.config import ModelConfig, Qwen2LMConfig, TransformerLMConfig
from firstword.models.frontend import modes
from firstword.models.frontend.features import ModeError
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.lm.plan import DEFAULT_RATIOS, LengthRatios
from firstword.models.lm.tokens import (
    EngineRestarting,
    InvalidTokens,
    TokenError,
    TokenRequest,
    TooManyTokens,
)
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
        voice: VoiceChoice,
        seed: int,
        accent: str = "",
    ) -> TokenRequest:
        """text_ids None: they are pushed later, as `in_accent` gives them.

        Raises InvalidRequest for an instruction, a speaker or a mode that the checkpoint cannot take.
        """
        mode = self._mode(speaker, voice)
        ids, instruction = text_ids or (), voice.instruct or ""
        try:
            given = modes.model_input(mode, self.config.family, speaker, ids, instruction, self.tokenizer)
        except ModeError as error:
            unasked = "speaker" if voice.instruct is None else "instruct"
            raise InvalidRequest(str(error), "voice_mode" if voice.mode is not None else unasked) from error
        return TokenRequest(
            text_ids=None if text_ids is None else self.in_accent(given.text_ids, accent),
            prompt_text_ids=given.prompt_text_ids,
            prompt_speech_ids=tuple(given.lm_prompt_tokens.tolist()),
            prefix_text_ids=given.prefix_text_ids,
            speaker=given.lm_embedding if isinstance(self.config.lm, TransformerLMConfig) else None,
            seed=seed,
            ratios=self.ratios,
        )

    def in_accent(self, text_ids: tuple[int, ...], accent: str) -> tuple[int, ...]:
        """Return the text tokens that the language model reads in an accent; "" is its own."""
        tokens = self.accents.get(accent)
        return text_ids if tokens is None else tokens.read(text_ids)

    def uses_flow_prompt(self, speaker: SpeakerFeatures, voice: VoiceChoice) -> bool:
        """Tell if the flow continues the speaker's prompt; CosyVoice 1 follows an instruction without it.

        Raises InvalidRequest for a mode that the speaker cannot have.
        """
        return modes.uses_flow_prompt(self._mode(speaker, voice))

    def _mode(self, speaker: SpeakerFeatures, voice: VoiceChoice) -> modes.Mode:
        """Return the mode that is asked for, else the one by the instruction and the speaker."""
        try:
            return modes.choose_mode(
                self.config.family,
                speaker,
                voice.instruct is not None,
                voice.mode,
                continues_prompts=self.continues_prompts,
            )
        except ModeError as error:
            raise InvalidRequest(str(error), "voice_mode") from error


def as_seen(error: TtsError | TokenError) -> TtsError:
    """Return what a client sees of an error of its stream, caused by it."""
    seen: TtsError
    match error:
        case TtsError():
            return error
        case InvalidTokens():
            seen = InvalidRequest(str(error), "text")
        case TooManyTokens():
            seen = TextTooLong(str(error), "text")
        case EngineRestarting():
            seen = Restarting(str(error))
        case _:
            seen = SynthesisFailed(str(error))
    seen.__cause__ = error  # which logs tell
    return seen
