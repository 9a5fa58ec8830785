"""A real browser for tests, what axe finds on a page, and the pictures that the docs show."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from components import absent

ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip
BROWSERS = ("chromium", "google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
"""Debian's, that of Linux runners, that of runners of macOS; the first that is there."""

DOCS = Path(__file__).parents[1] / "docs"


@contextmanager
def launched() -> Iterator[Browser]:
    """The browser of this machine, without a window."""
    path = next(filter(None, map(which, BROWSERS)), None) or absent("a browser", "chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield started
        started.close()


def check_axe(page: Page) -> None:
    page.wait_for_load_state()  # a form may just have been sent
    found = Axe().run(page).response["violations"]
    serious = [
        f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in ("serious", "critical")
    ]
    assert serious == []


def picture(page: Page, name: str) -> None:
    """A picture of what is on the screen, in the docs under this name, when CROSSTALLY_PICTURES=1."""
    if os.environ.get("CROSSTALLY_PICTURES") == "1":
        page.screenshot(path=DOCS / f"{name}.png")
