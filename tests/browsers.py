"""A real browser for tests, and what axe finds on a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from shutil import which

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip
BROWSERS = ("chromium", "google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
"""Debian's, that of Linux runners, that of runners of macOS; the first that is there."""


@contextmanager
def launched() -> Iterator[Browser]:
    """The browser of this machine, without a window."""
    path = next(filter(None, map(which, BROWSERS)), None)
    assert path, "install chromium: make system"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield started
        started.close()


def check_axe(page: Page) -> None:
    found = Axe().run(page).response["violations"]
    serious = [
        f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in ("serious", "critical")
    ]
    assert serious == []
