"""Draw the pictures of docs/console.md anew: make screenshots."""

import asyncio
import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import httpx
from PIL import Image

from tests.e2e.server import serving
from tests.support.browser import chromium, open_console, until, until_says

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

PICTURES = Path(__file__).parent.parent.parent / "docs" / "console"
SENTENCE = "The quick brown fox jumps over the lazy dog, while a bright yellow bird is watching."
QUALITY = 82  # of WebP


async def speak(page: "Page") -> None:
    await page.click("#speak-go")
    await until_says(page, "#speak-status", "Spoken")
    await until(page, "parseFloat(document.querySelector('#speak-player .clock').textContent) > 3")


async def converse(page: "Page") -> None:
    await page.click("#converse-write")
    await until(
        page, "document.querySelectorAll('.turn .heard').length > 8"
    )  # later, all audio has been sent
    await page.click("#converse-interrupt")
    await until_says(page, "#converse-cancel", "ms")


async def speakers(page: "Page") -> None:
    await page.click("#enrol-record")
    await until(page, "parseFloat(document.getElementById('enrol-time').textContent) > 6")
    await page.click("#enrol-record")
    await page.wait_for_selector("#enrol-canvas")
    await page.fill("#enrol-name", "ben")


async def server(page: "Page") -> None:
    speak_twice = """async () => {
      const speak = (i) => fetch("/tts", {method: "POST", headers: {"Content-Type": "application/json"},
        body: JSON.stringify({text: "This is stream number " + i + ", spoken with others."})});
      for (const i of [1, 2, 3]) await (await speak(i)).arrayBuffer();
      await Promise.all([4, 5, 6].map(async (i) => (await speak(i)).arrayBuffer()));
    }"""
    await until(page, "document.querySelectorAll('.tile').length > 0")
    await page.evaluate(speak_twice)
    await until_says(page, "#server-rtf-hint", "6 streams")


async def take(browser: "Browser", url: str, name: str, theme: str, width: int, height: int) -> Image.Image:
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, accept_downloads=False
    )
    page = await context.new_page()
    await open_console(page, url, name)
    await {"speak": speak, "converse": converse, "speakers": speakers, "server": server}[name](page)
    await page.evaluate("scrollTo(0, 0)")
    picture = await page.screenshot(full_page=width > 600)
    await context.close()
    return Image.open(io.BytesIO(picture)).convert("RGB")


async def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as data, serving(Path(data)) as server:
        body = {"text": SENTENCE, "speaker": "alder", "seed": 3, "stream": False, "sample_rate": 48_000}
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            recording = (await client.post("/tts", json=body)).content
            form = {"name": "anna", "transcript": SENTENCE, "language": "en"}
            (await client.post("/speakers", data=form, files={"audio": recording})).raise_for_status()
        microphone = Path(data) / "microphone.wav"
        microphone.write_bytes(recording)
        async with chromium(f"--use-file-for-fake-audio-capture={microphone}") as browser:
            pages = [("speak", "light"), ("converse", "dark"), ("speakers", "light"), ("server", "dark")]
            for name, theme in pages:
                picture = await take(browser, server.url, name, theme, 1180, 800)
                picture.save(PICTURES / f"{name}.webp", quality=QUALITY, method=6)
            phones = [
                await take(browser, server.url, name, theme, 390, 800)
                for name, theme in [("speak", "dark"), ("converse", "light"), ("server", "light")]
            ]
            sheet = Image.new("RGB", (sum(p.width for p in phones) + 40, phones[0].height), "#8493a1")
            for i, picture in enumerate(phones):
                sheet.paste(picture, (i * (picture.width + 20), 0))
            sheet.save(PICTURES / "phone.webp", quality=QUALITY, method=6)


if __name__ == "__main__":
    asyncio.run(main())
