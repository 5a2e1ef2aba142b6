"""Decode an uploaded recording to mono samples: by what the bytes are, never by a name, at a bounded cost.

Plain WAV and FLAC files are read by soundfile, all else by PyAV: compressed, streamed and damaged ones.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby

import av
import numpy as np
import soundfile
from av.container import InputContainer

from firstword.app.audio.dsp import Samples, within_full_scale

MAX_SAMPLE_RATE_HZ = 192_000
MAX_CHANNELS = 8
MAX_VALUES = 24_000_000  # of all channels, 96 MB: a minute of stereo at 192 kHz, 30 s of 8 channels at 96

# Nothing else is even probed: FFmpeg also knows playlists, which name other files and addresses.
_CONTAINERS = "wav,w64,aiff,flac,mp3,aac,ogg,mov,matroska"
_OPEN_OPTIONS = {"format_whitelist": _CONTAINERS, "protocol_whitelist": ""}
_PLAIN_SUBTYPES = ("PCM_U8", "PCM_S8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE")
_BLOCK_FRAMES = 1 << 16
_MAX_BAD_PACKETS = 20  # a file cut out of the middle of another has a few
_ACCEPTED = "send wav, flac, mp3, ogg/opus, m4a or webm"


class UndecodableAudio(ValueError):
    """The upload holds no audio that can be read."""


class RecordingTooLong(ValueError):
    """There is more audio than was allowed; how much more is not known."""


def decode_recording(data: bytes, max_duration_s: float) -> tuple[Samples, int]:
    """Return mono float32 samples (n,), n > 0, within ±1, and their own sample rate (Hz).

    Channels that sound are averaged, or the loudest is taken where they cancel; an offset is removed.
    A file that breaks off gives what is there. Never holds more than `max_duration_s` of samples, nor than
    MAX_VALUES of all channels.

    Raises UndecodableAudio for what is no audio, is empty, or is mostly damaged, and RecordingTooLong.
    """
    if not data:
        raise UndecodableAudio(f"the recording is empty (0 bytes); {_ACCEPTED}")
    plain = _read_plain(data, max_duration_s)
    if plain is not None:
        return plain
    try:
        container = av.open(io.BytesIO(data), "r", options=_OPEN_OPTIONS, metadata_errors="replace")
    except (av.FFmpegError, EOFError) as error:
        raise UndecodableAudio(f"the upload of {len(data)} bytes is no audio file; {_ACCEPTED}") from error
    with closing(container):
        track = _audio_track(container)
        rate_hz = track.sample_rate
        pieces: list[Samples] = []
        num_samples = num_values = 0
        for piece in _pieces(_frames(container, track), rate_hz):
            num_samples += len(piece)
            num_values += piece.size
            if num_values > MAX_VALUES:
                raise RecordingTooLong(
                    f"the recording has {piece.shape[1]} channels of {rate_hz} Hz, more than {MAX_VALUES} "
                    "samples in all; send fewer channels, a lower rate, or a part of it"
                )
            if num_samples > max_duration_s * rate_hz:
                raise RecordingTooLong(
                    f"the recording is longer than {max_duration_s:g} s; send a part of it"
                )
            pieces.append(piece)
    if num_samples == 0:
        raise UndecodableAudio(f"the recording holds no sound (0 samples); {_ACCEPTED}")
    return _mono(pieces), rate_hz


def read_tags(data: bytes) -> tuple[dict[str, str], str]:
    """Return the tags of a file and the name of its container. Raises UndecodableAudio."""
    try:
        with av.open(io.BytesIO(data), "r", options=_OPEN_OPTIONS, metadata_errors="replace") as file:
            streams = file.streams.audio
            return {**file.metadata, **(streams[0].metadata if streams else {})}, file.format.name
    except (av.FFmpegError, EOFError) as error:
        raise UndecodableAudio(f"the upload of {len(data)} bytes is no audio file; {_ACCEPTED}") from error


_SILENT_BESIDE = 10 ** (-20 / 20)  # of the loudest channel: as good as silent
_CANCELED = 10 ** (-3 / 20)
_LEAST_OFFSET = 3e-3  # smaller ones are the sum of the waves
_OFFSET_SAMPLES = 1600  # of fewer the mean says little


def _mono(pieces: Iterable[Samples]) -> Samples:
    """pieces: each (n, channels) -> (n,), without offset; each number of channels is mixed apart."""
    mixed = [_mixed(list(alike)) for _, alike in groupby(pieces, key=lambda piece: piece.shape[1])]
    mono = np.concatenate(mixed)
    offset = float(mono.mean(dtype=np.float64))
    has_offset = abs(offset) > _LEAST_OFFSET and len(mono) >= _OFFSET_SAMPLES
    return within_full_scale(mono - np.float32(offset)) if has_offset else mono


def _mixed(pieces: Sequence[Samples]) -> Samples:
    """pieces: each (n, channels), alike in channels -> (n,). Never all of them at once, in any wider type."""
    if pieces[0].shape[1] == 1:
        return np.concatenate(pieces)[:, 0]
    num_samples = sum(map(len, pieces))
    offsets = sum(piece.sum(axis=0, dtype=np.float64) for piece in pieces) / num_samples
    squares = sum(np.square(piece - offsets).sum(axis=0) for piece in pieces)
    levels = np.sqrt(squares / num_samples)  # an offset is no sound
    sounding = levels > _SILENT_BESIDE * levels.max()
    if not sounding.any():
        sounding[:] = True
    mean: Samples = np.concatenate([piece[:, sounding].mean(axis=1) for piece in pieces])
    if mean.std(dtype=np.float64) < _CANCELED * levels.max():
        loudest = int(levels.argmax())
        return np.concatenate([piece[:, loudest] for piece in pieces])
    return mean


def _read_plain(data: bytes, max_duration_s: float) -> tuple[Samples, int] | None:
    """Read a whole WAV or FLAC file of plain samples within the limits; None for any other, or a damaged one.

    A header may lie: what it says is compared with what is there.
    """
    if not data.startswith((b"RIFF", b"fLaC")):
        return None
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            rate_hz: int = file.samplerate
            is_plain = file.format in ("WAV", "WAVEX", "FLAC") and file.subtype in _PLAIN_SUBTYPES
            is_short = 0 < file.frames <= max_duration_s * rate_hz
            is_small = file.channels <= MAX_CHANNELS and file.frames * file.channels <= MAX_VALUES
            if not (is_plain and is_short and is_small and rate_hz <= MAX_SAMPLE_RATE_HZ):
                return None
            blocks = file.blocks(_BLOCK_FRAMES, dtype="float32", always_2d=True)  # each (n, channels)
            mono = _mono([within_full_scale(block) for block in blocks])
            return (mono, rate_hz) if len(mono) == file.frames else None
    except soundfile.SoundFileError:
        return None


def _audio_track(container: InputContainer) -> av.AudioStream:
    if not container.streams.audio:
        raise UndecodableAudio(f"the upload holds no audio track; {_ACCEPTED}")
    track = container.streams.audio[0]
    if track.codec_context is None:
        raise UndecodableAudio(f"the audio track is in a coding that is not known here; {_ACCEPTED}")
    if not 0 < track.sample_rate <= MAX_SAMPLE_RATE_HZ:
        raise UndecodableAudio(
            f"the recording says {track.sample_rate} Hz; record at up to {MAX_SAMPLE_RATE_HZ} Hz"
        )
    _check_channels(track.channels)
    return track


def _pieces(frames: Iterable[av.AudioFrame], rate_hz: int) -> Iterator[Samples]:
    """Yield samples (n, channels)."""
    # Packed: of a frame with a plane for each of 8 channels, PyAV 18.1 reads a ninth, and crashes.
    to_float = av.AudioResampler(format="flt")
    kind = ("", "")
    for frame in frames:
        if frame.sample_rate != rate_hz:
            raise UndecodableAudio(
                f"the recording changes from {rate_hz} to {frame.sample_rate} Hz on its way; "
                "send one that keeps its sample rate"
            )
        _check_channels(frame.layout.nb_channels)
        if kind != (frame.format.name, frame.layout.name):  # mp3 may go from mono to stereo and back
            to_float = av.AudioResampler(format="flt")
            kind = (frame.format.name, frame.layout.name)
        for packed in to_float.resample(frame):
            samples = packed.to_ndarray().reshape(-1, packed.layout.nb_channels)  # (n, channels)
            yield within_full_scale(samples.astype(np.float32, copy=False))


def _check_channels(num_channels: int) -> None:
    if not 0 < num_channels <= MAX_CHANNELS:
        raise UndecodableAudio(f"the recording has {num_channels} channels; send 1 to {MAX_CHANNELS}")


def _frames(container: InputContainer, track: av.AudioStream) -> Iterator[av.AudioFrame]:
    """Yield what decodes, up to where the file breaks off. A few damaged packets are skipped."""
    decoder = track.codec_context
    if decoder.name == "opus":  # FFmpeg's own is wrong for 250 ms where the coding mode changes
        opus = av.CodecContext.create("libopus", "r")
        opus.extradata = decoder.extradata
        opus.layout = decoder.layout
        opus.sample_rate = track.sample_rate
        decoder = opus
    decoder.thread_count = 1
    num_good = 0
    num_bad = 0
    for packet in _packets(container, track):
        try:
            frames = decoder.decode(packet)
        except av.FFmpegError:
            num_bad += 1
            if num_bad > max(_MAX_BAD_PACKETS, num_good):
                break
            continue
        num_good += 1
        yield from frames
    if num_bad > num_good:
        raise UndecodableAudio(
            f"{num_bad} of {num_bad + num_good} parts of the recording are damaged; encode it again"
        )


def _packets(
    container: InputContainer, track: av.AudioStream
) -> Iterator["av.Packet[av.AudioStream] | None"]:
    """Yield all packets; the last one is empty or None and makes the decoder give what it still holds."""
    try:
        yield from container.demux(track)
    except av.FFmpegError:
        yield None
