"""The audio task of a stream: speech tokens in, shaped samples out, chunk by chunk."""

import asyncio
from collections.abc import Sequence

import numpy as np

from firstword.app.audio.dsp import LeadingSilence, Samples, Tempo, within_full_scale
from firstword.app.core.interface import Audio, Flushed
from firstword.app.core.parts import SpokenRequest
from firstword.app.core.text import Spoken, Utterance
from firstword.app.core.transcript import Silence, TimedWord
from firstword.app.errors import SynthesisFailed
from firstword.app.events import Stage, WentWrong
from firstword.app.options import HopStrategy
from firstword.models.token2wav_step import StepInput

MAX_CHUNKS = 4  # of a hop
_LEAD_SHARE = 0.5  # of what the listener has ahead, that the next hop may be long
_FADE_S = 0.003  # at both ends of an utterance, so that joins never click
_SILENCE_PEAK = 10 ** (-45 / 20)


class AudioTask:
    """Turns utterances into the audio that its listener takes from `queue`."""

    def __init__(self, spoken: SpokenRequest, keeps: bool) -> None:
        """keeps: whether all audio stays in `pieces`."""
        self.pieces: list[Audio] = []
        self.num_samples = 0  # made so far
        self._spoken = spoken
        self._keeps = keeps
        self._token2wav = spoken.parts.pool.token2wav
        self._queue = spoken.audio
        sample_rate_hz, processing = self._token2wav.sample_rate_hz, spoken.parts.post_processing
        trims = processing.trims_silence and spoken.request.speech is None
        self._silence = LeadingSilence(sample_rate_hz) if trims else None
        watermark = processing.watermark
        self._marker = None if watermark is None else watermark.marker(sample_rate_hz)

    async def run(self, utterances: asyncio.Queue[Spoken | None]) -> None:
        """Speak utterances in order.

        Raises SynthesisFailed if one fails or has no audio, InvalidRequest for more audio than there may be.
        """
        while (item := await utterances.get()) is not None:
            match item:
                case Flushed():
                    await self._put_held()
                    await self._queue.put(item)
                case Silence():
                    for samples in item.chunks(self._token2wav.sample_rate_hz):
                        await self._put(Audio(samples))
                case Utterance():
                    await self._speak_checked(item)
        await self._put_held()

    async def _speak_checked(self, utterance: Utterance) -> None:
        tokens, events = utterance.tokens, self._spoken.events
        try:
            peak = await self._speak(utterance)
        finally:
            events.emit(Stage("lm", utterance.started_s, events.clock(), tokens.compute_s))
        if tokens.reason == "token_loop" or tokens.reason == "max_tokens":
            events.emit(WentWrong(tokens.reason))
        if utterance.transcript.num_samples == 0:
            events.emit(WentWrong("empty"))
            raise SynthesisFailed("the language model said nothing for a segment")
        if peak < _SILENCE_PEAK:
            events.emit(WentWrong("silence"))

    async def _speak(self, utterance: Utterance) -> float:
        """Speak an utterance to its end; return its highest sample.

        A chunk takes as many tokens as token2wav wants, lookahead included, so the chunks depend on the
        tokens alone and never on how fast they come or the client reads.
        """
        parts, token2wav, events = self._spoken.parts, self._token2wav, self._spoken.events
        tokens, transcript, words = utterance.tokens, utterance.transcript, utterance.words
        speaker, delivery, stats = utterance.speaker, self._spoken.request.delivery, self._spoken.stats
        state = token2wav.start(
            speaker.prompt_state,
            utterance.seed,
            utterance.uses_flow_prompt,
            delivery.context == "full",
        )
        await tokens.wait_for(1)
        first_token_s = events.passed("prefill", utterance.started_s)
        await tokens.wait_for(token2wav.tokens_wanted(state))
        events.passed("first_hop", utterance.started_s)
        shaper = UtteranceShaper(
            token2wav.sample_rate_hz, self._silence, utterance.rate, speaker.gain, delivery.volume
        )
        if words is not None:
            words.first_sample = self.num_samples
        chunk_s = token2wav.hop_tokens / parts.info.token_rate_hz
        position = hop = 0  # tokens given to token2wav; pieces handed out
        is_last = False
        while not is_last:
            chunks_ahead = (self._queue.playout_deadline_s - parts.clock()) / chunk_s
            num_more = chunks_of_hop(parts.pacing.hop_strategy, hop, chunks_ahead) - 1
            due = position + token2wav.tokens_wanted(state) + num_more * token2wav.hop_tokens
            hop += 1
            await tokens.wait_for(due)
            new = tokens.ids[position:due]
            position += len(new)
            is_last = tokens.has_ended and position == len(tokens.ids)
            if is_last:
                events.passed("decode", first_token_s, tokens=position)
            chunk = StepInput(state, new, is_last)
            solved = await parts.pool.run(chunk, self._queue.playout_deadline_s, events.emit)
            samples = shaper.shape(solved.samples, is_last)
            transcript.num_samples += len(samples)
            ended: Sequence[TimedWord] = ()
            if words is not None and (len(samples) or is_last):
                details, num_trimmed = tokens.details[:position], shaper.num_trimmed
                ended = words.take_ended(details, num_trimmed, transcript.num_samples, is_last)
                transcript.words += ended
                stats.note_word_times(words.found)
            if len(samples) or ended:
                stats.first.spoken(len(samples) / token2wav.sample_rate_hz)
                await self._put(Audio(samples, ended))
        transcript.total_samples = transcript.num_samples
        return shaper.peak

    async def _put(self, audio: Audio) -> None:
        self.num_samples += len(audio.samples)
        self._spoken.reading.work.check_audio(self.num_samples / self._token2wav.sample_rate_hz)
        if self._marker is not None:
            audio = Audio(await asyncio.to_thread(self._marker.feed, audio.samples), audio.words)
        await self._give_out(audio)

    async def _put_held(self) -> None:
        """Give out what the watermark holds back, 10 ms."""
        if self._marker is not None:
            await self._give_out(Audio(await asyncio.to_thread(self._marker.finish)))

    async def _give_out(self, audio: Audio) -> None:
        if not len(audio.samples) and not audio.words:
            return
        if self._keeps:
            self.pieces.append(audio)
        await self._queue.put(audio)


