"""Every part of a checkpoint together: a recording becomes a speaker, text becomes samples."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from firstword.models.checkpoint.open import Checkpoint, open_checkpoint
from firstword.models.config import Family
from firstword.models.frontend.modes import ModelInput, cross_lingual, zero_shot
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.lm.decoder import Emitted, RowRequest, SpeechDecoder, Stopped
from firstword.models.lm.plan import BistreamPlan, OfflinePlan, Plan, Vocabulary
from firstword.models.token2wav import CosyVoice1Token2Wav, Token2Wav
from firstword.models.token2wav_step import StepInput
from tests.support.checkpoints import FAMILIES, small_checkpoint

TEXT = "hello world, this is my voice."


def recording(seconds: float = 3.0, sample_rate_hz: int = 24_000) -> npt.NDArray[np.float32]:
    """Something voiced, with noise: (N,)."""
    time = np.arange(int(seconds * sample_rate_hz)) / sample_rate_hz
    tone = sum(np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 12))
    return (0.1 * tone + 0.01 * np.random.default_rng(0).standard_normal(len(time))).astype(np.float32)


def generate(checkpoint: Checkpoint, plan: Plan, given: ModelInput, seed: int) -> Iterator[int]:
    decoder = SpeechDecoder(checkpoint.load_lm(), checkpoint.config.lm.sampling)
    decoder.add(RowRequest(plan, seed, speaker=given.lm_embedding))
    while True:
        for event in decoder.step():
            if isinstance(event, Emitted):
                yield event.speech_id
            elif isinstance(event, Stopped):
                return


def offline_plan(checkpoint: Checkpoint, given: ModelInput) -> OfflinePlan:
    vocabulary = Vocabulary.of(checkpoint.config.lm)
    prompt = given.lm_prompt_tokens.tolist()
    prompt_text = given.prefix_text_ids + given.prompt_text_ids
    return OfflinePlan(vocabulary, given.text_ids, prompt_text, prompt)


def sound(
    checkpoint: Checkpoint, speaker: SpeakerFeatures, tokens: Sequence[int], hop: int, seed: int = 0
) -> Tensor:
    flow, hift = checkpoint.load_flow(), checkpoint.load_hift()
    session = (CosyVoice1Token2Wav if checkpoint.config.family == "cosyvoice1" else Token2Wav)(flow, hift)  # type: ignore[arg-type]
    state = session.start(session.compute_prompt_state(speaker), seed)  # type: ignore[arg-type]
    places = range(0, len(tokens), hop)
    return torch.cat(
        [session.step([StepInput(state, tokens[i : i + hop], i == places[-1])])[0] for i in places]  # type: ignore[list-item]
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_recording_and_text_become_samples(family: Family) -> None:
    checkpoint = open_checkpoint(small_checkpoint(family))
    tokenizer = checkpoint.load_tokenizer()
    speaker = checkpoint.load_prompt_reader(num_threads=1).read_speaker(recording(), 24_000, TEXT)
    given = zero_shot(family, speaker, tokenizer.encode("a test"), tokenizer)
    plan = offline_plan(checkpoint, given)
    tokens = list(generate(checkpoint, plan, given, seed=1))
    assert tokens == list(generate(checkpoint, offline_plan(checkpoint, given), given, seed=1))
    assert tokens != list(generate(checkpoint, offline_plan(checkpoint, given), given, seed=2))
    assert 2 * len(given.text_ids) <= len(tokens) <= 20 * len(given.text_ids)
    samples = sound(checkpoint, speaker, tokens, hop=25)
    assert torch.isfinite(samples).all()
    assert float(samples.abs().max()) <= 0.99
    assert float(samples.std()) > 0
    seconds = len(tokens) / checkpoint.config.token_rate_hz
    assert len(samples) / checkpoint.config.sample_rate_hz == pytest.approx(seconds, abs=0.1)
    if family != "cosyvoice1":
        assert len(samples) == 960 * len(tokens)


@pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])
def test_text_arriving_in_pieces_becomes_samples(family: Family) -> None:
    checkpoint = open_checkpoint(small_checkpoint(family))
    tokenizer = checkpoint.load_tokenizer()
    speaker = checkpoint.load_speakers()["random-prompt"]
    given = zero_shot(family, speaker, (), tokenizer)
    plan = BistreamPlan(
        Vocabulary.of(checkpoint.config.lm),
        given.prompt_text_ids,
        given.lm_prompt_tokens.tolist(),
        given.prefix_text_ids,
        mix_ratio=checkpoint.config.lm.mix_ratio,
    )
    decoder = SpeechDecoder(checkpoint.load_lm(), checkpoint.config.lm.sampling)
    decoder.add(RowRequest(plan, seed=3))
    pieces = iter([tokenizer.encode(word) for word in ("hello ", "my ", "dear")])
    tokens: list[int] = []
    for _ in range(1000):
        events = decoder.step()
        tokens += [event.speech_id for event in events if isinstance(event, Emitted)]
        if any(isinstance(event, Stopped) for event in events):
            break
        if not any(isinstance(event, Emitted) for event in events):
            piece = next(pieces, None)
            plan.finish_text() if piece is None else plan.push_text(piece)
    assert not decoder.rows
    assert tokens
    assert len(sound(checkpoint, speaker, tokens, hop=40)) == 960 * len(tokens)


def test_speaker_without_a_prompt_speaks() -> None:
    checkpoint = open_checkpoint(small_checkpoint("cosyvoice2"))
    speaker = checkpoint.load_speakers()["random-embedding"]
    assert not speaker.has_prompt
    assert len(sound(checkpoint, speaker, list(range(40)), hop=13)) == 960 * 40


def test_cross_lingual_leaves_the_prompt_to_the_flow() -> None:
    checkpoint = open_checkpoint(small_checkpoint("cosyvoice3"))
    tokenizer = checkpoint.load_tokenizer()
    speaker = checkpoint.load_speakers()["random-prompt"]
    given = cross_lingual("cosyvoice3", speaker, tokenizer.encode("hello"), tokenizer)
    assert not len(given.lm_prompt_tokens)
    assert list(generate(checkpoint, offline_plan(checkpoint, given), given, seed=1))
