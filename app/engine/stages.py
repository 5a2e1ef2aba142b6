"""The networks of a checkpoint one by one: tokenizer, speaker encoder, token2wav, vocoder."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from firstword.app.audio.dsp import Samples
from firstword.app.clients import ANYBODY, Client
from firstword.app.core.admission import Admission, Slot
from firstword.app.core.interface import MEL_FAMILIES, SpeechPrompt
from firstword.app.core.token2wav_pool import StreamingToken2Wav, Token2WavPool
from firstword.app.errors import InvalidRequest
from firstword.app.speakers.interface import PreparedSpeaker
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.token2wav import Token2Wav, check_tokens
from firstword.models.token2wav_step import RefusedStep, StepInput

Result = TypeVar("Result")
Tensors = Mapping[str, NDArray[Any]]


class Recordings(Protocol):
    """`SpeakerRegistry`, for recordings that are not registered."""

    async def prepared(self, name: str | None, client: Client) -> PreparedSpeaker: ...

    async def bounded(self, function: Callable[[], Result]) -> Result: ...


class PromptNetworks(Protocol):
    """`SpeakerNetworks`."""

    def read_features(self, samples: Samples, sample_rate_hz: int) -> SpeakerFeatures: ...

    def read_source_tokens(self, samples: Samples, sample_rate_hz: int) -> list[int]: ...

    def features_from(self, tensors: Tensors) -> SpeakerFeatures: ...

    def with_prompt_state(self, features: SpeakerFeatures, transcript: str) -> PreparedSpeaker: ...


@dataclass(frozen=True, slots=True, eq=False)
class NetworkStages:
    """The `Stages` of a running engine; what computes shares its threads and its slots."""

    family: str
    vocab_size: int  # of speech tokens
    token2wav: StreamingToken2Wav
    speakers: Recordings
    networks: PromptNetworks
    pool: Token2WavPool
    admission: Admission

    @property
    def gives_mel(self) -> bool:
        return self.family in MEL_FAMILIES

    @property
    def lookahead_tokens(self) -> int:
        return self.token2wav.lookahead_tokens

    @property
    def chunk_tokens(self) -> int:
        return self.token2wav.chunk_tokens if isinstance(self.token2wav, Token2Wav) else 1

    async def speech_tokens(self, samples: Samples, sample_rate_hz: int) -> list[int]:
        return await self.speakers.bounded(partial(self.networks.read_source_tokens, samples, sample_rate_hz))

    async def embedding(self, samples: Samples, sample_rate_hz: int) -> NDArray[np.float32]:
        features = await self.speakers.bounded(partial(self.networks.read_features, samples, sample_rate_hz))
        embedding: NDArray[np.float32] = features.embedding.numpy()
        return embedding

    async def open_tokens(
        self, prompt: SpeechPrompt | None, first_hop_tokens: int | None
    ) -> "NetworkTokenSession":
        slot = await self.admission.acquire()
        try:
            if prompt is None:
                state = (await self.speakers.prepared(None, ANYBODY)).prompt_state
            else:
                state = await self.speakers.bounded(partial(self._prompt_state, prompt, first_hop_tokens))
            return NetworkTokenSession(self, slot, self.token2wav.start(state))
        except BaseException:
            slot.release()
            raise

    async def vocode(self, mel: NDArray[np.float32], is_last: bool) -> Samples:
        if not isinstance(self.token2wav, Token2Wav):
            raise InvalidRequest(f"a {self.family} has no vocoder by itself; ask token2wav", "mel")
        tensor = torch.from_numpy(np.ascontiguousarray(mel))
        slot = await self.admission.acquire()
        try:
            samples = await asyncio.to_thread(self.token2wav.vocode, tensor, is_last)
        finally:
            slot.release()
        return samples.to("cpu", torch.float32).numpy()

    def _prompt_state(self, prompt: SpeechPrompt, first_hop_tokens: int | None) -> Any:
        tensors: Tensors = {
            "prompt_tokens": prompt.tokens,
            "prompt_mel": prompt.mel,
            "embedding": prompt.embedding,
        }
        try:
            features = self.networks.features_from(tensors)
        except ValueError as error:
            raise InvalidRequest(f"this prompt is not of a recording: {error}") from error
        if first_hop_tokens is not None and isinstance(self.token2wav, Token2Wav):
            return self.token2wav.compute_prompt_state(features, first_hop_tokens)
        return self.networks.with_prompt_state(features, "").prompt_state


class NetworkTokenSession:
    def __init__(self, stages: NetworkStages, slot: Slot, state: Any) -> None:
        """state: of token2wav, for this session alone."""
        self._stages = stages
        self._slot = slot
        self._state = state

    async def step(self, tokens: Sequence[int], is_last: bool, deadline_s: float) -> NDArray[np.float32]:
        stages = self._stages
        given = StepInput(self._state, tokens, is_last)
        token2wav = stages.token2wav
        try:
            if stages.gives_mel:
                assert isinstance(token2wav, Token2Wav)
                mel = await asyncio.to_thread(token2wav.step_mel, given)
                return mel.to("cpu", torch.float32).numpy()
            check_tokens(tokens, stages.vocab_size)
        except RefusedStep as error:
            raise InvalidRequest(str(error), "target_speech_tokens") from error
        return (await stages.pool.run(given, deadline_s)).samples

    def close(self) -> None:
        self._state = None
        self._slot.release()
