"""OpenAI's Python client makes, uses and deletes a voice with its consent."""

import io

import openai
import pytest
import soundfile

from tests.e2e.server import Server
from tests.support.service_client import PATIENCE_S, client, spoken

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]


async def test_openai_client_makes_a_voice_and_deletes_it(server: Server) -> None:
    file = io.BytesIO()
    soundfile.write(
        file, await spoken(server, text="I am happy with that.", speaker="alder"), 24_000, format="WAV"
    )
    recording = ("me.wav", file.getvalue())
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", timeout=PATIENCE_S) as api:
        consents, voices = api.audio.voice_consents, api.audio.voices
        consent = await consents.create(name="Mia", language="en-US", recording=recording)
        assert (consent.object, consent.name, consent.language) == ("audio.voice_consent", "Mia", "en-US")
        assert (await consents.update(consent.id, name="Mia L.")).name == "Mia L."
        assert [one.id async for one in consents.list(limit=1)] == [consent.id]
        voice = await voices.create(name="mia-custom", audio_sample=recording, consent=consent.id)
        assert (voice.id, voice.object, voice.type) == ("mia-custom", "audio.voice", "audio_sample")
        speech = await api.audio.speech.create(
            model="tts-1", voice={"id": voice.id}, input="Hello there.", response_format="wav"
        )
        assert len(speech.content) > 24_000
        with pytest.raises(openai.BadRequestError, match="delete the voice"):
            await consents.delete(consent.id)
        with pytest.raises(openai.BadRequestError, match="not supported"):
            await voices.create(name="b", type="prompt", prompt="a warm voice")
        with pytest.raises(openai.NotFoundError, match="no consent"):
            await voices.create(name="c", audio_sample=recording, consent="cons_unknown")
        with pytest.raises(openai.BadRequestError, match="no audio file"):
            await consents.create(name="Mia", language="en", recording=("a.wav", b"no audio"))
        assert (await voices.delete(voice.id)).deleted
        with pytest.raises(openai.NotFoundError):
            await consents.retrieve(consent.id)
        unused = await consents.create(name="Eva", language="de", recording=recording)
        assert (await consents.delete(unused.id)).deleted
    async with client(server) as http:
        assert "mia-custom" not in (await http.get("/speakers")).text
