"""The system's Chromium, headless, driven by Playwright."""

import asyncio
import importlib.util
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

TIMEOUT_MS = 60_000  # of one step of a page, on a machine that does something else too
_ARGUMENTS = (
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-device-for-media-stream",  # a microphone that beeps
    "--use-fake-ui-for-media-stream",
    "--host-resolver-rules=MAP *.test 127.0.0.1",
)


def chromium_path() -> str | None:
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return next((path for path in found if path), None)


def missing_reason() -> str | None:
    """Return why no browser can be driven here; None: one can."""
    if chromium_path() is None:
        return "needs Chromium: make setup-browser"
    if importlib.util.find_spec("playwright") is None:
        return "needs Playwright: make setup-browser"
    return None


@asynccontextmanager
async def chromium(*arguments: str) -> AsyncIterator["Browser"]:
    """Start a browser; *.test is this machine for it. It ends with the context. arguments: Chromium's own."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium_path(), headless=True, args=[*_ARGUMENTS, *arguments]
        )
        yield browser
        await browser.close()


@asynccontextmanager
async def new_page(browser: "Browser") -> AsyncIterator["Page"]:
    """Open a page with cookies and storage of its own. Raise what its scripts raised and nothing caught."""
    context = await browser.new_context()
    context.set_default_timeout(TIMEOUT_MS)
    page = await context.new_page()
    errors: list[Exception] = []
    page.on("pageerror", lambda error: errors.append(error))  # Playwright marks the handler
    try:
        yield page
    finally:
        await context.close()
    assert not errors, f"uncaught in the page: {errors}"


async def until(page: "Page", condition: str) -> None:
    """Wait until an expression of JavaScript is true.

    Playwright's own `wait_for_function` uses `eval`, which the pages' Content-Security-Policy forbids.
    """
    ask = f"const ask = () => ({condition}) ? done() : setTimeout(ask, 10)"
    poll = f"() => new Promise((done) => {{ {ask}; ask(); }})"
    try:
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            await page.evaluate(poll)
    except TimeoutError:
        raise AssertionError(f"not within {TIMEOUT_MS} ms: {condition}") from None


async def until_says(page: "Page", selector: str, text: str) -> None:
    """Wait until an element's text has this."""
    await until(
        page, f"document.querySelector({json.dumps(selector)})?.textContent.includes({json.dumps(text)})"
    )


# Listens to all that is played: `heardAt` is when the first sound came out, `loudest` its highest sample.
LISTEN = """
window.clickedAt = 0; window.heardAt = 0; window.loudest = 0;
addEventListener("click", () => { window.clickedAt = performance.now(); }, true);
const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (target, ...more) {
  const result = connect.call(this, target, ...more);
  if (target instanceof AudioDestinationNode && !this.context.listener_) {
    const analyser = this.context.listener_ = new AnalyserNode(this.context, {fftSize: 2048});
    const samples = new Float32Array(2048);
    setInterval(() => {
      analyser.getFloatTimeDomainData(samples);
      const peak = samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
      if (peak > 0.005 && !window.heardAt) window.heardAt = performance.now();
      window.loudest = Math.max(window.loudest, peak);
    }, 5);
  }
  if (target instanceof AudioDestinationNode) connect.call(this, this.context.listener_);
  return result;
};
"""


class Watch:
    """What a page wrote to its console as an error, and which other hosts it asked."""

    def __init__(self, page: "Page", url: str) -> None:
        """url: of the server, whose host alone may be asked."""
        self.errors: list[str] = []
        self.foreign: list[str] = []
        # Playwright marks the handlers, which methods of a list cannot be.
        page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        page.on("request", lambda request: self._note(request.url, url))
        page.on("websocket", lambda socket: self._note(socket.url, url.replace("http", "ws", 1)))

    def _note(self, asked: str, url: str) -> None:
        if not asked.startswith((f"{url}/", "blob:", "data:")):
            self.foreign.append(asked)

    def assert_quiet(self) -> None:
        assert (self.errors, self.foreign) == ([], [])


async def open_console(page: "Page", url: str, name: str = "speak") -> Watch:
    """Open one of the console's pages and wait until it can be used."""
    watch = Watch(page, url)
    await page.add_init_script(LISTEN)
    await page.goto(f"{url}/console#{name}")
    await page.wait_for_selector("html[data-loaded]", state="attached")
    return watch
