"""The Python interface: the service's own parts without a server, sync and async, freed at the end."""

import asyncio
import re
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile

import firstword
from firstword import AsyncSynthesizer, AsyncVoice, Synthesizer, Voice
from firstword.app.async_voice import _in_order
from firstword.app.audio.dsp import Samples, to_pcm16
from firstword.app.clients import ANYBODY
from firstword.app.core.audio import faded
from firstword.app.core.interface import Audio
from firstword.app.core.request import SynthesisRequest
from firstword.app.core.stream import SpeechStream
from firstword.app.engine.voice_parts import OpenVoice, open_voice
from firstword.app.errors import AudioTooShort, BadAudio, InvalidRequest, SpeakerNotFound
from firstword.app.options import BUILTIN_CHECKPOINT, EngineOptions, LMEngineOptions, NetworkOptions
from firstword.models.config import CheckpointError, Family
from firstword.models.token2wav_step import StepInput
from tests.support.checkpoints import small_checkpoint
from tests.support.python import modules_after

TEXT = "Good morning. The train leaves at noon."

PATIENCE_S = 10
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def synthesizer() -> Iterator[Synthesizer]:
    with Synthesizer.open(max_streams=1) as synthesizer:
        yield synthesizer


@pytest.fixture(scope="module")
def recording(synthesizer: Synthesizer) -> Samples:
    return synthesizer.speak("Here is a voice to copy.", speaker="alder", seed=5, stream=False)


def test_pieces_are_the_whole(synthesizer: Synthesizer) -> None:
    pieces = list(synthesizer.speak(TEXT, seed=1))
    assert len(pieces) > 2
    assert all(piece.dtype == np.float32 and np.abs(piece).max() <= 1 for piece in pieces)
    whole = synthesizer.speak(TEXT, seed=1, stream=False)
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    assert 1.5 < len(whole) / synthesizer.sample_rate_hz < 6


def check_words(spoken: list[Audio]) -> None:
    """Every word of TEXT, in order, within the audio that had come by then."""
    words = [word for audio in spoken for word in audio.words]
    assert [word.text for word in words] == re.findall(r"\w+", TEXT)
    assert [TEXT[word.char_start : word.char_end] for word in words] == [word.text for word in words]
    assert all(word.start <= word.end for word in words)
    assert all(one.end <= other.start for one, other in pairwise(words))
    num_samples = 0
    for audio in spoken:
        num_samples += len(audio.samples)
        assert all(word.end <= num_samples for word in audio.words)


def test_words_come_with_the_samples(synthesizer: Synthesizer) -> None:
    spoken = list(synthesizer.timed(TEXT, seed=1))
    check_words(spoken)
    whole = synthesizer.speak(TEXT, seed=1, stream=False)
    np.testing.assert_array_equal(np.concatenate([audio.samples for audio in spoken]), whole)


