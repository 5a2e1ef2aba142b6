"""Run the models of the Open Inference Protocol on the engine; used by gRPC and HTTP."""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import numpy as np

from firstword.app.audio.dsp import Samples
from firstword.app.audio.encode import encode_whole
from firstword.app.clients import Client
from firstword.app.core.interface import Audio, SpeechPrompt, TokenSession
from firstword.app.core.request import SynthesisRequest
from firstword.app.errors import CancelReason, InvalidRequest, ModelNotFound, Overloaded
from firstword.app.http.encoding import MIN_AUDIO_S
from firstword.app.http.errors import rejections_counted
from firstword.app.http.schemas import VoiceFields, validated
from firstword.app.http.service import Service
from firstword.app.http.session import StreamSession
from firstword.app.speakers.interface import SentRecording, checked_transcript
from firstword.app.speech_options import SpeechOptions
from firstword.app.surfaces.inference.models import (
    MEL_HZ,
    REFERENCE_HZ,
    SPEECH_TOKEN_OFFSET,
    VERSION,
    Model,
    models_of,
)
from firstword.app.surfaces.inference.tensors import Tensor

MAX_PROMPT_S: Final = 31  # a recording may have 30
MAX_SESSIONS: Final = 256  # of token2wav, beside the slots that each holds

SessionKey = tuple[str, str, str]
"""A session of token2wav, by its client, the host that asks and the request's id."""

_PROMPT_INPUTS: Final = ("prompt_speech_tokens", "prompt_speech_feat", "prompt_spk_embedding")
_VOICE_PARAMETERS: Final = (
    *("speaker", "language", "instruct", "seed", "voice_mode", "cache"),
    *SpeechOptions.model_fields,
)


@dataclass(slots=True, eq=False)
class Caller:
    """Whose request it is, and why it ended early, should it."""

    client: Client
    received_s: float
    host: str = ""  # where it asks from; "" where nobody knows
    headers: Mapping[str, str] = field(default_factory=dict)
    cancel_reason: CancelReason = "disconnect"
    session: StreamSession | None = None
    sessions: set[SessionKey] | None = None  # of token2wav, to be freed with a stream; None: they stay

    def leave(self, reason: CancelReason) -> None:
        self.cancel_reason = reason
        if self.session is not None:
            self.session.cancel_reason = reason


@dataclass(frozen=True, slots=True, eq=False)
class InferenceRequest:
    model: Model
    id: str
    inputs: dict[str, Tensor]  # read before the first output
    parameters: Mapping[str, Any] = field(default_factory=dict)


class _AnothersSession(InvalidRequest):
    """A request does not go on with the session of its id, which stays as it is."""


@dataclass(slots=True, eq=False)
class _Session:
    tokens: TokenSession
    prompt_digest: bytes
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    given: list[int] = field(default_factory=list)
    deadline_s: float | None = None  # when its listener runs dry; None: has nothing yet
    timer: asyncio.TimerHandle | None = None  # None: a request is running


