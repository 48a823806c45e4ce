"""The list of models: empty, with a sample stream, and with many models."""

from collections.abc import Callable

import pytest
from tests.browser.conftest import Site
from tests.browser.watched import PHONE, Watched, assert_accessible, assert_no_sideways_scrolling
from tests.support.lazy import lazy
from tests.support.waiting import eventually

expect = lazy("playwright.sync_api", "expect")

MODELS = 101
"""Number of models: one more than a table shows at once."""


@pytest.fixture
def new_site(start_site: Callable[..., Site]) -> Site:
    return start_site()


@pytest.mark.smoke
def test_an_empty_server_shows_how_to_begin_and_streams_a_sample(watched: Watched, new_site: Site) -> None:
    page = watched.new_page(new_site.url, viewport=PHONE)
    page.goto(new_site.url)
    expect(page.get_by_role("heading", name="Nothing has been learnt yet")).to_be_visible()
    assert f"curl -X POST {new_site.url}/v1/models" in page.locator("main").inner_text()
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
    eventually(
        lambda: (
            str(new_site.client.model("sample-helpdesk").metrics().window.micro_f1)
            in page.locator("dl.facts").first.inner_text()
        )
    )


def test_many_models_are_listed_and_filtered(watched: Watched, new_site: Site) -> None:
    for number in range(MODELS):
        new_site.client.create_model(f"model-{number:03}", algorithm="falt")
    new_site.client.model("model-050").update({"a": 1.0}, ["p", "q"])
    page = watched.new_page(new_site.url)
    page.goto(new_site.url)
    rows = page.locator("ml-table.models tbody tr")
    expect(rows).to_have_count(100)
    page.locator("ml-table.models").get_by_label("Filter").fill("model-050")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("falt")
    assert_accessible(page)
    rows.first.get_by_role("link", name="model-050").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("model-050")
    page.go_back()
    expect(rows).to_have_count(100)
