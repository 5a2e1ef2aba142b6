"""Times each stage along an utterance: normalize, LM, flow, vocoder, encode, in milliseconds a chunk.

One process, no network, one stage after the other: the service's own parts, of any checkpoint, precision
and device; `--random cosyvoice2 --size full` takes a random checkpoint of the published sizes.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from rich.table import Table

from firstword.app.audio.encode import AudioEncoder
from firstword.app.core.request import VoiceChoice
from firstword.app.engine.loading import LoadedNetworks, hand_over_soon, load_networks, set_threads
from firstword.app.engine.text_frontend import text_frontend
from firstword.app.settings import InvalidSettings, Settings, load_settings
from firstword.bench.arguments import count
from firstword.bench.checkpoints import add_checkpoint_arguments, checkpoint_at
from firstword.bench.estimates import Interval, ratio_of_medians
from firstword.bench.plots import plot_stages
from firstword.bench.terminal import show
from firstword.models.config import TOKEN_RATE_HZ, CheckpointError
from firstword.models.lm.decoder import Emitted, RowRequest, SpeechDecoder, Stopped
from firstword.models.lm.plan import LengthRatios, OfflinePlan
from firstword.models.token2wav_step import StepInput, StepTimes

TEXT = "I can tell you what the weather will be like, read your messages aloud, or keep you company."
EARLY_S, LATE_S = (1.0, 4.0), (59.0, 62.0)  # where the chunks begin that are compared
LAST_S = 62.5  # how long an utterance must be for that
MAX_ROWS = 12

Clock = Callable[[], float]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ChunkCost:
    """The cost of one chunk in seconds. state_mb: state of flow and vocoder after it; cache_mb: the LM's."""

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
    """The cost of an utterance. normalize_s: text to tokens. prefill_s: prompt and first token."""

    normalize_s: float
    prefill_s: float
    step_s: float  # median of a token after the first
    chunks: tuple[ChunkCost, ...]

    @property
    def first_audio_s(self) -> float:
        """Time of the stages before the first audio, one after the other."""
        return self.normalize_s + self.chunks[0].total_s

    @property
    def rtf(self) -> float:
        total_s = self.normalize_s + sum(chunk.total_s for chunk in self.chunks)
        return total_s / sum(chunk.audio_s for chunk in self.chunks)


class NothingToSay(ValueError):
    """A text without a word in it."""


class Stages:
    """One checkpoint, its default speaker prepared; its language model runs here, never in vLLM.

    In the service the stages overlap; what each costs a chunk shows only where one follows the other.

    clock: None waits for the device to be done.
    """

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        """Load a checkpoint. Raises InvalidSettings, and CheckpointError, also if it lacks the speaker."""
        set_threads(settings.networks)
        self.networks = load_networks(replace(settings.networks, backend="torch"), settings.speakers.data_dir)
        hand_over_soon()
        assert self.networks.lm is not None, "asked to run here"
        self._lm = self.networks.lm
        self._text = text_frontend(self.networks.prompt_builder.tokenizer, self.networks.checkpoint, "warn")
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
        """Speak the first segment. num_tokens: its length, whatever the LM wants; None: to its end.

        Raises NothingToSay.
        """
        clock, prompt_builder = self._clock, self.networks.prompt_builder
        began_s = clock()
        segments = self._text.split(text, None, True)
        if not segments:
            raise NothingToSay(f"{text!r} has nothing that can be spoken; give it words")
        asked = prompt_builder.utterance(self._speaker, segments[0].text_ids, VoiceChoice(), seed)
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
        """Compute tokens until a chunk is due, and the chunk, in turn, as for one listener."""
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
            times.settle()
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


def device_clock(networks: LoadedNetworks) -> Clock:
    """Return a clock that waits for a GPU to be done, so that each stage has its own time."""
    if networks.device == "cpu":
        return time.perf_counter

    def clock() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return clock


def _ratios(num_text_tokens: int, num_tokens: int | None) -> LengthRatios:
    """Return ratios by which an utterance has exactly `num_tokens`."""
    if num_tokens is None:
        return LengthRatios()
    ratio = (num_tokens + 0.5) / num_text_tokens  # the half is lost where the product is cut to a whole
    return LengthRatios(ratio, ratio)


