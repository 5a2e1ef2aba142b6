"""OpenAI's speech API and its custom voices as one surface."""

from collections.abc import Sequence

from starlette.routing import BaseRoute

from firstword.app.clients import ANYBODY
from firstword.app.http.service import Service
from firstword.app.http.surface import HttpSurface
from firstword.app.surfaces.openai import speech, voices
from firstword.app.surfaces.openai.options import MAX_DESCRIBED, OpenAIOptions


class OpenAISurface(HttpSurface):
    def __init__(self, options: OpenAIOptions) -> None:
        super().__init__("openai", [*speech.router.routes, *voices.router.routes, *voices.form_router.routes])
        self.options: OpenAIOptions = options

    def routes(self, service: Service) -> Sequence[BaseRoute]:
        info = service.engine.info
        known, _ = service.speakers.page(ANYBODY, None, MAX_DESCRIBED)
        voices_of_clients = self.options.speakers_of_voices(info.default_speaker, known)
        self.names = speech.Names(
            info.checkpoint, voices_of_clients, self.options.models == "any", self.options.default_voices
        )
        return super().routes(service)
