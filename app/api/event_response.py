"""Answers with a turn's audio as OpenAI's server-sent events."""

import base64
import json
import logging
from collections.abc import Mapping

from starlette.types import Send

from app.api.audio_response import AudioResponse, ListenerTooSlow
from app.api.errors import error_body

logger = logging.getLogger(__name__)


class EventResponse(AudioResponse):
    """The decoded deltas, one behind the other, are what an AudioResponse sends."""

    media_type = "text/event-stream"

    def framed(self, data: bytes) -> bytes:
        return _event({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()})

    def ending(self) -> bytes:
        """Text is counted in characters: the engine does not tell its text tokens."""
        stats = self.turn.stream.stats
        usage = {
            "input_tokens": stats.characters,
            "output_tokens": stats.speech_tokens,
            "total_tokens": stats.characters + stats.speech_tokens,
        }
        return _event({"type": "speech.audio.done", "usage": usage})

    async def break_off(self, error: Exception, send: Send) -> None:
        """The last event says what happened; the body itself may then end as any other."""
        if isinstance(error, ListenerTooSlow):
            await super().break_off(error, send)
        logger.error("the audio broke off", exc_info=error)
        event = _event({"type": "speech.audio.error", **error_body(error)})
        await self.send_body(send, event, more_body=False)


def _event(content: Mapping[str, object]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()