class Inference:
    """The models over the service; one for a server, whatever protocols it has."""

    def __init__(self, service: Service) -> None:
        self.service = service
        stages = service.stages
        self.models = models_of(stages.family, stages.gives_mel)
        self._sessions: dict[SessionKey, _Session] = {}  # of token2wav

    @property
    def num_sessions(self) -> int:
        return len(self._sessions)

    def find(self, name: str, version: str = "") -> Model:
        """Raises ModelNotFound."""
        model = self.models.get(name)
        if model is None:
            raise ModelNotFound(f"there is no model {name[:64]!a}; there are {', '.join(self.models)}")
        if version not in ("", VERSION):
            raise ModelNotFound(f"model {name!r} has no version {version[:16]!a}; it has version {VERSION}")
        return model

    def request(
        self,
        model: Model,
        id: str,
        inputs: Mapping[str, Tensor],
        parameters: Mapping[str, Any],
        outputs: Iterable[str],
    ) -> InferenceRequest:
        """Check what is there of a request. outputs: names of those wanted. Raises InvalidRequest."""
        for spec in model.inputs:
            if spec.name not in inputs and not spec.is_optional:
                raise InvalidRequest(
                    f"input `{spec.name}` of model `{model.name}` is missing; send {spec.datatype} "
                    f"{[1, *spec.dims]}",
                    spec.name,
                )
        for name in outputs:
            if name != model.output.name:
                raise InvalidRequest(
                    f"model `{model.name}` has no output {name[:64]!a}; it has `{model.output.name}`",
                    name[:64],
                )
        return InferenceRequest(model, id, dict(inputs), parameters)

    async def run(self, request: InferenceRequest, caller: Caller) -> AsyncGenerator[Tensor, None]:
        """Yield the model's output: of one that speaks texts chunk by chunk, else once; each (1, ...).

        Raises TtsError.
        """
        statistics = request.model.statistics
        began_s = time.perf_counter()
        queue_s = [0.0]
        try:
            if request.model.is_decoupled:
                async with aclosing(self._speak(request, caller, queue_s)) as chunks:
                    async for chunk in chunks:
                        yield chunk[None]
            else:
                with (
                    rejections_counted(self.service.metrics),
                    self.service.quotas.admitted(caller.client.name),
                ):
                    output = await getattr(self, f"_{request.model.name}")(request, caller)
                yield output[None]
        except BaseException:
            statistics.fail.add(time.perf_counter() - began_s)
            raise
        statistics.last_inference_ms = round(1000 * time.time())
        took_s = time.perf_counter() - began_s
        statistics.success.add(took_s)
        statistics.queue.add(queue_s[0])
        statistics.compute.add(took_s - queue_s[0])

    async def whole(self, request: InferenceRequest, caller: Caller) -> Tensor:
        """Return the output as one tensor."""
        async with aclosing(self.run(request, caller)) as outputs:
            return np.concatenate([output async for output in outputs], axis=-1)

    async def _speak(
        self, request: InferenceRequest, caller: Caller, queue_s: list[float]
    ) -> AsyncGenerator[Samples, None]:
        service = self.service
        text = _text(request.inputs["target_text"], "target_text")
        if not text:
            raise InvalidRequest("`target_text` is empty; send the text to speak", "target_text")
        voice = _voice(request.parameters)
        reference = self._reference(request)
        if reference is not None and voice.speaker is not None:
            raise InvalidRequest("`reference_wav` and the parameter speaker both came; send one", "speaker")
        synthesis = SynthesisRequest(
            request.id or uuid4().hex,
            "kserve",
            text=text,
            voice=voice.voice_choice(reference),
            reading=voice.reading,
            sampling=voice.sampling,
            seed=voice.seed,
            delivery=voice.delivery(),
            client=caller.client,
        )
        session = StreamSession(service, synthesis, caller.received_s, caller.headers)
        session.cancel_reason = caller.cancel_reason
        caller.session = session
        async with session:
            stream = session.stream
            queue_s[0] = stream.stats.queue_wait_s
            has_audio = False
            async for event in stream:
                if isinstance(event, Audio) and event.samples.size:
                    has_audio = True
                    session.record.encoded(0.0)  # the protocol takes samples as they are
                    yield event.samples
                    session.record.audio_went(event.samples.size, stream.sample_rate_hz)
            if not has_audio:
                yield np.zeros(round(MIN_AUDIO_S * stream.sample_rate_hz), np.float32)

    def _reference(self, request: InferenceRequest) -> SentRecording | None:
        """The recording that came with a text; None: none came."""
        if "reference_wav" not in request.inputs:
            return None
        given = request.inputs.get("reference_text")
        transcript = checked_transcript("" if given is None else _text(given, "reference_text"))
        content = encode_whole("wav", _samples(request), REFERENCE_HZ, REFERENCE_HZ, 1.0)
        return SentRecording(content, transcript)

    async def _audio_tokenizer(self, request: InferenceRequest, caller: Caller) -> Tensor:
        tokens = await self.service.stages.speech_tokens(_samples(request), REFERENCE_HZ, caller.client)
        return np.array(tokens, np.int32) + SPEECH_TOKEN_OFFSET

    async def _speaker_embedding(self, request: InferenceRequest, caller: Caller) -> Tensor:
        return await self.service.stages.embedding(_samples(request), REFERENCE_HZ, caller.client)

    async def _vocoder(self, request: InferenceRequest, caller: Caller) -> Tensor:
        is_last = bool(request.inputs.get("finalize", np.ones((1, 1), bool))[0, 0])
        mel = request.inputs["mel"][0]
        self.service.engine.info.limits.check_given(mel.shape[1], MEL_HZ, "mel frames", "mel")
        return await self.service.stages.vocode(mel, is_last, self.service.clock())

    async def _token2wav(self, request: InferenceRequest, caller: Caller) -> Tensor:
        """Each request has all tokens so far; those that are new are given on.

        Without `token_offset` the request is whole by itself. A session ends with its final request, with an
        error, and with its caller.
        """
        tokens = _speech_tokens(request.inputs["target_speech_tokens"])
        info = self.service.engine.info
        info.limits.check_given(len(tokens), info.token_rate_hz, "speech tokens", "target_speech_tokens")
        is_whole = "token_offset" not in request.inputs
        is_last = is_whole or bool(request.inputs.get("finalize", np.zeros((1, 1), bool))[0, 0])
        if not is_whole and not request.id:
            raise InvalidRequest("a request with `token_offset` needs an id, which its session goes by", "id")
        key = (caller.client.name, caller.host, uuid4().hex if is_whole else request.id)
        try:
            async with self._session(key, request, tokens, is_last, caller.client) as session:
                if caller.sessions is not None:
                    caller.sessions.add(key)
                num_given = len(session.given)
                if len(tokens) < num_given:
                    raise InvalidRequest(
                        f"{len(tokens)} speech tokens came after {num_given}; send all of them again with "
                        "each request",
                        "target_speech_tokens",
                    )
                new = tokens[num_given:]
                session.given = tokens
                clock, service = self.service.clock, self.service
                deadline_s = clock() if session.deadline_s is None else session.deadline_s
                output = await session.tokens.step(new, is_last, deadline_s)
                rate_hz = MEL_HZ if service.stages.gives_mel else info.sample_rate_hz
                session.deadline_s = max(deadline_s, clock()) + output.shape[-1] / rate_hz
        except _AnothersSession:
            raise
        except BaseException:
            self.free(key)
            raise
        if is_last:
            self.free(key)
        return output

    @asynccontextmanager
    async def _session(
        self, key: SessionKey, request: InferenceRequest, tokens: list[int], is_last: bool, client: Client
    ) -> AsyncGenerator[_Session, None]:
        """The session of a request, opened by its first; alone in it until left, then idle."""
        session = self._sessions.get(key)
        prompt, digest = _prompt(request), _prompt_digest(request)
        if session is None:
            if len(self._sessions) >= MAX_SESSIONS:
                raise Overloaded(f"{MAX_SESSIONS} sessions of token2wav are open; finish one first", 1)
            stages = self.service.stages
            hop = None
            if not is_last:  # the first hop then ends where the client's does
                hop = (len(tokens) - stages.lookahead_tokens - 1) % stages.chunk_tokens + 1
            opened = await stages.open_tokens(prompt, hop, client)
            if key in self._sessions:
                opened.close()
                raise _AnothersSession(
                    "two first requests of one id came at once; send one after the other", "id"
                )
            session = self._sessions[key] = _Session(opened, digest)
        async with session.lock:
            if self._sessions.get(key) is not session:
                raise _AnothersSession(
                    f"the session of the id {request.id[:64]!a} ended while this request waited for it; "
                    "begin it again",
                    "id",
                )
            if session.timer is not None:
                session.timer.cancel()
                session.timer = None
            num_same = min(len(tokens), len(session.given))
            is_same = tokens[:num_same] == session.given[:num_same] and digest in (b"", session.prompt_digest)
            if is_same:
                yield session
            if self._sessions.get(key) is session:
                idle_s = self.service.limits.slow_listener_timeout_s
                session.timer = asyncio.get_running_loop().call_later(idle_s, self.free, key)
        if not is_same:
            raise _AnothersSession(
                f"a session of the id {request.id[:64]!a} has another prompt or other speech tokens; give "
                "each session an id of its own",
                "id",
            )

    def free(self, key: SessionKey) -> None:
        """Free a session of token2wav, if it is there."""
        session = self._sessions.pop(key, None)
        if session is not None:
            if session.timer is not None:
                session.timer.cancel()
            session.tokens.close()

    def close(self) -> None:
        for key in list(self._sessions):
            self.free(key)


