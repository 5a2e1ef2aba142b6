"""The flow's estimator and the vocoder's generator by TensorRT, in the places of torch's own.

What no engine's profile holds, such as the longest prompts, runs in the torch network, which stays loaded.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.models.flow.batched_cache import BatchedCache, StreamChunk
from firstword.models.flow.kv_cache import KeyValues, RingKVCache
from firstword.models.flow.unet import CausalUNet
from firstword.models.hift.hift import Conv, Generator, SourceDown
from firstword.models.hift.streaming import BatchedConvState
from firstword.models.layers import ConvContext, FullContext
from firstword.models.onnx_graphs.estimator import STACKED, estimator_times
from firstword.models.onnx_graphs.standard import HIDDEN
from firstword.models.runtimes.tensorrt.contexts import Engine
from firstword.models.runtimes.tensorrt.graphs import Estimator, conv_shapes


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
        self._shapes = conv_shapes(estimator)
        self._time_dim = 1 if isinstance(estimator, CausalUNet) else 2  # of the convolutions' state in torch

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
        buffers = [self._buffers(stream) for stream in streams]
        inputs = self._chunk_inputs(given, streams, buffers, context)
        if not self._chunk.fits(inputs):
            return self._estimator(**given, context=context)
        outputs = self._chunk_outputs(inputs)
        self._chunk.run(inputs, outputs)
        for stream, layers in zip(streams, buffers, strict=True):
            self._keep(stream, layers, outputs)
        return outputs["velocity"].mT

    def _buffers(self, stream: StreamChunk) -> list[KeyValues]:
        """Of each layer: keys and values of the prompt and the ring, with the chunk's own place in it."""
        config, rows = self._estimator.config, stream.rows.stop - stream.rows.start
        sizes = (rows, config.num_heads, config.head_dim)
        layers = range(self._estimator.num_layers)
        return [stream.cache.buffers((stream.step, layer), sizes)[0] for layer in layers]

    def _chunk_inputs(
        self,
        given: Mapping[str, Tensor],
        streams: Sequence[StreamChunk],
        buffers: Sequence[list[KeyValues]],
        context: BatchedCache,
    ) -> dict[str, Tensor]:
        x = given["x"]
        rows, _, length = x.shape
        parts = {**given, "spks": given["spks"][:, :, None].expand_as(x)}
        h = torch.cat([parts[name] for name in STACKED[type(self._estimator)]], dim=1).mT  # (G, T, 4 M)
        index = (self._steps == given["t"][0]).long().argmax()  # on the device: reading t would wait for it
        past = max(layers[0].num_frames for layers in buffers)
        past_mask, own_mask = x.new_full((rows, past), HIDDEN), x.new_zeros(rows, length)
        for stream in streams:
            _, start = stream.cache.current
            for _, first, stop in stream.cache.visible(stream.length):
                past_mask[stream.rows, first:stop] = 0
            past_mask[stream.rows, start : start + stream.cache.chunk_frames] = HIDDEN  # the chunk itself
            own_mask[stream.rows, stream.length :] = HIDDEN
        inputs = {
            "h": h,
            "times": self._times.index_select(0, index[None])[0],
            "past_mask": past_mask,
            "own_mask": own_mask,
        }
        if self._time_dim == 2:
            inputs["positions"] = context.positions(length, x.device)
        for conv, (frames, channels) in self._shapes.items():
            inputs[f"left_{conv}"] = torch.cat(
                [self._left(stream, conv, frames, channels, x) for stream in streams]
            )
        for layer in range(self._estimator.num_layers):
            for name in ("keys", "values"):
                seen = [_padded(getattr(layers[layer], name), past) for layers in buffers]
                inputs[f"{name}_{layer}"] = seen[0] if len(seen) == 1 else torch.cat(seen)
        return inputs

    def _left(self, stream: StreamChunk, conv: int, frames: int, channels: int, like: Tensor) -> Tensor:
        """(G, frames, C)."""
        rows, dim = stream.rows.stop - stream.rows.start, self._time_dim
        empty = like.new_empty((rows, 0, channels) if dim == 1 else (rows, channels, 0))
        left = stream.cache.conv_state.left_of((stream.step, conv), empty, frames, dim)
        return left if dim == 1 else left.mT

    def _chunk_outputs(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        h, config = inputs["h"], self._estimator.config
        rows, length, width = h.shape
        outputs = {"velocity": h.new_empty(rows, length, width // 4)}
        for conv, (frames, channels) in self._shapes.items():
            outputs[f"next_left_{conv}"] = h.new_empty(rows, frames, channels)
        for layer in range(self._estimator.num_layers):
            for name in ("keys", "values"):
                shape = (rows, config.num_heads, length, config.head_dim)
                outputs[f"new_{name}_{layer}"] = h.new_empty(shape)
        return outputs

    def _keep(self, stream: StreamChunk, buffers: Sequence[KeyValues], outputs: Mapping[str, Tensor]) -> None:
        """Of a stream whose chunk is shorter than others', what is left is of no use: it was its last."""
        _, start = stream.cache.current
        for conv in self._shapes:
            left = outputs[f"next_left_{conv}"][stream.rows]
            as_in_torch = left if self._time_dim == 1 else left.mT
            stream.cache.conv_state.keep((stream.step, conv), as_in_torch)
        for layer, key_values in enumerate(buffers):
            chunk = slice(start, start + stream.length)
            for name in ("keys", "values"):
                made = outputs[f"new_{name}_{layer}"][stream.rows, :, : stream.length]
                getattr(key_values, name)[:, :, chunk] = made
            stream.cache.commit_layer((stream.step, layer))


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
        self._left: dict[int, tuple[int, int]] = {}  # channels and frames, by convolution
        for part in generator.modules():
            if isinstance(part, Conv):
                self._left[part.index] = part.in_channels, part.dilation[0] * (part.kernel_size[0] - 1)
            elif isinstance(part, SourceDown) and part.stride[0] > 1:
                self._left[part.index] = part.in_channels, part.stride[0]

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
