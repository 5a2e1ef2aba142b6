"""A text and a speaker as the language model reads them, and what of the speaker the flow is given."""

from dataclasses import dataclass

from app.engine.interface import InvalidRequest, Mode
from app.engine.tokens.interface import Utterance
from models.config import ModelConfig, Qwen2LMConfig, TransformerLMConfig
from models.frontend.errors import ModeError
from models.frontend.modes import ModelInput, cross_lingual, instruct, instruct2, sft, zero_shot
from models.frontend.speaker import Speaker
from models.tokenizer import TextTokenizer


@dataclass(frozen=True, slots=True, eq=False)
class Prompting:
    """How one checkpoint is prompted. Threads may share it."""

    config: ModelConfig
    tokenizer: TextTokenizer

    @property
    def mix_ratio(self) -> tuple[int, int] | None:
        lm = self.config.lm
        return lm.mix_ratio if isinstance(lm, Qwen2LMConfig) else None

    @property
    def can_continue_text(self) -> bool:
        return self.mix_ratio is not None

    def utterance(
        self, speaker: Speaker, text: str, mode: Mode, instruction: str | None, seed: int
    ) -> Utterance:
        """`text` is left out in mode "continuous": it is pushed later.

        Raises InvalidRequest for an instruction or a speaker that the checkpoint cannot take.
        """
        is_pushed = mode == "continuous"
        ids = () if is_pushed else tuple(self.tokenizer.encode(text))
        given = self._given(speaker, ids, instruction)
        prefix, prompt_text = self._split(given.prompt_text_ids)
        return Utterance(
            text_ids=None if is_pushed else given.text_ids,
            prompt_text_ids=prompt_text,
            prompt_speech_ids=tuple(given.lm_prompt_tokens.tolist()),
            prefix_text_ids=prefix,
            speaker=given.lm_embedding if isinstance(self.config.lm, TransformerLMConfig) else None,
            seed=seed,
        )

    def _given(self, speaker: Speaker, ids: tuple[int, ...], instruction: str | None) -> ModelInput:
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
