"""Speakers of CosyVoice 1, whose prompts have no whole number of mel frames for each token."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firstword.app.speakers.enrolment import Enrolment, SpeakerNetworks
from firstword.app.speakers.store import SpeakerStore
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.token2wav import CosyVoice1Token2Wav
from tests.speakers.recordings import RATE_HZ, voice
from tests.support.checkpoints import small_checkpoint

NUM_TOKENS, NUM_FRAMES = 1450, 2497  # of 29 s


@pytest.fixture(scope="module")
def networks() -> SpeakerNetworks:
    checkpoint = open_checkpoint(small_checkpoint("cosyvoice1"))
    token2wav = CosyVoice1Token2Wav(checkpoint.load_flow(), checkpoint.load_hift())
    return SpeakerNetworks(checkpoint, checkpoint.load_tokenizer(), token2wav)


def read(networks: SpeakerNetworks, duration_s: float) -> SpeakerFeatures:
    """With an embedding such as trained networks give."""
    features = networks.read_features(voice(duration_s), RATE_HZ)
    return replace(features, embedding=features.embedding / features.embedding.abs().max())


def test_what_a_recording_gives_is_read_back(networks: SpeakerNetworks) -> None:
    features = read(networks, 29.0)
    assert (len(features.prompt_tokens), len(features.prompt_mel)) == (NUM_TOKENS, NUM_FRAMES)
    tensors = networks.tensors_of(features)
    assert networks.features_from(tensors).prompt_mel.equal(features.prompt_mel)
    for num_frames in (0, 2 * NUM_TOKENS, NUM_FRAMES - 20):
        mel = np.zeros((num_frames, 80), np.float32)
        with pytest.raises(ValueError, match="prompt_mel"):
            networks.features_from({**tensors, "prompt_mel": mel})


def test_a_bundle_is_read_where_it_was_written(networks: SpeakerNetworks) -> None:
    speaker = networks.with_prompt_state(read(networks, 2.0), "What it says.")
    again = networks.prepared_from(networks.bundle_of(speaker, "ann"))
    assert again.features.prompt_mel.equal(speaker.features.prompt_mel)
    assert again.features.prompt_tokens.equal(speaker.features.prompt_tokens)


def test_a_built_in_speaker_is_exported_with_its_whole_prompt(
    tmp_path: Path, networks: SpeakerNetworks, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, builtin = next(iter(networks.builtin.items()))
    features = read(networks, 2.0)
    monkeypatch.setitem(networks.builtin, name, replace(builtin, features=features))  # type: ignore[arg-type]
    enrolment = Enrolment(SpeakerStore(tmp_path / "speakers.sqlite"), networks)
    again = networks.prepared_from(enrolment.export_builtin(name))
    assert again.features.prompt_tokens.equal(features.prompt_tokens)
