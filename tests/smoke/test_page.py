"""One page in a browser: an empty server, and a sample stream. tests/browser has the others."""

from collections.abc import Callable

import pytest
from tests.browser.watched import PHONE, Watched, assert_accessible, assert_no_sideways_scrolling
from tests.support.lazy import lazy
from tests.support.server_process import ServerProcess
from tests.support.waiting import eventually

from manylabel_clients import Client

expect = lazy("playwright.sync_api", "expect")


@pytest.mark.smoke
def test_an_empty_server_shows_how_to_begin_and_streams_a_sample(
    watched_browser: Watched, start_server: Callable[..., ServerProcess]
) -> None:
    server = start_server()
    page = watched_browser.new_page(server.url, viewport=PHONE)
    page.goto(server.url)
    expect(page.get_by_role("heading", name="Nothing has been learnt yet")).to_be_visible()
    assert f"curl -X POST {server.url}/v1/models" in page.locator("main").inner_text()
    assert_accessible(page)
    assert_no_sideways_scrolling(page)
    page.get_by_role("button", name="Stream a sample").click()
    row = page.locator("ml-table.models tbody tr", has_text="sample-helpdesk")
    expect(row).to_be_visible()
    page.get_by_role("status").get_by_role("link", name="Watch it learn").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("sample-helpdesk")
    # The stream continues while another page is shown; the curve soon rises well above the baseline.
    page.wait_for_function(
        """() => {
          const [own, baseline] = ['Micro-F1', 'Baseline'].map((term) => [...document.querySelectorAll('dt')]
            .find((each) => each.textContent === term)?.nextElementSibling.firstChild.textContent);
          return Number(own) > 0.6 && Number(own) > 1.3 * Number(baseline);
        }"""
    )
    page.get_by_role("button", name="Stop the sample").click()
    expect(page.get_by_text("The sample was stopped after")).to_be_visible()
    assert_accessible(page)
    assert_no_sideways_scrolling(page)
    # The last examples may still have been on their way.
    with Client(server.url) as client:
        eventually(
            lambda: (
                str(client.model("sample-helpdesk").metrics().window.micro_f1)
                in page.locator("dl.facts").first.inner_text()
            )
        )
