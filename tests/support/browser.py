"""The system's Chromium, headless, driven by Playwright."""

import importlib.util
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

TIMEOUT_MS = 20_000  # of one step of a page
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
async def chromium() -> AsyncIterator["Browser"]:
    """Start a browser; *.test is this machine for it. It ends with the context."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium_path(), headless=True, args=_ARGUMENTS
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
