"""Streaming through CosyVoice 1's flow and vocoder."""

from functools import cache

import pytest
import torch

from firstword.models.config import CFMConfig, ConformerConfig, CosyVoice1FlowConfig, HiFTConfig, UNetConfig
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.hift.hift import HiFT
from firstword.models.hift.streaming import WindowedVocoder
from firstword.models.token2wav import CosyVoice1Token2Wav
from firstword.models.token2wav_step import StepInput
from tests.models.networks import VOCAB_SIZE, random_ids


@cache
def session() -> CosyVoice1Token2Wav:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        encoder = ConformerConfig(64, 64, 4, 128, 2)
        flow = CosyVoice1Flow(
            CosyVoice1FlowConfig(VOCAB_SIZE, encoder, UNetConfig(320, 80, (32, 32), 16, 1, 2, 2), CFMConfig())
        )
        hift = HiFT(
            HiFTConfig(
                sample_rate_hz=22_050,
                base_channels=32,
                upsample_rates=(8, 8),
                upsample_kernel_sizes=(16, 16),
                resblock_kernel_sizes=(3, 7, 11),
                resblock_dilation_sizes=((1, 3, 5),) * 3,
                source_resblock_kernel_sizes=(7, 11),
                source_resblock_dilation_sizes=((1, 3, 5),) * 2,
                f0_channels=32,
                is_causal=False,
            )
        )
    return CosyVoice1Token2Wav(flow.eval(), hift.eval())


def speaker(num_tokens: int = 40) -> SpeakerFeatures:
    generator = torch.Generator().manual_seed(1)
    mel = torch.randn(round(num_tokens * 1.72), 80, generator=generator)
    return SpeakerFeatures(
        "", torch.tensor(random_ids(1, num_tokens)), mel, torch.randn(192, generator=generator)
    )


def speak(pieces: list[list[int]], seed: int = 0) -> torch.Tensor:
    state = session().start(session().compute_prompt_state(speaker()), seed)
    last = len(pieces) - 1
    steps = [session().step([StepInput(state, piece, i == last)])[0] for i, piece in enumerate(pieces)]
    assert state.is_finished
    return torch.cat(steps)


@pytest.mark.parametrize("sizes", [[1], [19, 1], [70, 50, 50, 7], [70, 50, 20], [300], [650]])
def test_stream_speaks_all_its_tokens(sizes: list[int]) -> None:
    samples = speak([random_ids(i, size) for i, size in enumerate(sizes)])
    seconds = sum(sizes) / 50
    assert torch.isfinite(samples).all()
    assert len(samples) % 256 == 0
    assert len(samples) / 22_050 == pytest.approx(seconds, abs=0.012 * (2 + sum(sizes) // 50))


def test_prompt_is_heard_through_the_vocoder_the_same_each_time() -> None:
    prompt = speaker()
    samples = session().vocode_prompt(prompt)
    assert len(samples) == len(prompt.prompt_mel) * 256
    assert torch.equal(samples, session().vocode_prompt(prompt))
    assert len(session().vocode_prompt(SpeakerFeatures.without_prompt(prompt.embedding))) == 0


def test_audio_starts_after_the_first_hop_its_overlap_and_one_more() -> None:
    state = session().start(session().compute_prompt_state(speaker()))
    assert session().tokens_wanted(state) == 71
    assert len(session().step([StepInput(state, random_ids(1, 70), False)])[0]) == 0
    assert len(session().step([StepInput(state, [1], False)])[0]) > 0


@pytest.mark.parametrize("sizes", [[70, 50, 50], [90, 80], [1] * 170, [170]])
def test_audio_does_not_depend_on_how_the_tokens_came(sizes: list[int]) -> None:
    tokens, pieces = random_ids(9, 170), []
    for size in sizes:
        pieces.append(tokens[:size])
        tokens = tokens[size:]
    assert torch.equal(speak(pieces), speak([random_ids(9, 170)]))


def test_overtones_start_at_random_phases_of_the_seed() -> None:
    vocoder = WindowedVocoder(session()._vocoder.hift)
    one, same, other = (vocoder.start(seed).carry for seed in (1, 1, 2))
    assert one is not None
    assert same is not None
    assert other is not None
    assert torch.equal(one, same)
    assert float(one[0]) == 0.0
    assert not torch.equal(one[1:], other[1:])
    assert float(one.abs().max()) <= 0.5


def test_same_seed_gives_the_same_audio_and_neighbours_do_not_matter() -> None:
    pieces = [random_ids(1, 70), random_ids(2, 60)]
    alone = speak(pieces, seed=4)
    assert torch.equal(alone, speak(pieces, seed=4))
    assert not torch.equal(alone, speak(pieces, seed=5))
    prompt = session().compute_prompt_state(speaker())
    states = [session().start(prompt, seed) for seed in (3, 4)]
    batch = [
        session().step([StepInput(state, piece, i == 1) for state in states])
        for i, piece in enumerate(pieces)
    ]
    torch.testing.assert_close(torch.cat([step[1] for step in batch]), alone, atol=1e-4, rtol=0)


def test_memory_of_a_stream_does_not_grow() -> None:
    state = session().start(session().compute_prompt_state(speaker()))
    sizes = []
    for second in range(5):
        session().step([StepInput(state, random_ids(second, 71 if second == 0 else 50), False)])
        sizes.append(state.state_bytes)
    assert len(set(sizes[1:])) == 1


def test_wrong_input_is_refused() -> None:
    state = session().start(session().compute_prompt_state(speaker()))
    with pytest.raises(ValueError, match="twice in the batch"):
        session().step([StepInput(state, [1], False), StepInput(state, [2], False)])
    with pytest.raises(ValueError, match="hop_tokens is 0"):
        CosyVoice1Token2Wav(session()._flow, session()._vocoder.hift, hop_tokens=0)
    with pytest.raises(ValueError, match="speech token 120"):
        session().step([StepInput(state, [120], False)])
    session().step([StepInput(state, [1], True)])
    with pytest.raises(ValueError, match="last tokens"):
        session().step([StepInput(state, [1], True)])


def test_a_stream_that_leaves_the_prompt_out_is_one_of_the_embedding_alone() -> None:
    prompted = session().compute_prompt_state(speaker())
    bare = session().compute_prompt_state(SpeakerFeatures.without_prompt(speaker().embedding))
    streams = [
        session().start(prompted, 5, uses_prompt=False),
        session().start(bare, 5),
        session().start(prompted, 5),
    ]
    tokens = random_ids(2, 60)
    without, alone, continued = (session().step([StepInput(state, tokens, True)])[0] for state in streams)
    assert without.equal(alone)
    assert not without.equal(continued)


def test_full_context_solves_all_tokens_at_once() -> None:
    prompt = session().compute_prompt_state(speaker())
    tokens = random_ids(9, 170)
    state = session().start(prompt, 0, has_full_context=True)
    assert session().tokens_wanted(state) > len(tokens)
    assert len(session().step([StepInput(state, tokens[:160], False)])[0]) == 0
    (whole,) = session().step([StepInput(state, tokens[160:], True)])
    assert len(whole) / 22_050 == pytest.approx(170 / 50, abs=0.012)
