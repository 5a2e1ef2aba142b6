"""The console in a real browser, over a server without networks."""

import asyncio
import json
import re
import subprocess
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest

from firstword.app.audio.encode import encode_whole
from firstword.app.audio.watermark import Watermark
from firstword.app.clients import ANYBODY, Client
from firstword.app.errors import Overloaded
from firstword.app.http.keys import KeyRing
from firstword.app.provenance import Provenance
from firstword.app.telemetry.metrics import Metrics
from tests.speakers.recordings import recording
from tests.speakers.servers import Servers
from tests.support.browser import Watch, open_console, until, until_says
from tests.support.fake_engine import INFO, FakeEngine
from tests.support.fake_speakers import ANNA, HUM, FakeSpeakers
from tests.support.serving import PATIENCE_S, make_services, make_surfaces, serving
from tests.support.sounds import tone

if TYPE_CHECKING:
    from playwright.async_api import Page, Response, Route, WebSocketRoute

pytestmark = pytest.mark.anyio

NAMES = ["speak", "converse", "speakers", "server", "listen"]
KEY = "open-sesame"
MAX_BYTES = 300_000
MAX_FIRST_PAINT_MS = 500
# The samples of each playback as one text, whatever part of them is played.
KEEP_PLAYED = """
window.played = [];
const copy = AudioBuffer.prototype.copyToChannel;
AudioBuffer.prototype.copyToChannel = function (samples, channel) {
  window.played.push(new Float32Array(samples.buffer).slice(0, 4000).join());
  return copy.call(this, samples, channel);
};
"""
KEEP_MICROPHONES = """
window.microphones = [];
const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
navigator.mediaDevices.getUserMedia = async (options) => {
  const stream = await open(options);
  microphones.push(...stream.getTracks());
  return stream;
};
"""
FIRST_PAINT = """() => performance.getEntriesByName("first-contentful-paint")[0].startTime"""


