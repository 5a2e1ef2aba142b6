"""Every option of POST /tts reaches the engine from every surface; what a wire has no place for is listed."""

import asyncio
from typing import Final

import pytest

from tests.support.every_option import SENT, meant, told
from tests.support.serving import HELLO
from tests.surfaces.contract.conftest import Serve
from tests.surfaces.contract.surfaces import Spoken

pytestmark = pytest.mark.anyio

_TENSORS: Final = {
    "reference_audio": "a recording is the tensor `reference_wav`",
    "reference_text": "it is the tensor of that name",
    "context": "a model answers in chunks",
}
NO_PLACE: Final[dict[str, dict[str, str]]] = {
    "websocket": {"context": "the name of a text within the socket"},
    "inference-http": _TENSORS,
    "inference-grpc": _TENSORS,
    "cosyvoice": dict.fromkeys(
        SENT.keys() - {"speaker", "instruct", "language", "seed", "reference_audio", "reference_text"},
        "clients of the published server send its own fields, and each route is a mode",
    ),
    "line": dict.fromkeys(("reference_audio", "reference_text"), "the example takes no recordings"),
}


MODES: Final[dict[str, tuple[dict[str, str], dict[str, str]]]] = {
    "cosyvoice": ({"voice_mode": "instruct"}, {"voice_mode": "zero_shot"})
}
"""Of a surface whose routes are modes, those that speak by name and by recording."""

BY_NAME: Final = {"reference_audio", "reference_text", "voice_mode"}
BY_RECORDING: Final = {"speaker", "instruct"}
"""What is left out where the voice is that of a name or of a recording."""


async def test_every_option_reaches_the_engine(serve: Serve) -> None:
    """All at once; who speaks is a speaker, then a recording."""
    async with serve() as surface:
        options = SENT.keys() - NO_PLACE.get(surface.name, {}).keys()
        for left_out, mode in zip((BY_NAME, BY_RECORDING), MODES.get(surface.name, ({}, {})), strict=True):
            fields = {name: value for option in options - left_out for name, value in SENT[option].items()}
            answer = await surface.speak(HELLO, **fields)
            assert isinstance(answer, Spoken), answer
            expected = await asyncio.to_thread(meant, fields | mode)
            assert told(surface.engine.streams[-1].request) == told(expected)
