"""Speech tokens to samples, streaming: the flow, then the vocoder, of all model families.

`Token2Wav` (CosyVoice 2 and 3) solves each chunk once with the exact incremental flow. `CosyVoice1Token2Wav`
has a flow that sees everything it is given: a chunk is solved with the prompt and the overlap before it,
whose noise and mean are kept and whose mel is faded; work per chunk is constant.

A speaker's prompt state is computed once and shared by its streams. A step takes a batch of streams, each at
its own position and of its own speaker, and returns the samples that can be known by now. What a stream
remembers hangs from its state object; deleting that frees everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from firstword.models.config import FRAME_RATE_HZ, FRAMES_PER_TOKEN, NUM_MELS
from firstword.models.flow.cosyvoice1 import CACHED_FRAMES, OVERLAP_TOKENS, CosyVoice1Flow
from firstword.models.flow.flow import Flow
from firstword.models.flow.incremental import FlowPrompt, FlowState, IncrementalFlow
from firstword.models.frontend.equalizer import Equalizer
from firstword.models.frontend.mel_match import apply_mel_map
from firstword.models.frontend.speaker import SpeakerFeatures, align_prompt
from firstword.models.harmonic_vocos.network import HarmonicVocos
from firstword.models.harmonic_vocos.streaming import HarmonicNetworks, HarmonicVocoder
from firstword.models.hift.hift import Generate, HiFT
from firstword.models.hift.streaming import (
    CausalVocoder,
    Sound,
    Vocoder,
    WindowedVocoder,
    WindowState,
    crossfaded,
    vocode,
    vocode_whole,
)
from firstword.models.networks import Networks
from firstword.models.token2wav_step import RefusedStep, StepInput, StepTimes

DEFAULT_FIRST_HOP_TOKENS = 10
DEFAULT_WINDOW_S = 10.0
MAX_FULL_TOKENS = 1500
"""Prompt and utterance that are solved at once, a minute; attention takes memory by its square."""


@dataclass(frozen=True, slots=True, eq=False)
class PromptState:
    """The state after a speaker's prompt: read-only, shared by its streams.

    first_hop_tokens: how many tokens the first chunk of a stream takes, so that it ends on the grid
    the flow was trained with; what was asked for, unless the prompt is too short for that.
    """

    flow: FlowPrompt
    tokens: tuple[int, ...]  # the aligned prompt
    first_hop_tokens: int
    whole_tokens: tuple[int, ...]  # nothing cut from its start
    whole_mel: Tensor  # (2 P, M) of these; the memory is that of the speaker's features
    mel_map: Tensor | None = None  # (80, 81), of every frame; see `mel_match`
    equalizer: Tensor | None = None  # taps, of the samples; see `equalizer`

    @property
    def state_bytes(self) -> int:
        return self.flow.num_bytes


@dataclass(slots=True, eq=False)
class StreamState:
    """Everything one stream has. `window_chunks`: chunks of its own past that it attends to; None: all.

    full_prompt: the utterance is solved at once with it, as long as it may be; None: it is solved in chunks.
    """

    flow: FlowState
    sound: Sound[Any]
    window_chunks: int | None
    is_window_shortened: bool  # the memory budget did not allow the window that was asked for
    mel_map: Tensor | None
    equalizer: Equalizer | None
    full_prompt: PromptState | None = None
    has_all_tokens: bool = False
    is_finished: bool = False

    @property
    def state_bytes(self) -> int:
        """Bytes of this stream alone; what it shares with its speaker is not counted."""
        equalizer_bytes = 0 if self.equalizer is None else self.equalizer.num_bytes
        return self.flow.num_bytes + self.sound.num_bytes + equalizer_bytes

    def take_mel(self, mel: Tensor, is_last: bool) -> None:
        """What the flow gave, (M, F), waits for the vocoder."""
        mapped = mel if self.mel_map is None else apply_mel_map(mel, self.mel_map)
        self.sound.pending.append((mapped, is_last))

    def take_samples(self) -> Tensor:
        """What the vocoder gave, (N,), as it is heard."""
        samples = self.sound.take()
        return samples if self.equalizer is None else self.equalizer(samples.to(self.equalizer.taps))


def streaming_vocoder(
    network: HiFT | HarmonicVocos, other: Generate | HarmonicNetworks | None = None
) -> Vocoder[Any]:
    """Return the streaming vocoder of a network; other: runs instead of it, for a vocoder of its class."""
    if isinstance(network, HarmonicVocos):
        return HarmonicVocoder(network, cast(HarmonicNetworks | None, other))
    kind = CausalVocoder if network.config.is_causal else WindowedVocoder
    return kind(network, cast(Generate | None, other))


class Token2Wav:
    """Holds the weights. Threads may share it, as long as no two have the same state.

    window_s: how much of its own past a stream attends to, beside its prompt; None: all of it.
    max_state_bytes: memory budget of one stream. Where the window does not fit, it is shortened, and
    the stream's state says so; without any window a stream has the least it can.
    networks: run instead of those of `flow` and `hift`.
    """

    def __init__(
        self,
        flow: Flow,
        hift: HiFT | HarmonicVocos,
        window_s: float | None = DEFAULT_WINDOW_S,
        max_state_bytes: int | None = None,
        networks: Networks | None = None,
    ):
        networks = networks or Networks()
        if max_state_bytes is None and networks.flow is not None:
            max_state_bytes = networks.flow.max_state_bytes
        self._flow = IncrementalFlow(flow, networks.flow)
        self.vocoder: Vocoder[Any] = networks.whole_vocoder or streaming_vocoder(hift, networks.vocoder)
        self._hift = hift
        self._device = next(hift.parameters()).device
        self._vocab_size = flow.config.vocab_size
        self._max_state_bytes = max_state_bytes
        self._sound_bytes = 0 if max_state_bytes is None else self._measured_sound_bytes()
        self.chunk_tokens = self.hop_tokens = self._flow.chunk_tokens
        self.lookahead_tokens = self._flow.lookahead_tokens
        self.sample_rate_hz = hift.config.sample_rate_hz
        self.samples_per_token = FRAMES_PER_TOKEN * hift.config.samples_per_frame
        chunk_s = self.chunk_tokens * self.samples_per_token / self.sample_rate_hz
        self._window_chunks = None if window_s is None else round(window_s / chunk_s)

    @torch.inference_mode()
    def compute_prompt_state(
        self, speaker: SpeakerFeatures, first_hop_tokens: int = DEFAULT_FIRST_HOP_TOKENS
    ) -> PromptState:
        """Compute what a speaker's streams share.

        Tokens are cut from the prompt's start until a first hop of `first_hop_tokens` (1..25) ends on the
        grid; a prompt too short for that stays whole. Before that its end is cut to two mel frames a token.

        Raises:
            ValueError: first_hop_tokens out of range, or a token that the flow does not know.
        """
        # A recording is aligned when it is read. A speaker table is not: its tokens are also the language
        # model's prompt, which would change if they were cut when it is loaded.
        tokens, mel = align_prompt(speaker.prompt_tokens, speaker.prompt_mel)
        if not 1 <= first_hop_tokens <= self.chunk_tokens:
            raise ValueError(f"first_hop_tokens is {first_hop_tokens}, expected 1..{self.chunk_tokens}")
        check_tokens(tokens.tolist(), self._vocab_size)
        cut = aligned_cut(len(tokens), first_hop_tokens, self.chunk_tokens)
        remaining = tokens[cut:].tolist()
        prompt = self._flow.solve_prompt(remaining, mel[FRAMES_PER_TOKEN * cut :], speaker.embedding)
        first_hop = self.chunk_tokens - len(remaining) % self.chunk_tokens
        mel_map, equalizer = (
            None if one is None else one.to(self._flow.flow.noise)
            for one in (speaker.mel_map, speaker.equalizer)
        )
        return PromptState(
            prompt, tuple(remaining), first_hop, tuple(tokens.tolist()), mel, mel_map, equalizer
        )

    @torch.inference_mode()
    def predict_f0(self, mel: Tensor) -> Tensor:
        """mel (80, F) -> the pitch in Hz that the vocoder gives it, (F,)."""
        return self._hift.predict_f0(mel[None].to(self._flow.flow.noise))[0]

    @torch.inference_mode()
    def vocode_prompt(self, speaker: SpeakerFeatures) -> Tensor:
        """Return what a speaker's prompt sounds like, (N,) float32 on the CPU; N 0 without a prompt."""
        return _vocoded(self.vocoder, speaker, self._device)

    def start(
        self, prompt: PromptState, seed: int = 0, uses_prompt: bool = True, has_full_context: bool = False
    ) -> StreamState:
        """Return the state of a new stream; `seed` draws the vocoder's noise.

        uses_prompt: False is for a speaker without a prompt; CosyVoice 2 and 3 continue any prompt there is.
        has_full_context: the flow is solved once all tokens are there, every frame seeing all others; of
        what is longer than MAX_FULL_TOKENS with its prompt, it is solved in chunks after all.
        """
        assert uses_prompt or not prompt.tokens, "no mode of CosyVoice 2 and 3 leaves a prompt out"
        window = self._window_chunks
        if self._max_state_bytes is not None:
            fixed, per_chunk = self._flow.state_bytes()
            spare = self._max_state_bytes - fixed - self._sound_bytes - self._flow.copied_bytes(prompt.flow)
            lasting = prompt.flow.pinned_chunks + 1  # 1: the current chunk
            affordable = spare // per_chunk - lasting
            window = max(0, affordable if window is None else min(affordable, window))
        sound = Sound(self.vocoder.start(seed))
        return StreamState(
            self._flow.start(prompt.flow, window),
            sound,
            window,
            window != self._window_chunks,
            prompt.mel_map,
            None if prompt.equalizer is None else Equalizer.start(prompt.equalizer),
            prompt if has_full_context else None,
        )

    @property
    def bytes_per_chunk(self) -> int:
        """Bytes that a stream keeps of each chunk within its window."""
        return self._flow.state_bytes()[1]

    def tokens_wanted(self, state: StreamState) -> int:
        """Return how many more tokens, lookahead included, a step needs to solve this stream's next hop.

        A hop gives audio, but for a first one of 1 or 2 tokens with CosyVoice 3: its vocoder withholds more.
        With full context: more than can be solved at once.
        """
        if state.full_prompt is not None:
            num_pending = len(state.flow.pending_tokens) - len(state.full_prompt.flow.pending_tokens)
            return max(0, MAX_FULL_TOKENS + 1 - len(state.full_prompt.whole_tokens) - num_pending)
        num_prompt = state.flow.prompt_mel.shape[1] // FRAMES_PER_TOKEN
        chunk_end = (num_prompt // self.chunk_tokens + 1) * self.chunk_tokens
        return max(0, chunk_end + self.lookahead_tokens - len(state.flow.pending_tokens))

    @torch.inference_mode()
    def step(self, batch: Sequence[StepInput[StreamState]], times: StepTimes | None = None) -> list[Tensor]:
        """-> new samples (N,) float32 of each stream, in order, on the networks' device; marks `times`.

        Every chunk of 25 grid tokens whose lookahead has come is solved; the rest waits. A solved hop
        gives `samples_per_token` samples a token (CosyVoice 3 withholds the vocoder's four frames of
        lookahead once, and gives them at the end). A stream's result does not depend on the others.

        Raises:
            RefusedStep: a finished stream, a stream twice in the batch, or a token the flow does not know;
                nothing has changed then. After any other error the tokens are kept: step again with none.
        """
        times = StepTimes() if times is None else times
        times.mark(self._device)
        self._solve(batch)
        states = [item.state for item in batch]
        times.mark(self._device)
        vocode(self.vocoder, [state.sound for state in states])
        times.mark(self._device)
        for state in states:
            state.is_finished = state.has_all_tokens
        return [state.take_samples().to(self._flow.flow.noise.device) for state in states]

    @torch.inference_mode()
    def step_mel(self, given: StepInput[StreamState]) -> Tensor:
        """-> new mel frames (80, F) of a stream that never gives samples. Raises as `step` does."""
        self._solve([given])
        state = given.state
        state.is_finished = state.has_all_tokens
        mels = [mel for mel, _ in state.sound.pending]
        state.sound.pending.clear()
        return torch.cat(mels, dim=1) if mels else self._flow.flow.noise.new_zeros(NUM_MELS, 0)

    def start_sound(self) -> Sound[Any]:
        """Return what `vocode` goes on with from piece to piece of an utterance."""
        return Sound(self.vocoder.start(0))

    @torch.inference_mode()
    def vocode(self, mel: Tensor, is_last: bool, sound: Sound[Any] | None = None) -> Tensor:
        """mel (80, F) of an utterance -> samples (N,); unless is_last, its end is withheld.

        sound: after the frames before; None: they are its first.
        """
        sound = self.start_sound() if sound is None else sound
        sound.pending.append((mel.to(self._flow.flow.noise), is_last))
        vocode(self.vocoder, [sound])
        return sound.take()

    def _solve(self, batch: Sequence[StepInput[StreamState]]) -> None:
        """Solve every whole chunk, or utterance; their mel frames wait in the states' sounds."""
        check_batch(batch, self._vocab_size)
        for item in batch:
            item.state.flow.pending_tokens.extend(item.tokens)
            item.state.has_all_tokens |= item.is_last
        for item in batch:
            state, prompt = item.state, item.state.full_prompt
            if prompt is None:
                continue
            tokens = state.flow.pending_tokens[len(prompt.flow.pending_tokens) :]
            if not self.tokens_wanted(state) or (state.has_all_tokens and not tokens):
                state.full_prompt = None  # too long: it is solved in chunks after all
            elif state.has_all_tokens:
                mel = self._flow.solve_whole(prompt.whole_tokens, prompt.whole_mel, prompt.flow.spks, tokens)
                state.flow.pending_tokens.clear()
                state.take_mel(mel, is_last=True)
        states = [item.state for item in batch if item.state.full_prompt is None]
        while True:
            found = [(s, self._flow.next_chunk(s.flow, s.has_all_tokens)) for s in states]
            ready = [(state, chunk) for state, chunk in found if chunk is not None]
            if not ready:
                break
            mels = self._flow.solve_chunks([chunk for _, chunk in ready])
            for (state, _), mel in zip(ready, mels, strict=True):
                is_end = state.has_all_tokens and not state.flow.pending_tokens
                # Each chunk by itself: so a stream sounds the same however its tokens came.
                state.take_mel(mel, is_end)

    @torch.inference_mode()
    def _measured_sound_bytes(self) -> int:
        """Memory of a stream's vocoder in full flow: that of a second of silence."""
        mel = self._flow.flow.noise.new_zeros(NUM_MELS, FRAME_RATE_HZ)
        sound = Sound(self.vocoder.start(0), [(mel, False)])
        vocode(self.vocoder, [sound])
        return sound.num_bytes


def _vocoded(vocoder: Vocoder[Any], speaker: SpeakerFeatures, device: torch.device) -> Tensor:
    if not len(speaker.prompt_mel):
        return torch.zeros(0)
    return vocode_whole(vocoder, speaker.prompt_mel.to(device, torch.float32)).cpu()


def aligned_cut(num_tokens: int, first_hop_tokens: int, chunk_tokens: int) -> int:
    """Return how many tokens to cut from a prompt's start so that the rest and the first hop fill chunks.

    0 where the prompt is shorter than what would have to remain.
    """
    remaining = (chunk_tokens - first_hop_tokens) % chunk_tokens
    return (num_tokens - remaining) % chunk_tokens if num_tokens >= remaining else 0


def check_batch(batch: Sequence[StepInput[Any]], vocab_size: int) -> None:
    """Raises RefusedStep for a stream that stands twice or has ended, or for a foreign token."""
    if len({id(item.state) for item in batch}) != len(batch):
        raise RefusedStep("a stream is twice in the batch")
    for item in batch:
        if item.state.has_all_tokens and (item.tokens or item.state.is_finished):
            raise RefusedStep("the stream has had its last tokens; start a new one")
        check_tokens(item.tokens, vocab_size)


def check_tokens(tokens: Sequence[int], vocab_size: int) -> None:
    """Raises RefusedStep for the first token that is not one of the flow's `vocab_size`."""
    for token in tokens:
        if not 0 <= token < vocab_size:
            raise RefusedStep(f"speech token {token}; the flow knows 0..{vocab_size - 1}")


DEFAULT_HOP_TOKENS = 50  # one second


@dataclass(frozen=True, slots=True, eq=False)
class CosyVoice1Prompt:
    """A speaker on the networks' device: read-only, shared by its streams."""

    tokens: Tensor  # (1, P)
    mel: Tensor  # (1, F, M)
    embedding: Tensor  # (1, 192)

    @property
    def state_bytes(self) -> int:
        return self.tokens.nbytes + self.mel.nbytes + self.embedding.nbytes


@dataclass(slots=True, eq=False)
class CosyVoice1State:
    """Everything one stream has."""

    prompt: CosyVoice1Prompt
    sound: Sound[WindowState]
    generator: torch.Generator  # of the flow's noise, on the CPU
    cache: Tensor  # (1, M, F + 34, 2), or no frames at the start
    chunk_tokens: int  # that are solved together, the overlap included
    mel_tail: Tensor | None = None  # (M, 34): withheld, to fade into the next chunk
    pending_tokens: list[int] = field(default_factory=list)
    has_all_tokens: bool = False
    is_finished: bool = False

    @property
    def state_bytes(self) -> int:
        tail = 0 if self.mel_tail is None else self.mel_tail.nbytes
        return self.cache.nbytes + tail + self.sound.num_bytes


class CosyVoice1Token2Wav:
    """Holds the weights. Threads may share it, as long as no two have the same state.

    hop_tokens: how many new tokens a chunk takes; it is solved with the overlap behind them, once it is
    known that there is more. Raises ValueError where it is not positive. networks: their vocoder runs instead
    of the HiFT's own generator.
    """

    def __init__(
        self,
        flow: CosyVoice1Flow,
        hift: HiFT,
        hop_tokens: int = DEFAULT_HOP_TOKENS,
        networks: Networks | None = None,
    ):
        if hop_tokens < 1:
            raise ValueError(f"hop_tokens is {hop_tokens}, expected at least 1")
        self._flow = flow
        self._device = next(hift.parameters()).device
        generate = None if networks is None else networks.vocoder
        self._vocoder = WindowedVocoder(hift, cast(Generate | None, generate))
        self.hop_tokens = hop_tokens
        self.lookahead_tokens = OVERLAP_TOKENS
        self.sample_rate_hz = hift.config.sample_rate_hz

    def compute_prompt_state(self, speaker: SpeakerFeatures) -> CosyVoice1Prompt:
        """Raises ValueError for a token that the flow does not know."""
        check_tokens(speaker.prompt_tokens.tolist(), self._flow.config.vocab_size)
        device = self._flow.projection.weight.device
        return CosyVoice1Prompt(
            speaker.prompt_tokens[None].to(device),
            speaker.prompt_mel[None].to(device, torch.float32),
            speaker.embedding[None].to(device),
        )

    @torch.inference_mode()
    def vocode_prompt(self, speaker: SpeakerFeatures) -> Tensor:
        """As `Token2Wav.vocode_prompt`."""
        return _vocoded(self._vocoder, speaker, self._flow.projection.weight.device)

    def start(
        self,
        prompt: CosyVoice1Prompt,
        seed: int = 0,
        uses_prompt: bool = True,
        has_full_context: bool = False,
    ) -> CosyVoice1State:
        """A new stream; `seed` draws the noise of flow and vocoder.

        uses_prompt: False gives the flow the speaker's embedding alone (mode `instruct`). has_full_context: a
        chunk is as long as MAX_FULL_TOKENS with the prompt allow, and so usually the whole utterance.
        """
        chunk_tokens = self.hop_tokens + OVERLAP_TOKENS
        if has_full_context:
            chunk_tokens = max(chunk_tokens, MAX_FULL_TOKENS - prompt.tokens.shape[1])
        if not uses_prompt:
            prompt = CosyVoice1Prompt(prompt.tokens[:, :0], prompt.mel[:, :0], prompt.embedding)
        generator = torch.Generator().manual_seed(seed)
        sound = Sound(self._vocoder.start(seed))
        return CosyVoice1State(prompt, sound, generator, self._flow.empty_cache(), chunk_tokens)

    def tokens_wanted(self, state: CosyVoice1State) -> int:
        """How many tokens more, overlap included, until a step of this stream gives the next audio."""
        return max(0, state.chunk_tokens + 1 - len(state.pending_tokens))

    @torch.inference_mode()
    def step(
        self, batch: Sequence[StepInput[CosyVoice1State]], times: StepTimes | None = None
    ) -> list[Tensor]:
        """-> new samples (N,) float32 of each stream, in order, on the networks' device; marks `times`.

        Raises:
            RefusedStep: a finished stream, a stream twice in the batch, or a token the flow does not know;
                nothing has changed then. After any other error the tokens are kept: step again with none.
        """
        check_batch(batch, self._flow.config.vocab_size)
        for item in batch:
            item.state.pending_tokens.extend(item.tokens)
            item.state.has_all_tokens |= item.is_last
        states = [item.state for item in batch]
        times = StepTimes() if times is None else times
        times.mark(self._device)
        for state in states:
            while count := self._next_chunk(state):
                self._solve(state, count)
        times.mark(self._device)
        vocode(self._vocoder, [state.sound for state in states])
        times.mark(self._device)
        for state in states:
            state.is_finished = state.has_all_tokens
        return [state.sound.take().to(self._flow.projection.weight.device) for state in states]

    def _next_chunk(self, state: CosyVoice1State) -> int:
        """How many of the pending tokens to solve now; 0: none.

        Whole chunks, then what is left: a stream sounds the same however its tokens came.
        """
        ready = len(state.pending_tokens)
        if ready > state.chunk_tokens:
            return state.chunk_tokens
        return ready if state.has_all_tokens else 0

    def _solve(self, state: CosyVoice1State, count: int) -> None:
        """Solves the first `count` pending tokens; all but the overlap at their end is done with then."""
        prompt = state.prompt
        tokens = torch.tensor([state.pending_tokens[:count]], device=prompt.tokens.device)
        generator = state.generator.clone_state()
        num_frames = prompt.mel.shape[1] + self._flow.num_frames(count)
        noise = torch.randn(1, NUM_MELS, num_frames, generator=generator).to(tokens.device)
        mel, cache = self._flow(tokens, prompt.tokens, prompt.mel, prompt.embedding, noise, state.cache)
        mel = crossfaded(mel[0], state.mel_tail)
        is_end = state.has_all_tokens and count == len(state.pending_tokens)
        if is_end:
            state.pending_tokens, state.mel_tail = [], None
        else:
            del state.pending_tokens[: count - OVERLAP_TOKENS]
            mel, state.mel_tail = mel[:, :-CACHED_FRAMES], mel[:, -CACHED_FRAMES:].clone()
        state.cache, state.generator = cache, generator
        state.sound.pending.append((mel, is_end))
