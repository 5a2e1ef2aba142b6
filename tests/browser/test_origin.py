"""In a real browser: pages of other origins can neither change a server nor speak through it."""

from typing import TYPE_CHECKING

import pytest

from tests.support.fake_engine import FakeEngine
from tests.support.fake_speakers import FakeSpeakers
from tests.support.serving import make_services, serving

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = pytest.mark.anyio

# `no-cors`: the browser sends it without asking, and hides only the answer.
REGISTER = """async (url) => {
  const form = new FormData();
  form.append("name", "mallory");
  form.append("audio", new Blob(["RIFF"]), "a.wav");
  await fetch(url + "/speakers", {method: "POST", mode: "no-cors", body: form});
}"""
SPEAK = """(url) => new Promise((resolve) => {
  const socket = new WebSocket(url.replace("http", "ws") + "/tts/stream");
  socket.onerror = () => resolve("refused");
  socket.onopen = () => {
    socket.send(JSON.stringify({type: "text", text: "Hi."}));
    socket.send(JSON.stringify({type: "end"}));
  };
  socket.onmessage = (message) => {
    if (typeof message.data === "string" && JSON.parse(message.data).type === "done") {
      socket.close();
      resolve("spoken");
    }
  };
})"""
READ = """(url) => fetch(url + "/speakers").then((answer) => answer.status, () => "hidden")"""


@pytest.mark.parametrize("is_own", [True, False], ids=["own", "foreign"])
async def test_only_pages_of_its_own_change_a_server_and_speak(page: "Page", is_own: bool) -> None:
    engine, speakers = FakeEngine(), FakeSpeakers()
    async with serving(make_services(engine, speakers)) as url, serving(make_services()) as foreign_url:
        await page.goto(f"{url if is_own else foreign_url}/livez")
        await page.evaluate(REGISTER, url)
        spoken = await page.evaluate(SPEAK, url)
        read = await page.evaluate(READ, url)
    assert ("mallory" in speakers.speakers) is is_own
    assert (spoken, len(engine.streams)) == (("spoken", 1) if is_own else ("refused", 0))
    assert read == (200 if is_own else "hidden")


async def test_a_name_that_an_attacker_points_at_this_machine_is_refused(page: "Page") -> None:
    """DNS rebinding: for the browser the attacker's page is of the server's own origin."""
    speakers = FakeSpeakers()
    async with serving(make_services(speakers=speakers), allowed_hosts=["tts.test"]) as url:
        answers = {}
        for name in ("tts.test", "rebound.test"):
            own = url.replace("127.0.0.1", name)
            await page.goto(f"{own}/livez")
            answers[name] = await page.evaluate(READ, own)
            await page.evaluate(REGISTER.replace("mallory", name.removesuffix(".test")), own)
    assert answers == {"tts.test": 200, "rebound.test": 403}
    assert {"tts", "rebound"} & set(speakers.speakers) == {"tts"}
