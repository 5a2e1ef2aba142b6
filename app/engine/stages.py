"""The networks of a checkpoint one by one: tokenizer, speaker encoder, token2wav, vocoder."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor as TorchTensor

from firstword.app.audio.dsp import Samples
from firstword.app.audio.watermark import Marker, Watermark
from firstword.app.clients import ANYBODY, Client
from firstword.app.core.admission import Admission, Slot
from firstword.app.core.interface import MEL_FAMILIES, SpeechPrompt
from firstword.app.core.token2wav_pool import StreamingToken2Wav, Token2WavPool
from firstword.app.errors import InvalidRequest
from firstword.app.speakers.interface import PreparedSpeaker
from firstword.models.config import FRAME_RATE_HZ, FRAMES_PER_TOKEN
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.token2wav import Token2Wav, check_tokens
from firstword.models.token2wav_step import RefusedStep, StepInput

Result = TypeVar("Result")
Tensors = Mapping[str, NDArray[Any]]


class Recordings(Protocol):
    """`SpeakerRegistry`, for recordings that are not registered."""

    async def prepared(self, name: str | None, client: Client) -> PreparedSpeaker: ...

    async def bounded(self, function: Callable[[], Result], client: Client) -> Result: ...


class PromptNetworks(Protocol):
    """`SpeakerNetworks`."""

    def read_embedding(self, samples: Samples, sample_rate_hz: int) -> NDArray[np.float32]: ...

    def read_source_tokens(self, samples: Samples, sample_rate_hz: int) -> list[int]: ...

    def features_from(self, tensors: Tensors) -> SpeakerFeatures: ...

    def compute_prompt_state(self, features: SpeakerFeatures, first_hop_tokens: int | None) -> Any: ...


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
    watermark: Watermark | None = None  # laid into samples

    @property
    def gives_mel(self) -> bool:
        return self.family in MEL_FAMILIES

    @property
    def lookahead_tokens(self) -> int:
        return self.token2wav.lookahead_tokens

    @property
    def chunk_tokens(self) -> int:
        return self.token2wav.chunk_tokens if isinstance(self.token2wav, Token2Wav) else 1

    async def speech_tokens(self, samples: Samples, sample_rate_hz: int, client: Client) -> list[int]:
        read = partial(self.networks.read_source_tokens, samples, sample_rate_hz)
        return await self.speakers.bounded(read, client)

    async def embedding(self, samples: Samples, sample_rate_hz: int, client: Client) -> NDArray[np.float32]:
        read = partial(self.networks.read_embedding, samples, sample_rate_hz)
        return await self.speakers.bounded(read, client)

    async def open_tokens(
        self, prompt: SpeechPrompt | None, first_hop_tokens: int | None, client: Client
    ) -> "NetworkTokenSession":
        slot = SlotOfStages(await self.admission.acquire())
        try:
            if prompt is None:
                state = (await self.speakers.prepared(None, ANYBODY)).prompt_state
            else:
                computing = self.speakers.bounded(
                    partial(self._prompt_state, prompt, first_hop_tokens), client
                )
                state = await slot.run(computing)
            return NetworkTokenSession(self, slot, self.token2wav.start(state))
        except BaseException:
            slot.close()
            raise

    async def vocode(self, mel: NDArray[np.float32], is_last: bool, deadline_s: float) -> Samples:
        token2wav = self.token2wav
        if not isinstance(token2wav, Token2Wav):
            raise InvalidRequest(f"a {self.family} has no vocoder by itself; ask token2wav", "mel")
        num_frames, chunk = mel.shape[1], FRAMES_PER_TOKEN * token2wav.chunk_tokens

        def vocoded(start: int) -> Samples:
            is_end = is_last and start + chunk >= num_frames
            piece = torch.from_numpy(np.ascontiguousarray(mel[:, start : start + chunk]))
            return _to_numpy(token2wav.vocode(piece, is_end, sound))

        pieces: list[Samples] = []
        with closing(SlotOfStages(await self.admission.acquire())) as slot:
            sound = token2wav.start_sound()
            for start in range(0, max(1, num_frames), chunk):
                pieces.append(await slot.run(self.pool.call(partial(vocoded, start), deadline_s)))
                deadline_s += len(pieces[-1]) / token2wav.sample_rate_hz
        samples = np.concatenate(pieces)
        if self.watermark is None:
            return samples
        marker = self.watermark.marker(token2wav.sample_rate_hz)
        marked = await asyncio.to_thread(marker.feed, samples)
        return np.concatenate([marked, marker.finish()])  # the next call begins anew

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
        return self.networks.compute_prompt_state(features, first_hop_tokens)


class SlotOfStages:
    """A slot for the work of one request, piece by piece. Closed, it goes back once the last piece has ended.

    So who leaves ends the work at its next piece, and what still computes is counted until then.
    """

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._running: asyncio.Future[Any] | None = None  # the last piece; None: there was none

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        running = self._running = asyncio.ensure_future(work)
        return await asyncio.shield(running)

    def close(self) -> None:
        if self._running is None or self._running.done():
            self._slot.release()
        else:
            self._running.add_done_callback(lambda _: self._slot.release())


class NetworkTokenSession:
    def __init__(self, stages: NetworkStages, slot: SlotOfStages, state: Any) -> None:
        """state: of token2wav, for this session alone."""
        self._stages = stages
        self._slot = slot
        self._state = state
        self._marker: Marker | None = None  # where samples come out, and are marked
        if stages.watermark is not None and not stages.gives_mel:
            self._marker = stages.watermark.marker(stages.token2wav.sample_rate_hz)

    async def step(self, tokens: Sequence[int], is_last: bool, deadline_s: float) -> NDArray[np.float32]:
        """Solve the tokens chunk by chunk, each when its turn comes in the pool."""
        stages, state = self._stages, self._state
        try:
            check_tokens(tokens, stages.vocab_size)
        except RefusedStep as error:
            raise InvalidRequest(str(error), "target_speech_tokens") from error
        rate_hz = FRAME_RATE_HZ if stages.gives_mel else stages.token2wav.sample_rate_hz
        pieces: list[NDArray[np.float32]] = []
        position = 0
        while not pieces or position < len(tokens):
            due = position + stages.token2wav.tokens_wanted(state)
            new = tokens[position:due]
            position += len(new)
            given = StepInput(state, new, is_last and position == len(tokens))
            pieces.append(await self._slot.run(self._solved(given, deadline_s)))
            deadline_s += pieces[-1].shape[-1] / rate_hz
        output = np.concatenate(pieces, axis=-1)
        if self._marker is None:
            return output
        marked = await asyncio.to_thread(self._marker.feed, output)
        return np.concatenate([marked, self._marker.finish()]) if is_last else marked

    def close(self) -> None:
        self._state = None
        self._slot.close()

    async def _solved(self, given: StepInput[Any], deadline_s: float) -> NDArray[np.float32]:
        stages, token2wav = self._stages, self._stages.token2wav
        if not stages.gives_mel:
            return (await stages.pool.run(given, deadline_s)).samples
        assert isinstance(token2wav, Token2Wav), stages.family
        return await stages.pool.call(lambda: _to_numpy(token2wav.step_mel(given)), deadline_s)


def _to_numpy(tensor: TorchTensor) -> NDArray[np.float32]:
    return tensor.to("cpu", torch.float32).numpy()
