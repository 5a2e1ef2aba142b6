"""A client of Firstword: text in as it is written, audio out before it is finished."""

from firstword_client.client import AsyncClient
from firstword_client.events import Audio, ConnectionLost, FirstwordError, Interrupted, Stats, Word
from firstword_client.speech import AsyncSpeech
from firstword_client.sync import Client, Speech

__all__ = [
    "AsyncClient",
    "AsyncSpeech",
    "Audio",
    "Client",
    "ConnectionLost",
    "FirstwordError",
    "Interrupted",
    "Speech",
    "Stats",
    "Word",
]