def test_faster_speech_is_more_urgent(synthesizer: Synthesizer, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[SynthesisRequest] = []
    opening = OpenVoice.open

    def noted(voice: OpenVoice, request: SynthesisRequest) -> SpeechStream:
        requests.append(request)
        return opening(voice, request)

    monkeypatch.setattr(OpenVoice, "open", noted)
    list(synthesizer.speak("Quick.", seed=1, speed=2))
    list(synthesizer.timed("Quick.", seed=1, speed=2))
    assert [request.delivery.speed for request in requests] == [2, 2]


def test_speakers_sound_different(synthesizer: Synthesizer) -> None:
    assert {"wren", "alder"} <= set(synthesizer.speakers)
    wren, alder = (
        synthesizer.speak("Hello.", speaker=name, seed=1, stream=False) for name in ("wren", "alder")
    )
    assert wren.shape != alder.shape or not np.allclose(wren, alder)
    np.testing.assert_array_equal(synthesizer.speak("Hello.", seed=1, stream=False), wren)  # the default


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".ogg", ".opus", ".mp3", ".m4a", ".aac"])
def test_saved_file_holds_the_speech(synthesizer: Synthesizer, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"hello{suffix}"
    synthesizer.save(path, "Hello.", speaker="alder", seed=3)
    speech = synthesizer.speak("Hello.", speaker="alder", seed=3, stream=False)
    samples, sample_rate_hz = saved(path)
    assert sample_rate_hz == synthesizer.sample_rate_hz
    if suffix in (".wav", ".flac"):
        np.testing.assert_array_equal(samples, to_pcm16(speech))
    else:
        assert len(samples) == pytest.approx(len(speech), abs=0.1 * sample_rate_hz)


def saved(path: Path) -> tuple[Samples, int]:
    if path.suffix not in (".m4a", ".aac"):
        return soundfile.read(path, dtype="int16")  # type: ignore[no-any-return]
    with av.open(path) as container:
        pieces = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
        return np.concatenate(pieces), container.streams.audio[0].rate


def test_samples_are_saved_too(synthesizer: Synthesizer, recording: Samples, tmp_path: Path) -> None:
    synthesizer.save(tmp_path / "copy.wav", recording)
    np.testing.assert_array_equal(
        soundfile.read(tmp_path / "copy.wav", dtype="int16")[0], to_pcm16(recording)
    )


@pytest.mark.usefixtures("_full_disk")
def test_a_full_disk_leaves_what_was_saved(
    synthesizer: Synthesizer, recording: Samples, tmp_path: Path
) -> None:
    prepared = synthesizer.prepare((recording, 24_000), "Here is a voice to copy.")
    for name, speech in {"a.wav": recording, "a.safetensors": prepared}.items():
        (tmp_path / name).write_bytes(b"old")
        with pytest.raises(OSError, match="No space left"):
            synthesizer.save(tmp_path / name, speech)
        assert (tmp_path / name).read_bytes() == b"old"


def test_reference_may_be_samples_a_path_bytes_or_prepared(
    synthesizer: Synthesizer, recording: Samples, tmp_path: Path
) -> None:
    path = tmp_path / "voice.wav"
    exact = to_pcm16(recording).astype(np.float32) / 32768  # what the file holds
    synthesizer.save(path, recording)
    transcript = "Here is a voice to copy."
    prepared = synthesizer.prepare(path, transcript)
    expected = synthesizer.speak("Hello.", reference=prepared, seed=1, stream=False)
    for reference in (path, str(path), path.read_bytes(), (exact, synthesizer.sample_rate_hz)):
        found = synthesizer.speak("Hello.", reference=reference, transcript=transcript, seed=1, stream=False)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    default = synthesizer.speak("Hello.", seed=1, stream=False)
    assert default.shape != expected.shape or not np.allclose(default, expected)


def test_conversion_keeps_the_pace_and_takes_the_voice(synthesizer: Synthesizer, recording: Samples) -> None:
    source = (recording, synthesizer.sample_rate_hz)
    converted = synthesizer.convert(source, "wren", seed=1)
    assert converted.dtype == np.float32
    assert len(converted) == pytest.approx(len(recording), abs=0.1 * synthesizer.sample_rate_hz)
    np.testing.assert_array_equal(synthesizer.convert(source, seed=1), converted)  # wren is the default
    assert not np.allclose(synthesizer.convert(source, reference=source, seed=1), converted)


@pytest.mark.anyio
async def test_conversion_gives_what_flow_and_vocoder_make_of_the_recordings_tokens(
    synthesizer: Synthesizer, recording: Samples
) -> None:
    """Sample for sample, chunk by chunk, but for the fades at both ends."""
    source = (recording, synthesizer.sample_rate_hz)
    async with open_voice(NetworkOptions(BUILTIN_CHECKPOINT), EngineOptions(), LMEngineOptions()) as voice:
        target = await voice.speakers.prepared("wren", ANYBODY)
        tokens = voice.networks.read_source_tokens(*source)
        token2wav = voice.parts.pool.token2wav
        state = token2wav.start(target.prompt_state, 1)
        pieces = []
        while tokens:
            num_tokens = max(1, token2wav.tokens_wanted(state))
            hop, tokens = tokens[:num_tokens], tokens[num_tokens:]
            solved = await voice.parts.pool.run(StepInput(state, hop, is_last=not tokens), 0.0)
            pieces.append(solved.samples)
    expected = faded(np.concatenate(pieces), round(0.003 * 24_000), is_first=True, is_last=True)
    converted = await asyncio.to_thread(synthesizer.convert, source, "wren", seed=1)
    np.testing.assert_array_equal(converted, expected)


@pytest.mark.parametrize("family", ["cosyvoice1", "cosyvoice3"])
def test_the_other_families_convert_too(family: Family, recording: Samples) -> None:
    with Synthesizer.open(small_checkpoint(family), max_streams=1) as synthesizer:
        source = (recording, 24_000)
        if family == "cosyvoice1":
            with pytest.raises(InvalidRequest, match="needs a speaker with a recorded prompt"):
                synthesizer.convert(source)
        converted = synthesizer.convert(source, reference=source)
        seconds = len(converted) / synthesizer.sample_rate_hz
        check_words(
            list(synthesizer.timed(TEXT, reference=source, seed=1))
        )  # estimated: the weights are random
    assert seconds == pytest.approx(len(recording) / 24_000, abs=0.15)


def test_leaving_early_frees_the_slot(synthesizer: Synthesizer) -> None:
    for _ in range(3):  # with one slot, a second stream would wait for ever
        for _piece in synthesizer.speak(TEXT * 5):
            break
    assert len(synthesizer.speak("Hello.", stream=False))


def test_refusals_say_what_to_do(synthesizer: Synthesizer, recording: Samples, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="nothing that can be spoken"):
        synthesizer.speak("...", stream=False)
    with pytest.raises(InvalidRequest, match="Russian"):
        synthesizer.speak("Сегодня хорошая погода.", stream=False)
    with pytest.raises(SpeakerNotFound, match="nobody"):
        next(iter(synthesizer.speak("Hello.", speaker="nobody")))
    with pytest.raises(InvalidRequest, match="takes no instructions"):
        synthesizer.speak("Hello.", instruct="Whisper.", stream=False)
    with pytest.raises(ValueError, match="speaker and reference were both given"):
        synthesizer.speak("Hello.", speaker="alder", reference=b"", stream=False)
    with pytest.raises(BadAudio):
        synthesizer.speak("Hello.", reference=b"no audio", stream=False)
    with pytest.raises(AudioTooShort):
        synthesizer.convert((recording[:2400], 24_000))
    with pytest.raises(ValueError, match=r"use one of \.wav, .*\.mp3, .*\.m4a"):
        synthesizer.save(tmp_path / "a.xyz", "Hello.")
    with pytest.raises(FileNotFoundError, match="nowhere is no directory; make it first"):
        synthesizer.save(tmp_path / "nowhere" / "a.wav", "Hello.")
    with pytest.raises(ValueError, match="expected 1 or more"):
        Synthesizer.open(max_streams=0)


@pytest.mark.parametrize("text", [None, 42, b"Hello.", np.zeros(3, np.float32)])
def test_what_is_no_text_is_told_at_once(synthesizer: Synthesizer, text: Any) -> None:
    for speak in (synthesizer.speak, synthesizer.timed):
        with pytest.raises(TypeError, match=f"text is {type(text).__name__}; expected a str or an iterable"):
            speak(text)
    with pytest.raises(TypeError, match="a piece of the text is"):
        synthesizer.speak(["Hello.", 42 if text is None else text], stream=False)
    assert len(synthesizer.speak("Hello.", stream=False))


def test_pieces_that_are_none_are_skipped(synthesizer: Synthesizer) -> None:
    """As OpenAI's deltas are, in the beginning and at the end."""
    whole = synthesizer.speak(["Good morning ", "to you."], seed=1, stream=False)
    found = synthesizer.speak([None, "Good morning ", None, "to you.", None], seed=1, stream=False)
    np.testing.assert_array_equal(found, whole)


@pytest.mark.anyio
async def test_async_pieces_are_for_the_async_voice(synthesizer: Synthesizer) -> None:
    async def pieces() -> AsyncIterator[str | None]:
        for piece in (None, "Good morning ", "to you."):
            await asyncio.sleep(0)
            yield piece

    with pytest.raises(TypeError, match="async iterable; speak it with AsyncVoice"):
        synthesizer.speak(pieces())  # type: ignore[call-overload]
    expected = await asyncio.to_thread(
        partial(synthesizer.speak, ["Good morning ", "to you."], seed=1, stream=False)
    )
    async with AsyncVoice.open() as voice:
        found = await voice.speak(pieces(), seed=1, stream=False)
        with pytest.raises(TypeError, match="text is NoneType"):
            voice.speak(None)  # type: ignore[call-overload]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_prepared_speaker_is_saved_and_loaded(
    synthesizer: Synthesizer, recording: Samples, tmp_path: Path
) -> None:
    prepared = synthesizer.prepare((recording, 24_000), "Here is a voice to copy.")
    with pytest.raises(TypeError, match="speaker is PreparedSpeaker, which goes into `reference`"):
        synthesizer.speak("Good morning.", speaker=prepared, stream=False)  # type: ignore[call-overload]
    assert len(repr(prepared)) < 200
    path = tmp_path / "me.safetensors"
    synthesizer.save(path, prepared)
    with Voice.open() as other:
        loaded = other.load(path)
        assert loaded.transcript == "Here is a voice to copy."
        found = other.speak("Hello.", reference=loaded, seed=1, stream=False)
    expected = synthesizer.speak("Hello.", reference=prepared, seed=1, stream=False)
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match=r"a prepared speaker is saved as \.safetensors"):
        synthesizer.save(tmp_path / "me.wav", prepared)
    path.write_bytes(b"no bundle")
    with pytest.raises(InvalidRequest, match="not a speaker's bundle"):
        synthesizer.load(path)


