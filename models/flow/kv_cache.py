"""What one stream keeps of its finished chunks for one network: keys, values and convolution inputs.

In streaming mode every mask is causal by chunks, so keys, values and left contexts of a finished chunk never
change: a chunk is solved once. A prompt's part is read-only and shared by all streams of its speaker. A
stream's own part is a ring of the last `window_chunks` chunks and the current one, behind the one or two
chunks that hold the rest of the prompt (pinned). Attention does not depend on the order of its keys, so
nothing in a ring is ever moved.

`ChunkKVCache` has two implementations: `PagedKVCache` shares the prompt and takes memory in pages;
`RingKVCache` keeps each layer's keys and values in one buffer, which an ONNX graph writes in place, and so
does `Int8RingKVCache` in 8 bits.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar

import torch
from torch import Tensor

CacheSlot = tuple[int, int]
"""Solver step (0 for a network that runs once a chunk), and index of an attention or convolution."""

Span = tuple[int, int, int]
"""A buffer's index, and the first and last frame (exclusive) within it."""


@dataclass(frozen=True, slots=True)
class KeyValues:
    """Keys and values of one attention: (G, H, frames, D) each.

    In 8 bits with what each frame's are multiplied by: (G, H, frames, 1) each, float32.
    """

    keys: Tensor
    values: Tensor
    key_scales: Tensor | None = None
    value_scales: Tensor | None = None

    @property
    def tensors(self) -> dict[str, Tensor]:
        """By name, those that there are."""
        named = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: tensor for name, tensor in named.items() if tensor is not None}

    @property
    def num_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors.values())

    @property
    def num_frames(self) -> int:
        return self.keys.shape[2]

    def part(self, start: int, stop: int) -> "KeyValues":
        return KeyValues(**{name: tensor[:, :, start:stop] for name, tensor in self.tensors.items()})


@dataclass(frozen=True, slots=True)
class PromptCache:
    """The finished chunks of a speaker's prompt; never written to again."""

    num_chunks: int = 0
    key_values: Mapping[CacheSlot, KeyValues] = field(default_factory=dict)
    conv_left: Mapping[CacheSlot, Tensor] = field(default_factory=dict)
    positions: Tensor | None = None  # (frames, W), the keys' sinusoids; None: no relative positions

    @property
    def num_bytes(self) -> int:
        table = 0 if self.positions is None else self.positions.nbytes
        layers = sum(layer.num_bytes for layer in self.key_values.values())
        return layers + table + sum(left.nbytes for left in self.conv_left.values())


class ConvState:
    """The frames before the current chunk at each causal convolution of one network."""

    def __init__(self, left: Mapping[CacheSlot, Tensor]):
        self.left: Mapping[CacheSlot, Tensor] = left
        self._next: dict[CacheSlot, Tensor] = {}
        self._is_shared = True

    @property
    def num_bytes(self) -> int:
        """Bytes of this stream alone: before its first chunk it shares its prompt's."""
        return 0 if self._is_shared else sum(left.nbytes for left in self.left.values())

    def left_of(self, slot: CacheSlot, like: Tensor, frames: int, dim: int) -> Tensor:
        """The `frames` before the current chunk along `dim`; zeros of the shape of `like` at the start."""
        if self.left:
            return self.left[slot]
        shape = list(like.shape)
        shape[dim] = frames
        return like.new_zeros(shape)

    def keep(self, slot: CacheSlot, left: Tensor) -> None:
        """Keep a copy of `left` for the next chunk, from `commit` on."""
        self._next[slot] = left.clone()

    def commit(self) -> None:
        assert not self.left or self._next.keys() == self.left.keys(), "other convolutions ran than before"
        self.left, self._next, self._is_shared = self._next, {}, False


@dataclass(frozen=True, slots=True)
class CacheWindow:
    """Which chunks of a stream stay visible.

    window_chunks: own finished chunks behind the current one; None: all. pinned_chunks: the first own chunks,
    which hold the prompt's rest and stay visible too.
    """

    chunk_frames: int
    window_chunks: int | None = None
    pinned_chunks: int = 0


