"""What a client of the published deployment finds, at our own server and at tritonserver alike."""

import json
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException

from firstword.app.surfaces.inference.models import SPEECH_TOKEN_OFFSET
from tests.e2e.fronts import Front
from tests.support.service_client import TEXT
from tests.support.triton_clients import inferred, streamed, tensors

SAMPLES_PER_TOKEN = 960
PATIENCE_S = 60
SEEDED = {"parameters": {"seed": 7}}
SHORT = "Hi."


@pytest.fixture
def ask(front: Front) -> Any:
    return partial(inferred, front.grpc_address)


def said(front: Front, values: dict[str, Any], **request: Any) -> NDArray[np.float32]:
    got = streamed(front.grpc_address, "cosyvoice2", values, **request)
    assert got.errors == []
    samples: NDArray[np.float32] = np.concatenate(got.audio, axis=1)[0]
    return samples


def recording(front: Front, speaker: str) -> dict[str, Any]:
    """Some 16 kHz of a built-in speaker, with zeros behind it, as the inputs of a model."""
    samples = said(front, {"target_text": TEXT}, parameters={"seed": 7, "speaker": speaker})
    wav = np.interp(np.arange(0, len(samples), 1.5), np.arange(len(samples)), samples).astype(np.float32)
    padded = np.concatenate([wav, np.zeros(160_000 - len(wav), np.float32)])
    return {"reference_wav": padded, "reference_wav_len": np.array([len(wav)], np.int32)}


class Leaver:
    """A client with one stream that leaves it when told."""

    def __init__(self, front: Front) -> None:
        self.parts: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self._client = triton_grpc.InferenceServerClient(front.grpc_address)
        self._client.start_stream(callback=lambda result, error: self.parts.put((result, error)))

    def ask(self, model: str, values: dict[str, Any], request_id: str = "1") -> None:
        self._client.async_stream_infer(model, tensors(triton_grpc, values), request_id=request_id)

    def leave(self) -> None:
        self._client.stop_stream(cancel_requests=True)
        self._client.close()


def test_a_text_is_streamed_and_seeded_alike(front: Front, server: Any) -> None:
    values = {"target_text": TEXT}
    got = streamed(front.grpc_address, "cosyvoice2", values, "abc", **SEEDED)
    assert len(got.audio) > 1
    assert all(chunk.shape[0] == 1 for chunk in got.audio)
    assert got.finals == [False] * len(got.audio) + [True], "audio in a final response is lost"
    assert got.ids == {"abc"}
    samples = np.concatenate(got.audio, axis=1)[0]
    over_http = httpx.post(
        f"{server.url}/tts", json={"text": TEXT, "format": "pcm", "seed": 7}, timeout=PATIENCE_S
    )
    np.testing.assert_allclose(samples, np.frombuffer(over_http.content, "<i2") / 32768, atol=2e-4)


def test_generate_stream_sends_the_same(front: Front) -> None:
    body = {"target_text": "Good morning.", "parameters": {"seed": 7}}
    path = f"{front.url}/v2/models/cosyvoice2/generate_stream"
    with httpx.stream("POST", path, json=body, timeout=PATIENCE_S) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    samples = np.concatenate([event["waveform"] for event in events if event.get("waveform")])
    np.testing.assert_allclose(samples, said(front, {"target_text": "Good morning."}, **SEEDED), atol=1e-6)


def test_an_error_comes_first_and_then_the_final_response(front: Front, ask: Any) -> None:
    got = streamed(front.grpc_address, "cosyvoice2", {"target_text": ""})
    assert (len(got.errors), got.finals) == (1, [True]), "its client would wait for 200 s"
    assert "`target_text` is empty" in got.errors[0]
    target = {"target_speech_tokens": np.array([SPEECH_TOKEN_OFFSET + 99_999], np.int32)}
    with pytest.raises(InferenceServerException, match="99999") as caught:
        ask("token2wav", target, "waveform")
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_recordings_with_equal_transcripts_are_not_taken_for_each_other(front: Front) -> None:
    def said_like(speaker: str) -> NDArray[np.float32]:
        values = {**recording(front, speaker), "reference_text": TEXT, "target_text": SHORT}
        return said(front, values, **SEEDED)

    first, second = said_like("alder"), said_like("wren")
    np.testing.assert_array_equal(first, said_like("alder"))
    assert first.shape != second.shape or np.abs(first - second).max() > 0.01


