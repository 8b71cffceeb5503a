"""A real browser on the pages of a real server: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    ViewportSize,
    sync_playwright,
)

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
DESKTOP, PHONE = (1280, 900), (390, 844)
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
Scheme = Literal["dark", "light"]
SERIOUS = ("serious", "critical")


@dataclass
class Visit:
    """A page in the browser, and everything that it should not have done."""

    page: Page
    origin: str
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._note_message)
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("request", self._note_request)

    def open(self, path: str) -> Page:
        """Open a page of the server, its scripts run."""
        answer = self.page.goto(self.origin + path, wait_until="load")
        assert answer, path
        assert answer.ok, f"{path}: {answer.status}"
        return self.page

    def barriers(self) -> list[str]:
        """What keeps people from reading the page, as axe-core finds it."""
        violations = Axe().run(self.page).response["violations"]
        return [
            f"{violation['id']}: {violation['help']} ({violation['nodes'][0]['html'][:120]})"
            for violation in violations
            if violation["impact"] in SERIOUS
        ]

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console: {message.text}")

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith((self.origin, "data:", "blob:")):
            self.faults.append(f"request to {request.url}")


def program() -> str | None:
    """The browser of this machine."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A running browser without a window."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program(), args=list(OPTIONS))
        try:
            yield started
        finally:
            started.close()


@contextmanager
def visiting(
    browser: Browser,
    origin: str,
    *,
    size: tuple[int, int] = DESKTOP,
    scheme: Scheme = "light",
) -> Iterator[Visit]:
    """A new visitor with a window of a size."""
    viewport: ViewportSize = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=viewport, color_scheme=scheme)
    try:
        yield Visit(context.new_page(), origin)
    finally:
        context.close()


@contextmanager
def served(database: Path | None = None) -> Iterator[str]:
    """`vkbench web` on a database, or on this machine's own: its origin."""
    named = ["--database", str(database)] if database else []
    words = [str(Path(sys.prefix, "bin", "vkbench")), "web", "--port", "0", *named]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            line = server.stdout.readline()
            yield next(word for word in line.split() if word.startswith("http://"))
        finally:
            server.terminate()
