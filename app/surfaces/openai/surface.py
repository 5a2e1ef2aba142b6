"""OpenAI's speech API and its custom voices as one surface."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.routing import BaseRoute

from firstword.app.clients import ANYBODY
from firstword.app.http.service import Service
from firstword.app.http.surface import HttpSurface
from firstword.app.speakers.consents import ConsentStore
from firstword.app.speakers.store_file import SPEAKERS_FILE
from firstword.app.surfaces.openai import speech, voices
from firstword.app.surfaces.openai.options import MAX_DESCRIBED, OpenAIOptions

if TYPE_CHECKING:
    from firstword.app.postgresql import Postgres  # psycopg is an extra


class OpenAISurface(HttpSurface):
    consents: ConsentStore
    """From `running` on."""

    def __init__(self, options: OpenAIOptions, data_dir: Path, postgres: "Postgres | None" = None) -> None:
        """data_dir: with the file of speakers, which keeps their consents too; postgres: has both instead."""
        super().__init__("openai", [*speech.router.routes, *voices.router.routes, *voices.form_router.routes])
        self.options: OpenAIOptions = options
        self._data_dir = data_dir
        self._postgres = postgres

    def routes(self, service: Service) -> Sequence[BaseRoute]:
        info = service.engine.info
        known, _ = service.speakers.page(ANYBODY, None, MAX_DESCRIBED)
        voices_of_clients = self.options.speakers_of_voices(info.default_speaker, known)
        self.names = speech.Names(
            info.checkpoint, voices_of_clients, self.options.models == "any", self.options.default_voices
        )
        return super().routes(service)

    @asynccontextmanager
    async def running(self, service: Service) -> AsyncIterator[None]:
        """Raise DatabaseError."""
        if self._postgres is None:
            opening = asyncio.to_thread(ConsentStore.open, self._data_dir / SPEAKERS_FILE)
        else:
            opening = asyncio.to_thread(ConsentStore, self._postgres.database("consents"))
        self.consents = await opening
        with closing(self.consents):
            yield
