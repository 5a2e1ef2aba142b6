"""Speech tokens of a text as they are drawn, without audio: for split deployments, rewards and evaluation."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

from firstword.app.core.admission import Admission
from firstword.app.core.interface import ListedTokens
from firstword.app.core.parts import StreamParts
from firstword.app.core.request import ResolvedReading, SynthesisRequest
from firstword.app.core.tokens import as_seen
from firstword.app.errors import Restarting, TtsError
from firstword.app.text.marks import Pause, Voice
from firstword.app.text.segment import Segment
from firstword.models.lm.tokens import TokenError, TokenGenerator, TokenStream


@dataclass(slots=True, eq=False)
class Listing:
    """A text whose tokens are listed, from its admission until its client has left it."""

    generator: TokenGenerator
    tokens: TokenStream | None = None  # those of the segment that is read
    error: TtsError | None = None  # with which it ends

    def cancel(self, error: TtsError) -> None:
        """Draw no more tokens: who iterates gets the error instead."""
        self.error = error
        if self.tokens is not None:
            self.generator.stop(self.tokens)

    def check(self) -> None:
        """Raise what it was cancelled with."""
        if self.error is not None:
            raise self.error


async def list_tokens(
    request: SynthesisRequest,
    resolved: ResolvedReading,
    parts: StreamParts,
    admission: Admission,
    running: set[Listing],
) -> AsyncGenerator[ListedTokens]:
    """Yield tokens as they come, those that speaking the request would turn into sound; a whole text only.

    resolved: how the text is read. Holds a slot while it runs, in which it is one of `running`. Raises what
    entering a stream and iterating over it raise.
    """
    speakers, generator = parts.speakers, parts.generator
    assert request.text is not None, "a whole text"
    if generator.unready_reason:
        raise Restarting(generator.unready_reason)
    speaker = await parts.prepared(request, resolved.speaker)
    seed = secrets.randbits(31) if request.seed is None else request.seed
    slot = await admission.acquire()
    listing = Listing(generator)
    running.add(listing)
    try:
        warnings: list[str] = []
        reading = (resolved.language, resolved.reading, warnings, resolved.work)
        feed = await asyncio.to_thread(parts.text.open, "whole", *reading)
        items = await asyncio.to_thread(feed.read, request.text, True)
        names = parts.named_speakers(items, request.client)
        if resolved.follows_text:
            speaker = await speakers.prepared(parts.speaker_of_text(resolved, items), request.client)
        named, number, num_seeds, num_tokens = speaker, -1, 0, 0
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
                request.voice,
                seed + num_seeds - 1,
                resolved.reading.accent,
            )
            listing.check()
            tokens = generator.start(replace(utterance, sampling=request.sampling, wants_logprobs=True))
            listing.tokens = tokens
            position, reason = 0, None
            try:
                while reason is None:
                    await tokens.wait_for(position + 1)
                    listing.check()
                    end, reason = len(tokens.ids), tokens.reason
                    num_tokens += end - position
                    resolved.work.check_audio(num_tokens / parts.info.token_rate_hz)
                    yield ListedTokens(
                        number,
                        item.source,
                        tuple(tokens.ids[position:end]),
                        tuple(detail.logprob for detail in tokens.details[position:end]),
                        reason,
                        tuple(warnings),
                    )
                    position = end
            finally:
                generator.stop(tokens)
    except TokenError as error:
        raise as_seen(error) from error
    finally:
        running.discard(listing)
        slot.release()