def measure(
    settings: Settings, text: str, seconds: float | None, runs: int, clock: Clock | None = None
) -> Utterance:
    """Return the run of the median cost, after a warm-up. seconds None: to the end of the utterance.

    Raises InvalidSettings, CheckpointError and NothingToSay.
    """
    stages = Stages(settings, clock)
    num_tokens = None if seconds is None else round(seconds * TOKEN_RATE_HZ)
    stages.speak(text, min(num_tokens or 100, 100))
    spoken = [stages.speak(text, num_tokens) for _ in range(runs)]
    return sorted(spoken, key=lambda utterance: utterance.rtf)[runs // 2]


def constancy(chunks: Sequence[ChunkCost]) -> Interval | None:
    """Return the cost of a second of audio around second 60 over that around second 2; None: too short."""
    early, late = (
        [chunk.total_s / chunk.audio_s for chunk in chunks if first <= chunk.start_s < last]
        for first, last in (EARLY_S, LATE_S)
    )
    return ratio_of_medians(early, late) if early and late else None


def as_json(utterance: Utterance, settings: Settings) -> dict[str, Any]:
    ratio = constancy(utterance.chunks)
    return {
        "checkpoint": settings.networks.checkpoint.name,
        "precision": settings.networks.precision,
        "device": settings.networks.device,
        "first_audio_s": utterance.first_audio_s,
        "rtf": utterance.rtf,
        "constancy": None if ratio is None else asdict(ratio),
        **asdict(utterance),
    }


def title_of(settings: Settings) -> str:
    return f"{settings.networks.checkpoint.name}, {settings.networks.precision}"


def show_report(utterance: Utterance) -> None:
    table = Table(title="ms a chunk", title_justify="left", box=None, pad_edge=False)
    for name in (
        "at s",
        "audio s",
        "tokens",
        "LM",
        "flow",
        "vocoder",
        "encode",
        "all",
        "RTF",
        "state MB",
        "LM MB",
    ):
        table.add_column(name, justify="right")
    for chunk in _shown(utterance.chunks):
        times = [f"{1000 * seconds:.1f}" for seconds in (*chunk.stages().values(), chunk.total_s)]
        table.add_row(
            f"{chunk.start_s:.1f}",
            f"{chunk.audio_s:.2f}",
            str(chunk.num_tokens),
            *times,
            f"{chunk.total_s / chunk.audio_s:.3f}",
            f"{chunk.state_mb:.1f}",
            f"{chunk.cache_mb:.1f}",
        )
    ratio = constancy(utterance.chunks)
    show(
        table,
        f"normalize {1000 * utterance.normalize_s:.1f} ms, LM prefill {1000 * utterance.prefill_s:.1f} ms,"
        f" LM step {1000 * utterance.step_s:.2f} ms a token",
        f"first audio after {1000 * utterance.first_audio_s:.0f} ms, RTF {utterance.rtf:.3f}, by stage: "
        + ", ".join(f"{name} {share:.3f}" for name, share in rtf_by_stage(utterance).items()),
        *([] if ratio is None else [f"a second of audio at second 60 ÷ at second 2: {ratio}"]),
    )


def rtf_by_stage(utterance: Utterance) -> dict[str, float]:
    audio_s = sum(chunk.audio_s for chunk in utterance.chunks)
    names = utterance.chunks[0].stages()
    return {name: sum(chunk.stages()[name] for chunk in utterance.chunks) / audio_s for name in names}


def main(words: Sequence[str]) -> int:
    given = _parser().parse_args(words)
    try:
        settings = load_settings(
            checkpoint=given.checkpoint,
            device=given.device,
            precision=given.precision,
            num_threads=given.threads,
        )
        with checkpoint_at(settings.networks.checkpoint, given.random, given.size) as directory:
            settings = settings.model_copy(
                update={"networks": replace(settings.networks, checkpoint=directory)}
            )
            clock = time.process_time if given.cpu_time else None
            utterance = measure(settings, given.text, given.seconds or None, given.runs, clock)
    except (InvalidSettings, CheckpointError, ImportError, NothingToSay) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    show_report(utterance)
    if given.json:
        given.json.write_text(json.dumps(as_json(utterance, settings), indent=1) + "\n", encoding="utf-8")
    if given.plot:
        plot_stages(
            utterance.chunks,
            title_of(settings),
            given.plot,
        )
    return 0


def _shown(chunks: Sequence[ChunkCost]) -> list[ChunkCost]:
    """Return the first chunks, and of a long utterance the last ones too."""
    if len(chunks) <= MAX_ROWS:
        return list(chunks)
    return [*chunks[: MAX_ROWS // 2], *chunks[-MAX_ROWS // 2 :]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench stages", description=__doc__)
    add_checkpoint_arguments(parser)
    parser.add_argument(
        "--threads", type=int, help="of one network's arithmetic; 0 chooses as the server does"
    )
    parser.add_argument("--text", default=TEXT, help="its first segment is spoken")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="of audio, whatever the LM wants; 0: its end"
    )
    parser.add_argument("--runs", type=count, default=3, help="the one of the median cost is shown")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="what was computed, for a CPU that does other work too",
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="a PNG")
    return parser
