"""One Chromium for all tests here. Without it, or without Playwright, they are skipped."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import chromium, missing_reason, new_page

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page


def pytest_runtest_setup(item: pytest.Item) -> None:
    if reason := missing_reason():
        pytest.skip(reason)


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    """One event loop for the browser and all tests that drive it."""
    return "asyncio"


@pytest.fixture(scope="package")
async def browser(anyio_backend: str) -> AsyncIterator["Browser"]:
    async with chromium() as browser:
        yield browser


@pytest.fixture
async def page(browser: "Browser") -> AsyncIterator["Page"]:
    async with new_page(browser) as page:
        yield page