async def faults_of(page: "Page", within: str | None = None, **options: object) -> list[str]:
    """What axe-core finds that is serious or critical. within: a selector. options: its own."""
    from axe_playwright_python.async_playwright import Axe  # installed where a browser is

    results = await Axe().run(page, within, options or None)
    return [
        f"{fault['id']}: {node['html'][:120]}"
        for fault in results.response["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]


@pytest.mark.parametrize("name", NAMES)
async def test_a_page_can_be_used_by_everybody(page: "Page", name: str) -> None:
    """By axe-core in both themes, without errors or other hosts; on a phone nothing is wider than it."""
    async with serving(make_services()) as url:
        watch = await open_console(page, url, name)
        await page.emulate_media(color_scheme="light", reduced_motion="reduce")
        assert await faults_of(page) == []
        await page.emulate_media(color_scheme="dark")
        assert await faults_of(page, runOnly=["color-contrast"]) == []
        await page.set_viewport_size({"width": 360, "height": 740})
        assert await page.evaluate("document.scrollingElement.scrollWidth") <= 360
        watch.assert_quiet()  # while it is served: the page of the server goes on asking


async def test_who_speaks_is_chosen_before_the_player_on_a_phone_and_by_accent_too(page: "Page") -> None:
    british = replace(INFO, accents=("british",))
    async with serving(make_services(FakeEngine(info=british))) as url:
        await page.set_viewport_size({"width": 360, "height": 740})
        await open_console(page, url)
        tops = [
            await page.evaluate(f"document.getElementById('{name}').getBoundingClientRect().top")
            for name in ("speak-speakers", "speak-text", "speak-player")
        ]
        assert tops == sorted(tops)
        assert tops[0] < 740, "without scrolling"
        for name in ("speak", "converse"):
            said = await page.locator(f"#{name}-language option").all_inner_texts()
            assert "British English (en-GB)" in said


async def test_the_server_page_shows_what_was_before_it(page: "Page") -> None:
    async with serving(make_services()) as url:
        async with httpx.AsyncClient() as client:
            (await client.post(f"{url}/tts", json={"text": "Hello."})).raise_for_status()
        await open_console(page, url, "server")
        await until_says(page, "#server-ttfb-hint", "1 stream since the server was started")
        await until_says(page, "#server-rtf-hint", "1 stream since the server was started")


async def test_the_server_page_counts_anew_behind_a_restart(page: "Page") -> None:
    """And what waits, as files do, is not what runs."""
    before, after = (metrics_of(num_streams) for num_streams in (3, 1))
    after.requests_in_flight.inc(3)
    after.max_streams.set(4)
    after.file_queue_depth.set(2)
    began = re.compile(r"(?m)^process_start_time_seconds .*$")
    shown = began.sub("process_start_time_seconds 1", before.exposition()[0].decode())

    async def answer(route: "Route") -> None:
        await route.fulfill(body=shown, content_type="text/plain")

    async with serving(make_services()) as url:
        await page.route("**/metrics", answer)
        await open_console(page, url, "server")
        await until_says(page, "#server-rtf-hint", "3 streams since the server was started")
        shown = began.sub("process_start_time_seconds 2", after.exposition()[0].decode())
        await until_says(page, "#server-tiles", "/ 4")
        assert "1 stream since the server was started" in await page.inner_text("#server-rtf-hint")
        assert "1 / 4" in await page.inner_text("#server-tiles")


def metrics_of(num_streams: int) -> Metrics:
    metrics = Metrics()
    for _ in range(num_streams):
        metrics.real_time_factor.observe(0.3)
    return metrics


async def test_the_console_is_light_and_soon_there(page: "Page") -> None:
    paints_ms = []
    responses: list[Response] = []
    page.on("response", lambda response: responses.append(response))  # Playwright marks the handler
    async with serving(make_services()) as url:
        await open_console(page, url)
        weight = sum([len(await response.body()) for response in responses])
        assert 50_000 < weight <= MAX_BYTES
        for _ in range(3):  # another test may be using the machine
            await page.reload()
            paints_ms.append(await page.evaluate(FIRST_PAINT))
    assert min(paints_ms) <= MAX_FIRST_PAINT_MS


async def test_by_keyboard_alone_a_text_is_spoken(page: "Page") -> None:
    engine = FakeEngine()
    async with serving(make_services(engine)) as url:
        watch = await open_console(page, url)
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.className") == "skip"
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "main"
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.value") == "hum"
        await page.keyboard.press("ArrowDown")
        while await page.evaluate("document.activeElement.id") != "speak-text":
            await page.keyboard.press("Tab")
        await page.keyboard.press("Control+A")
        await page.keyboard.type("Hi you.")
        await page.keyboard.press("Control+Enter")
        await until_says(page, "#speak-status", "Spoken")
        await until(page, "window.loudest > 0.1")
        assert await page.inner_text("#speak-length") == "0.3 s"
        await page.focus("#tab-curl")
        await page.keyboard.press("ArrowRight")
        assert "import httpx" in await page.inner_text("#speak-code")
    assert [(stream.request.text, stream.speaker) for stream in engine.streams] == [("Hi you.", "anna")]
    watch.assert_quiet()


async def test_the_shown_requests_are_the_one_that_was_sent(page: "Page", tmp_path: Path) -> None:
    engine = FakeEngine()
    async with serving(make_services(engine)) as url:
        await open_console(page, url)
        await page.fill("#speak-text", """It's "quoted", $HOME and `ls`.""")
        await page.fill("#speak-instruct", "calm")
        await page.fill("#speak-seed", "7")
        await page.click("label[for=speaker-anna]")
        await page.select_option("#speak-format", "wav")
        await page.click("#speak-go")
        await until_says(page, "#speak-status", "Spoken")
        curl = await page.inner_text("#speak-code")
        await page.click("#tab-python")
        python = await page.inner_text("#speak-code")
        await page.click("#tab-javascript")
        await page.evaluate(f"async () => {{ {await page.inner_text('#speak-code')}\n}}")
        for command in (["bash", "-c", curl], [sys.executable, "-c", python]):
            done = await asyncio.to_thread(
                subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, "")
            assert (tmp_path / "speech.wav").read_bytes()[:4] == b"RIFF"
            (tmp_path / "speech.wav").unlink()
    spoken = [(s.request.text, s.speaker, s.request.voice.instruct, s.request.seed) for s in engine.streams]
    assert len(spoken) == 4
    assert set(spoken) == {("""It's "quoted", $HOME and `ls`.""", "anna", "calm", 7)}


async def test_what_goes_wrong_is_said_in_words(page: "Page") -> None:
    engine = FakeEngine(refusal=Overloaded("all slots are taken; retry in 3 s", 3))
    async with serving(make_services(engine)) as url:
        await open_console(page, url)
        await page.click("#speak-go")
        await page.wait_for_selector("#trouble:not([hidden])")
        assert await page.inner_text("#trouble span") == "All slots are taken; retry in 3 s."
        assert await page.get_attribute("#trouble", "role") == "alert"
        engine.refusal = None
        await page.click("#speak-go")
        await until_says(page, "#speak-status", "Spoken")
        assert await page.is_hidden("#trouble")
        engine.failure, engine.fails_after_chunks = RuntimeError("a bug"), 3
        await page.click("#speak-go")
        await page.wait_for_selector("#trouble:not([hidden])")
        assert "broke off" in await page.inner_text("#trouble")
    await page.click("#speak-go")
    await until_says(page, "#trouble", "does not answer")


async def test_two_clicks_in_one_tick_speak_one_text_that_can_be_stopped(page: "Page") -> None:
    engine = FakeEngine()
    async with serving(make_services(engine)) as url:
        await open_console(page, url)
        await page.click("#speak-go")
        await until_says(page, "#speak-status", "Spoken")
        engine.pause, engine.pauses_after_chunks = asyncio.Event(), 1
        go = "document.getElementById('speak-form').requestSubmit()"
        await page.evaluate(f"() => {{ {go}; {go}; }}")
        await until_says(page, "#speak-status", "Playing")
        await page.click("#speak-stop")
        await until_says(page, "#speak-status", "Stopped")
        async with asyncio.timeout(PATIENCE_S):
            for stream in engine.streams:
                await stream.closed.wait()


async def test_an_error_stands_at_its_field_and_a_warning_looks_like_one(page: "Page") -> None:
    async with serving(make_services()) as url:
        await open_console(page, url)
        await page.fill("#speak-lexicon", "a = ipa:[")
        await page.fill("#speak-text", "a" * 4097)
        assert await page.is_disabled("#speak-go")
        assert "over" in (await page.get_attribute("#speak-count", "class") or "")
        assert await page.is_visible("#speak-long")
        await page.click("text=News")
        assert await page.is_enabled("#speak-go")
        await page.fill("#speak-lexicon", "")
        await page.fill("#speak-text", "Добрый день, как дела.")
        await page.click("#speak-go")
        await page.wait_for_selector("#trouble.warning:not([hidden])")
        assert (await page.inner_text("#trouble span")).count(";") == 0, "what helps stands below, smaller"
        assert "FIRSTWORD_CHECKPOINT" in await page.inner_text("#trouble small")
        await page.fill("#speak-text", "Hello.")
        await page.click("#speak-go")
        await until_says(page, "#speak-status", "Spoken")
        assert await page.is_hidden("#trouble")
        unreadable = "Promise.reject(new DOMException('', 'NotReadableError'))"
        await page.evaluate(f"void (File.prototype.text = () => {unreadable})")
        text = {"name": "a.txt", "mimeType": "text/plain", "buffer": b"gone"}
        await page.set_input_files("#speak-open", text)
        await until_says(page, "#trouble", "a.txt cannot be read")
        assert await page.input_value("#speak-text") == "Hello."
        await page.goto(f"{url}/console#speakers")
        await page.set_input_files(
            "#enrol-file", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"no"}
        )
        await page.wait_for_selector("#enrol-drop + #trouble:not([hidden])")
        top = await page.evaluate("document.getElementById('trouble').getBoundingClientRect().top")
        assert top > 60, "under the header nobody sees it"


async def test_what_was_spoken_is_listed_and_can_be_used_again(page: "Page") -> None:
    engine = FakeEngine()
    async with serving(make_services(engine)) as url:
        watch = await open_console(page, url)
        for text, speaker in (("Hi you.", "anna"), ("Bye now.", "hum")):
            await page.fill("#speak-text", text)
            await page.click(f"label[for=speaker-{speaker}]")
            await page.click("#speak-go")
            await until_says(page, "#speak-history ol", text)
        assert await page.locator("#speak-history li").count() == 2
        await page.click("#speak-history li:last-child >> text=Use again")
        assert await page.input_value("#speak-text") == "Hi you."
        assert await page.is_checked("#speaker-anna")
        seed = await page.input_value("#speak-seed")
        await page.click("#speak-go")
        await until(page, "document.querySelectorAll('#speak-history li').length === 3")
        await page.click(".voice:has(#speaker-anna) .play")
        await until(page, "window.loudest > 0.1")
    first, *_, again, heard = [stream.request for stream in engine.streams]
    assert (first.seed, first.text, again.text) == (int(seed), "Hi you.", "Hi you.")
    assert (first.seed, heard.voice.speaker) == (again.seed, "anna")
    watch.assert_quiet()


async def test_a_text_that_another_broke_off_is_listed_as_itself(page: "Page") -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=3)
    async with serving(make_services(engine)) as url:
        await open_console(page, url)
        await page.fill("#speak-text", "First of all.")
        await page.click("#speak-go")
        await until_says(page, "#speak-status", "Playing")
        engine.pause = None
        await page.fill("#speak-text", "Then another.")
        await page.click("#speak-go")
        await until_says(page, "#speak-status", "Spoken")
        await until(page, "document.querySelectorAll('#speak-history li').length === 2")
        texts = await page.locator("#speak-history .line").all_inner_texts()
    assert texts == ["Then another.", "First of all."]


