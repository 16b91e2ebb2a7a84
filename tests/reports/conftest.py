"""A browser for pages: headless Chromium, which notes what pages complain of and what they ask the network for."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

LOCAL = ("file:", "data:", "blob:")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One process for all tests: Chromium of the system, or the one that `playwright install chromium` has brought."""
    own = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=own, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a file in a window of its own; afterwards no page may have complained or asked the network for anything."""
    contexts: list[BrowserContext] = []
    said: list[str] = []

    def opened(path: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "trace") else None)
        page.on("request", lambda request: None if request.url.startswith(LOCAL) else said.append(request.url))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []
