"""One stream's utterances on their way to its listener: speech tokens in, audio out, chunk by chunk."""

import asyncio
from typing import Any

import numpy as np

from app.audio.onset import LeadingSilence
from app.audio.pcm import Samples
from app.engine.chunks import ChunkSchedule, TokenChunk
from app.engine.interface import Audio, Flushed, StreamStats, SynthesisFailed
from app.engine.listener import ListenerBuffer
from app.engine.reading import Utterance
from app.engine.resources import Resources
from app.speakers.enrolment import PreparedSpeaker
from models.token2wav import StepInput

_FADE_S = 0.003  # at both ends of an utterance, so that joins never click
_SILENCE_PEAK = 10 ** (-45 / 20)


class Talker:
    def __init__(
        self, speaker: PreparedSpeaker, shared: Resources, listener: ListenerBuffer, stats: StreamStats
    ) -> None:
        self.speaker, self.shared, self.listener, self.stats = speaker, shared, listener, stats
        sample_rate_hz = shared.token2wav.sample_rate_hz
        self._num_fade = round(_FADE_S * sample_rate_hz)
        self._silence = LeadingSilence(sample_rate_hz) if shared.trims_silence else None

    async def run(self, utterances: "asyncio.Queue[Utterance | Flushed | None]") -> None:
        """Until None comes. Raises SynthesisFailed."""
        while (item := await utterances.get()) is not None:
            if isinstance(item, Flushed):
                await self.listener.put(item)
            else:
                await self._speak(item)

    async def _speak(self, utterance: Utterance) -> None:
        try:
            await self._speak_chunks(utterance)
        finally:
            self.stats.compute_s += utterance.tokens.compute_s

    async def _speak_chunks(self, utterance: Utterance) -> None:
        tokens, session = utterance.tokens, self.shared.token2wav
        state = session.start(self.speaker.prompt, utterance.seed)
        schedule = ChunkSchedule()
        loudest = 0.0
        await self._await_first_hop(utterance, session.tokens_wanted(state))
        while not schedule.is_finished:
            wanted = session.tokens_wanted(state)
            await tokens.wait_for(schedule.tokens_due(wanted))
            chunk = schedule.next_chunk(len(tokens.ids), wanted, tokens.has_ended)
            assert chunk is not None, "woken without enough tokens"
            samples = await self._samples(utterance, state, chunk)
            loudest = max(loudest, float(np.abs(samples).max(initial=0)))
            if len(samples):
                await self.listener.put(Audio(samples))
        self._finish(utterance, loudest)

    async def _await_first_hop(self, utterance: Utterance, num_tokens: int) -> None:
        stages, clock = self.shared.metrics.stage_seconds, self.shared.clock
        await utterance.tokens.wait_for(1)
        stages.labels(stage="llm_first_token").observe(clock() - utterance.began_s)
        await utterance.tokens.wait_for(num_tokens)
        stages.labels(stage="llm_first_hop").observe(clock() - utterance.began_s)

    async def _samples(self, utterance: Utterance, state: Any, chunk: TokenChunk) -> Samples:
        given = StepInput(state, utterance.tokens.ids[chunk.start : chunk.stop], chunk.is_last)
        wave = await self.shared.pool.run(given, self.listener.dry_at_s)
        self.stats.compute_s += wave.compute_s
        self.stats.speech_tokens += chunk.stop - chunk.start
        samples = wave.samples
        if self._silence is not None:
            samples = self._silence.trim(samples, chunk.is_last)
        is_first = utterance.said.num_samples == 0
        utterance.said.num_samples += len(samples)
        return faded(samples, self._num_fade, is_first, chunk.is_last)

    def _finish(self, utterance: Utterance, loudest: float) -> None:
        utterance.said.total_samples = utterance.said.num_samples
        anomalies = self.shared.metrics.generation_anomalies
        reason = utterance.tokens.reason
        if reason in ("token_loop", "max_tokens"):
            anomalies.labels(kind=reason).inc()
        if utterance.said.num_samples == 0:
            anomalies.labels(kind="empty").inc()
            raise SynthesisFailed("the language model said nothing for a segment")
        if loudest < _SILENCE_PEAK:
            anomalies.labels(kind="silence").inc()


def faded(samples: Samples, num_fade: int, is_first: bool, is_last: bool) -> Samples:
    """Samples (n,) of an utterance, its first rising from zero and its last falling to it."""
    num_fade = min(num_fade, len(samples))
    if not num_fade or not (is_first or is_last):
        return samples
    samples = samples.copy()
    ramp = np.linspace(0, 1, num_fade, dtype=np.float32)
    if is_first:
        samples[:num_fade] *= ramp
    if is_last:
        samples[-num_fade:] *= ramp[::-1]
    return samples
