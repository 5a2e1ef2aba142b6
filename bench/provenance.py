"""How often a watermark is found behind codecs, noise, cuts and speeds, what passes for one, what it costs.

It needs speech: what the built-in voice says of --texts, or the folder that an earlier run wrote. Found
means: over the threshold and every bit right, blind, at an offset that nobody tells.
"""

import argparse
import io
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
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
from firstword.bench.arguments import amount, count
from firstword.bench.texts import sentences

KEY, OTHER_KEY = b"of the instrument alone, no secret", b"another key of the instrument"
CLIP_S: Final = 5.0
MIN_SPEECH_S: Final = 3.0
CHUNK: Final = 4800

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

    def __str__(self) -> str:
        share = 100 * self.found / max(1, self.trials)
        lowest = f"{self.lowest:.1f}" if self.found else ""
        cpu_s = np.mean(self.cpu_s) if self.cpu_s else 0.0
        cells = (self.name, self.trials, self.found, f"{share:.1f} %", self.wrong, lowest, f"{cpu_s:.2f} s")
        return f"| {' | '.join(map(str, cells))} |"


HEADER: Final = (
    "| behind | clips | found | share | wrong payload | lowest score found | CPU a search |\n"
    "|---|---|---|---|---|---|---|"
)


def speech_of(folder: Path | None, num_clips: int, texts: Sequence[str]) -> Iterator[Samples]:
    """Give so many utterances of more than CLIP_S, of all speakers in turn; those of the folder first.

    What is spoken here is added to the folder.
    """
    kept = sorted(folder.glob("*.flac"))[:num_clips] if folder is not None and folder.is_dir() else []
    for path in kept:
        samples, _ = soundfile.read(path, dtype="float32")
        yield samples
    if len(kept) == num_clips:
        return
    random = np.random.default_rng(len(kept))
    with Synthesizer.open() as synthesizer:
        speakers = list(synthesizer.speakers)
        number = len(kept)
        while number < num_clips:
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


def clip_of(samples: Samples, random: np.random.Generator) -> Samples | None:
    """Cut CLIP_S out somewhere; None where too little of it is speech."""
    size = round(CLIP_S * DETECTOR_HZ)
    start = int(random.integers(0, max(1, min(len(samples) - size, 2 * DETECTOR_HZ))))
    clip = samples[start : start + size]
    frames = clip[: len(clip) // 240 * 240].reshape(-1, 240)
    level = np.sqrt(np.mean(frames**2, axis=1))
    speech_s = 0.01 * int(np.sum(level > 10 ** (-45 / 20)))
    return clip if len(clip) == size and speech_s >= MIN_SPEECH_S else None


def marked(samples: Samples, watermark: Watermark) -> tuple[Samples, float]:
    """Return it with the CPU seconds it took, in chunks as the service makes them."""
    marker = watermark.marker(DETECTOR_HZ)
    began_s = time.process_time()
    pieces = [marker.feed(samples[start : start + CHUNK]) for start in range(0, len(samples), CHUNK)]
    out = np.concatenate([*pieces, marker.finish()])
    return out, time.process_time() - began_s


def found_in(detector: Detector, samples: Samples, searches_speeds: bool) -> tuple[Detection, float]:
    began_s = time.process_time()
    return detector.detect(samples, searches_speeds), time.process_time() - began_s


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

    def __str__(self) -> str:
        scores = np.sort(self.scores)
        top = scores[-max(10, len(scores) // 100) :]
        decay = float(np.mean(top - top[0])) or math.nan
        share = len(top) / len(scores)
        at = top[0] + decay * math.log(share / 1e-6)  # where the exponential tail of the highest is 1e-6
        cells = (
            *(self.name, len(scores), f"{self.audio_s / 3600:.2f} h", self.alarms),
            *(f"{np.median(scores):.2f}", f"{scores[-1]:.2f}", f"{at:.2f}"),
        )
        return f"| {' | '.join(map(str, cells))} |"


NULL_HEADER: Final = (
    "| speech | trials | audio | alarms | median | highest | 1e-6 by the tail of the highest |\n"
    "|---|---|---|---|---|---|---|"
)


def measure(arguments: argparse.Namespace, texts: Sequence[str]) -> None:
    random = np.random.default_rng(0)
    bits = arguments.bits
    detector, others = Detector(KEY, bits), [Detector(OTHER_KEY + bytes([n]), bits) for n in range(3)]
    rows = {name: Row(name) for name in (*ATTACKS, *SPEED_ATTACKS)}
    unmarked, other_keyed = Null("unmarked"), Null("marked with another key")
    pairs: list[tuple[Samples, Samples]] = []
    embed_s, audio_s = 0.0, 0.0
    for samples in speech_of(arguments.speech, arguments.clips, texts):
        payload = int(random.integers(2**bits))
        sound, cpu_s = marked(samples, Watermark(KEY, payload, bits, arguments.strength))
        embed_s, audio_s = embed_s + cpu_s, audio_s + len(samples) / DETECTOR_HZ
        for other in (detector, *others):
            unmarked.add(other.detect(samples[: 20 * DETECTOR_HZ]), len(samples) / DETECTOR_HZ)
        for other in others:
            other_keyed.add(other.detect(sound[: 20 * DETECTOR_HZ]), len(sound) / DETECTOR_HZ)
        if len(pairs) < arguments.mos:
            pairs.append((samples, sound))
        clip = clip_of(sound, random)
        if clip is None:
            continue
        for name, attack in ATTACKS.items():
            rows[name].add(*_trial(detector, attack(clip, random), payload, False))
        for name, attack in SPEED_ATTACKS.items():
            if rows[name].trials < arguments.speed_clips:
                rows[name].add(*_trial(detector, attack(clip, random), payload, True))
    layout = LAYOUTS[bits]
    print(
        f"{bits} bits and {layout.check_bits} of check, strength {arguments.strength:g}; clips of {CLIP_S:g} "
        f"s with {MIN_SPEECH_S:g} s of speech or more; threshold {detector.threshold(3):.2f}\n"
    )
    print(HEADER, *(row for row in rows.values() if row.trials), sep="\n")
    print(f"\n{NULL_HEADER}", unmarked, other_keyed, sep="\n")
    print(f"\nlaid in for {embed_s / audio_s:.5f} CPU seconds a second of audio, over {audio_s / 3600:.2f} h")
    if pairs:
        print(f"\n{opinions(pairs)}")


def _trial(detector: Detector, sound: Samples, payload: int, speeds: bool) -> tuple[Detection, int, float]:
    detection, cpu_s = found_in(detector, sound, speeds)
    return detection, payload, cpu_s


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
    parser.add_argument("--clips", type=count, default=300, help="utterances, one clip of each")
    parser.add_argument("--speed-clips", type=count, default=100, help="of those, searched at any speed")
    parser.add_argument("--bits", type=int, choices=list(LAYOUTS), default=24)
    parser.add_argument("--strength", type=amount, default=STRENGTH)
    parser.add_argument("--speech", type=Path, help="folder of utterances, read first and written to")
    parser.add_argument("--texts", type=Path, help="one sentence a line; else those of this package")
    parser.add_argument("--mos", type=int, default=0, metavar="PAIRS", help="needs the extra voice")
    arguments = parser.parse_args(words)
    try:
        given = arguments.texts and arguments.texts.read_text("utf-8").splitlines()
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    measure(arguments, given or sentences("en"))
    return 0
