"""A chunk of the flow of several streams, from token ids to mel, as one CUDA graph, its state in pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from firstword.models.config import FRAMES_PER_TOKEN, NUM_MELS
from firstword.models.cuda import pinned, to_device
from firstword.models.flow.flow import Flow
from firstword.models.flow.incremental import FlowChunk
from firstword.models.flow.solver import solve, time_steps
from firstword.models.flow.state import estimator_layout, front_layouts
from firstword.models.runtimes.torch.cuda_graphs.buckets import bucket
from firstword.models.runtimes.torch.cuda_graphs.capture import (
    Run,
    Turns,
    captured,
    graph_memory,
    recorded_or_eager,
)
from firstword.models.runtimes.torch.cuda_graphs.fused_estimators import fused_estimator
from firstword.models.runtimes.torch.cuda_graphs.pages import (
    NetworkPages,
    PagedContexts,
    PagePool,
    PageTable,
    places_of,
    rows_of,
    scratch_row,
)

STREAMS = (1, 2, 4, 8)
PAGES = (4, 8, 12, 16, 24)  # chunks that a stream sees at most, the current one included
MIN_PAGES, MAX_PAGES = 64, 1024
WARM_UPS = 1  # of each graph: ten steps run the same kernels ten times


@dataclass(frozen=True, slots=True, eq=False)
class _Recorded:
    """A run, and where its inputs are to be written."""

    run: Run
    numbers: Tensor  # (B, T + lookahead + 4 + 3 P) int64: ids, then as `rows_of`
    spks: Tensor  # (B, M)
    cond: Tensor  # (B, M, 2 T)


class GraphedFlow:
    """Solves chunks of streams whose state is in its pages; padded to a number of streams, pages and frames.

    Threads run it one after the other. What is in no bucket, or could not be recorded, runs eagerly over the
    same pages.
    """

    cache_class = PageTable

    def __init__(self, flow: Flow, max_bytes: int = 0) -> None:
        """max_bytes: of the pages of all streams and prompts together; there are at least MIN_PAGES."""
        self._flow, self._lookahead = flow, flow.config.lookahead_tokens
        self._frames = FRAMES_PER_TOKEN * flow.chunk_tokens
        group, steps = flow.config.cfm.rows_per_stream, flow.config.cfm.num_steps
        like = flow.speaker_projection.weight
        token_layout, frame_layout = front_layouts(flow.front, self._lookahead)
        networks = (
            (token_layout, flow.chunk_tokens, 1, 1),
            (frame_layout, self._frames, 1, 1),
            (estimator_layout(flow.estimator), self._frames, group, steps),
        )
        size = like.element_size()
        page_bytes = sum(NetworkPages.page_bytes(*network, size) for network in networks)
        num_pages = min(max(max_bytes // page_bytes, MIN_PAGES), MAX_PAGES)
        counts = num_pages + 1, 2 * num_pages + 2  # a stream has at least a page, and at most two slots
        self._tokens, self._mels, self._estimator = (
            NetworkPages(*network, counts, like) for network in networks
        )
        times = [t for t, _ in time_steps(steps)]
        self._velocity_over = fused_estimator(flow.estimator, times)
        left_bytes = sum(one.left[0].nbytes for one in (self._tokens, self._mels, self._estimator))
        self.pages = PagePool(1, num_pages, page_bytes)
        self._slots = PagePool(2, 2 * num_pages, left_bytes)
        self._recorded: dict[tuple[int, int], _Recorded | None] = {}
        self._memory = graph_memory(like.device)
        self._turns = Turns()

    @torch.inference_mode()
    def record(self) -> None:
        """Record every number of streams with every number of pages; nothing is recorded after that."""
        for pages in PAGES:
            for streams in STREAMS:
                with self._turns.taken(self._flow.noise.device):
                    self._recorded_for(streams, pages)

    @property
    def num_bytes(self) -> int:
        """Of all pages."""
        return self.pages.count * self.pages.num_bytes

    def __call__(
        self, chunks: Sequence[FlowChunk], tables: Sequence[PageTable], conds: Sequence[Tensor]
    ) -> list[Tensor]:
        """conds (M, frames): what of each chunk is prompt -> mel (M, frames of the chunk) of each stream."""
        largest = STREAMS[-1]
        done: list[Tensor] = []
        for start in range(0, len(chunks), largest):
            part = slice(start, start + largest)
            done += self._solve_some(chunks[part], tables[part], conds[part])
        return done

    def _solve_some(
        self, chunks: Sequence[FlowChunk], tables: Sequence[PageTable], conds: Sequence[Tensor]
    ) -> list[Tensor]:
        for table in tables:
            table.take(self.pages, self._slots)
        lengths = [FRAMES_PER_TOKEN * len(chunk.tokens) for chunk in chunks]
        most = max(len(table.visible()) for table in tables)
        streams, pages = bucket(STREAMS, len(chunks)) or len(chunks), bucket(PAGES, most)
        device = self._flow.noise.device
        with self._turns.taken(device):
            one = None if pages is None else self._recorded_for(streams, pages)
            if pages is None or one is None:
                pages = pages or most
                one = self._inputs(streams, pages)
            width = self._flow.chunk_tokens + self._lookahead
            ids = [chunk.tokens + chunk.lookahead for chunk in chunks]
            rows = [row + [-1] * (width - len(row)) for row in ids]
            rows += [[-1] * width] * (streams - len(chunks))
            numbers = rows_of(tables, lengths, pages)
            numbers += [scratch_row(pages, self._frames)] * (streams - len(chunks))
            given = [[*row, *others] for row, others in zip(rows, numbers, strict=True)]
            one.numbers.copy_(pinned(given, device), non_blocking=True)
            one.spks[: len(chunks)] = torch.cat([chunk.state.prompt.spks for chunk in chunks])
            one.cond.zero_()
            for row, cond in enumerate(conds):
                if cond.shape[1]:
                    one.cond[row, :, : cond.shape[1]] = cond
            mel = one.run()[: len(chunks)].clone()
        return [row[:, :length] for row, length in zip(mel, lengths, strict=True)]

    def _recorded_for(self, streams: int, pages: int) -> _Recorded | None:
        key = streams, pages
        if key not in self._recorded:
            what = f"the flow of {streams} streams of {pages} chunks"
            self._recorded[key] = recorded_or_eager(partial(self._record, *key), what)
        return self._recorded[key]

    def _record(self, streams: int, pages: int) -> _Recorded:
        one = self._inputs(streams, pages)
        run = captured(one.run, one.spks.device, WARM_UPS, self._memory)
        return _Recorded(run, one.numbers, one.spks, one.cond)

    def _inputs(self, streams: int, pages: int) -> _Recorded:
        """Inputs of rows without a stream, and what runs over them eagerly."""
        like = self._flow.speaker_projection.weight
        width = self._flow.chunk_tokens + self._lookahead
        row = [-1] * width + scratch_row(pages, self._frames)
        numbers = to_device([row] * streams, like.device)
        spks = like.new_zeros(streams, NUM_MELS)
        cond = torch.zeros(streams, NUM_MELS, self._frames, device=like.device)
        run = partial(self._solve, numbers, spks, cond, pages)
        return _Recorded(run, numbers, spks, cond)

    def _solve(self, numbers: Tensor, spks: Tensor, cond: Tensor, num_pages: int) -> Tensor:
        """-> mel (B, M, 2 T) float32."""
        flow, cfm = self._flow, self._flow.config.cfm
        width = flow.chunk_tokens + self._lookahead
        ids, numbers = numbers[:, :width], numbers[:, width:]
        at_tokens, at_frames = (places_of(numbers, num_pages, each) for each in (FRAMES_PER_TOKEN, 1))
        token_context = PagedContexts(self._tokens, at_tokens, spks.dtype).at(0)
        frame_context = PagedContexts(self._mels, at_frames, spks.dtype).at(0)
        mu = flow.front(ids, token_context, frame_context)  # (B, M, 2 T)
        token_context.finish()
        frame_context.finish()
        frame = at_frames.start[:, None] + torch.arange(self._frames, device=numbers.device)
        noise = flow.noise[:, frame % flow.noise.shape[1]].transpose(0, 1)  # (B, M, 2 T)
        contexts = PagedContexts(self._estimator, at_frames, spks.dtype)
        velocity = self._velocity_over(contexts)
        return solve(velocity, cfm, noise, mu, spks, cond)
