"""How often a watermark is found behind codecs, noise, cuts and speeds, what passes for one, what it costs.

It needs speech: what the built-in voice says of --texts, or the folder that an earlier run wrote. Found
means: over the threshold and every bit right, blind, at an offset that nobody tells. Ctrl+C ends it with the
tables of what was measured until then.
"""

import argparse
import io
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import av
import numpy as np
import soundfile
import soxr

from firstword.app.audio.decode import decode_recording
from firstword.app.audio.dsp import Samples
from firstword.app.audio.watermark import DETECTOR_HZ, LAYOUTS, STRENGTH, Watermark
from firstword.app.audio.watermark_detector import Detection, Detector
from firstword.app.synthesizer import Synthesizer
from firstword.bench.arguments import BadArgument, amount, count
from firstword.bench.estimates import share_interval
from firstword.bench.texts import sentences

KEY, OTHER_KEY = b"of the instrument alone, no secret", b"another key of the instrument"
CLIP_S: Final = 5.0
MIN_SPEECH_S: Final = 3.0
CHUNK: Final = 4800
MIN_TAIL_TRIALS: Final = 200
AUDIO_SUFFIXES: Final = (".wav", ".flac", ".mp3", ".ogg", ".opus")

Attack = Callable[[Samples, np.random.Generator], Samples]


def resampled(samples: Samples, source_hz: float, rate_hz: float) -> Samples:
    out: Samples = soxr.resample(samples, source_hz, rate_hz).astype(np.float32)
    return out


def coded(samples: Samples, container: str, codec: str, bits_per_s: int | None, rate_hz: int) -> Samples:
    """Return what is decoded again, at DETECTOR_HZ."""
    file = io.BytesIO()
    given = np.clip(resampled(samples, DETECTOR_HZ, rate_hz) * 32768, -32768, 32767).astype(np.int16)
    with av.open(file, "w", format=container) as output:
        track: Any = output.add_stream(codec, rate=rate_hz, layout="mono")
        if bits_per_s is not None:
            track.bit_rate = bits_per_s
        frame = av.AudioFrame.from_ndarray(given[None], format="s16", layout="mono")
        frame.sample_rate = rate_hz
        resampler = av.AudioResampler(format=track.format, frame_size=track.codec_context.frame_size or 1024)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            output.mux(track.encode(piece))
        output.mux(track.encode(None))
    if container == "wav":
        decoded, decoded_hz = soundfile.read(io.BytesIO(file.getvalue()), dtype="float32")
    else:
        decoded, decoded_hz = decode_recording(file.getvalue(), 3600)
    return resampled(decoded, decoded_hz, DETECTOR_HZ)


def noisy(samples: Samples, random: np.random.Generator, snr_db: float) -> Samples:
    """The ratio is that of the whole clip, silences included."""
    level = np.sqrt(np.mean(samples**2)) * 10 ** (-snr_db / 20)
    out: Samples = (samples + level * random.standard_normal(len(samples))).astype(np.float32)
    return out


def faster(samples: Samples, speed: float) -> Samples:
    """Play it that much faster, and higher."""
    return resampled(samples, DETECTOR_HZ * speed, DETECTOR_HZ)


def without_middle(samples: Samples, num_cut: int = 3300) -> Samples:
    middle = len(samples) // 2
    return np.concatenate([samples[:middle], samples[middle + num_cut :]])


