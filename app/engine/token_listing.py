"""Speech tokens of a text as they are drawn, without audio: for split deployments, rewards and evaluation."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from dataclasses import replace

from firstword.app.core.admission import Admission
from firstword.app.core.interface import ListedTokens, SynthesisRequest
from firstword.app.core.prompt import PromptBuilder
from firstword.app.core.text_task import TextReader
from firstword.app.core.tokens import start, wait_for
from firstword.app.errors import Restarting
from firstword.app.speakers.interface import PreparedSpeakers
from firstword.app.text.marks import Pause, Voice
from firstword.app.text.segment import Segment
from firstword.models.lm.tokens import TokenGenerator


async def list_tokens(
    request: SynthesisRequest,
    speakers: PreparedSpeakers,
    admission: Admission,
    text: TextReader,
    prompt_builder: PromptBuilder,
    generator: TokenGenerator,
) -> AsyncGenerator[ListedTokens]:
    """Yield tokens as they come, those that speaking the request would turn into sound; a whole text only.

    It holds a slot while it runs. Raises what entering a stream and iterating over it raise.
    """
    assert request.text is not None, "a whole text"
    if generator.unready_reason:
        raise Restarting(generator.unready_reason)
    speaker = await speakers.prepared(request.speaker, request.client, request.reference)
    if request.reference is not None:
        request.reference.release()
    seed = secrets.randbits(31) if request.seed is None else request.seed
    slot = await admission.acquire()
    try:
        warnings: list[str] = []
        feed = await asyncio.to_thread(text.open, "whole", request.language, request.reading, warnings)
        voice, number, num_seeds = speaker, -1, 0
        items = await asyncio.to_thread(feed.read, request.text, True)
        for item in items:
            if isinstance(item, Voice):
                voice = speaker
                if item.name is not None:
                    name = speakers.get(item.name, request.client, takes_alias=True).name
                    voice = await speakers.prepared(name, request.client)
            num_seeds += isinstance(item, Segment | Pause)  # as where it is spoken
            if not isinstance(item, Segment):
                continue
            number += 1
            utterance = prompt_builder.utterance(
                voice.features,
                item.text_ids,
                request.instruct,
                seed + num_seeds - 1,
                request.voice_mode,
                request.reading.accent,
            )
            tokens = start(generator, replace(utterance, sampling=request.sampling, wants_logprobs=True))
            position = 0
            try:
                while not tokens.has_ended or position < len(tokens.ids):
                    await wait_for(tokens, position + 1)
                    end = len(tokens.ids)
                    yield ListedTokens(
                        number,
                        item.source,
                        tuple(tokens.ids[position:end]),
                        tuple(detail.logprob for detail in tokens.details[position:end]),
                        tokens.reason if tokens.has_ended else None,
                        tuple(warnings),
                    )
                    position = end
            finally:
                generator.stop(tokens)
    finally:
        slot.release()
