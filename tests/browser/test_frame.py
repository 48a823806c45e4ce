"""The frame of all pages: keys, restarts of the server, path prefixes, the size of the first load."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.browser.conftest import Site
from tests.browser.pages import fact
from tests.browser.prefix import behind_prefix
from tests.browser.watched import PHONE, Watched, assert_accessible, assert_no_sideways_scrolling
from tests.support.lazy import lazy
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page, Response, Route

expect = lazy("playwright.sync_api", "expect")

FIRST_LOAD_BYTES = 60_000


def heading(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(text)


@pytest.mark.smoke
@pytest.mark.parametrize("route", ["/", "/models/{}"])
def test_a_first_load_is_small_and_compressed(watched: Watched, site: Site, name: str, route: str) -> None:
    site.client.create_model(name, algorithm="falt").update({"a": 1.0}, ["p"])
    page = watched.new_page(site.url)
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    page.goto(site.at(route.format(name)))
    page.locator("main ml-table tbody tr:visible").first.wait_for()
    files = [each for each in answers if "/ui/" in each.url or each.url.rstrip("/") == site.url]
    sizes = {each.url: each.request.sizes()["responseBodySize"] for each in files}
    assert len(sizes) > 5
    assert sum(sizes.values()) <= FIRST_LOAD_BYTES, sizes


def test_a_key_is_requested_stored_for_the_tab_and_forgotten(watched: Watched, keyed_site: Site) -> None:
    page = watched.new_page(keyed_site.url)
    page.goto(keyed_site.url)
    dialog = page.get_by_role("dialog", name="A key is needed")
    field = dialog.get_by_label("Key")
    expect(field).to_be_focused()
    assert_accessible(page)
    field.fill("ml_aaaaaaaaaaaa_wrong")
    field.press("Enter")
    expect(dialog).to_contain_text("key")  # requested again, with the error of the server
    dialog.get_by_label("Key").fill(keyed_site.key or "")
    dialog.get_by_role("button", name="Use this key").click()
    expect(page.locator("main")).to_contain_text("Nothing has been learnt yet")
    page.reload()
    expect(page.locator("main")).to_contain_text("Nothing has been learnt yet")
    stored = page.evaluate("() => [Object.values(sessionStorage), Object.keys(localStorage), document.cookie]")
    assert stored == [[keyed_site.key], [], ""]
    page.get_by_role("button", name="Forget key").click()
    expect(page.get_by_role("dialog", name="A key is needed")).to_be_visible()


def test_a_missing_scope_is_reported_beside_the_action(watched: Watched, keyed_site: Site, name: str) -> None:
    keyed_site.client.create_model(name, algorithm="falt").update({"a": 1.0}, ["p"])
    reader = keyed_site.client.keys.create("reader", scopes=["read"]).key
    page = watched.new_page(keyed_site.url)
    page.goto(keyed_site.at(f"/models/{name}"))
    page.get_by_role("dialog").get_by_label("Key").fill(reader)
    page.keyboard.press("Enter")
    snapshots = page.get_by_role("region", name="Snapshots").first
    snapshots.get_by_role("button", name="Take a snapshot").click()
    expect(snapshots.get_by_role("alert")).to_contain_text("Scope missing")
    expect(snapshots.get_by_role("alert")).to_contain_text("admin")


def test_a_page_recovers_after_a_restart_or_an_upgrade_of_the_server(
    watched: Watched, start_site: Callable[..., Site]
) -> None:
    site = start_site()
    model = site.client.create_model("tags", algorithm="falt")
    model.update({"a": 1.0}, ["p"])
    page = watched.new_page(site.url)
    page.goto(site.at("/models/tags"))
    examples = fact(page, "Examples")
    expect(examples).to_contain_text("1")
    site.process.kill()
    expect(page.locator(".bar.bad")).to_contain_text("Server unreachable")
    site.process.start()
    expect(page.locator(".bar")).to_have_count(0)
    for _ in range(5):
        model.update({"a": 1.0}, ["p"])
    expect(examples).to_contain_text("6")

    def gone(route: Route) -> None:
        route.fulfill(status=404)

    page.route("**/ui/**", gone)  # as after an upgrade of the server
    site.process.kill()
    expect(page.locator(".bar.bad")).to_contain_text("Server unreachable")
    site.process.start()
    expect(page.get_by_text("The server was upgraded")).to_be_visible()
    page.unroute("**/ui/**")
    page.get_by_role("button", name="Reload").click()
    expect(examples).to_contain_text("6")


def test_the_pages_work_behind_a_path_prefix(watched: Watched, site: Site, name: str) -> None:
    model = site.client.create_model(name, algorithm="falt")
    model.update({"a": 1.0}, ["p"])
    with behind_prefix(site.process.port, "/labels") as (origin, asked):
        page = watched.new_page(origin)
        page.goto(f"{origin}/labels/#/models/{name}")
        examples = fact(page, "Examples")
        expect(examples).to_contain_text("1")
        model.update({"a": 1.0}, ["p"])
        expect(examples).to_contain_text("2")
        assert {path.split("/")[1] for path in asked} == {"labels"}


def test_the_frame_can_be_used_by_keyboard_and_on_a_phone(watched: Watched, site: Site) -> None:
    page = watched.new_page(site.url, viewport=PHONE)
    page.goto(site.at("/"))
    heading(page, "Models")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.get_by_role("link", name="Models", exact=True)).to_have_attribute("aria-current", "page")
    page.goto(site.at("/nowhere"))
    heading(page, "Nothing here")
    assert_accessible(page)
    page.goto(site.at("/models/nothing"))
    expect(page.get_by_role("alert")).to_contain_text("Model not found")
    assert_accessible(page)
    assert_no_sideways_scrolling(page)


def test_a_browser_without_shared_workers_polls(watched: Watched, site: Site, name: str) -> None:
    model = site.client.create_model(name, algorithm="falt")
    page = watched.new_page(site.url)
    page.add_init_script("delete globalThis.SharedWorker")
    page.goto(site.at(f"/models/{name}"))
    examples = fact(page, "Examples")
    expect(examples).to_contain_text("0")
    model.update({"a": 1.0}, ["p"])
    expect(examples).to_contain_text("1")


def test_tabs_share_one_stream_of_events_while_any_is_visible(watched: Watched, site: Site, name: str) -> None:
    model = site.client.create_model(name, algorithm="falt")
    first = watched.new_page(site.url)
    pages = [first, first.context.new_page(), first.context.new_page()]
    for page in pages:
        page.add_init_script("Object.defineProperty(document, 'hidden', { get: () => globalThis.isHidden === true })")
        page.goto(site.at(f"/models/{name}"))
        expect(fact(page, "Examples")).to_contain_text("0")

    def streams() -> float:
        with urllib.request.urlopen(f"{site.url}/metrics") as answer:
            found = re.search(r"^http_requests_inprogress (\S+)$", answer.read().decode(), re.MULTILINE)
        assert found is not None
        return float(found[1]) - 1  # not counting this request

    eventually(lambda: streams() == 1)
    model.update({"a": 1.0}, ["p"])
    for page in pages:
        expect(fact(page, "Examples")).to_contain_text("1")
    for page in pages:
        page.evaluate("() => { globalThis.isHidden = true; document.dispatchEvent(new Event('visibilitychange')); }")
    eventually(lambda: streams() == 0)
    model.update({"a": 1.0}, ["p"])
    first.evaluate("() => { globalThis.isHidden = false; document.dispatchEvent(new Event('visibilitychange')); }")
    expect(fact(first, "Examples")).to_contain_text("2")
    eventually(lambda: streams() == 1)