class ChunkRing(ABC):
    """Which of its chunks a stream keeps. The current one is finished by `commit`: until then it can be
    computed again, so a failed batch leaves nothing behind.
    """

    copies_prompt: ClassVar[bool]  # each stream has a copy of its prompt's keys and values

    def __init__(self, window: CacheWindow, prompt: PromptCache, like: Tensor | None = None):
        """like: has the dtype and device of what is kept, if that is the ring's own."""
        self.chunk_frames = window.chunk_frames
        self.num_chunks = 0  # own chunks finished
        self.ring_index = 0  # of the current chunk; the pinned chunks lie before it and stay
        self.num_ring_chunks = 1  # chunks of the ring that are in use, the current one included
        self._prompt = prompt
        self._pinned_chunks = window.pinned_chunks
        self._max_ring_chunks = (
            None if window.window_chunks is None else window.pinned_chunks + window.window_chunks + 1
        )

    @property
    def start(self) -> int:
        """Position of the current chunk's first frame, counted from the prompt's."""
        return (self._prompt.num_chunks + self.num_chunks) * self.chunk_frames

    @classmethod
    def bytes_of(cls, num_values: int, num_vectors: int, element_bytes: int) -> int:
        """Bytes of keys and values. num_vectors: each is the key or the value of a frame and a head."""
        return num_values * element_bytes

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Bytes of this stream alone: the shared prompt is not counted, a copy of it is."""

    @abstractmethod
    def copy_prefix(self) -> PromptCache:
        """Return all finished chunks. Only of a ring without window that follows no prompt."""

    def chunk_at(self, place: int) -> int:
        """Return the number of the stream's own chunk at a place of the ring, the current one's excepted."""
        newest = self.num_chunks - 1
        if self._max_ring_chunks is None or place < self._pinned_chunks:
            return place
        turns = self._max_ring_chunks - self._pinned_chunks
        return newest - (newest - place) % turns

    def commit(self) -> None:
        """The current chunk is finished; the next one takes the place of one that is not visible any more."""
        self.num_chunks += 1
        self.ring_index = self.num_chunks
        self.num_ring_chunks = self.num_chunks + 1
        if self._max_ring_chunks is not None:
            self.num_ring_chunks = min(self.num_ring_chunks, self._max_ring_chunks)
            if self.num_chunks >= self._pinned_chunks:
                turned = (self.num_chunks - self._pinned_chunks) % (
                    self._max_ring_chunks - self._pinned_chunks
                )
                self.ring_index = self._pinned_chunks + turned


class ChunkKVCache(ChunkRing):
    """One stream's cache of one network, written in place."""

    def __init__(self, window: CacheWindow, prompt: PromptCache, like: Tensor | None = None):
        """like: has the dtype and device of keys and values; None: float32 on the CPU."""
        super().__init__(window, prompt)
        self.conv_state = ConvState(prompt.conv_left)
        self._like = torch.empty(0) if like is None else like

    @abstractmethod
    def buffers(self, slot: CacheSlot, sizes: tuple[int, int, int]) -> list[KeyValues]:
        """Buffers of an attention, (G, H, frames, D) each; sizes: G, H, D.

        The caller writes the current chunk at `current` and attends to `visible`; once that is done it calls
        `commit_layer`.
        """

    @abstractmethod
    def position_buffers(self, width: int) -> list[Tensor]:
        """Sinusoids (frames, W) of the frames in each of `buffers`; to be written likewise."""

    @property
    @abstractmethod
    def current(self) -> tuple[int, int]:
        """The buffer that takes the current chunk, and the frame within it where the chunk starts."""

    @abstractmethod
    def visible(self, num_frames: int) -> list[Span]:
        """What the current chunk of `num_frames` sees, itself included."""

    @abstractmethod
    def commit_layer(self, slot: CacheSlot) -> None:
        """The run that wrote the buffers of `slot` is over."""

    def commit(self) -> None:
        self.conv_state.commit()
        super().commit()

    def copy_prefix(self) -> PromptCache:
        """Copy all finished chunks. Only for a cache without window that follows no prompt."""
        assert self._max_ring_chunks is None, "a prompt is kept whole"
        assert self._prompt.num_chunks == 0, "a prompt follows nothing"
        frames = self.num_chunks * self.chunk_frames
        stored, tables = self.stored_buffers()
        layers = {
            slot: KeyValues(
                **{
                    name: _copied_prefix([part.tensors[name] for part in parts], frames)
                    for name in parts[0].tensors
                }
            )
            for slot, parts in stored.items()
        }
        positions = _copied_prefix(tables, frames) if tables else None
        return PromptCache(self.num_chunks, layers, dict(self.conv_state.left), positions)

    @abstractmethod
    def stored_buffers(self) -> tuple[Mapping[CacheSlot, list[KeyValues]], list[Tensor]]:
        """Every attention's buffers, and those of positions, with what was written so far."""

    def _check_slot(self, slot: CacheSlot) -> None:
        """Before the first use of a slot."""
        assert self.num_chunks == 0, f"attention {slot} did not run in the first chunk"
        assert not self._prompt.num_chunks or slot in self._prompt.key_values, f"no prompt for {slot}"


