"""Speech tokens of a text as they are drawn, without audio: for split deployments, rewards and evaluation."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from dataclasses import replace

from firstword.app.core.admission import Admission
from firstword.app.core.interface import ListedTokens
from firstword.app.core.other_languages import OtherLanguages
from firstword.app.core.parts import StreamParts
from firstword.app.core.request import ResolvedReading, SynthesisRequest
from firstword.app.core.tokens import start, wait_for
from firstword.app.errors import Restarting
from firstword.app.text.marks import Pause, Voice
from firstword.app.text.segment import Segment


async def list_tokens(
    request: SynthesisRequest, resolved: ResolvedReading, parts: StreamParts, admission: Admission
) -> AsyncGenerator[ListedTokens]:
    """Yield tokens as they come, those that speaking the request would turn into sound; a whole text only.

    resolved: how the text is read. Holds a slot while it runs. Raises what entering a stream and iterating
    over it raise.
    """
    text, speakers, generator = parts.text, parts.speakers, parts.generator
    assert request.text is not None, "a whole text"
    if generator.unready_reason:
        raise Restarting(generator.unready_reason)
    voice = request.voice
    speaker = await parts.prepared(request, resolved.speaker)
    seed = secrets.randbits(31) if request.seed is None else request.seed
    slot = await admission.acquire()
    try:
        warnings: list[str] = []
        feed = await asyncio.to_thread(
            text.open, "whole", resolved.language, resolved.reading, warnings, resolved.work
        )
        items = await asyncio.to_thread(feed.read, request.text, True)
        segments = [item for item in items if isinstance(item, Segment)]
        voices = [item.name for item in items if isinstance(item, Voice) and item.name is not None]
        names = {name: speakers.get(name, request.client, takes_alias=True).name for name in voices}
        if resolved.follows_text:
            speaker = await speakers.prepared(parts.speaker_of_text(resolved, items), request.client)
        named, number, num_seeds, num_tokens = speaker, -1, 0, 0
        languages = OtherLanguages(parts.info, resolved.language)
        for segment in segments:
            unspoken = languages.read(segment.spoken, segment.language)
            warnings += [warning for warning in unspoken if warning not in warnings]
        languages.check()
        for item in items:
            if isinstance(item, Voice):
                named = speaker
                if item.name is not None:
                    named = await speakers.prepared(names[item.name], request.client)
            num_seeds += isinstance(item, Segment | Pause)  # as where it is spoken
            if not isinstance(item, Segment):
                continue
            number += 1
            utterance = parts.prompt_builder.utterance(
                named.features,
                item.text_ids,
                voice.instruct,
                seed + num_seeds - 1,
                voice.mode,
                resolved.reading.accent,
            )
            tokens = start(generator, replace(utterance, sampling=request.sampling, wants_logprobs=True))
            position = 0
            try:
                while not tokens.has_ended or position < len(tokens.ids):
                    await wait_for(tokens, position + 1)
                    end = len(tokens.ids)
                    num_tokens += end - position
                    resolved.work.check_audio(num_tokens / parts.info.token_rate_hz)
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