async def test_a_key_is_asked_for_and_kept_in_the_tab(page: "Page") -> None:
    engine = FakeEngine()
    async with serving(make_services(engine, keys=[f"anna:{KEY}"])) as url:
        await page.goto(f"{url}/")
        for key in ("wrong", KEY):
            await page.wait_for_selector("#key-dialog[open]")
            await page.fill("#key-input", key)
            await page.keyboard.press("Enter")
            if key == "wrong":
                await until_says(page, "#key-reason", "not know")
        await page.wait_for_selector("html[data-loaded]", state="attached")
        await page.click("#speak-go")
        await until_says(page, "#speak-status", "Spoken")
        assert "YOUR_KEY" in await page.inner_text("#speak-code")
        kept = await page.evaluate("[Object.values({...sessionStorage}), Object.values({...localStorage})]")
        assert kept == [[KEY], []]
        await page.click("nav >> text=Converse")
        await page.fill("#converse-input", "Hello you.")
        await page.click("#converse-send")
        await until_says(page, "#converse-status", "Spoken")
        await page.goto(f"{url}/docs")  # shares the key
        await page.wait_for_selector(".opblock")
    assert len(engine.streams) == 2


async def test_the_server_page_asks_once_while_it_waits_for_a_key(page: "Page") -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    async with serving(make_services(keys=[f"anna:{KEY}"])) as url:
        await page.clock.install()
        async with page.expect_request("**/metrics"):
            await page.goto(f"{url}/#server")
        await page.wait_for_selector("#key-dialog[open]")
        for _ in range(4):
            await page.clock.run_for(2000)
        await page.fill("#key-input", KEY)
        assert asked.count(f"{url}/metrics") == 1
        await page.keyboard.press("Enter")
        await until_says(page, "#server-tiles", "Ready")


