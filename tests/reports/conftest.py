"""Pages in a browser, Chromium driven by playwright: console messages and requests of a page are checked."""

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from drawn_runs import LAPTOP

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser without a window. Where LATHE_NEEDS_CHROMIUM is set, as in CI, it must be there."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and os.environ.get("LATHE_NEEDS_CHROMIUM"):
        pytest.fail("Chromium must be there, and is not")
    if found is None:
        pytest.skip("no Chromium is here; apt-get install chromium")
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is in the extra `test`")
    with driver.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=found, args=FLAGS, headless=True)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page; the test fails if the page logs a message, makes a request or shows a dialog."""
    wrong: list[str] = []
    contexts = []

    def opened(path: Path, width: int = LAPTOP[0], height: int = LAPTOP[1], scheme: str = "light") -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.extend(_said(message.text)))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: wrong.extend(_outside(request.url)))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture(scope="session")
def digits_onnx() -> Path:
    """The digits network as a model of 8 bits."""
    return Path(str(files("lathe.networks.digits") / "digits.onnx"))


def _said(text: str) -> list[str]:
    """Console messages of a page, except performance warnings of drivers without a GPU."""
    return [] if "GL Driver Message" in text else [f"console: {text}"]


def _outside(url: str) -> list[str]:
    return [] if url.startswith(("file:", "data:", "blob:")) else [f"request: {url}"]