def chunks_of_hop(strategy: HopStrategy, number: int, chunks_ahead: float) -> int:
    """Return how many chunks of an utterance are handed out at once, in its hop of that number, from 0 on.

    chunks_ahead: what the listener has not heard yet. Chunks are solved one by one whatever is chosen, so the
    sound is the same; fewer, larger pieces are fewer messages, and fewer turns in the pool.
    """
    if strategy == "fixed" or number == 0:
        return 1
    wanted = 1 << (number - 1) if strategy == "growing" else int(_LEAD_SHARE * chunks_ahead)
    return max(1, min(wanted, MAX_CHUNKS))


class UtteranceShaper:
    """Shapes the samples of one utterance: leading silence, gain, rate, fades and volume."""

    def __init__(
        self, sample_rate_hz: int, silence: LeadingSilence | None, rate: float, gain: float, volume: float
    ) -> None:
        """silence: trimmer of the stream's leading silence. gain, volume: factors of the speaker and of the
        request; samples beyond full scale are clipped."""
        self.peak = 0.0  # before the volume
        self.num_trimmed = 0  # samples before the first that was given out
        self._silence = silence
        self._tempo = None if rate == 1 else Tempo(rate, sample_rate_hz)
        self._gain = np.float32(gain)
        self._volume = volume
        self._num_fade = round(_FADE_S * sample_rate_hz)
        self._is_first = True

    def shape(self, samples: Samples, is_last: bool) -> Samples:
        """Shape samples (n,) -> (m,), possibly empty. is_last: the utterance ends with them."""
        if self._gain != 1:
            samples = samples * self._gain
        if self._silence is not None:
            num_given = len(samples)
            samples = self._silence.trim(samples, is_last)
            self.num_trimmed += num_given - len(samples)  # in the end: held back samples come later
        if self._tempo is not None:
            samples = self._tempo.feed(samples)
            samples = np.concatenate([samples, self._tempo.finish()]) if is_last else samples
        if not len(samples):
            return samples
        samples = faded(samples, self._num_fade, self._is_first, is_last)
        self._is_first = False
        self.peak = max(self.peak, float(np.abs(samples).max()))
        return samples if self._volume == 1 else within_full_scale(samples * np.float32(self._volume))


def faded(samples: Samples, num_fade: int, is_first: bool, is_last: bool) -> Samples:
    """Fade samples (n,) of an utterance: its first rise from zero, its last fall to it."""
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
