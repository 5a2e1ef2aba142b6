"""`firstword reward`: rewards over HTTP, and a client of it."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Final

import httpx
from fastapi import FastAPI, HTTPException
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from firstword.finetune.errors import FinetuneError
from firstword.finetune.reward.rewarder import RewardItem, Score, Scorer

MAX_ITEMS: Final = 1024
MAX_TOKENS: Final = 4096
MAX_TEXT: Final = 4000
TIMEOUT_S: Final = 600.0


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: Annotated[list[int], Field(max_length=MAX_TOKENS)]
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    speaker: str = ""
    has_ended: bool = True


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    items: Annotated[list[Item], Field(min_length=1, max_length=MAX_ITEMS)]


class Reward(BaseModel):
    reward: float
    error_rate: float
    transcript: str
    duration_s: float
    likeness: float | None


class Response(BaseModel):
    rewards: list[Reward]


def reward_app(scorer: Scorer) -> FastAPI:
    """POST /v1/rewards; GET /health answers once the networks are loaded."""
    app = FastAPI(title="Firstword rewards")

    @app.post("/v1/rewards")
    async def rewards(request: Request) -> Response:
        items = [RewardItem(tuple(i.tokens), i.text, i.speaker, i.has_ended) for i in request.items]
        try:
            scores = await run_in_threadpool(scorer.score, items)
        except FinetuneError as error:
            raise HTTPException(400, str(error)) from error
        return Response(rewards=[Reward.model_validate(asdict(score)) for score in scores])

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    return app


class RemoteRewarder:
    """Asks a reward server."""

    def __init__(self, client: httpx.Client) -> None:
        """client: with the server's base URL."""
        self._client = client

    @classmethod
    def at(cls, url: str) -> "RemoteRewarder":
        return cls(httpx.Client(base_url=url, timeout=TIMEOUT_S))

    def score(self, items: Sequence[RewardItem]) -> list[Score]:
        """Raises FinetuneError where the server cannot be reached or refuses."""
        given = [
            {"tokens": list(i.tokens), "text": i.text, "speaker": i.speaker, "has_ended": i.has_ended}
            for i in items
        ]
        try:
            response = self._client.post("/v1/rewards", json={"items": given})
        except httpx.HTTPError as error:
            raise FinetuneError(f"the reward server does not answer: {error}") from error
        if response.status_code != httpx.codes.OK:
            raise FinetuneError(f"the reward server refused: {response.status_code} {response.text[:300]}")
        return [Score(**one.model_dump()) for one in Response.model_validate(response.json()).rewards]
