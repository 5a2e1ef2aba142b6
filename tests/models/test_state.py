"""A network reports the layout of its state, and runs wherever the names of it are bound."""

from copy import deepcopy

import pytest
import torch

from firstword.models.config import NUM_MELS
from firstword.models.flow.batched_cache import BatchedCache
from firstword.models.flow.kv_cache import CacheWindow, PromptCache, RingKVCache
from firstword.models.flow.state import ChunkState, estimator_layout, front_layouts
from firstword.models.flow.unet import CausalUNet
from firstword.models.hift.streaming import CausalVocoder, MelChunk, generator_layout
from firstword.models.onnx_graphs.graph import float32
from firstword.models.runtimes.onnx.estimator import dit_estimator, unet_estimator
from firstword.models.runtimes.torch.cuda_graphs.estimator import ChunkPosition, EstimatorStep
from tests.models.networks import FLOWS, small_flow, small_hift

FRAMES = 50


@pytest.mark.parametrize("kind", FLOWS)
@torch.inference_mode()
def test_the_layout_of_an_estimator_is_what_its_cache_holds(kind: str) -> None:
    estimator = small_flow(kind).estimator
    layout = estimator_layout(estimator)
    cache = RingKVCache(CacheWindow(FRAMES), PromptCache())
    mel, speaker = torch.randn(2, NUM_MELS, FRAMES), torch.randn(2, NUM_MELS)
    estimator(mel, mel, torch.full((2,), 0.3), speaker, mel, BatchedCache([cache], [FRAMES], 2))
    cache.commit()
    stored, _ = cache.stored_buffers()
    held = {f"left_{index}": left for (_, index), left in cache.conv_state.left.items()}
    for (_, layer), (buffer,) in stored.items():
        held |= {f"{name}_{layer}": tensor for name, tensor in buffer.tensors.items()}
    assert {name: tuple(tensor.shape) for name, tensor in held.items()} == {
        one.name: one.sized(2, FRAMES) for one in layout.tensors
    }
    [stream] = BatchedCache([cache], [FRAMES], 2).streams()
    state = ChunkState(stream, layout, torch.empty(0))
    assert state.start == FRAMES
    for name, tensor in held.items():
        part = state.tensors[name].narrow(
            layout.by_name[name].time_dim, 0, tensor.shape[layout.by_name[name].time_dim]
        )
        assert torch.equal(part, tensor)


@pytest.mark.parametrize("kind", FLOWS)
def test_a_graph_s_state_is_that_of_the_network(kind: str) -> None:
    """But for its left contexts, which always have their frames first."""
    estimator = small_flow(kind).estimator
    graph = (unet_estimator if isinstance(estimator, CausalUNet) else dit_estimator)(
        estimator, float32, "float32"
    )
    ours, theirs = estimator_layout(estimator), graph.state.layout
    assert ours.by_name.keys() == theirs.by_name.keys()
    assert ours.attentions == theirs.attentions
    assert ours.fixed_values == theirs.fixed_values
    assert all(one.time_dim == 1 for one in theirs.left)


def test_a_front_has_two_rates_and_its_layers_share_their_positions() -> None:
    flow = small_flow("unet")
    tokens, frames = front_layouts(flow.front, flow.config.lookahead_tokens)
    for layout in (tokens, frames):
        assert [one.kind for one in layout.tensors].count("positions") == 1
        assert [one.shape[0] for one in layout.left] != []
    assert [one.kind for one in front_layouts(small_flow("dit").front, 3)[1].tensors] == []


@torch.inference_mode()
def test_the_layout_of_a_causal_generator_is_what_its_vocoder_keeps() -> None:
    hift = small_hift(is_causal=True)
    vocoder = CausalVocoder(hift)
    [(_, state)] = vocoder.step([MelChunk(vocoder.start(0), torch.randn(NUM_MELS, 9), is_last=False)])
    kept = {index: tuple(left.shape) for index, left in state.generator_left.items()}
    assert kept == {one.index: one.shape for one in generator_layout(hift.generator).left}


@pytest.mark.parametrize("kind", FLOWS)
@torch.inference_mode()
def test_names_may_be_bound_to_one_memory_of_all_layers(kind: str) -> None:
    """As slots that streams share: the attentions of a network in one tensor."""
    estimator = small_flow(kind).estimator
    layout = estimator_layout(estimator)
    own = layout.zeros(2, 2 * FRAMES, torch.empty(0))
    heads, size = layout.attentions[0]
    pool = torch.zeros(2, len(layout.attentions), 2, heads, 2 * FRAMES, size)
    pooled = deepcopy(own)
    for layer in layout.attentions:
        pooled |= {f"keys_{layer}": pool[0, layer], f"values_{layer}": pool[1, layer]}
    x, mu, cond = torch.randn(3, 2, NUM_MELS, FRAMES)
    spks, t, zero = torch.randn(2, NUM_MELS), torch.full((2,), 0.3), torch.zeros(2, dtype=torch.long)
    place = ChunkPosition(zero, zero, (torch.arange(2 * FRAMES) < FRAMES).expand(2, -1))
    made = [EstimatorStep(estimator, state)(x, mu, t, spks, cond, place) for state in (own, pooled)]
    torch.testing.assert_close(made[0], made[1], atol=1e-6, rtol=1e-5)
    assert torch.equal(pool[0, 0], own["keys_0"])