def test_repr_says_what_it_is(tmp_path: Path) -> None:
    with Voice.open() as voice:
        assert repr(voice) == f"<Voice builtin: {len(voice.speakers)} speakers, 24000 Hz>"
        unfinished = voice.speak(TEXT)
        next(unfinished)
    assert repr(voice) == "<Voice builtin: closed>"
    assert repr(AsyncSynthesizer.open()) == "<AsyncSynthesizer builtin: not open>"
    with pytest.raises(RuntimeError, match="closed; open another"):
        next(unfinished)


def test_nothing_is_left_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(threading.enumerate())
    with Synthesizer.open(max_streams=1) as synthesizer:
        assert len(set(threading.enumerate()) - before) > 2
        assert list(tmp_path.iterdir())
    assert set(threading.enumerate()) == before
    assert not list(tmp_path.iterdir())
    synthesizer.close()  # once more does nothing
    with pytest.raises(RuntimeError, match="closed; open another"):
        synthesizer.speak("Hello.", stream=False)


def test_bad_checkpoint_is_told_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(CheckpointError, match="nowhere"):
        Synthesizer.open(tmp_path / "nowhere")
    for thread in set(threading.enumerate()) - before:  # what still reads languages ends by itself
        thread.join(20)
    assert set(threading.enumerate()) == before