def test_the_stages_put_together_speak(front: Front, ask: Any) -> None:
    values = recording(front, "alder")
    tokens = ask("audio_tokenizer", values, "prompt_speech_tokens")
    assert tokens.min() >= SPEECH_TOKEN_OFFSET
    wav = {"reference_wav": values["reference_wav"]}
    embedding = ask("speaker_embedding", wav, "prompt_spk_embedding")
    assert (embedding.shape, embedding.dtype) == ((1, 192), np.float16)
    num_tokens = min(60, tokens.shape[1])
    whole = ask("token2wav", {"target_speech_tokens": tokens[0, :num_tokens]}, "waveform")
    assert whole.shape == (1, num_tokens * SAMPLES_PER_TOKEN)
    assert np.abs(whole).max() > 0.05
    prompt = {
        "prompt_speech_tokens": tokens[0, :20],
        "prompt_speech_feat": np.zeros((40, 80), np.float16) - 6,
        "prompt_spk_embedding": embedding[0],
    }
    parts = []
    for priority, (count, offset) in enumerate(((18, 0), (43, 15), (num_tokens, 40)), start=1):
        given = {
            "target_speech_tokens": tokens[0, :count],
            "token_offset": np.array([offset], np.int32),
            "finalize": np.array([count == num_tokens]),
        }
        part = ask("token2wav", {**given, **prompt}, "waveform", request_id="e2e", priority=priority)
        parts.append(part.shape[1])
    assert sum(parts) == num_tokens * SAMPLES_PER_TOKEN
    assert parts[0] > 0, "the first hop ends where the client's does"
    mel = {"mel": np.full((80, 50), -6, np.float32)}
    assert ask("vocoder", mel, "tts_speech").shape == (1, 50 * 480)


def test_requests_of_different_lengths_are_answered_together(front: Front, ask: Any) -> None:
    """As many tokens as the recording has, whoever came beside it: 25 a second. Eight may wait."""
    waves = {count: np.sin(np.arange(640 * count) / 9).astype(np.float32) for count in range(26, 34)}

    def num_tokens(count: int) -> int:
        values = {"reference_wav": waves[count], "reference_wav_len": np.array([640 * count], np.int32)}
        return int(ask("audio_tokenizer", values, "prompt_speech_tokens").shape[1])

    with ThreadPoolExecutor(len(waves)) as clients:
        assert list(clients.map(num_tokens, waves)) == list(waves)
    with triton_grpc.InferenceServerClient(front.grpc_address) as client:
        (counts,) = client.get_inference_statistics("audio_tokenizer").model_stats
    assert counts.inference_count >= len(waves)
    if front.batches:
        assert counts.execution_count < counts.inference_count


def test_texts_at_once_are_not_mixed_up(front: Front) -> None:
    texts = ["Hello.", "Good morning to you.", "Yes.", "The train is late again."]
    alone = [said(front, {"target_text": text}, **SEEDED) for text in texts]
    with ThreadPoolExecutor(len(texts)) as clients:
        together = clients.map(lambda text: said(front, {"target_text": text}, **SEEDED), texts)
        for one, other in zip(alone, together, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, atol=1e-3)


def test_a_cancelled_stream_frees_its_slot_within_100_ms(front: Front) -> None:
    """Beyond what leaving without a stream costs, which a busy machine makes long; the second best of ten."""

    def left_s(has_stream: bool) -> float:
        leaver = Leaver(front)
        if has_stream:
            leaver.ask("cosyvoice2", {"target_text": TEXT})
            assert leaver.parts.get(timeout=PATIENCE_S)[1] is None
        began_s = time.perf_counter()
        leaver.leave()
        front.wait_until_idle()
        return time.perf_counter() - began_s

    without_s, took_s = (sorted(left_s(has_stream) for _ in range(10)) for has_stream in (False, True))
    assert took_s[1] - without_s[5] < 0.1, (without_s, took_s)


def test_a_hundred_clients_that_leave_leave_nothing(front: Front) -> None:
    """Of every ten: five before the first chunk, two after it, two within token2wav, and one that stays."""
    before = front.gauge("tts_event_loop_tasks")
    tokens = np.arange(60, dtype=np.int32)
    at_once = threading.Semaphore(12)  # of 16 slots

    def come_and_go(number: int) -> None:
        with at_once:
            kind = number % 10
            if kind == 9:
                assert said(front, {"target_text": SHORT}).size
                return
            leaver = Leaver(front)
            if kind >= 7:
                token2wav = {"target_speech_tokens": tokens, "token_offset": np.array([0], np.int32)}
                leaver.ask("token2wav", token2wav, f"left-{number}")
                time.sleep(0.02)
            else:
                leaver.ask("cosyvoice2", {"target_text": TEXT})
                if kind >= 5:
                    error = leaver.parts.get(timeout=PATIENCE_S)[1]
                    assert error is None, error
            leaver.leave()

    with ThreadPoolExecutor(16) as clients:
        list(clients.map(come_and_go, range(100)))
    front.wait_until_idle()
    deadline_s = time.monotonic() + 10
    while front.gauge("tts_event_loop_tasks") > before:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    with ThreadPoolExecutor(16) as clients:  # every slot is free: no session of token2wav holds one
        assert all(clients.map(lambda _: said(front, {"target_text": SHORT}).size, range(16)))
