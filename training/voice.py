"""A checkpoint that speaks in this process: text to speech tokens to samples, whole or as a stream would.

The service does the same with queues and batches; here one utterance is spoken at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from queue import Queue

import numpy as np
import torch
from numpy.typing import NDArray

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import FRAMES_PER_TOKEN, Qwen2LMConfig, UNetFlowConfig
from firstword.models.flow.flow import Flow
from firstword.models.frontend.modes import zero_shot
from firstword.models.frontend.prompt_reader import PromptReader
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.hift.hift import HiFT
from firstword.models.lm.decoder import Emitted, RowRequest, SpeechDecoder, SpeechLM, Stopped, Waiting
from firstword.models.lm.plan import BistreamPlan, OfflinePlan, Plan
from firstword.models.onnx.build import onnx_estimator, onnx_front, onnx_generator, onnx_lm
from firstword.models.token2wav import PromptState, StreamState, Token2Wav
from firstword.models.token2wav_step import StepInput

BUILTIN = Path(__file__).parent.parent / "models" / "builtin"

Samples = NDArray[np.float32]  # (n,)


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the language model said, and why it stopped: "eos", or "max_tokens" where it did not by itself."""

    ids: tuple[int, ...]
    reason: str


class Voice:
    """A CosyVoice 2 model directory. Not to be shared between threads."""

    def __init__(self, directory: Path, *, has_graphs: bool = True) -> None:
        """has_graphs: its networks as the service runs them on a CPU; else as torch calls, one by one.

        Raises CheckpointError.
        """
        self.checkpoint = open_checkpoint(directory)
        config = self.checkpoint.config
        assert isinstance(config.lm, Qwen2LMConfig), config.family
        assert isinstance(config.flow, UNetFlowConfig), config.family
        self._config = config.lm
        self.sample_rate_hz = config.sample_rate_hz
        self.tokenizer = self.checkpoint.load_tokenizer()
        self.speakers = self.checkpoint.load_speakers()
        lm, flow, hift = self.checkpoint.load_lm(), self._load_flow(), self.checkpoint.load_hift()
        self._lm: SpeechLM = lm
        if has_graphs:
            self._lm = onnx_lm(lm, True, num_threads=1)
            self._token2wav = Token2Wav(
                flow,
                hift,
                estimator=onnx_estimator(flow, True, num_threads=1),
                front=onnx_front(flow, num_threads=1),
                generate=onnx_generator(hift, num_threads=1),
            )
        else:
            self._token2wav = Token2Wav(flow, hift)
        self._prompts: dict[int, tuple[SpeakerFeatures, PromptState]] = {}

    def read(
        self, text: str, speaker: SpeakerFeatures, seed: int = 0, tell: Callable[[int], None] | None = None
    ) -> Tokens:
        """All the text first, as a request with its whole text is read; `tell` gets each token at once."""
        ids = self.tokenizer.encode(text)
        given = zero_shot("cosyvoice2", speaker, ids, self.tokenizer)
        prompt = given.lm_prompt_tokens.tolist()
        ratios = self.checkpoint.ratios
        plan = OfflinePlan(self._lm.vocabulary, given.text_ids, given.prompt_text_ids, prompt, ratios)
        return self._run(plan, (), seed, tell)

    def read_pieces(self, pieces: Sequence[str], speaker: SpeakerFeatures, seed: int = 0) -> Tokens:
        """Text that comes piece by piece, each only when all that could be said before has been said."""
        given = zero_shot("cosyvoice2", speaker, (), self.tokenizer)
        plan = BistreamPlan(
            self._lm.vocabulary,
            given.prompt_text_ids,
            given.lm_prompt_tokens.tolist(),
            mix_ratio=self._config.mix_ratio,
            prompt_before_blocks=self._config.prompt_before_blocks,
            ratios=self.checkpoint.ratios,
        )
        return self._run(plan, pieces, seed)

    def speak(self, text: str, speaker: SpeakerFeatures, seed: int = 0) -> Iterator[Samples]:
        """Chunks of samples, the first while the text is still being read: in a second thread."""
        with ThreadPoolExecutor(1) as pool:
            said: Queue[int | None] = Queue()
            reading = pool.submit(self._read_into, said, text, speaker, seed)
            yield from self._chunks(iter(said.get, None), speaker, seed)
            reading.result()

    def stream(self, tokens: Sequence[int], speaker: SpeakerFeatures, seed: int = 0) -> list[Samples]:
        """The chunks a listener gets, when every token comes alone."""
        return list(self._chunks(tokens, speaker, seed))

    def sound(self, tokens: Sequence[int], speaker: SpeakerFeatures, seed: int = 0) -> Samples:
        """The chunks of `stream`, joined."""
        return np.concatenate(self.stream(tokens, speaker, seed))

    @torch.inference_mode()
    def offline(self, tokens: Sequence[int], speaker: SpeakerFeatures, seed: int = 0) -> Samples:
        """The same utterance solved and vocoded in one piece, by torch."""
        flow, hift = self._whole
        mel = flow(
            torch.tensor([list(tokens)]),
            speaker.prompt_tokens[None],
            speaker.prompt_mel[None],
            speaker.embedding[None],
        )
        assert mel.shape[-1] == FRAMES_PER_TOKEN * len(tokens), mel.shape
        f0 = hift.predict_f0(mel)
        generator = torch.Generator().manual_seed(seed)
        num_samples = mel.shape[-1] * hift.config.samples_per_frame
        noise = torch.randn(1, num_samples, hift.source.num_tones, generator=generator)
        source, _ = hift.source(f0, noise, None, is_last=True)
        samples: Samples = hift.decode(mel, source)[0].numpy()
        return samples

    def enrol(self, samples: Samples, sample_rate_hz: int, text: str) -> SpeakerFeatures:
        """Raises RecordingError."""
        return self.reader.read_speaker(samples, sample_rate_hz, text)

    @cached_property
    def reader(self) -> PromptReader:
        """Of recordings. Loaded when it is first asked for: a voice that only speaks needs none."""
        return self.checkpoint.load_prompt_reader(num_threads=1)

    @cached_property
    def _whole(self) -> tuple[Flow, HiFT]:
        """Flow and HiFT that run by themselves; those of the streams have given their weights to graphs."""
        return self._load_flow(), self.checkpoint.load_hift()

    def _load_flow(self) -> Flow:
        flow = self.checkpoint.load_flow()
        assert isinstance(flow, Flow)
        return flow

    def _read_into(self, said: "Queue[int | None]", text: str, speaker: SpeakerFeatures, seed: int) -> None:
        try:
            self.read(text, speaker, seed, said.put)
        finally:
            said.put(None)

    def _chunks(self, tokens: Iterable[int], speaker: SpeakerFeatures, seed: int) -> Iterator[Samples]:
        session = self._token2wav
        state = session.start(self._prepared(speaker), seed)
        waiting: list[int] = []
        for token in tokens:
            waiting.append(token)
            if len(waiting) >= session.tokens_wanted(state):
                yield from self._step(StepInput(state, waiting, is_last=False))
                waiting = []
        yield from self._step(StepInput(state, waiting, is_last=True))

    def _step(self, given: StepInput[StreamState]) -> Iterator[Samples]:
        (chunk,) = self._token2wav.step([given])
        if len(chunk):
            yield chunk.numpy()

    def _prepared(self, speaker: SpeakerFeatures) -> PromptState:
        if id(speaker) not in self._prompts:
            self._prompts[id(speaker)] = speaker, self._token2wav.compute_prompt_state(speaker)
        return self._prompts[id(speaker)][1]

    def _run(
        self, plan: Plan, pieces: Sequence[str], seed: int, tell: Callable[[int], None] | None = None
    ) -> Tokens:
        decoder = SpeechDecoder(self._lm, self.checkpoint.config.lm.sampling)
        decoder.add(RowRequest(plan, seed))
        coming = iter(pieces)
        ids: list[int] = []
        while True:
            for event in decoder.step():
                if isinstance(event, Emitted):
                    ids.append(event.speech_id)
                    if tell is not None:
                        tell(event.speech_id)
                elif isinstance(event, Stopped):
                    return Tokens(tuple(ids), event.reason)
                elif isinstance(event, Waiting):
                    self._push(plan, coming)

    def _push(self, plan: Plan, coming: Iterator[str]) -> None:
        assert isinstance(plan, BistreamPlan), plan
        piece = next(coming, None)
        if piece is None:
            plan.finish_text()
        else:
            plan.push_text(self.tokenizer.encode(piece))
