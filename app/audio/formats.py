"""Audio formats, their sample rates and speeds.

How much faster or slower than spoken speech may be asked for.

The formats audio is sent in: their media types and the sample rates each can carry.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

MIN_SPEED, MAX_SPEED = 0.25, 4.0  # what is possible, and what OpenAI's clients may ask for
MIN_CLEAR_SPEED, MAX_CLEAR_SPEED = 0.5, 2.0  # what our own wires and commands take: beyond, it is no pleasure


AudioFormat = Literal["wav", "pcm", "mp3", "opus", "aac", "flac", "ulaw", "alaw"]
SAMPLE_RATES_HZ = (8000, 16000, 22050, 24000, 44100, 48000)

_OPUS_RATES_HZ = (8000, 16000, 24000, 48000)  # its decoder always plays at 48 kHz
_G711_RATES_HZ = (8000,)


@dataclass(frozen=True, slots=True)
class FormatInfo:
    media_type: str
    sample_rates_hz: tuple[int, ...] = SAMPLE_RATES_HZ  # ascending


FORMATS: Mapping[AudioFormat, FormatInfo] = MappingProxyType(
    {
        "wav": FormatInfo("audio/wav"),
        "pcm": FormatInfo("audio/pcm"),  # s16le, no header
        "mp3": FormatInfo("audio/mpeg"),
        "opus": FormatInfo("audio/ogg", _OPUS_RATES_HZ),
        "aac": FormatInfo("audio/aac"),  # ADTS
        "flac": FormatInfo("audio/flac"),
        "ulaw": FormatInfo("audio/basic", _G711_RATES_HZ),
        "alaw": FormatInfo("audio/x-alaw-basic", _G711_RATES_HZ),
    }
)


def format_info(format: AudioFormat) -> FormatInfo:
    """Raises ValueError for a format that is none of AudioFormat."""
    info = FORMATS.get(format)
    if info is None:
        raise ValueError(f"format {format!r} is unknown; choose one of {', '.join(FORMATS)}")
    return info


def sample_rate_of(format: AudioFormat, wanted: int | None, default: int) -> int:
    """The rate to encode at: `wanted` itself, or where it is None the rate of the format that fits `default`.

    That is `default` if the format carries it, else the next one above, else the format's highest.
    Raises ValueError for an unknown format, and for a wanted rate that the format does not carry.
    """
    rates_hz = format_info(format).sample_rates_hz
    if wanted is None:
        return next((rate_hz for rate_hz in rates_hz if rate_hz >= default), rates_hz[-1])
    if wanted not in rates_hz:
        choices = ", ".join(map(str, rates_hz))
        raise ValueError(f"sample rate {wanted} Hz is not one that {format} carries; choose one of {choices}")
    return wanted