async def test_a_server_with_its_metrics_elsewhere_shows_the_rest(page: "Page") -> None:
    async with serving(make_services(), surfaces=make_surfaces(metrics_port=1)) as url:
        await open_console(page, url, "server")
        await until_says(page, "#server-sub", "on a port of their own")
        await until_says(page, "#server-tiles", "Ready")
        assert "4096 characters" in await page.inner_text("#server-limits")
        assert await page.is_hidden("#trouble")


async def test_a_speaker_is_changed_renamed_moved_and_deleted(page: "Page", tmp_path: Path) -> None:
    speakers = FakeSpeakers({"hum": HUM, "anna": replace(ANNA, access="private")})
    async with serving(make_services(speakers=speakers)) as url:
        watch = await open_console(page, url, "speakers")
        await page.click("[data-name=anna] >> text=Transcript")
        await page.fill("#ask-input", "I am Anna indeed.")
        await page.click("#ask-ok")
        await page.wait_for_selector("text=I am Anna indeed.")
        assert speakers.speakers["anna"].prompt.transcript == "I am Anna indeed."
        async with page.expect_download() as download:
            await page.click("[data-name=anna] >> text=Export")
        await (await download.value).save_as(tmp_path / "anna.safetensors")
        await page.click("[data-name=anna] >> text=Rename")
        await page.fill("#ask-input", "anna2")
        await page.click("#ask-ok")
        await page.wait_for_selector("[data-name=anna2]")
        assert set(speakers.speakers) == {"hum", "anna2"}
        assert speakers.speakers["anna2"].access == "private"
        await page.set_input_files("#speakers-import", tmp_path / "anna.safetensors")
        await page.wait_for_selector("[data-name=anna]")
        await page.click("[data-name=anna2] >> text=Delete")
        await page.click("#ask-cancel")
        assert "anna2" in speakers.speakers
        await page.click("[data-name=anna2] >> text=Delete")
        await page.click("#ask-ok")
        await page.wait_for_selector("[data-name=anna2]", state="detached")
        assert set(speakers.speakers) == {"hum", "anna"}
    watch.assert_quiet()