def _copied_prefix(parts: list[Tensor], frames: int) -> Tensor:
    """parts (..., frames of each, D) -> a copy of the first `frames` of all: (..., frames, D)."""
    whole = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2)
    return whole[..., :frames, :].clone()


PAGE_CHUNKS = 4  # chunks of a page


class PagedKVCache(ChunkKVCache):
    """Shares the prompt's keys and values, and takes memory in pages that are never moved."""

    copies_prompt = False

    def __init__(self, window: CacheWindow, prompt: PromptCache, like: Tensor | None = None):
        super().__init__(window, prompt, like)
        self._pages: dict[CacheSlot, list[KeyValues]] = {}
        self._position_pages: list[Tensor] = []
        self._num_shared = 1 if prompt.num_chunks else 0  # buffers before the pages

    @property
    def num_bytes(self) -> int:
        pages = sum(page.num_bytes for pages in self._pages.values() for page in pages)
        return pages + self.conv_state.num_bytes + sum(page.nbytes for page in self._position_pages)

    def buffers(self, slot: CacheSlot, sizes: tuple[int, int, int]) -> list[KeyValues]:
        if slot not in self._pages:
            self._check_slot(slot)
            self._pages[slot] = []
        pages, (rows, heads, size) = self._pages[slot], sizes
        if self._page == len(pages):
            shape = (rows, heads, self._page_frames, size)
            pages.append(KeyValues(self._like.new_empty(shape), self._like.new_empty(shape)))
        return [self._prompt.key_values[slot], *pages] if self._num_shared else pages

    def position_buffers(self, width: int) -> list[Tensor]:
        if self._page == len(self._position_pages):
            self._position_pages.append(self._like.new_empty(self._page_frames, width))
        shared = [] if self._prompt.positions is None else [self._prompt.positions]
        return [*shared, *self._position_pages]

    @property
    def current(self) -> tuple[int, int]:
        return self._num_shared + self._page, self.ring_index % PAGE_CHUNKS * self.chunk_frames

    def visible(self, num_frames: int) -> list[Span]:
        current, start = self.current
        spans = [(0, 0, self._prompt.num_chunks * self.chunk_frames)] if self._num_shared else []
        for page in range(math.ceil(self.num_ring_chunks / PAGE_CHUNKS)):
            index = self._num_shared + page
            stop = min(PAGE_CHUNKS, self.num_ring_chunks - page * PAGE_CHUNKS) * self.chunk_frames
            if index != current:
                spans.append((index, 0, stop))
                continue
            spans.append((index, 0, start + num_frames))
            if start + self.chunk_frames < stop:
                spans.append((index, start + self.chunk_frames, stop))
        return spans

    def commit_layer(self, slot: CacheSlot) -> None:
        """Nothing is borrowed: the pages are the cache's own."""

    def stored_buffers(self) -> tuple[Mapping[CacheSlot, list[KeyValues]], list[Tensor]]:
        return self._pages, self._position_pages

    @property
    def _page(self) -> int:
        """The page of the current chunk."""
        return self.ring_index // PAGE_CHUNKS

    @property
    def _page_frames(self) -> int:
        """Frames of the current page; the last page of a closed ring may be shorter."""
        chunks = PAGE_CHUNKS
        if self._max_ring_chunks is not None:
            chunks = min(chunks, self._max_ring_chunks - self._page * PAGE_CHUNKS)
        return chunks * self.chunk_frames


