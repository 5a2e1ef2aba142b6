"""Every option of a request: the list that each way in has to take, and what it makes of a request."""

import asyncio
import base64
from dataclasses import replace
from typing import Any, Final

from firstword.app.clients import STRANGER
from firstword.app.core.request import SynthesisRequest
from firstword.app.http.schemas import SpeechBody
from firstword.app.speakers.interface import SentRecording
from tests.support.serving import HELLO

RECORDING: Final = b"a recording"

SENT: Final[dict[str, dict[str, Any]]] = {
    "speaker": {"speaker": "anna"},
    "language": {"language": "en-GB"},
    "instruct": {"instruct": "gladly"},
    "seed": {"seed": 7},
    "normalize": {"normalize": False},
    "marks": {"marks": False},
    "ssml": {"ssml": False},
    "lexicon": {"lexicon": {"Nguyen": "win"}},
    "volume": {"volume": 0.5},
    "temperature": {"temperature": 0.75},
    "top_p": {"top_p": 0.5},
    "top_k": {"top_k": 50},
    "ras_window": {"ras_window": 20},
    "ras_threshold": {"ras_threshold": 0.25},
    "min_token_ratio": {"min_token_ratio": 1.5},
    "max_token_ratio": {"max_token_ratio": 30.5},
    "context": {"context": "full"},
    "cache": {"cache": False},
    "voice_mode": {"voice_mode": "cross_lingual"},
    "reference_audio": {"reference_audio": base64.b64encode(RECORDING).decode()},
    "reference_text": {
        "reference_audio": base64.b64encode(RECORDING).decode(),
        "reference_text": "What is said.",
    },
}
"""By the option, the fields of POST /tts that send it."""

OF_THE_AUDIO: Final = {"text", "format", "sample_rate", "speed", "timestamps", "stream"}
"""What the engine knows nothing of; stories of their own hear it on every way in."""

assert SENT.keys() | OF_THE_AUDIO == SpeechBody.model_fields.keys(), "an option is on no list"


def meant(fields: dict[str, Any]) -> SynthesisRequest:
    """Return the request that POST /tts makes of the fields."""
    body = SpeechBody(text=HELLO, **fields)
    reference = asyncio.run(body.reference(1000)) if "reference_audio" in fields else None
    return body.request("", "http", STRANGER, reference)


def told(request: SynthesisRequest) -> tuple[SynthesisRequest, object]:
    """Leave out what differs from one way in to the other; the recording stands beside the rest."""
    reference = request.voice.reference
    recording = (reference.content, reference.transcript) if isinstance(reference, SentRecording) else None
    options = replace(
        request,
        request_id="",
        wire="http",
        mode="whole",
        text="",
        voice=replace(request.voice, reference=None),
        delivery=replace(request.delivery, is_played=True, is_background=False),
        client=STRANGER,
    )
    return options, recording
