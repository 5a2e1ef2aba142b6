"""The flow's estimator and the vocoder's generator by TensorRT, in the places of torch's own.

What no engine's profile holds, such as the longest prompts, runs in the torch network, which stays loaded.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.models.flow.batched_cache import BatchedCache
from firstword.models.flow.dit import DiT
from firstword.models.flow.kv_cache import RingKVCache
from firstword.models.flow.state import ChunkState, estimator_layout
from firstword.models.hift.hift import Generator
from firstword.models.hift.streaming import BatchedConvState, generator_layout
from firstword.models.layers import ConvContext, FullContext
from firstword.models.onnx_graphs.estimator import STACKED, estimator_times
from firstword.models.onnx_graphs.standard import HIDDEN
from firstword.models.runtimes.tensorrt.contexts import Engine
from firstword.models.runtimes.tensorrt.graphs import Estimator
from firstword.models.state import StateTensor


class TensorRTEstimator:
    """Runs an estimator's engines; the streams of a batch together. Threads may share it.

    times: of the solver's steps; it can be called for no others. chunk, whole: engines of `estimator_chunk`
    and `estimator`.
    """

    cache_class = RingKVCache

    def __init__(self, estimator: Estimator, times: Iterable[float], chunk: Engine, whole: Engine):
        self._estimator, self._chunk, self._whole = estimator, chunk, whole
        steps = list(times)
        self._times = torch.stack([estimator_times(estimator, t) for t in steps])  # (steps, parts, C)
        self._steps = torch.tensor(steps, device=self._times.device)
        self._layout = estimator_layout(estimator)

    def __call__(
        self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, context: BatchedCache
    ) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M) -> velocity (B, M, T)."""
        streams = context.streams()
        given = {"x": x, "mu": mu, "t": t, "spks": spks, "cond": cond}
        if streams[0].cache.chunk_frames != self._estimator.config.chunk:  # an utterance at once
            inputs = {**given, "mask": x.new_ones(len(x), 1, x.shape[-1])}
            if not self._whole.fits(inputs):
                return self._estimator(**given, context=context)
            velocity = torch.empty_like(x, memory_format=torch.contiguous_format)
            self._whole.run(inputs, {"estimator_out": velocity})
            return velocity
        states = [ChunkState(stream, self._layout, x) for stream in streams]
        inputs = self._chunk_inputs(given, states, context)
        if not self._chunk.fits(inputs):
            return self._estimator(**given, context=context)
        outputs = self._chunk_outputs(inputs)
        self._chunk.run(inputs, outputs)
        for state in states:
            # A chunk shorter than others' is its stream's last: what is left of convolutions is of no use.
            state.commit({one.name: self._made(one, outputs, state) for one in self._layout.tensors})
        return outputs["velocity"].mT

    def _chunk_inputs(
        self, given: Mapping[str, Tensor], states: Sequence[ChunkState], context: BatchedCache
    ) -> dict[str, Tensor]:
        x = given["x"]
        rows, _, length = x.shape
        parts = {**given, "spks": given["spks"][:, :, None].expand_as(x)}
        h = torch.cat([parts[name] for name in STACKED[type(self._estimator)]], dim=1).mT  # (G, T, 4 M)
        index = (self._steps == given["t"][0]).long().argmax()  # on the device: reading t would wait for it
        past = max(state.num_frames for state in states)
        past_mask, own_mask = x.new_full((rows, past), HIDDEN), x.new_zeros(rows, length)
        for state in states:
            for first, stop in state.visible:
                past_mask[state.rows, first:stop] = 0
            own = slice(state.start, state.start + self._estimator.config.chunk)
            past_mask[state.rows, own] = HIDDEN  # the chunk itself
            own_mask[state.rows, state.length :] = HIDDEN
        inputs = {
            "h": h,
            "times": self._times.index_select(0, index[None])[0],
            "past_mask": past_mask,
            "own_mask": own_mask,
        }
        if isinstance(self._estimator, DiT):
            inputs["positions"] = context.positions(length, x.device)
        for one in self._layout.tensors:
            parts_of_one = [state.tensors[one.name] for state in states]
            if one.grows:
                parts_of_one = [_padded(part, past) for part in parts_of_one]
            joined = parts_of_one[0] if len(parts_of_one) == 1 else torch.cat(parts_of_one)
            inputs[one.name] = joined if one.grows else _frames_first(one, joined)
        return inputs

    def _chunk_outputs(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        h = inputs["h"]
        rows, length, width = h.shape
        outputs = {"velocity": h.new_empty(rows, length, width // 4)}
        for one in self._layout.tensors:
            if one.grows:
                outputs[f"new_{one.name}"] = h.new_empty(one.sized(rows, length))
            else:
                outputs[f"next_{one.name}"] = torch.empty_like(
                    inputs[one.name], memory_format=torch.contiguous_format
                )
        return outputs

    def _made(self, one: StateTensor, outputs: Mapping[str, Tensor], state: ChunkState) -> Tensor:
        """What the run made of a stream's tensor, as torch has it."""
        if one.grows:
            return outputs[f"new_{one.name}"][state.rows, :, : state.length]
        return _frames_first(one, outputs[f"next_{one.name}"][state.rows])


def _frames_first(one: StateTensor, left: Tensor) -> Tensor:
    """A left context of torch's layout as the engine has it, (G, frames, C), or the other way."""
    return left if one.time_dim == 1 else left.mT


def _padded(values: Tensor, frames: int) -> Tensor:
    missing = frames - values.shape[2]
    return F.pad(values, (0, 0, 0, missing)) if missing else values


@dataclass(frozen=True, slots=True, eq=False)
class TensorRTGenerator:
    """Runs the generator of CosyVoice 1 and 2, as a `firstword.models.hift.hift.Generate`."""

    generator: Generator
    engine: Engine

    def __call__(
        self, mel: Tensor, source_spectrum: Tensor, context: ConvContext, is_start: bool = True
    ) -> Tensor:
        """mel (B, M, T), source_spectrum (B, n_fft + 2, U T + 1) -> spectrum of the same shape, float32."""
        inputs = {"mel": mel, "source": source_spectrum}
        if not self.engine.fits(inputs):
            return self.generator(mel, source_spectrum, FullContext())
        spectrum = source_spectrum.new_empty(source_spectrum.shape, dtype=torch.float32)
        self.engine.run(inputs, {"spectrum": spectrum})
        return spectrum


class TensorRTCausalGenerator:
    """Runs the generator of CosyVoice 3, as a `firstword.models.hift.hift.Generate`."""

    def __init__(self, generator: Generator, start: Engine, following: Engine):
        self._generator, self._start, self._following = generator, start, following
        self._left = {one.index: one.shape for one in generator_layout(generator).left}

    def __call__(
        self, mel: Tensor, source_spectrum: Tensor, context: ConvContext, is_start: bool = True
    ) -> Tensor:
        """As `Generator.forward`."""
        assert isinstance(context, BatchedConvState), context
        engine = self._start if is_start else self._following
        inputs = {"mel": mel, "source": source_spectrum}
        if not is_start:
            inputs |= {f"left_{index}": context.left(index) for index in self._left}
        if not engine.fits(inputs):
            return self._generator(mel, source_spectrum, context, is_start)
        spectrum = source_spectrum.new_empty(source_spectrum.shape, dtype=torch.float32)
        next_left = {index: mel.new_empty(len(mel), *sizes) for index, sizes in self._left.items()}
        named = {f"next_left_{index}": left for index, left in next_left.items()}
        engine.run(inputs, {"spectrum": spectrum, **named})
        for index, left in next_left.items():
            context.keep(index, left)
        return spectrum
