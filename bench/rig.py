"""One utterance through the service's own parts, one stage after the other, each timed."""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch

from firstword.app.audio.encode import AudioEncoder
from firstword.app.engine.startup import Networks, load_networks, set_threads, text_frontend
from firstword.app.settings import Settings
from firstword.models.config import CheckpointError
from firstword.models.lm.decoder import Emitted, RowRequest, SpeechDecoder, Stopped
from firstword.models.lm.plan import LengthRatios, OfflinePlan
from firstword.models.token2wav_step import StepInput, StepTimes

Clock = Callable[[], float]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ChunkCost:
    """Seconds. state_mb: what the stream keeps for flow and vocoder after it; cache_mb: the LM's."""

    start_s: float
    audio_s: float
    num_tokens: int
    lm_s: float
    flow_s: float
    vocoder_s: float
    encode_s: float
    state_mb: float
    cache_mb: float

    def stages(self) -> dict[str, float]:
        return {"LM": self.lm_s, "flow": self.flow_s, "vocoder": self.vocoder_s, "encode": self.encode_s}

    @property
    def total_s(self) -> float:
        return sum(self.stages().values())


@dataclass(frozen=True, slots=True)
class Utterance:
    """normalize_s: text to text tokens. prefill_s: all that the LM reads, and its first token."""

    normalize_s: float
    prefill_s: float
    step_s: float  # median of a token after the first
    chunks: tuple[ChunkCost, ...]

    @property
    def first_audio_s(self) -> float:
        """The stages before it one after the other; the service does no better."""
        return self.normalize_s + self.chunks[0].total_s

    @property
    def rtf(self) -> float:
        total_s = self.normalize_s + sum(chunk.total_s for chunk in self.chunks)
        return total_s / sum(chunk.audio_s for chunk in self.chunks)


class NothingToSay(ValueError):
    """A text without a word in it."""


class Rig:
    """One checkpoint, its default speaker prepared; its language model runs here, never in vLLM.

    clock: None waits for the device to be done.
    """

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        """Raises InvalidSettings, and CheckpointError, for a speaker that it does not bring as well."""
        set_threads(settings.networks)
        self.networks = load_networks(replace(settings.networks, backend="torch"))
        assert self.networks.lm is not None, "asked to run here"
        self._lm = self.networks.lm
        self._text = text_frontend(self.networks.prompt_builder.tokenizer, self.networks.checkpoint.traits)
        speakers = self.networks.checkpoint.load_speakers()
        name = settings.speakers.default_speaker or next(iter(speakers), None)
        if name not in speakers:
            brought = ", ".join(speakers) or "none"
            raise CheckpointError(
                f"{settings.networks.checkpoint} has no speaker {name or 'at all'}; it brings {brought}"
            )
        self._speaker = speakers[name]
        self._prompt = self.networks.prompt_states.compute_prompt_state(self._speaker)
        self._clock = clock or device_clock(self.networks)

    def speak(self, text: str, num_tokens: int | None, seed: int = 0) -> Utterance:
        """The first segment of the text. num_tokens: so long, whatever the LM wants; None: to its end.

        Raises NothingToSay.
        """
        clock, prompt_builder = self._clock, self.networks.prompt_builder
        began_s = clock()
        segments = self._text.split(text, None, True)
        if not segments:
            raise NothingToSay(f"{text!r} has nothing that can be spoken; give it words")
        asked = prompt_builder.utterance(self._speaker, segments[0].text_ids, None, seed)
        assert asked.text_ids is not None, "a whole text"
        normalize_s = clock() - began_s
        prompt_text = asked.prefix_text_ids + asked.prompt_text_ids
        ratios = _ratios(len(asked.text_ids), num_tokens)
        plan = OfflinePlan(self._lm.vocabulary, asked.text_ids, prompt_text, asked.prompt_speech_ids, ratios)
        decoder = SpeechDecoder(self._lm, self.networks.checkpoint.config.lm.sampling)
        decoder.add(RowRequest(plan, seed, speaker=asked.speaker))
        steps_s: list[float] = []
        chunks = tuple(self._chunks(decoder, steps_s, seed))
        return Utterance(normalize_s, steps_s[0], statistics.median(steps_s[1:] or steps_s), chunks)

    def _chunks(self, decoder: SpeechDecoder, steps_s: list[float], seed: int) -> Iterator[ChunkCost]:
        """In turn tokens until the next chunk is due, and the chunk, as one listener's stream goes."""
        session = self.networks.token2wav
        state = session.start(self._prompt, seed)
        encoder = AudioEncoder("pcm", session.sample_rate_hz)
        encoder.start()
        ids: list[int] = []
        start_s, position = 0.0, 0
        has_ended = is_last = False
        while not is_last:
            due, before = position + session.tokens_wanted(state), len(steps_s)
            while len(ids) < due and not has_ended:
                events, took_s = self._timed(decoder.step)
                steps_s.append(took_s)
                ids += [event.speech_id for event in events if isinstance(event, Emitted)]
                has_ended = any(isinstance(event, Stopped) for event in events)
            new = ids[position:due]
            position += len(new)
            is_last = has_ended and position == len(ids)
            times = StepTimes(clock=self._clock)
            (wave,) = session.step([StepInput(state, new, is_last)], times)
            samples = wave.to("cpu", torch.float32).numpy()
            _, encode_s = self._timed(partial(encoder.encode, samples))
            if len(samples):
                yield ChunkCost(
                    start_s=start_s,
                    audio_s=len(samples) / session.sample_rate_hz,
                    num_tokens=len(new),
                    lm_s=sum(steps_s[before:]),
                    flow_s=times.flow_s,
                    vocoder_s=times.vocoder_s,
                    encode_s=encode_s,
                    state_mb=state.state_bytes / 1e6,
                    cache_mb=decoder.num_cache_bytes / 1e6,
                )
            start_s += len(samples) / session.sample_rate_hz

    def _timed(self, work: Callable[[], Result]) -> tuple[Result, float]:
        began_s = self._clock()
        result = work()
        return result, self._clock() - began_s


def device_clock(networks: Networks) -> Clock:
    """One that waits for a GPU to be done, so that each stage is told what it took."""
    if networks.device == "cpu":
        return time.perf_counter

    def clock() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return clock


def _ratios(num_text_tokens: int, num_tokens: int | None) -> LengthRatios:
    """Such that an utterance has exactly `num_tokens`."""
    if num_tokens is None:
        return LengthRatios()
    ratio = (num_tokens + 0.5) / num_text_tokens  # the half is lost where the product is cut to a whole
    return LengthRatios(ratio, ratio)
