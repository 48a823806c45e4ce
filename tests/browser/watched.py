"""Pages that are monitored: at the end of a test, none may have violated the policy or raised an error."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from tests.support.lazy import lazy

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, WebError

Axe = lazy("axe_playwright_python.sync_playwright", "Axe")
expect = lazy("playwright.sync_api", "expect")
sync_playwright = lazy("playwright.sync_api", "sync_playwright")

CHROMIUM = os.environ.get("MANYLABEL_TEST_CHROMIUM") or shutil.which("chromium")
WAIT_MS = 60_000
"""Only a test that fails waits this long."""
PHONE = {"width": 360, "height": 740}
TABLET = {"width": 768, "height": 1024}
DESK = {"width": 1280, "height": 900}

_REPORT = """
document.addEventListener('securitypolicyviolation',
  (event) => window.reportViolation(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`));
"""


@contextmanager
def launched() -> Iterator[Browser]:
    """Run Debian's chromium, or the one that MANYLABEL_TEST_CHROMIUM names; skip the test if there is none."""
    if CHROMIUM is None:
        missing = "no chromium: `make browser` installs one, MANYLABEL_TEST_CHROMIUM names another"
        if os.environ.get("MANYLABEL_TEST_BROWSER") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, timeout=WAIT_MS)
        yield browser
        browser.close()


class Watched:
    """Browser contexts whose pages may not violate the policy, raise errors, or request another origin."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.violations: list[str] = []
        self.errors: list[str] = []
        self.foreign: list[str] = []

    def new_page(self, origin: str, **options: Any) -> Page:
        """Open a page of a new browser context for one origin, as ``http://127.0.0.1:8000``.

        Parameters
        ----------
        origin : the only one that may be asked.
        options : of `Browser.new_context`, as ``viewport=PHONE`` or ``color_scheme="dark"``.
        """
        options.setdefault("viewport", DESK)
        context = self._browser.new_context(**options)
        self._contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        context.expose_binding("reportViolation", lambda _, text: self.violations.append(text))
        context.add_init_script(_REPORT)
        context.on("console", self._hear)
        context.on("weberror", self._note)
        context.on("request", lambda request: self._check(request, origin))
        return context.new_page()

    def _hear(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            self.violations.append(message.text)

    def _note(self, error: WebError) -> None:
        self.errors.append(f"{error.error.message}\n{error.error.stack}")

    def _check(self, request: Request, origin: str) -> None:
        where = urlsplit(request.url)
        if f"{where.scheme}://{where.netloc}" != origin:
            self.foreign.append(request.url)

    def close(self) -> None:
        """Close all pages; AssertionError as in `check`."""
        try:
            self.check()
        finally:
            for context in self._contexts:
                context.close()

    def check(self) -> None:
        """AssertionError if a page violated the policy, raised an error, or requested another origin."""
        for context in self._contexts:
            for page in context.pages:
                page.evaluate("() => 0")  # earlier reports of the page have arrived then
        assert not self.violations, f"the Content-Security-Policy was violated: {self.violations}"
        assert not self.errors, f"the page threw: {self.errors}"
        assert not self.foreign, f"another origin was requested: {self.foreign}"


def assert_accessible(page: Page) -> None:
    """Check the current page against the rules of axe."""
    found = Axe().run(page).response["violations"]
    told = [
        f"{rule['id']}: {rule['help']}\n    "
        + "\n    ".join(node["html"][:200] + " " + node["failureSummary"] for node in rule["nodes"][:5])
        for rule in found
    ]
    assert not told, "\n".join(told)


def assert_no_sideways_scrolling(page: Page) -> None:
    """Check that a narrow page does not scroll sideways; tables and charts may."""
    wide = page.evaluate(
        """() => [...document.querySelectorAll('body *')]
          .filter((each) => each.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
          .filter((each) => { // unless something around it scrolls, or clips
            for (let at = each.parentElement; at; at = at.parentElement) {
              if (getComputedStyle(at).overflowX !== 'visible') return false;
            }
            return true;
          }).map((each) => each.outerHTML.slice(0, 120))"""
    )
    assert not wide, f"wider than the screen: {wide[:5]}"
    assert page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")
