"""Assemble what the engine knows of speakers: the networks that read them, the registry, their loudness."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from firstword.app.engine.loading import LoadedNetworks
from firstword.app.engine.loudness import Loudness
from firstword.app.options import SpeakerOptions
from firstword.app.speakers.enrolment import SpeakerNetworks
from firstword.app.speakers.registry import RegistryHooks, SpeakerRegistry
from firstword.app.speakers.store import SpeakerStore
from firstword.app.speakers.store_file import SPEAKERS_FILE
from firstword.app.speakers.tables import SpeakerTables
from firstword.models.cuda import card_bytes
from firstword.models.runtimes.interface import Device
from firstword.models.speaker_match import matched
from firstword.models.token2wav import Token2Wav

LOUDNESS_FILE = "loudness.json"
SPEAKERS_SHARE = 0.1  # of a GPU's memory, for speakers kept ready
DEFAULT_CACHE_MB = 512

OpenStore = Callable[[], SpeakerTables]


@dataclass(frozen=True, slots=True, eq=False)
class SpeakerParts:
    registry: SpeakerRegistry
    networks: SpeakerNetworks
    loudness: Loudness | None  # None: speakers are as loud as the networks make them


async def load_speaker_networks(loaded: LoadedNetworks) -> SpeakerNetworks:
    """Raises CheckpointError."""
    checkpoint, token2wav = loaded.checkpoint, loaded.token2wav
    match = None
    if isinstance(token2wav, Token2Wav):
        match = partial(
            partial(matched, config=checkpoint.config.mel, mean_embedding=checkpoint.traits.mean_embedding),
            token2wav,
        )
    tokenizer = loaded.prompt_builder.tokenizer
    return await asyncio.to_thread(
        SpeakerNetworks, checkpoint, tokenizer, loaded.prompt_states, loaded.device, loaded.lm, match
    )


def speaker_cache_bytes(options: SpeakerOptions, device: Device) -> int:
    if not options.speaker_cache_mb and device == "cuda":
        return round(SPEAKERS_SHARE * card_bytes())
    return (options.speaker_cache_mb or DEFAULT_CACHE_MB) << 20


@asynccontextmanager
async def open_speakers(
    loaded: LoadedNetworks,
    networks: SpeakerNetworks,
    options: SpeakerOptions,
    hooks: RegistryHooks | None = None,
    open_store: OpenStore | None = None,
) -> AsyncIterator[SpeakerParts]:
    """Open the store; it is closed at the end. Raises DatabaseError.

    open_store: opens one that servers share; None: a file.
    hooks: all but `on_registered`, which is the loudness' own.
    """
    options.data_dir.mkdir(parents=True, exist_ok=True)
    loudness = None
    if options.loudness_lufs is not None:
        loudness = Loudness(
            options.loudness_lufs,
            options.data_dir / LOUDNESS_FILE,
            networks.fingerprint,
            loaded.checkpoint.traits.languages,
        )
    registry = SpeakerRegistry(
        SpeakerStore(options.data_dir / SPEAKERS_FILE) if open_store is None else open_store(),
        networks,
        max_cache_bytes=speaker_cache_bytes(options, loaded.device),
        default_speaker=options.default_speaker,
        hooks=replace(
            hooks or RegistryHooks(),
            on_registered=lambda identity, speaker: loudness and loudness.gain_of(identity, speaker),
        ),
    )
    async with registry:
        yield SpeakerParts(registry, networks, loudness)