def _text(tensor: Tensor, name: str) -> str:
    try:
        return str(tensor.reshape(-1)[0].decode())
    except UnicodeDecodeError:
        raise InvalidRequest(f"`{name}` is not UTF-8", name) from None


def _voice(parameters: Mapping[str, Any]) -> VoiceFields:
    """Parameters of ours that a request may have; others are left to those who know them."""
    given = {name: parameters[name] for name in _VOICE_PARAMETERS if name in parameters}
    return validated(VoiceFields, given)


def _samples(request: InferenceRequest) -> Samples:
    """The recording without the zeros behind it."""
    samples: Samples = request.inputs["reference_wav"][0]
    length = request.inputs.get("reference_wav_len")
    if length is None:
        return samples
    num_samples = int(length[0, 0])
    if not 0 < num_samples <= len(samples):
        raise InvalidRequest(
            f"`reference_wav_len` is {num_samples}; expected 1 to {len(samples)}, the samples that came",
            "reference_wav_len",
        )
    return samples[:num_samples]


def _speech_tokens(tensor: Tensor) -> list[int]:
    """The flow's own numbers; the published deployment has them behind those of the text."""
    tokens = tensor[0].astype(np.int64)
    if tokens.size and tokens.min() >= SPEECH_TOKEN_OFFSET:
        tokens = tokens - SPEECH_TOKEN_OFFSET
    found: list[int] = tokens.tolist()
    return found