ATTACKS: Final[dict[str, Attack]] = {
    "clean": lambda samples, _: samples,
    "mp3 64 kbit/s": lambda samples, _: coded(samples, "mp3", "libmp3lame", 64_000, 24_000),
    "AAC 64 kbit/s": lambda samples, _: coded(samples, "adts", "aac", 64_000, 24_000),
    "16 kHz and back": lambda samples, _: resampled(
        resampled(samples, DETECTOR_HZ, 16_000), 16_000, DETECTOR_HZ
    ),
    "µ-law at 8 kHz": lambda samples, _: coded(samples, "wav", "pcm_mulaw", None, 8000),
    "noise at 20 dB SNR": lambda samples, random: noisy(samples, random, 20),
    "opus 24 kbit/s": lambda samples, _: coded(samples, "ogg", "libopus", 24_000, 24_000),
    "opus 16 kbit/s": lambda samples, _: coded(samples, "ogg", "libopus", 16_000, 24_000),
    "half cut away": lambda samples, _: samples[len(samples) // 2 :],
    "137 ms cut out": lambda samples, _: without_middle(samples),
    "mp3 32 kbit/s": lambda samples, _: coded(samples, "mp3", "libmp3lame", 32_000, 24_000),
}
SPEED_ATTACKS: Final[dict[str, Attack]] = {
    "3 % faster": lambda samples, _: faster(samples, 1.03),
    "up to 4 % either way": lambda samples, random: faster(samples, random.uniform(0.96, 1.04)),
}


@dataclass(slots=True)
class Row:
    """lowest: score among those found. wrong: over the threshold with another payload."""

    name: str
    trials: int = 0
    found: int = 0
    wrong: int = 0
    lowest: float = math.inf
    cpu_s: list[float] = field(default_factory=list)

    def add(self, detection: Detection, payload: int, cpu_s: float) -> None:
        self.trials += 1
        self.cpu_s.append(cpu_s)
        if detection.payload == payload:
            self.found += 1
            self.lowest = min(self.lowest, detection.score)
        elif detection.payload is not None:
            self.wrong += 1

    def as_json(self) -> dict[str, object]:
        share = share_interval(self.found, self.trials)
        return {
            "behind": self.name,
            "clips": self.trials,
            "found": self.found,
            "share": share.value,
            "share_95": [share.low, share.high],
            "wrong": self.wrong,
            "lowest_score_found": self.lowest if self.found else None,
            "cpu_s": float(np.mean(self.cpu_s)),
        }

    def __str__(self) -> str:
        share = share_interval(self.found, self.trials)
        lowest = f"{self.lowest:.1f}" if self.found else ""
        between = f"{100 * share.low:.1f} to {100 * share.high:.1f} %"
        cells = (
            self.name,
            self.trials,
            self.found,
            between,
            self.wrong,
            lowest,
            f"{np.mean(self.cpu_s):.2f} s",
        )
        return f"| {' | '.join(map(str, cells))} |"


HEADER: Final = (
    "| behind | clips | found | 95 % interval | wrong payload | lowest score found | CPU a search |\n"
    "|---|---|---|---|---|---|---|"
)


def speech_of(folder: Path | None, texts: Sequence[str]) -> Iterator[Samples]:
    """Give utterances without end, those of the folder first.

    What is spoken here, of more than CLIP_S, by all speakers in turn, is added to the folder.
    """
    kept = sorted(folder.glob("*.flac")) if folder is not None and folder.is_dir() else []
    for path in kept:
        samples, _ = soundfile.read(path, dtype="float32")
        yield samples
    random = np.random.default_rng(len(kept))
    with Synthesizer.open() as synthesizer:
        speakers = list(synthesizer.speakers)
        number = len(kept)
        while True:
            text = " ".join(random.choice(texts, 3, replace=False))
            spoken = synthesizer.speak(text, speaker=speakers[number % len(speakers)], seed=number)
            samples = np.concatenate(list(spoken))
            if len(samples) < (CLIP_S + 2.0) * DETECTOR_HZ:
                continue
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                soundfile.write(folder / f"{number:05}.flac", samples, DETECTOR_HZ, subtype="PCM_16")
            number += 1
            yield samples


def recordings(word: str) -> list[Path]:
    """Read the name of a folder as the audio files in and below it. Raises BadArgument."""
    folder = Path(word)
    if not folder.is_dir():
        raise BadArgument(f"{word} is no folder; name one with recordings")
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in AUDIO_SUFFIXES)
    if not paths:
        raise BadArgument(f"{word} holds no recording; expected files in {', '.join(AUDIO_SUFFIXES)}")
    for path in paths:
        try:
            num_frames = soundfile.info(path).frames
        except soundfile.SoundFileError as error:
            raise BadArgument(f"{path} cannot be read: {error}; replace or remove it") from error
        if not num_frames:
            raise BadArgument(f"{path} holds no samples; remove it")
    return paths