async def test_a_list_that_is_drawn_anew_takes_no_trouble_with_it(page: "Page") -> None:
    speakers = FakeSpeakers({"hum": HUM, "anna": ANNA, "ida": replace(ANNA, name="ida")})
    async with serving(make_services(speakers=speakers)) as url:
        await open_console(page, url, "speakers")
        for taken in ("ida", "hum"):
            await page.click("[data-name=anna] >> text=Rename")
            await page.fill("#ask-input", taken)
            await page.click("#ask-ok")
            await page.wait_for_selector("[data-name=anna] + #trouble:not([hidden])")
            await page.click("#speakers-reload")
            await page.wait_for_selector("#trouble", state="detached")


async def test_only_who_may_rename_a_speaker_is_offered_it(page: "Page", tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(f'ann = {{ key = "{KEY}", scopes = ["speak", "enrol"] }}')
    owned = {"anna": replace(ANNA, owner="ann"), "ida": replace(ANNA, name="ida", owner="ben")}
    services = make_services(speakers=FakeSpeakers(owned), keys=KeyRing([], tmp_path / "keys.toml"))
    async with serving(services) as url:
        await page.add_init_script(f"sessionStorage.setItem('firstword-key', '{KEY}')")
        await open_console(page, url, "speakers")
        await page.wait_for_selector("[data-name=anna] >> text=Rename")
        await page.wait_for_selector("[data-name=ida] >> text=Transcript")
        assert await page.locator("[data-name=ida] >> text=Rename").count() == 0


async def test_speakers_of_others_stay_theirs_and_keep_their_names(page: "Page", tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        registry = await Servers(tmp_path / "speakers.sqlite", stack).open()
        anna = Client("anna", frozenset({"speak", "enrol"}), "private")
        for client, name in ((anna, "mia"), (anna, "eva"), (ANYBODY, "ida"), (ANYBODY, "mia")):
            await registry.enrol(name, recording(), client=client)
        await registry.enrol("una", recording(), client=anna, access="shared")
        services = make_services(speakers=registry, keys=[f"root:{KEY}"])  # type: ignore[arg-type]
        url = await stack.enter_async_context(serving(services))
        await page.add_init_script(f"sessionStorage.setItem('firstword-key', '{KEY}')")
        await open_console(page, url, "speakers")
        await page.click("[data-name=ida] >> text=Rename")
        await page.fill("#ask-input", "eva")
        await page.click("#ask-ok")
        await until_says(page, "#trouble", "There is a speaker eva already, of anna; choose another name.")
        await page.click("[data-name=eva] >> text=Rename")
        await page.fill("#ask-input", "eve")
        await page.click("#ask-ok")
        await page.wait_for_selector("[data-name=eve]")
        for name, new in (("una", "uma"), ("ida", "ila")):
            await page.click(f"[data-name={name}] >> text=Rename")
            await page.fill("#ask-input", new)
            await page.click("#ask-ok")
            await page.wait_for_selector(f"[data-name={new}]")
        await page.locator("[data-name=mia]").last.get_by_text("Delete").click()  # behind everybody's
        await page.click("#ask-ok")
        await until_says(page, "#speakers-status", "mia is deleted.")
        found = {(one.name, one.owner) for one in registry.list(ANYBODY) if one.kind == "registered"}
    assert found == {("eve", "anna"), ("uma", "anna"), ("ila", None), ("mia", None)}


HEARD = ("a", "b", "x")


async def test_two_clicks_in_one_tick_open_one_microphone_that_is_closed_again(page: "Page") -> None:
    await page.add_init_script(KEEP_MICROPHONES)
    async with serving(make_services()) as url:
        await open_console(page, url, "speakers")
        await page.evaluate("() => [1, 2].forEach(() => document.getElementById('enrol-record').click())")
        await until_says(page, "#enrol-record", "Stop")
        await until(page, "parseFloat(document.getElementById('enrol-time').textContent) > 0")
        await page.click("#enrol-record")
        await until_says(page, "#enrol-record", "Record again")
        assert await page.evaluate("microphones.map((track) => track.readyState)") == ["ended"]
        await page.evaluate(
            "() => { AudioWorklet.prototype.addModule = () => Promise.reject(Error('gone')); }"
        )
        await page.click("#enrol-record")
        await page.wait_for_selector("#trouble:not([hidden])")
        assert await page.evaluate("microphones.map((track) => track.readyState)") == ["ended"] * 2


async def test_a_length_is_said_in_minutes_and_seconds(page: "Page") -> None:
    async with serving(make_services()) as url:
        await open_console(page, url)
        said = await page.evaluate(
            "async () => [59.96, 119.7, 61].map((await import('/assets/console/dom.js')).formatS)"
        )
        assert said == ["1 min 0 s", "2 min 0 s", "1 min 1 s"]


async def test_by_keyboard_alone_a_mark_is_listened_for(page: "Page") -> None:
    """All trials are answered by the samples, as no listener can; the page then says how likely that is."""
    async with serving(make_services()) as url:
        await page.add_init_script(KEEP_PLAYED)
        watch = await open_console(page, url, "listen")
        await page.select_option("#listen-trials", "10")
        await page.focus("#listen-go")
        await page.keyboard.press("Enter")
        for number in range(10):
            await until_says(page, "#listen-number", f"Trial {number + 1} of 10")
            await until(page, "document.activeElement.id === 'listen-a'")
            assert await page.is_disabled("#listen-is-a")
            for letter in HEARD:
                await page.keyboard.press(letter)
                assert await page.get_attribute(f"#listen-{letter}", "aria-pressed") == "true"
            x_is_a = await page.evaluate("window.played.at(-1) === window.played.at(-3)")
            assert x_is_a != await page.evaluate("window.played.at(-1) === window.played.at(-2)")
            if number == 0:
                assert await faults_of(page) == []
            await page.keyboard.press("ArrowLeft" if x_is_a else "ArrowRight")
        await until_says(page, "#listen-score", "10 of 10 right")
        assert await page.evaluate("document.activeElement.id") == "listen-score"
        await until_says(page, "#listen-chance", "in less than 0.1 % of such tests. You probably hear")
        assert await page.locator("#listen-answers li").count() == 10
        said = set(await page.locator("#listen-answers li").all_inner_texts())
        assert said == {"X was A: right", "X was B: right"}
        assert await faults_of(page) == []
        await page.set_viewport_size({"width": 360, "height": 740})
        assert await page.evaluate("document.scrollingElement.scrollWidth") <= 360
    watch.assert_quiet()


async def test_clicks_and_keys_in_one_tick_answer_one_trial(page: "Page") -> None:
    async with serving(make_services()) as url:
        await open_console(page, url, "listen")
        await page.select_option("#listen-trials", "10")
        await page.click("#listen-go")
        await until(page, "document.activeElement.id === 'listen-a'")
        for number in (2, 3):  # by the answers that were counted
            for letter in HEARD:
                await page.click(f"#listen-{letter}")
            ids = "'is-a', 'is-a', 'is-b', 'a'"
            await page.evaluate(
                f"() => [{ids}].forEach((id) => document.getElementById('listen-' + id).click())"
            )
            await until(page, "document.activeElement.id === 'listen-a'")
            assert await page.inner_text("#listen-number") == f"Trial {number} of 10"
        for key in ("b", "Enter"):  # Enter is that of A, which has the focus
            await page.keyboard.down(key)
            await page.keyboard.down(key)  # as a key repeats that is held
            await page.keyboard.up(key)
            letter = {"b": "b", "Enter": "a"}[key]
            assert await page.get_attribute(f"#listen-{letter}", "aria-pressed") == "true"


async def test_a_test_that_is_given_up_frees_the_slot_of_its_coming_pair(page: "Page") -> None:
    engine = FakeEngine()
    has_come = asyncio.Event()  # the second request

    async def pause_second(route: "Route") -> None:
        if engine.streams:
            engine.pause = asyncio.Event()
            engine.has_opened.clear()
            has_come.set()
        await route.continue_()

    async with serving(make_services(engine)) as url:
        await open_console(page, url, "listen")
        await page.route("**/v1/provenance/pair", pause_second)
        await page.click("#listen-go")
        await until(page, "document.activeElement.id === 'listen-a'")
        async with asyncio.timeout(30):
            await has_come.wait()
            await engine.has_opened.wait()
            assert engine.streams[1].is_open
            await page.click("#listen-stop")
            await engine.streams[1].closed.wait()
        assert await page.is_hidden("#trouble")
    assert len(engine.streams) == 2


async def test_files_are_compared_in_the_browser_alone(page: "Page") -> None:
    """With a server that gives no pairs, which says why."""
    marks = Provenance(Watermark(b"a secret of the test", 1))
    sounds = {
        "long": tone(1.0, 24_000, level=0.3),
        "marked": tone(1.0, 24_000, level=0.31),
        "loud": tone(1.0, 24_000, level=0.4),
        "silent": tone(1.0, 24_000, level=0.0),
        "short": tone(0.5, 24_000),
    }
    files = {
        name: {"name": f"{name}.wav", "mimeType": "audio/wav", "buffer": encode_whole("wav", sound, 24_000)}
        for name, sound in sounds.items()
    }
    async with serving(make_services(provenance=marks)) as url:
        await open_console(page, url, "listen")
        await page.click("#listen-go")
        await until_says(page, "#trouble", "Ask a server with FIRSTWORD_PROVENANCE=off")
        assert await page.is_hidden("#listen-trial")
        await page.select_option("#listen-source", "files")
        await page.click("#listen-go")
        await until_says(page, "#trouble", "Choose both files")
        await page.set_input_files("#listen-unmarked", files["long"])
        await page.set_input_files("#listen-marked", files["short"])
        await page.click("#listen-go")
        await until_says(page, "#trouble", "1.00 s and 0.50 s")
        await page.set_input_files("#listen-marked", files["loud"])
        await page.click("#listen-go")
        await until_says(page, "#trouble", "2.5 dB louder than the first")
        await page.set_input_files("#listen-marked", files["silent"])
        await page.click("#listen-go")
        await until_says(page, "#trouble", "One of the files is silent")
        await page.set_input_files("#listen-marked", files["marked"])
        await page.click("#listen-go")
        await until(page, "document.activeElement.id === 'listen-a'")
        await page.click("#listen-b")
        await until(page, "window.loudest > 0.1")
        await until(page, "document.getElementById('listen-b').getAttribute('aria-pressed') === 'false'")
        await page.click("#listen-stop")
        assert await page.is_hidden("#listen-trial")


async def test_the_chance_of_guessing_is_the_binomials(page: "Page") -> None:
    expected = {(0, 10): 1.0, (10, 10): 2.0**-10, (12, 16): 0.0384, (14, 20): 0.0577}
    async with serving(make_services()) as url:
        await open_console(page, url, "listen")
        for (right, trials), chance in expected.items():
            found = await page.evaluate(
                f"import('/assets/console/listen.js').then((page) => page.chanceOf({right}, {trials}))"
            )
            assert found == pytest.approx(chance, abs=5e-5)


async def test_words_are_marked_as_they_sound_where_the_server_sends_their_times(page: "Page") -> None:
    """A server that sends `words` with its audio, played by Playwright."""
    tone = (8000 * np.sin(np.arange(48_000) / 10)).astype("<i2").tobytes()
    words = [
        {"text": "One", "start_ms": 0, "end_ms": 1000, "char_start": 0, "char_end": 3},
        {"text": "two.", "start_ms": 1000, "end_ms": 2000, "char_start": 4, "char_end": 8},
    ]

    def serve(socket: "WebSocketRoute") -> None:
        def answer(raw: str | bytes) -> None:
            message = json.loads(raw)
            if message["type"] == "end":
                named = {"context": message["context"]}
                audio = {
                    "type": "audio",
                    "bytes": len(tone),
                    "start_ms": 0,
                    "duration_ms": 2000,
                    "words": words,
                }
                socket.send(json.dumps(audio | named))
                socket.send(tone)
                socket.send(json.dumps({"type": "done", "stats": {}} | named))

        socket.on_message(answer)

    async with serving(make_services()) as url:
        await page.route_web_socket("**/tts/stream", serve)
        watch = await open_console(page, url, "converse")
        assert await page.is_hidden("#converse-exact"), "nobody knows yet"
        await page.fill("#converse-input", "One two.")
        await page.click("#converse-send")
        for word in ("One", "two."):
            await until(page, f"document.querySelector('.word.now')?.textContent.trim() === '{word}'")
        assert await page.is_hidden("#converse-exact")
        await until(page, "document.querySelectorAll('.word.heard').length >= 3")  # one is the legend's
    watch.assert_quiet()


async def test_what_was_heard_is_estimated_where_an_interrupt_gets_no_answer(page: "Page") -> None:
    tone = (8000 * np.sin(np.arange(96_000) / 10)).astype("<i2").tobytes()

    def serve(socket: "WebSocketRoute") -> None:
        async def answer(raw: str | bytes) -> None:
            message = json.loads(raw)
            if message["type"] == "text":
                audio = {"type": "audio", "bytes": len(tone), "start_ms": 0, "duration_ms": 4000}
                socket.send(json.dumps(audio | {"context": message["context"]}))
                socket.send(tone)
            elif message["type"] == "cancel":
                await socket.close()

        socket.on_message(answer)

    async with serving(make_services()) as url:
        await page.route_web_socket("**/tts/stream", serve)
        await open_console(page, url, "converse")
        await page.fill("#converse-input", "One two three. ")
        await until(page, "parseFloat(document.getElementById('converse-played').textContent) > 0.5")
        await page.keyboard.press("Escape")
        await until_says(page, "#converse-status", "Stopped.")
        await page.wait_for_timeout(100)  # in which the end of the connection comes
        assert await page.inner_text("#converse-cancel") == "–"  # noqa: RUF001
        assert await page.locator(".word.heard").count() >= 2  # one is the legend's


@pytest.mark.parametrize(("path", "shown"), [("/docs", ".opblock"), ("/asyncapi", ".message")])
async def test_the_apis_pages_work_without_the_internet(page: "Page", path: str, shown: str) -> None:
    async with serving(make_services(keys=[f"anna:{KEY}"])) as url:
        watch = Watch(page, url)
        await page.goto(f"{url}{path}")
        await page.fill("#key", KEY)
        await page.keyboard.press("Enter")
        await page.wait_for_selector(shown)
        assert await page.locator(shown).count() >= 13
        assert watch.foreign == []
        assert [error for error in watch.errors if "401" not in error] == []
        for theme in ("light", "dark"):
            await page.emulate_media(color_scheme=theme)
            badges = ".info .title" if path == "/docs" else None  # the rest there is Swagger UI's
            assert await faults_of(page, badges, runOnly=["color-contrast"]) == []
        if path == "/asyncapi":
            assert await faults_of(page) == []