def _prompt(request: InferenceRequest) -> SpeechPrompt | None:
    given = [name for name in _PROMPT_INPUTS if name in request.inputs]
    if not given:
        return None
    if len(given) < len(_PROMPT_INPUTS):
        missing = next(name for name in _PROMPT_INPUTS if name not in given)
        raise InvalidRequest(f"input `{missing}` is missing beside `{given[0]}`; send all three", missing)
    tokens, mel, embedding = (request.inputs[name] for name in _PROMPT_INPUTS)
    if mel.shape[1] > MAX_PROMPT_S * MEL_HZ:
        raise InvalidRequest(
            f"`prompt_speech_feat` has {mel.shape[1]} frames; expected {MAX_PROMPT_S * MEL_HZ} at most, "
            f"{MAX_PROMPT_S} s of a recording",
            "prompt_speech_feat",
        )
    speech_tokens = np.array(_speech_tokens(tokens), np.int64)
    num_tokens = min(len(speech_tokens), mel.shape[1] // 2)  # two frames a token
    return SpeechPrompt(
        speech_tokens[:num_tokens],
        mel[0, : 2 * num_tokens].astype(np.float32),
        embedding[0].astype(np.float32),
    )


def _prompt_digest(request: InferenceRequest) -> bytes:
    """Tell one prompt from another; b"" for none."""
    given = [request.inputs[name] for name in _PROMPT_INPUTS if name in request.inputs]
    return hashlib.sha256(b"".join(tensor.tobytes() for tensor in given)).digest() if given else b""