def clips_of(samples: Samples, random: np.random.Generator) -> Iterator[Samples]:
    """Cut pieces of CLIP_S from a random start on; those with too little speech are left out."""
    size = round(CLIP_S * DETECTOR_HZ)
    first = int(random.integers(0, max(1, min(len(samples) - size, 2 * DETECTOR_HZ))))
    for start in range(first, len(samples) - size + 1, size):
        clip = samples[start : start + size]
        level = np.sqrt(np.mean(clip[: size // 240 * 240].reshape(-1, 240) ** 2, axis=1))
        if 0.01 * int(np.sum(level > 10 ** (-45 / 20))) >= MIN_SPEECH_S:
            yield clip


def marked(samples: Samples, watermark: Watermark) -> tuple[Samples, float]:
    """Return it with the CPU seconds it took, in chunks as the service makes them."""
    marker = watermark.marker(DETECTOR_HZ)
    began_s = time.process_time()
    pieces = [marker.feed(samples[start : start + CHUNK]) for start in range(0, len(samples), CHUNK)]
    out = np.concatenate([*pieces, marker.finish()])
    return out, time.process_time() - began_s


@dataclass(slots=True)
class Null:
    """Scores of speech without this mark, a check that held or not, and what the threshold was."""

    name: str
    scores: list[float] = field(default_factory=list)
    alarms: int = 0
    audio_s: float = 0.0

    def add(self, detection: Detection, audio_s: float) -> None:
        self.scores.append(detection.score)
        self.alarms += detection.payload is not None
        self.audio_s += audio_s

    def as_json(self) -> dict[str, object]:
        scores = np.sort(self.scores)
        tail = None  # of too few trials nothing is said
        if len(scores) >= MIN_TAIL_TRIALS:  # the exponential that fits the highest hundredth
            top = scores[-max(10, len(scores) // 100) :]
            tail = float(top[0] + np.mean(top - top[0]) * math.log(len(top) / len(scores) / 1e-6))
        return {
            "speech": self.name,
            "trials": len(scores),
            "audio_h": self.audio_s / 3600,
            "alarms": self.alarms,
            "median": float(np.median(scores)),
            "highest": float(scores[-1]),
            "at_1e-6": tail,
        }

    def __str__(self) -> str:
        found = self.as_json()
        tail = "too few trials" if found["at_1e-6"] is None else f"{found['at_1e-6']:.2f}"
        cells = (
            found["speech"],
            found["trials"],
            f"{found['audio_h']:.2f} h",
            found["alarms"],
            f"{found['median']:.2f}",
            f"{found['highest']:.2f}",
            tail,
        )
        return f"| {' | '.join(map(str, cells))} |"


NULL_HEADER: Final = (
    "| speech | trials | audio | alarms | median | highest | 1e-6 by the tail of the highest |\n"
    "|---|---|---|---|---|---|---|"
)


@dataclass(slots=True)
class Measured:
    """All of one run. embed_s: CPU seconds in which audio_s were marked. is_whole: it was not broken off."""

    rows: dict[str, Row] = field(
        default_factory=lambda: {name: Row(name) for name in (*ATTACKS, *SPEED_ATTACKS)}
    )
    unmarked: Null = field(default_factory=lambda: Null("unmarked"))
    other_keyed: Null = field(default_factory=lambda: Null("marked with another key"))
    pairs: list[tuple[Samples, Samples]] = field(default_factory=list)
    embed_s: float = 0.0
    audio_s: float = 0.0
    is_whole: bool = False

    def as_json(self) -> dict[str, object]:
        return {
            "is_whole": self.is_whole,
            "rows": [row.as_json() for row in self.rows.values() if row.trials],
            "without_the_mark": [null.as_json() for null in (self.unmarked, self.other_keyed) if null.scores],
            "embed_cpu_s_per_s": self.embed_s / max(1e-9, self.audio_s),
        }

    def __str__(self) -> str:
        rows = [str(row) for row in self.rows.values() if row.trials]
        nulls = [str(null) for null in (self.unmarked, self.other_keyed) if null.scores]
        cost = (
            f"laid in for {self.embed_s / max(1e-9, self.audio_s):.5f} CPU seconds a second of audio, over "
            f"{self.audio_s / 3600:.2f} h"
        )
        ended = [] if self.is_whole else ["", "broken off: fewer clips and searches than were asked for"]
        return "\n".join([HEADER, *rows, "", NULL_HEADER, *nulls, "", cost, *ended])


def measure(arguments: argparse.Namespace, texts: Sequence[str], measured: Measured) -> None:
    """Search as many clips as `arguments` ask for, all their utterances and other recordings.

    `measured` is filled as it goes, so that a run that is broken off leaves what it has.
    """
    random = np.random.default_rng(0)
    bits, rows = arguments.bits, measured.rows
    detector, others = Detector(KEY, bits), [Detector(OTHER_KEY + bytes([n]), bits) for n in range(3)]
    for samples in speech_of(arguments.speech, texts):
        payload = int(random.integers(2**bits))
        sound, cpu_s = marked(samples, Watermark(KEY, payload, bits, arguments.strength))
        measured.embed_s += cpu_s
        measured.audio_s += len(samples) / DETECTOR_HZ
        if len(measured.pairs) < arguments.mos:
            measured.pairs.append((samples, sound))
        for clip in clips_of(sound, random):
            if rows["clean"].trials == arguments.clips:
                break
            for name, attack in ATTACKS.items():
                rows[name].add(*_trial(detector, attack(clip, random), payload, False))
            for name, attack in SPEED_ATTACKS.items():
                if rows[name].trials < arguments.speed_clips:
                    rows[name].add(*_trial(detector, attack(clip, random), payload, True))
        for other in (detector, *others):
            measured.unmarked.add(other.detect(samples), len(samples) / DETECTOR_HZ)
        for other in others:
            measured.other_keyed.add(other.detect(sound), len(sound) / DETECTOR_HZ)
        if rows["clean"].trials == arguments.clips:
            break
    for path in arguments.unmarked:
        channels, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)  # (n, channels)
        samples = resampled(channels.mean(axis=1), rate_hz, DETECTOR_HZ)
        measured.unmarked.add(detector.detect(samples), len(samples) / DETECTOR_HZ)
        sound, _ = marked(
            samples, Watermark(OTHER_KEY, int(random.integers(2**bits)), bits, arguments.strength)
        )
        measured.other_keyed.add(detector.detect(sound), len(sound) / DETECTOR_HZ)


def _trial(detector: Detector, sound: Samples, payload: int, speeds: bool) -> tuple[Detection, int, float]:
    began_s = time.process_time()
    return detector.detect(sound, speeds), payload, time.process_time() - began_s


def opinions(pairs: Sequence[tuple[Samples, Samples]]) -> str:
    """Return what the networks that are installed think of marked speech, less that of unmarked."""
    rows = ["| network | pairs | difference | worst |\n|---|---|---|---|"]
    for name, judge in judges().items():
        each = [judge(resampled(after, DETECTOR_HZ, 16_000)) for _, after in pairs]
        each = [
            value - judge(resampled(before, DETECTOR_HZ, 16_000))
            for value, (before, _) in zip(each, pairs, strict=True)
        ]
        half = 1.96 * np.std(each) / math.sqrt(len(each))
        rows.append(f"| {name} | {len(each)} | {np.mean(each):+.3f} ± {half:.3f} | {min(each):+.2f} |")
    return "\n".join(rows)


def judges() -> dict[str, Callable[[Samples], float]]:
    """Return those of the extra voice that are here, by name; each takes samples at 16 kHz."""
    found: dict[str, Callable[[Samples], float]] = {}
    with suppress(ImportError):
        from speechmos import dnsmos

        def by(key: str, samples: Samples) -> float:
            return float(dnsmos.run(np.clip(samples, -1, 1), sr=16_000)[key])

        found |= {"P.808": partial(by, "p808_mos"), "OVRL": partial(by, "ovrl_mos")}
    with suppress(ImportError):
        sys.modules.setdefault("torchaudio", ModuleType("torchaudio"))  # its command alone reads files by it
        import distillmos
        import torch

        network = distillmos.ConvTransformerSQAModel().eval()

        def distilled(samples: Samples) -> float:
            with torch.inference_mode():
                return float(network(torch.from_numpy(samples)[None]))

        found["Distill-MOS"] = distilled
    return found


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench provenance", description=__doc__)
    parser.add_argument(
        "--clips", type=count, default=300, help="of 5 s, of as many utterances as that takes"
    )
    parser.add_argument("--speed-clips", type=count, default=100, help="of those, searched at any speed")
    parser.add_argument("--bits", type=int, choices=list(LAYOUTS), default=24)
    parser.add_argument("--strength", type=amount, default=STRENGTH)
    parser.add_argument("--speech", type=Path, help="folder of utterances, read first and written to")
    parser.add_argument(
        "--unmarked", type=recordings, default=(), help="folder of other recordings, for false alarms alone"
    )
    parser.add_argument("--texts", type=Path, help="one sentence a line; else those of this package")
    parser.add_argument("--mos", type=int, default=0, metavar="PAIRS", help="needs the extra voice")
    parser.add_argument("--json", type=Path, help="file for what was measured")
    arguments = parser.parse_args(words)
    try:
        given = arguments.texts and arguments.texts.read_text("utf-8").splitlines()
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    measured = Measured()
    try:
        with suppress(KeyboardInterrupt):
            measure(arguments, given or sentences("en"), measured)
            measured.is_whole = True
    finally:  # a speech that is broken off may raise an error of its own
        tell(measured, arguments)
    if not measured.is_whole:
        return 130  # as a shell has it for Ctrl+C
    if measured.pairs:
        print(f"\n{opinions(measured.pairs)}")
    return 0


def tell(measured: Measured, arguments: argparse.Namespace) -> None:
    """Print the tables of a run and, where a file is named for it, write the same as JSON."""
    layout = LAYOUTS[arguments.bits]
    threshold = Detector(KEY, arguments.bits).threshold(3)
    print(
        f"{arguments.bits} bits and {layout.check_bits} of check, strength {arguments.strength:g}; clips of "
        f"{CLIP_S:g} s with {MIN_SPEECH_S:g} s of speech or more; threshold {threshold:.2f}\n"
    )
    print(measured)
    if arguments.json:
        found = {
            "bits": arguments.bits,
            "check_bits": layout.check_bits,
            "strength": arguments.strength,
            "clip_s": CLIP_S,
            "threshold": threshold,
            **measured.as_json(),
        }
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
