"""Uploads: good ones, odd ones, broken ones and hostile ones."""

import io
import tracemalloc
from contextlib import nullcontext

import av
import numpy as np
import pytest
import soundfile
import soxr

from firstword.app.audio.decode import MAX_VALUES, RecordingTooLong, UndecodableAudio, decode_recording
from firstword.app.audio.encode import encode_whole
from firstword.app.audio.formats import AudioFormat
from tests.support.sounds import Samples, chirp, dominant_hz, tone

MAX_S = 30.0


def file(samples: Samples, rate_hz: int, format: str, subtype: str | None = None) -> bytes:
    """samples (n,) or (n, channels)."""
    body = io.BytesIO()
    soundfile.write(body, samples, rate_hz, format=format, subtype=subtype)
    return body.getvalue()


def muxed(samples: Samples, rate_hz: int, container: str, codec: str) -> bytes:
    body = io.BytesIO()
    with av.open(body, "w", format=container) as output:
        track = output.add_stream(codec, rate=rate_hz, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
        frame.sample_rate = rate_hz
        output.mux(track.encode(frame))
        output.mux(track.encode(None))
    return body.getvalue()


RECORDINGS = [
    ("WAV", "PCM_U8"),
    ("WAV", "PCM_16"),
    ("WAV", "PCM_24"),
    ("WAV", "FLOAT"),
    ("WAV", "DOUBLE"),
    ("WAV", "ULAW"),
    ("WAVEX", "PCM_16"),
    ("AIFF", "PCM_16"),
    ("FLAC", "PCM_24"),
    ("MP3", None),
    ("OGG", "VORBIS"),
    ("OGG", "OPUS"),
]


@pytest.mark.parametrize("rate_hz", [8000, 16_000, 48_000])
@pytest.mark.parametrize(("container", "subtype"), RECORDINGS)
def test_a_recording_keeps_its_sound(container: str, subtype: str | None, rate_hz: int) -> None:
    samples, heard_rate_hz = decode_recording(file(tone(1.0, rate_hz), rate_hz, container, subtype), MAX_S)

    assert heard_rate_hz == (48_000 if subtype == "OPUS" else rate_hz)
    assert samples.dtype == np.float32
    assert len(samples) == pytest.approx(
        heard_rate_hz, abs=0.03 * heard_rate_hz
    )  # Vorbis keeps its last block whole
    assert dominant_hz(samples, heard_rate_hz) == pytest.approx(300, abs=1)
    middle = samples[len(samples) // 4 : -len(samples) // 4]
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.4 / np.sqrt(2), rel=0.06)


@pytest.mark.parametrize(
    ("container", "codec"), [("mp4", "aac"), ("ipod", "aac"), ("webm", "libopus"), ("adts", "aac")]
)
def test_what_browsers_and_phones_record_is_read(container: str, codec: str) -> None:
    samples, rate_hz = decode_recording(muxed(tone(1.0, 48_000), 48_000, container, codec), MAX_S)

    assert rate_hz == 48_000
    assert len(samples) == pytest.approx(48_000, abs=2100)
    assert dominant_hz(samples, rate_hz) == pytest.approx(300, abs=1)


@pytest.mark.parametrize("num_channels", [1, 2])
def test_opus_is_heard_as_its_own_library_hears_it(num_channels: int) -> None:
    """In mono this encoder goes from speech to music coding on its way, where FFmpeg's decoder stumbles."""
    channels = np.repeat(tone(1.0, 16_000)[:, None], num_channels, axis=1)
    data = file(channels, 16_000, "OGG", "OPUS")

    samples, rate_hz = decode_recording(data, MAX_S)

    expected, _ = soundfile.read(io.BytesIO(data), always_2d=True)
    at_16_khz = soxr.resample(samples, rate_hz, 16_000)  # libsndfile decodes at 16 kHz, 40 µs later
    np.testing.assert_allclose(at_16_khz, expected.mean(axis=1), atol=0.05)


@pytest.mark.parametrize(
    ("format", "subtype"),
    [("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "FLOAT"), ("WAVEX", "PCM_16"), ("FLAC", "PCM_24")],
)
@pytest.mark.parametrize("num_channels", [1, 2])
def test_plain_files_are_read_as_every_other_decoder_reads_them(
    format: str, subtype: str, num_channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = file(np.repeat(chirp(0.5, 16_000)[:, None], num_channels, axis=1), 16_000, format, subtype)
    samples, rate_hz = decode_recording(data, MAX_S)

    monkeypatch.setattr(soundfile, "SoundFile", unusable)
    expected, expected_rate_hz = decode_recording(data, MAX_S)

    assert rate_hz == expected_rate_hz
    np.testing.assert_allclose(samples, expected, atol=1e-7)


def unusable(*_: object) -> None:
    raise soundfile.LibsndfileError(1)


@pytest.mark.parametrize("format", ["WAV", "FLAC"])
def test_lossless_comes_out_exactly(format: str) -> None:
    values = (chirp(0.5, 16_000) * 32768).astype(np.int16)

    samples, _ = decode_recording(file(values, 16_000, format), MAX_S)

    np.testing.assert_array_equal(samples, values.astype(np.float32) / 32768)


@pytest.mark.parametrize("format", ["WAV", "FLAC"])
@pytest.mark.parametrize("num_channels", [2, 4, 6, 8])
def test_silent_channels_make_it_no_quieter(format: str, num_channels: int) -> None:
    mono = tone(0.3, 16_000)
    channels = np.zeros((len(mono), num_channels), np.float32)
    channels[:, 0] = mono

    samples, _ = decode_recording(file(channels, 16_000, format), MAX_S)

    np.testing.assert_allclose(samples, mono, atol=1e-4)


def test_channels_that_sound_are_averaged() -> None:
    mono = tone(0.3, 16_000)
    channels = np.stack([mono, 0.5 * mono], axis=1)

    samples, _ = decode_recording(file(channels, 16_000, "WAV"), MAX_S)

    np.testing.assert_allclose(samples, 0.75 * mono, atol=1e-4)


def test_channels_of_opposite_sign_do_not_cancel() -> None:
    mono = tone(0.3, 16_000)
    channels = np.stack([mono, -mono], axis=1)

    samples, _ = decode_recording(file(channels, 16_000, "WAV"), MAX_S)

    np.testing.assert_allclose(np.abs(samples), np.abs(mono), atol=1e-4)


def test_an_offset_is_removed() -> None:
    mono = 0.5 * tone(0.3, 16_000)

    samples, _ = decode_recording(file(mono + np.float32(0.3), 16_000, "WAV"), MAX_S)

    np.testing.assert_allclose(samples, mono - mono.mean(), atol=2e-4)


def test_samples_that_are_no_numbers_or_far_too_loud_do_not_get_through() -> None:
    values = np.array([[0.5, 0.5], [np.nan, 0.0], [np.inf, -np.inf], [9.0, 1.0], [-3e38, -3e38]], np.float32)

    samples, _ = decode_recording(file(values, 16_000, "WAV", "FLOAT"), MAX_S)

    assert samples.tolist() == [0.5, 0.0, 0.0, 1.0, -1.0]


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("nothing", b""),
        ("one byte", b"R"),
        ("text", b"Dear sir, please find attached my voice.\n" * 500),
        ("json", b'{"audio": "UklGRg=="}'),
        ("zeros", bytes(100_000)),
        ("a picture", b"\x89PNG\r\n\x1a\n" + bytes(5000)),
        ("magic and no more", b"RIFF"),
        ("a header and no samples", encode_whole("wav", np.empty(0, np.float32), 16_000)),
        ("magic and noise", b"fLaC" + np.random.default_rng(1).bytes(50_000)),
        ("sync words alone", b"\xff\xfb\x90\x64" * 20_000),
        ("a playlist", b"#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n"),
        ("a list of files", b"ffconcat version 1.0\nfile /etc/hostname\n"),
    ],
)
def test_what_is_no_recording_is_refused(what: str, data: bytes) -> None:
    with pytest.raises(UndecodableAudio, match=r"; (send|record|encode)"):
        decode_recording(data, MAX_S)


@pytest.mark.parametrize("num_bytes", [10, 1000, 20_000])
def test_random_bytes_are_no_recording(num_bytes: int) -> None:
    source = np.random.default_rng(num_bytes)
    for _ in range(50):
        with pytest.raises(UndecodableAudio):
            decode_recording(source.bytes(num_bytes), MAX_S)


def test_a_coding_that_nobody_knows_is_refused() -> None:
    recording = bytearray(file(tone(0.5, 16_000), 16_000, "WAV"))
    recording[20:22] = b"\xee\xee"  # the format tag

    with pytest.raises(UndecodableAudio, match="coding that is not known"):
        decode_recording(bytes(recording), MAX_S)


def test_a_film_without_sound_is_no_recording() -> None:
    body = io.BytesIO()
    with av.open(body, "w", format="mp4") as output:
        track = output.add_stream("mpeg4", rate=25, width=32, height=32, pix_fmt="yuv420p")
        frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
        output.mux(track.encode(frame))
        output.mux(track.encode(None))

    with pytest.raises(UndecodableAudio, match="no audio track"):
        decode_recording(body.getvalue(), MAX_S)


FORMATS: list[AudioFormat] = ["wav", "mp3", "opus", "aac", "flac"]


@pytest.mark.parametrize("share", [0.5, 0.77, 0.999])
@pytest.mark.parametrize("format", FORMATS)
def test_a_file_that_breaks_off_gives_what_is_there(format: AudioFormat, share: float) -> None:
    whole = encode_whole(format, tone(2.0, 24_000), 24_000)

    samples, rate_hz = decode_recording(whole[: int(share * len(whole))], MAX_S)

    assert len(samples) / rate_hz == pytest.approx(2.0 * share, abs=0.15)
    assert dominant_hz(samples, rate_hz) == pytest.approx(300, abs=3)


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_cut_anywhere_is_read_or_refused(format: AudioFormat) -> None:
    whole = encode_whole(format, chirp(0.3, 24_000), 24_000)
    for stop in range(0, len(whole), max(1, len(whole) // 150)):
        try:
            samples, rate_hz = decode_recording(whole[:stop], MAX_S)
        except UndecodableAudio:
            continue
        assert 0 < len(samples) / rate_hz < 0.45


@pytest.mark.parametrize("format", FORMATS)
def test_a_damaged_file_is_read_or_refused(format: AudioFormat) -> None:
    whole = np.frombuffer(encode_whole(format, chirp(0.5, 24_000), 24_000), np.uint8)
    source = np.random.default_rng(0)
    for _ in range(60):
        damaged = whole.copy()
        damaged[source.integers(0, len(whole), 20)] = source.integers(0, 256, 20)
        try:
            samples, _ = decode_recording(damaged.tobytes(), MAX_S)
        except (UndecodableAudio, RecordingTooLong):
            continue
        assert np.isfinite(samples).all()


@pytest.mark.parametrize("format", ["mp3", "opus", "flac"])
def test_damage_in_the_middle_costs_only_the_middle(format: AudioFormat) -> None:
    whole = bytearray(encode_whole(format, tone(2.0, 24_000), 24_000))
    middle = len(whole) // 2
    whole[middle : middle + 200] = bytes(200)

    samples, rate_hz = decode_recording(bytes(whole), MAX_S)

    assert len(samples) / rate_hz == pytest.approx(2.0, abs=0.3)


def test_noise_behind_a_good_beginning_ends_the_recording() -> None:
    good = encode_whole("mp3", tone(1.0, 24_000), 24_000)

    samples, rate_hz = decode_recording(good + np.random.default_rng(0).bytes(50_000), MAX_S)

    assert len(samples) / rate_hz >= 1.0
    assert dominant_hz(samples[:rate_hz], rate_hz) == pytest.approx(300, abs=1)


def test_the_limit_is_exact() -> None:
    second = file(tone(1.0, 16_000), 16_000, "WAV")

    assert len(decode_recording(second, 1.0)[0]) == 16_000
    with pytest.raises(RecordingTooLong, match=r"longer than 0\.999 s; send a part"):
        decode_recording(second, 0.999)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_has_the_limit(format: AudioFormat) -> None:
    with pytest.raises(RecordingTooLong):
        decode_recording(encode_whole(format, tone(3.0, 24_000), 24_000), 2.0)


@pytest.mark.slow
def test_eight_hours_in_a_small_file_cost_no_more_than_the_limit() -> None:
    body = io.BytesIO()
    silence = np.zeros(8000 * 60, np.int16)
    with soundfile.SoundFile(body, "w", 8000, 1, format="FLAC", compression_level=0) as flac:
        for _ in range(8 * 60):
            flac.write(silence)
    data = body.getvalue()
    assert len(data) < 3_000_000

    tracemalloc.start()
    try:
        with pytest.raises(RecordingTooLong):
            decode_recording(data, MAX_S)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    limit_bytes = 4 * 8000 * MAX_S
    assert peak_bytes < len(data) + 2 * limit_bytes


def test_a_rate_no_recorder_has_is_refused() -> None:
    with pytest.raises(UndecodableAudio, match="says 384000 Hz; record at up to 192000 Hz"):
        decode_recording(file(tone(0.1, 384_000), 384_000, "WAV"), MAX_S)


@pytest.mark.parametrize(("seconds", "rate_hz", "fits"), [(24, 96_000, True), (30, 192_000, False)])
def test_many_channels_at_a_high_rate_take_bounded_memory(seconds: int, rate_hz: int, fits: bool) -> None:
    """44 KB of silence took 700 MB, and 187 KB of a consent 2.9 GB."""
    content = io.BytesIO()
    with soundfile.SoundFile(content, "w", rate_hz, 8, format="FLAC") as recording:
        for _ in range(seconds):
            recording.write(np.zeros((rate_hz, 8), np.int16))
    tracemalloc.start()
    with nullcontext() if fits else pytest.raises(RecordingTooLong, match="8 channels of 192000 Hz"):
        samples, _ = decode_recording(content.getvalue(), 30.0)
        assert len(samples) == seconds * rate_hz
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 6 * MAX_VALUES


def test_more_channels_than_anyone_records_are_refused() -> None:
    with pytest.raises(UndecodableAudio, match="12 channels; send 1 to 8"):
        decode_recording(file(np.zeros((1000, 12), np.float32), 16_000, "WAV"), MAX_S)


def test_a_recording_that_changes_its_rate_is_refused() -> None:
    joined = b"".join(encode_whole("aac", tone(1.0, rate_hz), rate_hz) for rate_hz in (24_000, 48_000))

    with pytest.raises(UndecodableAudio, match="changes from 24000 to 48000 Hz"):
        decode_recording(joined, MAX_S)


def test_a_recording_that_goes_from_mono_to_stereo_stays_one() -> None:
    mono = tone(1.0, 24_000)
    joined = file(mono, 24_000, "MP3") + file(np.stack([mono, mono], axis=1), 24_000, "MP3")

    samples, rate_hz = decode_recording(joined, MAX_S)

    assert len(samples) / rate_hz == pytest.approx(2.0, abs=0.15)
    for part in (samples[:rate_hz], samples[-rate_hz:]):
        assert dominant_hz(part, rate_hz) == pytest.approx(300, abs=3)