MIN_GROWTH_CHUNKS = 4  # the ring starts with the one chunk that the first audio needs


class RingKVCache(ChunkKVCache):
    """Keeps a layer's keys and values in one buffer: the prompt's, then the ring's.

    A graph writes the current chunk in place and attends to the whole buffer, with a mask over what is not
    visible. A buffer grows in steps, so that a short stream does not attend to the empty space of a long one;
    those of different solver steps grow at different chunks, so that no chunk is late. What was never written
    is 0.
    """

    copies_prompt = True

    def __init__(self, window: CacheWindow, prompt: PromptCache, like: Tensor | None = None):
        super().__init__(window, prompt, like)
        self._layers: dict[CacheSlot, dict[str, _GrowingBuffer]] = {}  # by the names of `KeyValues`
        self._positions: _GrowingBuffer | None = None
        self._prompt_frames = prompt.num_chunks * self.chunk_frames
        ring_chunks = self._max_ring_chunks
        self._capacity = (
            None if ring_chunks is None else self._prompt_frames + ring_chunks * self.chunk_frames
        )

    @property
    def num_bytes(self) -> int:
        table = 0 if self._positions is None else self._positions.num_bytes
        layers = sum(buffer.num_bytes for layer in self._layers.values() for buffer in layer.values())
        return table + layers + self.conv_state.num_bytes

    def buffers(self, slot: CacheSlot, sizes: tuple[int, int, int]) -> list[KeyValues]:
        if slot not in self._layers:
            self._check_slot(slot)
            shared = self._prompt.key_values.get(slot) or self.no_frames(sizes)
            self._layers[slot] = {
                name: _GrowingBuffer(tensor, self._capacity) for name, tensor in shared.tensors.items()
            }
        is_scratch = self.num_ring_chunks == 1 and self._prompt.num_chunks > 0
        num_frames = self._num_frames(slot[0])
        layer = self._layers[slot].items()
        return [KeyValues(**{name: buffer.resize(num_frames, is_scratch) for name, buffer in layer})]

    def position_buffers(self, width: int) -> list[Tensor]:
        if self._positions is None:
            shared = self._prompt.positions
            shared = self._like.new_empty(0, width) if shared is None else shared
            self._positions = _GrowingBuffer(shared, self._capacity)
        return [self._positions.resize(self._num_frames(0))]

    @property
    def current(self) -> tuple[int, int]:
        return 0, self._prompt_frames + self.ring_index * self.chunk_frames

    def visible(self, num_frames: int) -> list[Span]:
        start = self._prompt_frames + self.ring_index * self.chunk_frames
        following = start + self.chunk_frames
        stop = self._prompt_frames + self.num_ring_chunks * self.chunk_frames
        before = (0, 0, start + num_frames)
        return [before, (0, following, stop)] if following < stop else [before]

    def commit_layer(self, slot: CacheSlot) -> None:
        for buffer in self._layers[slot].values():
            buffer.commit()

    def stored_buffers(self) -> tuple[Mapping[CacheSlot, list[KeyValues]], list[Tensor]]:
        layers = {
            slot: [KeyValues(**{name: buffer.stored for name, buffer in layer.items()})]
            for slot, layer in self._layers.items()
        }
        return layers, [] if self._positions is None else [self._positions.stored]

    def no_frames(self, sizes: tuple[int, int, int]) -> KeyValues:
        """Keys and values of nothing, in the cache's number format."""
        rows, heads, size = sizes
        empty = self._like.new_empty(rows, heads, 0, size)
        return KeyValues(empty, empty)

    def _num_frames(self, step: int) -> int:
        """Frames of the buffers of a solver step: those of the chunks in use, and some more."""
        chunks = 1
        while chunks < self.num_ring_chunks:
            chunks += step % MIN_GROWTH_CHUNKS + 1 if chunks == 1 else max(MIN_GROWTH_CHUNKS, chunks // 2)
        if self._max_ring_chunks is not None:
            chunks = min(chunks, self._max_ring_chunks)
        return self._prompt_frames + chunks * self.chunk_frames


class Int8RingKVCache(RingKVCache):
    """In 8 bits, each frame of a head with a scale of its own."""

    @classmethod
    def bytes_of(cls, num_values: int, num_vectors: int, element_bytes: int) -> int:
        return num_values + 4 * num_vectors

    def no_frames(self, sizes: tuple[int, int, int]) -> KeyValues:
        rows, heads, size = sizes
        steps, scales = torch.empty(rows, heads, 0, size, dtype=torch.int8), torch.empty(rows, heads, 0, 1)
        return KeyValues(steps, steps, scales, scales)


class _GrowingBuffer:
    """A contiguous (..., frames, D): a prompt's frames, then the stream's own.

    With a capacity, in frames, it grows within memory taken once: asking the system for memory costs more
    than moving what is in it.
    """

    def __init__(self, prompt: Tensor, capacity: int | None):
        self._prompt, self._capacity = prompt, capacity
        self.stored = prompt  # no copy before the first `resize` that is not for scratch
        self._scratch: Tensor | None = None
        self._first_chunk: Tensor | None = None  # what `commit` kept of the scratch
        self._memory: Tensor | None = None

    @property
    def num_bytes(self) -> int:
        own = 0 if self.stored is self._prompt else self.stored.nbytes
        return own if self._first_chunk is None else own + self._first_chunk.nbytes

    def resize(self, num_frames: int, is_scratch: bool = False) -> Tensor:
        """(..., num_frames, D): what was written so far, then zeros.

        is_scratch: for one run, after which `commit` keeps only what follows the prompt. So the first audio
        needs no copy of the prompt that lasts.
        """
        *outer, frames, size = self.stored.shape
        if frames == num_frames:
            return self.stored
        shape = (*outer, num_frames, size)
        if self._memory is not None:
            self.stored = _spread(self._memory, self.stored, shape)
            return self.stored
        if is_scratch or self._capacity is None:
            resized = self._prompt.new_empty(shape)
        else:
            self._memory = self._prompt.new_empty(math.prod((*outer, self._capacity, size)))
            resized = self._memory[: math.prod(shape)].view(shape)
        start = 0
        for part in (self.stored, self._first_chunk):
            if part is not None:
                resized[..., start : start + part.shape[-2], :] = part
                start += part.shape[-2]
        resized[..., start:, :] = 0
        if is_scratch:
            self._scratch = resized
        else:
            self.stored, self._first_chunk = resized, None
        return resized

    def commit(self) -> None:
        """Give the scratch buffer up, if there is one."""
        if self._scratch is not None:
            self._first_chunk = self._scratch[..., self._prompt.shape[-2] :, :].clone()
            self._scratch = None


def _spread(memory: Tensor, stored: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Move (..., frames, D) from the start of memory to where the larger `shape` has it, then zeros."""
    frames, size = stored.shape[-2:]
    blocks = stored.view(-1, frames, size)
    resized = memory[: math.prod(shape)].view(shape)
    spread = resized.view(-1, shape[-2], size)
    for number in reversed(range(len(blocks))):  # the last has the longest way
        spread[number, :frames] = blocks[number].clone()  # the two may overlap
        spread[number, frames:] = 0
    return resized