def test_event_loop_speaks_several_texts_at_once(synthesizer: Synthesizer, tmp_path: Path) -> None:
    texts = ["One.", "Two.", "Three."]

    async def speak() -> tuple[list[Samples], Samples]:
        async with AsyncSynthesizer.open(max_streams=2, data_dir=tmp_path) as speaking:
            whole = await asyncio.gather(*(speaking.speak(text, seed=7, stream=False) for text in texts))
            pieces = [piece async for piece in speaking.speak(texts[0], seed=7)]
        with pytest.raises(RuntimeError, match="not open"):
            await speaking.speak("Hello.", stream=False)
        return whole, np.concatenate(pieces)

    whole, first = asyncio.run(speak())
    assert (tmp_path / "speakers.sqlite3").is_file()  # registered speakers would be kept
    expected = [synthesizer.speak(text, seed=7, stream=False) for text in texts]
    for found, alone in zip([*whole, first], [*expected, expected[0]], strict=True):
        np.testing.assert_allclose(found, alone, atol=1e-4)


def test_package_exports_the_interface_without_loading_it() -> None:
    assert "torch" not in modules_after("import firstword")
    assert {"Synthesizer", "AsyncSynthesizer", "Voice", "AsyncVoice"} <= set(firstword.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Synthesiser'"):
        firstword.Synthesiser  # noqa: B018


def test_copied_voice_speaks_the_same(synthesizer: Synthesizer, tmp_path: Path) -> None:
    """What a voice can do is data in its directory, wherever that lies."""
    copy = shutil.copytree(Path(firstword.__file__).parent / "models" / "builtin", tmp_path / "copy")
    text = (
        "The quick brown fox had been running along the river since early in the morning, and when the sun "
        "went down behind the hills, it looked for a quiet place, lay down, and slept until the next day."
    )
    with Synthesizer.open(checkpoint=copy, max_streams=1) as copied:
        assert copied.speakers == synthesizer.speakers
        for request in ({"text": text}, {"text": "Bonjour."}):
            expected = synthesizer.speak(**request, seed=4, stream=False)
            np.testing.assert_array_equal(copied.speak(**request, seed=4, stream=False), expected)
        for one in (synthesizer, copied):
            with pytest.raises(InvalidRequest, match="instruct"):
                one.speak("Hello.", instruct="Speak softly.", stream=False)


def test_text_in_pieces_is_spoken_while_it_still_comes(synthesizer: Synthesizer) -> None:
    asked_for_more = threading.Event()

    def pieces() -> Iterator[str]:
        yield "Good morning to all of you who travel to the coast with us today, and to those who stay. "
        assert asked_for_more.wait(60)
        yield "The train leaves at noon."

    spoken = synthesizer.speak(pieces(), seed=1)
    first = next(spoken)
    asked_for_more.set()
    samples = np.concatenate([first, *spoken])
    assert 4 < len(samples) / synthesizer.sample_rate_hz < 12
    assert not any(synthesizer.anomalies.values()), synthesizer.anomalies


def test_what_the_pieces_raise_ends_the_speech(synthesizer: Synthesizer) -> None:
    def pieces() -> Iterator[str]:
        yield "Good morning to all of you. "
        raise OSError("the line is dead")

    with pytest.raises(OSError, match="the line is dead"):
        synthesizer.speak(pieces(), stream=False)
    assert len(synthesizer.speak("Hello.", stream=False))


def test_text_may_be_left_as_it_is(synthesizer: Synthesizer) -> None:
    spelled = synthesizer.speak("It is seven.", seed=1, normalize=False, stream=False)
    np.testing.assert_array_equal(synthesizer.speak("It is 7.", seed=1, stream=False), spelled)
    raw = synthesizer.speak("It is 7.", seed=1, normalize=False, stream=False)
    assert not np.array_equal(raw, spelled)


def test_a_piece_that_never_comes_keeps_no_voice_open() -> None:
    comes = threading.Event()

    def pieces() -> Iterator[str]:
        comes.wait(PATIENCE_S)
        yield "Late."

    async def leave() -> None:
        taking = asyncio.ensure_future(anext(_in_order(pieces())))
        await asyncio.wait([taking], timeout=0.01)
        taking.cancel()
        await asyncio.wait([taking])

    closing = threading.Thread(target=asyncio.run, args=(leave(),), daemon=True)
    closing.start()
    closing.join(PATIENCE_S / 2)
    assert not closing.is_alive()
    comes.set()
