"""The real thing: the shipped checkpoint reads recordings, and speaks as whom it read."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import firstword
from firstword.app.errors import (
    AudioTooLong,
    AudioTooShort,
    BadAudio,
    InvalidRequest,
    StoreFull,
    SynthesisFailed,
)
from firstword.app.speakers.bundle import pack, unpack
from firstword.app.speakers.enrolment import (
    MAX_PROMPT_S,
    FirstHopPromptStates,
    SpeakerNetworks,
    read_recording,
)
from firstword.app.speakers.quality import MIN_TRANSCRIPT_FIT, estimate_quality
from firstword.app.speakers.registry import SpeakerRegistry
from firstword.app.speakers.store import SpeakerStore
from firstword.app.speakers.tables import StoredSpeaker
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.frontend.features import FrontendError
from firstword.models.frontend.mel_match import NO_CHANGE
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.runtimes.onnx.build import onnx_lm
from firstword.models.speaker_match import matched
from firstword.models.token2wav import Token2Wav
from firstword.models.token2wav_step import StepInput
from tests.speakers.recordings import RATE_HZ, voice, wav

BUILTIN = Path(firstword.__file__).parent / "models" / "builtin"


@pytest.fixture(scope="module")
def token2wav() -> Token2Wav:
    checkpoint = open_checkpoint(BUILTIN)
    return Token2Wav(checkpoint.load_flow(), checkpoint.load_vocoder())


@pytest.fixture(scope="module")
def networks(token2wav: Token2Wav) -> SpeakerNetworks:
    checkpoint = open_checkpoint(BUILTIN)
    mean = checkpoint.traits.mean_embedding
    match = partial(matched, token2wav, config=checkpoint.config.mel, mean_embedding=mean)
    return SpeakerNetworks(checkpoint, checkpoint.load_tokenizer(), token2wav, match=match)


@pytest.fixture(scope="module")
def speech(networks: SpeakerNetworks, token2wav: Token2Wav) -> NDArray[np.float32]:
    """A built-in speaker says its own prompt again."""
    features = networks.builtin["alder"].features
    prepared = networks.with_prompt_state(features, "")
    return spoken(token2wav, prepared.prompt_state, features.prompt_tokens.tolist())


def spoken(token2wav: Token2Wav, prompt: Any, tokens: list[int]) -> NDArray[np.float32]:
    (samples,) = token2wav.step([StepInput(token2wav.start(prompt), tokens, is_last=True)])
    return np.clip(samples.numpy(), -1, 1)


@pytest.mark.anyio
async def test_a_recorded_voice_is_enrolled_carried_over_and_speaks(
    tmp_path: Path, networks: SpeakerNetworks, token2wav: Token2Wav, speech: NDArray[np.float32]
) -> None:
    store = await asyncio.to_thread(SpeakerStore, tmp_path / "speakers.sqlite")
    async with SpeakerRegistry(store, networks, max_cache_bytes=1 << 30) as registry:
        info = await registry.enrol("mia", wav(speech), "Hello, this is my voice.", "en")
        assert info.cached
        assert info.prompt.duration_s == pytest.approx(len(speech) / RATE_HZ)
        assert info.prompt.num_tokens == pytest.approx(25 * info.prompt.duration_s, abs=25)
        assert info.quality is not None
        assert info.quality.warnings == ()
        fresh = await registry.prepared("mia")
        await registry.import_bundle(await registry.export("mia"), "carried")

    store = await asyncio.to_thread(SpeakerStore, tmp_path / "speakers.sqlite")
    async with SpeakerRegistry(store, networks, max_cache_bytes=1 << 30) as registry:
        tokens = list(range(40))
        expected = spoken(token2wav, fresh.prompt_state, tokens)
        assert np.abs(expected).max() > 0.01
        for name in ("mia", "carried"):
            kept = await registry.prepared(name)
            assert kept.transcript == "Hello, this is my voice."
            np.testing.assert_array_equal(spoken(token2wav, kept.prompt_state, tokens), expected)


def test_a_voice_that_the_flow_does_not_know_is_spoken_at_its_own_pitch(
    networks: SpeakerNetworks, token2wav: Token2Wav, speech: NDArray[np.float32]
) -> None:
    places = np.arange(0, len(speech), 0.75)  # as if it were played slower: a longer throat, a lower voice
    lower = np.interp(places, np.arange(len(speech)), speech).astype(np.float32)
    features = networks.read_speaker(lower, RATE_HZ)
    vocoder = open_checkpoint(BUILTIN).load_vocoder()

    def pitch_hz(mel: torch.Tensor) -> float:
        f0_hz = vocoder.predict_f0(mel[None])
        return float(f0_hz[f0_hz > 50].median())

    def said(features: SpeakerFeatures) -> torch.Tensor:
        state = token2wav.start(token2wav.compute_prompt_state(features))
        tokens = networks.builtin["flint"].features.prompt_tokens.tolist()
        return token2wav.step_mel(StepInput(state, tokens, is_last=True))

    wanted_hz = pitch_hz(features.prompt_mel.mT)
    plain, mapped = (pitch_hz(said(one)) for one in (replace(features, mel_map=None), features))
    assert abs(plain - wanted_hz) > 0.15 * wanted_hz
    assert abs(mapped - wanted_hz) < 0.1 * wanted_hz


def test_the_embedding_of_a_registered_speaker_moves_halfway_to_the_mean_once(
    networks: SpeakerNetworks, speech: NDArray[np.float32]
) -> None:
    mean = torch.tensor(open_checkpoint(BUILTIN).traits.mean_embedding)
    own = networks.read_features(speech, RATE_HZ)
    found = networks.matched(own)
    torch.testing.assert_close(found.embedding, (own.embedding + mean) / 2)
    assert networks.matched(found) is found


def test_a_match_without_a_mean_leaves_the_embedding(
    networks: SpeakerNetworks, token2wav: Token2Wav, speech: NDArray[np.float32]
) -> None:
    own = networks.read_features(speech, RATE_HZ)
    found = matched(token2wav, own, own.prompt_tokens.tolist(), open_checkpoint(BUILTIN).config.mel)
    assert torch.equal(found.embedding, own.embedding)


def test_a_match_needs_no_built_in_speaker_with_a_prompt(
    networks: SpeakerNetworks, speech: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    features = networks.read_features(speech, RATE_HZ)
    builtin = networks.builtin["wren"]
    alone = replace(builtin, features=SpeakerFeatures.without_prompt(features.embedding))
    monkeypatch.setattr(networks, "builtin", {"wren": alone})
    mel_map = networks.matched(features).mel_map
    assert mel_map is not None
    assert not torch.equal(mel_map, NO_CHANGE)


@pytest.mark.anyio
async def test_a_speaker_stored_without_a_match_gets_one_and_keeps_it_where_it_can(
    tmp_path: Path,
    networks: SpeakerNetworks,
    token2wav: Token2Wav,
    speech: NDArray[np.float32],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checkpoint = open_checkpoint(BUILTIN)
    before = SpeakerNetworks(checkpoint, checkpoint.load_tokenizer(), token2wav)
    store = await asyncio.to_thread(SpeakerStore, tmp_path / "speakers.sqlite")
    async with SpeakerRegistry(store, before, max_cache_bytes=1 << 30) as registry:
        await registry.enrol("mia", wav(speech))
        assert (await registry.prepared("mia")).features.mel_map is None
    found = []

    def full(_: SpeakerStore, stored: StoredSpeaker) -> None:
        raise StoreFull("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(SpeakerStore, "replace_features", full)
        store = await asyncio.to_thread(SpeakerStore, tmp_path / "speakers.sqlite")
        async with SpeakerRegistry(store, networks, max_cache_bytes=1 << 30) as registry:
            assert (await registry.prepared("mia")).features.mel_map is not None
            assert "mel_map" not in unpack(store.read(store.rows()[0].id).features)[0]
    for _ in range(2):
        store = await asyncio.to_thread(SpeakerStore, tmp_path / "speakers.sqlite")
        async with SpeakerRegistry(store, networks, max_cache_bytes=1 << 30) as registry:
            found.append((await registry.prepared("mia")).features)
            stored, _ = unpack(store.read(store.rows()[0].id).features)
        assert np.array_equal(stored["mel_map"], found[-1].mel_map.numpy())
        assert np.array_equal(stored["equalizer"], found[-1].equalizer.numpy())
    assert torch.equal(found[0].mel_map, found[1].mel_map)
    store = await asyncio.to_thread(SpeakerStore, tmp_path / "speakers.sqlite")
    async with SpeakerRegistry(store, before, max_cache_bytes=1 << 30) as registry:
        assert (await registry.prepared("mia")).features.mel_map is None  # nothing there asks for it


@pytest.mark.anyio
async def test_built_in_speaker_is_exported_and_speaks_the_same_under_another_name(
    tmp_path: Path, networks: SpeakerNetworks, token2wav: Token2Wav
) -> None:
    store = await asyncio.to_thread(SpeakerStore, tmp_path / "speakers.sqlite")
    async with SpeakerRegistry(store, networks, max_cache_bytes=1 << 30) as registry:
        builtin = registry.get("alder")
        imported = await registry.import_bundle(await registry.export("alder"), "alder2")
        one, other = [await registry.prepared(name) for name in ("alder", "alder2")]
    was, now = builtin.prompt, imported.prompt
    assert (now.transcript, now.num_tokens) == (was.transcript, was.num_tokens)
    assert now.duration_s == pytest.approx(was.duration_s)
    tokens = list(range(40))
    np.testing.assert_array_equal(
        spoken(token2wav, one.prompt_state, tokens), spoken(token2wav, other.prompt_state, tokens)
    )
    estimated, measured = builtin.quality, imported.quality
    assert estimated is not None
    assert measured is not None
    assert estimated.snr_db == pytest.approx(measured.snr_db, abs=6)
    assert estimated.speech_ratio == pytest.approx(measured.speech_ratio, abs=0.06)
    assert (estimated.clipping, measured.clipping) == (None, 0.0)
    assert estimated.warnings == measured.warnings == ()


@pytest.mark.anyio
async def test_built_in_speaker_without_a_prompt_has_nothing_to_export(
    tmp_path: Path, networks: SpeakerNetworks, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = SpeakerFeatures.without_prompt(networks.builtin["alder"].features.embedding)
    monkeypatch.setitem(
        networks.builtin,  # type: ignore[arg-type]
        "alder",
        replace(networks.builtin["alder"], features=bare, quality=estimate_quality(bare.prompt_mel.numpy())),
    )
    store = await asyncio.to_thread(SpeakerStore, tmp_path / "speakers.sqlite")
    async with SpeakerRegistry(store, networks, max_cache_bytes=1 << 30) as registry:
        assert registry.get("alder").quality is None
        with pytest.raises(InvalidRequest, match="'alder' has no prompt, so there is nothing to export"):
            await registry.export("alder")


def test_a_stream_may_have_a_first_hop_of_its_own(token2wav: Token2Wav) -> None:
    checkpoint = open_checkpoint(BUILTIN)
    networks = SpeakerNetworks(checkpoint, checkpoint.load_tokenizer(), FirstHopPromptStates(token2wav, 10))
    features = networks.builtin["alder"].features
    states: list[Any] = [networks.compute_prompt_state(features, asked) for asked in (None, 4)]
    assert [state.first_hop_tokens for state in states] == [10, 4]


def test_the_built_in_speakers_say_what_their_prompt_says(networks: SpeakerNetworks) -> None:
    assert networks.builtin
    for builtin in networks.builtin.values():
        assert builtin.transcript.isprintable()
        assert len(builtin.transcript) > 20
        assert builtin.duration_s == len(builtin.features.prompt_tokens) / 25
        assert builtin.created_at.endswith("+00:00")


@pytest.fixture(scope="module")
def checking(token2wav: Token2Wav) -> SpeakerNetworks:
    checkpoint = open_checkpoint(BUILTIN)
    lm = onnx_lm(checkpoint.load_lm(), "int8", num_threads=1)
    return SpeakerNetworks(checkpoint, checkpoint.load_tokenizer(), token2wav, lm=lm)


HEARD = frozenset({"wren", "alder", "flint", "iris", "linnet", "finch"})


def test_a_transcript_that_is_not_all_said_is_found(checking: SpeakerNetworks) -> None:
    """By the speech tokens of the built-in prompts, whole, and half of them from either end.

    The language model learned from the teachers of HEARD. Of those it recognizes what begins in the middle
    but for one at most; of the other speakers halves are never taken for whole, and one whole is for a half.
    """
    not_known = 0
    taken_for_half = []
    for name, builtin in checking.builtin.items():
        tokens = builtin.features.prompt_tokens
        num_said = len(tokens) // 2
        fits = [
            checking.transcript_fit(replace(builtin.features, prompt_tokens=said), builtin.transcript)
            for said in (tokens, tokens[:num_said], tokens[-num_said:])
        ]
        whole, *halves = fits
        assert whole is not None
        assert all(half is None or half < MIN_TRANSCRIPT_FIT for half in halves), name
        if whole < MIN_TRANSCRIPT_FIT:
            taken_for_half.append(name)
        if name in HEARD:
            assert halves[0] is not None
            not_known += halves[1] is None
        assert checking.transcript_fit(builtin.features, "Yes.") is None  # too short to tell
        noise = torch.from_numpy(np.random.default_rng(0).permutation(6561)[: len(tokens)])
        unknown = replace(builtin.features, prompt_tokens=noise)
        assert checking.transcript_fit(unknown, builtin.transcript) is None  # no speech the model knows
    assert not_known <= 1
    assert len(taken_for_half) <= 1
    assert HEARD.isdisjoint(taken_for_half)


@pytest.mark.anyio
async def test_a_recording_of_half_its_transcript_is_registered_with_a_warning(
    tmp_path: Path, checking: SpeakerNetworks, speech: NDArray[np.float32]
) -> None:
    transcript = checking.builtin["alder"].transcript
    store = await asyncio.to_thread(SpeakerStore, tmp_path / "speakers.sqlite")
    async with SpeakerRegistry(store, checking, max_cache_bytes=1 << 30) as registry:
        whole = await registry.enrol("whole", wav(speech), transcript)
        half = await registry.enrol("half", wav(speech[: len(speech) // 2]), transcript)
    assert whole.quality is not None
    assert whole.quality.warnings == ()
    assert half.quality is not None
    assert any("part of the transcript" in warning for warning in half.quality.warnings)


def test_the_bytes_of_a_prepared_speaker_are_counted(networks: SpeakerNetworks) -> None:
    prepared = networks.with_prompt_state(networks.builtin["alder"].features, "")

    assert prepared.state_bytes > prepared.prompt_state.state_bytes > 1_000_000


@pytest.mark.parametrize(
    ("samples", "rate_hz", "error", "reason"),
    [
        (np.zeros(2 * RATE_HZ), RATE_HZ, BadAudio, "silent"),
        (np.zeros(0), RATE_HZ, BadAudio, "empty"),
        (voice(2.0), 8000, BadAudio, "8000 Hz"),
        (np.full(2 * RATE_HZ, np.nan), RATE_HZ, BadAudio, "not numbers"),
        (0.1 * np.random.default_rng(0).standard_normal(2 * RATE_HZ), RATE_HZ, BadAudio, "nobody speaks"),
        (voice(0.5), RATE_HZ, AudioTooShort, r"0\.50 s"),
        (np.pad(voice(0.5), RATE_HZ), RATE_HZ, AudioTooShort, "without the silence"),
        (voice(31.0), RATE_HZ, AudioTooLong, r"31\.00 s"),
    ],
)
def test_a_recording_that_is_no_prompt_is_refused_by_its_kind(
    networks: SpeakerNetworks, samples: NDArray[np.float32], rate_hz: int, error: type[BadAudio], reason: str
) -> None:
    with pytest.raises(BadAudio, match=reason) as caught:
        networks.read_speaker(samples.astype(np.float32), rate_hz)

    assert type(caught.value) is error


def test_samples_that_are_integers_are_not_taken_for_floats() -> None:
    with pytest.raises(ValueError, match="samples of int16; expected floats"):
        read_recording((np.zeros(RATE_HZ, np.int16), RATE_HZ))  # type: ignore[arg-type]


def test_a_source_is_too_long_with_the_silence_at_its_ends(networks: SpeakerNetworks) -> None:
    samples = np.pad(voice(29.0), RATE_HZ)
    with pytest.raises(AudioTooLong, match=r"31\.00 s; expected 1 to 30 s"):
        networks.read_source_tokens(samples, RATE_HZ)


def test_a_network_that_fails_is_our_fault_and_shows_no_path(
    networks: SpeakerNetworks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise FrontendError("/secret/campplus.onnx: the graph failed")

    monkeypatch.setattr(networks.reader, "read_speaker", fail)

    with pytest.raises(SynthesisFailed) as caught:
        networks.read_features(voice(2.0), RATE_HZ)
    assert "/" not in caught.value.message


def test_features_come_back_as_they_were(networks: SpeakerNetworks) -> None:
    speaker = replace(networks.builtin["alder"].features, prompt_text_ids=None)

    tensors, _ = unpack(pack(networks.tensors_of(speaker)))
    again = networks.features_from(tensors)

    for name in ("prompt_tokens", "prompt_mel", "embedding"):
        assert torch.equal(getattr(again, name), getattr(speaker, name))
        assert getattr(again, name).dtype == getattr(speaker, name).dtype


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def apply(features: dict[str, Any]) -> None:
        features[name] = change(features[name])

    return apply


def with_value(place: int, value: float) -> Callable[[Any], Any]:
    def apply(array: Any) -> Any:
        array.reshape(-1)[place] = value
        return array

    return apply


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda f: f.pop("embedding"), "expected .*embedding"),
        (lambda f: f.update(more=np.zeros(1)), "more"),
        (changed("prompt_tokens", lambda t: t.astype(np.int32)), "int32; expected int64"),
        (changed("prompt_mel", lambda m: m.astype(np.float64)), "float64; expected float32"),
        (changed("prompt_tokens", lambda t: t[:0]), r"\(0,\); expected \(1\.\."),
        (changed("prompt_tokens", lambda t: t[None]), r"prompt_tokens \(1, "),
        (changed("prompt_tokens", lambda t: np.resize(t, 25 * MAX_PROMPT_S + 1)), "expected"),
        (changed("prompt_tokens", lambda t: t[1:]), "prompt_mel"),
        (changed("prompt_mel", lambda m: m[:, :79].copy()), "79"),
        (changed("embedding", lambda e: e[:191]), "191"),
        (changed("embedding", lambda e: e[None]), "embedding"),
        (changed("prompt_tokens", with_value(3, -1)), "speech token -1; expected 0"),
        (changed("prompt_tokens", with_value(3, 8433)), "speech token 8433"),
        (changed("prompt_mel", with_value(7, np.nan)), "prompt_mel holds numbers"),
        (changed("embedding", with_value(7, np.inf)), "embedding holds numbers"),
        (changed("embedding", with_value(7, 1e30)), "embedding holds numbers"),
        (changed("embedding", with_value(7, 999.0)), "embedding holds numbers"),
        (changed("prompt_mel", with_value(7, -999.0)), "prompt_mel holds numbers"),
        (
            lambda f: f.update(mel_map=np.eye(80, dtype=np.float32)),
            r"mel_map \(80, 80\); expected \(80, 81\)",
        ),
        (lambda f: f.update(mel_map=np.eye(80, 81)), "mel_map is float64; expected float32"),
        (lambda f: f.update(mel_map=np.full((80, 81), np.nan, np.float32)), "mel_map holds numbers"),
        (lambda f: f.update(equalizer=np.zeros(511, np.float32)), r"equalizer \(511,\); expected \(512,\)"),
        (lambda f: f.update(equalizer=np.full(512, 99, np.float32)), "equalizer holds numbers"),
    ],
)
def test_features_that_no_recording_gives_are_refused(
    networks: SpeakerNetworks, change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    features = {
        name: np.array(value)
        for name, value in networks.tensors_of(networks.builtin["alder"].features).items()
    }
    change(features)

    with pytest.raises(ValueError, match=reason):
        networks.features_from(features)


@pytest.mark.anyio
async def test_a_bundle_with_a_foreign_token_is_refused(
    tmp_path: Path, networks: SpeakerNetworks, speech: NDArray[np.float32]
) -> None:
    store = await asyncio.to_thread(SpeakerStore, tmp_path / "speakers.sqlite")
    async with SpeakerRegistry(store, networks, max_cache_bytes=1 << 30) as registry:
        await registry.enrol("mia", wav(speech))
        tensors, metadata = unpack(await registry.export("mia"))
        tensors["prompt_tokens"][0] = 100_000

        with pytest.raises(InvalidRequest, match="speech token 100000"):
            await registry.import_bundle(pack(tensors, metadata), "eva")


def test_a_transcript_can_be_changed_without_computing_again(networks: SpeakerNetworks) -> None:
    features = replace(networks.builtin["alder"].features, prompt_text_ids=None)
    prepared = networks.with_prompt_state(features, "")

    changed_one = networks.with_transcript(prepared, "Hello.")

    assert (prepared.transcript, changed_one.transcript) == ("", "Hello.")
    assert changed_one.prompt_state is prepared.prompt_state
    assert prepared.features.prompt_text_ids == ()
    anew = networks.with_prompt_state(features, "Hello.")
    assert changed_one.features.prompt_text_ids == anew.features.prompt_text_ids != ()
