"""Opening pages, and finding the parts that several pages have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.browser.conftest import Site
from tests.browser.watched import Watched
from tests.support.lazy import lazy

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

expect = lazy("playwright.sync_api", "expect")


def opened(watched: Watched, site: Site, route: str, key: str | None = None, **options: Any) -> Page:
    """Return a page at a route, with this key given to its dialog."""
    page = watched.new_page(site.url, **options)
    page.goto(site.at(route))
    if key is not None:
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Key").fill(key)
        dialog.get_by_role("button", name="Use this key").click()
        expect(dialog).to_have_count(0)
    return page


def section(page: Page, title: str) -> Locator:
    """Return the section with this heading."""
    return page.locator("section", has=page.get_by_role("heading", name=title, exact=True))


def fact(page: Page, term: str) -> Locator:
    """Return the value of the first fact whose term has this text."""
    return page.locator("dl.facts dt", has_text=term).locator("xpath=following-sibling::dd").first
