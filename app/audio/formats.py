"""Audio formats: media types, the sample rates each can carry, and the range of speeds."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from types import MappingProxyType
from typing import Final, Literal


@functools.cache
def firstword_version() -> str:
    return version("firstword")


AudioFormat = Literal["wav", "pcm", "pcm_f32", "mp3", "opus", "aac", "flac", "ulaw", "alaw"]

FileFormat = AudioFormat | Literal["m4a"]
"""And the one that only a whole file can be: an MP4 has its index, which is written last, in front."""

SAMPLE_RATES_HZ = (8000, 16000, 22050, 24000, 44100, 48000)
_OPUS_RATES_HZ = (8000, 16000, 24000, 48000)  # its decoder always plays at 48 kHz
_G711_RATES_HZ = (8000,)

# What the encoder can do, which is OpenAI's range; beyond the narrower one, that of our own API and
# commands, speech is hard to follow.
MIN_SPEED, MAX_SPEED = 0.25, 4.0
MIN_CLEAR_SPEED, MAX_CLEAR_SPEED = 0.5, 2.0


@dataclass(frozen=True, slots=True)
class FormatInfo:
    media_type: str
    sample_rates_hz: tuple[int, ...] = SAMPLE_RATES_HZ  # ascending


FORMATS: Mapping[AudioFormat, FormatInfo] = MappingProxyType(
    {
        "wav": FormatInfo("audio/wav"),
        "pcm": FormatInfo("audio/pcm"),  # s16le, no header
        "pcm_f32": FormatInfo("audio/pcm;encoding=float32"),  # f32le within ±1, no header
        "mp3": FormatInfo("audio/mpeg"),
        "opus": FormatInfo("audio/ogg", _OPUS_RATES_HZ),
        "aac": FormatInfo("audio/aac"),  # ADTS
        "flac": FormatInfo("audio/flac"),
        "ulaw": FormatInfo("audio/basic", _G711_RATES_HZ),
        "alaw": FormatInfo("audio/x-alaw-basic", _G711_RATES_HZ),
    }
)


SUFFIXES: Mapping[str, FileFormat] = MappingProxyType(
    {
        **{f".{name}": name for name in FORMATS},
        ".m4a": "m4a",
        ".ogg": "opus",
        ".raw": "pcm",
        ".f32": "pcm_f32",
    }
)
"""The format that a file's suffix asks for."""


TagName = Literal["encoded_by", "artist", "comment", "DigitalSourceType"]
Tags = Mapping[TagName, str]


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """How a client wants its audio."""

    format: AudioFormat
    sample_rate_hz: int
    speed: float = 1.0
    is_tagged: bool = False  # it says in its container that it is synthetic
    has_source_type: bool = False  # and says it for machines, in IPTC's terms


SOURCE_TYPE: Final = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
"""What IPTC calls media that a trained model made."""
TAGGED_FORMATS: Final = frozenset({"wav", "mp3", "opus", "flac"})


def synthetic_tags(speaker: str, request_id: str, has_source_type: bool = False) -> Tags:
    """Return what a container says of speech that was made here."""
    tags: dict[TagName, str] = {
        "encoded_by": f"Firstword {firstword_version()}",
        "artist": speaker,
        "comment": f"synthetic speech; request {request_id}",
    }
    return tags | {"DigitalSourceType": SOURCE_TYPE} if has_source_type else tags


def tags_of(output: OutputFormat, speaker: str, request_id: str) -> Tags | None:
    """Return what the container of an output says; None: nothing."""
    return synthetic_tags(speaker, request_id, output.has_source_type) if output.is_tagged else None


def anonymous_tags() -> Tags:
    """Return what a container says of samples of which nothing else is known."""
    return {"encoded_by": f"Firstword {firstword_version()}", "comment": "synthetic speech"}


def sample_rate_of(format: AudioFormat, wanted: int | None, default: int) -> int:
    """Return the rate to encode at: `wanted`, or for None the format's rate that fits `default`.

    That is `default` if the format carries it, else the next one above, else the format's highest.
    Raises ValueError for an unknown format, and for a wanted rate that the format does not carry.
    """
    info = FORMATS.get(format)
    if info is None:
        raise ValueError(f"format {format!r} is unknown; choose one of {', '.join(FORMATS)}")
    rates_hz = info.sample_rates_hz
    if wanted is None:
        return next((rate_hz for rate_hz in rates_hz if rate_hz >= default), rates_hz[-1])
    if wanted not in rates_hz:
        choices = ", ".join(map(str, rates_hz))
        raise ValueError(f"sample rate {wanted} Hz is not one that {format} carries; choose one of {choices}")
    return wanted
