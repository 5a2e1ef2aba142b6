"""What clients bring to the networks by itself is cut into chunks, in turn with the streams."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from firstword.app.clients import ANYBODY
from firstword.app.core.admission import Admission
from firstword.app.core.token2wav_pool import StreamingToken2Wav, Token2WavPool
from firstword.app.engine.stages import NetworkStages, NetworkTokenSession, SlotOfStages
from firstword.app.errors import InvalidRequest
from firstword.app.options import QueueOptions
from firstword.models.token2wav import Token2Wav
from firstword.models.token2wav_step import StepInput, StepTimes
from tests.models.networks import small_flow, small_hift, small_speaker
from tests.support.clock import Clock
from tests.support.grpc_serving import until
from tests.support.toy_engine import HOP, LOOKAHEAD, SAMPLES_PER_TOKEN, ToySpeakers, ToyState, ToyToken2Wav

pytestmark = pytest.mark.anyio

VOCAB_SIZE = 120


class CountedToken2Wav(ToyToken2Wav):
    """Notes the size of each step, and computes none before `may_go_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def step(self, batch: Sequence[StepInput[ToyState]], times: StepTimes | None = None) -> list[Tensor]:
        self.sizes += [len(item.tokens) for item in batch]
        assert self.may_go_on.wait(20)
        return super().step(batch, times)


@asynccontextmanager
async def stages_over(
    token2wav: StreamingToken2Wav, family: str = "cosyvoice2"
) -> AsyncIterator[tuple[NetworkStages, Admission]]:
    pool = Token2WavPool(token2wav, num_workers=1, max_batch=1)
    admission = Admission(2, QueueOptions(2, 60.0), Clock())
    speakers: Any = ToySpeakers()
    networks: Any = None  # no recordings come
    try:
        yield NetworkStages(family, VOCAB_SIZE, token2wav, speakers, networks, pool, admission), admission
    finally:
        await pool.aclose()


async def test_a_clients_tokens_are_solved_chunk_by_chunk() -> None:
    token2wav = CountedToken2Wav()
    tokens = [number % VOCAB_SIZE for number in range(150)]
    async with stages_over(token2wav) as (stages, admission):
        session = await stages.open_tokens(None, None, ANYBODY)
        samples = await session.step(tokens, True, 0.0)
        session.close()
        assert admission.num_running == 0
    np.testing.assert_allclose(samples[::SAMPLES_PER_TOKEN], np.array(tokens) / 1000, atol=1e-6)
    assert max(token2wav.sizes) == HOP + LOOKAHEAD


async def test_a_more_urgent_stream_goes_before_the_next_chunk() -> None:
    token2wav = CountedToken2Wav()
    token2wav.may_go_on.clear()
    async with stages_over(token2wav) as (stages, _):
        session = await stages.open_tokens(None, None, ANYBODY)
        stepping = asyncio.create_task(session.step([1] * 400, True, 10.0))
        await until(lambda: len(token2wav.sizes) == 1)
        stream = StepInput(ToyState(), [2] * 3, True)
        urgent = asyncio.create_task(stages.pool.run(stream, 5.0))
        await asyncio.sleep(0)
        token2wav.may_go_on.set()
        await urgent
        assert not stepping.done()
        await stepping
        session.close()
    assert token2wav.sizes.index(3) == 1


async def test_who_leaves_ends_it_at_the_next_chunk_and_its_slot_goes_with_the_work() -> None:
    token2wav = CountedToken2Wav()
    token2wav.may_go_on.clear()
    async with stages_over(token2wav) as (stages, admission):
        session = await stages.open_tokens(None, None, ANYBODY)
        stepping = asyncio.create_task(session.step([1] * 4000, True, 0.0))
        await until(lambda: len(token2wav.sizes) == 1)
        stepping.cancel()
        await asyncio.wait([stepping])
        session.close()
        assert admission.num_running == 1, "a worker still computes for it"
        token2wav.may_go_on.set()
        await until(lambda: admission.num_running == 0)
    assert len(token2wav.sizes) == 1


async def test_a_foreign_token_is_refused_before_anything_is_solved() -> None:
    token2wav = CountedToken2Wav()
    async with stages_over(token2wav) as (stages, _):
        session = await stages.open_tokens(None, None, ANYBODY)
        with pytest.raises(InvalidRequest, match=f"speech token {VOCAB_SIZE}"):
            await session.step([1] * 100 + [VOCAB_SIZE], True, 0.0)
        session.close()
    assert token2wav.sizes == []


async def test_mel_frames_are_vocoded_chunk_by_chunk_and_sound_the_same() -> None:
    token2wav = Token2Wav(small_flow("dit"), small_hift(True))
    mel = torch.randn(80, 333, generator=torch.Generator().manual_seed(3))
    sizes: list[int] = []
    vocode = token2wav.vocode

    def counted(mel: Tensor, *given: Any) -> Tensor:
        sizes.append(mel.shape[1])
        return vocode(mel, *given)

    token2wav.vocode = counted  # type: ignore[method-assign]
    async with stages_over(token2wav, "cosyvoice3") as (stages, admission):
        for is_last in (True, False):
            samples = await stages.vocode(mel.numpy(), is_last, 0.0)
            np.testing.assert_allclose(samples, vocode(mel, is_last).numpy(), atol=1e-3)
        assert (await stages.vocode(mel.numpy()[:, :0], False, 0.0)).shape == (0,)
        assert admission.num_running == 0
    assert max(sizes) == 50


async def test_tokens_to_mel_frames_go_through_the_pool_chunk_by_chunk() -> None:
    token2wav = Token2Wav(small_flow("dit"), small_hift(True))
    prompt = token2wav.compute_prompt_state(small_speaker(7, 60), 10)
    tokens = torch.randint(VOCAB_SIZE, (90,), generator=torch.Generator().manual_seed(4)).tolist()
    whole = token2wav.step_mel(StepInput(token2wav.start(prompt), tokens, True)).numpy()
    async with stages_over(token2wav, "cosyvoice3") as (stages, _):
        slot = SlotOfStages(await stages.admission.acquire())
        session = NetworkTokenSession(stages, slot, token2wav.start(prompt))
        parts = [await session.step(tokens[:40], False, 0.0), await session.step(tokens[40:], True, 0.0)]
        session.close()
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, atol=1e-4)
