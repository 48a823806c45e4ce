"""The list of models: empty, with a sample stream, and with many models."""

from collections.abc import Callable

import pytest
from tests.browser.conftest import Site
from tests.browser.watched import Watched, assert_accessible
from tests.support.lazy import lazy

expect = lazy("playwright.sync_api", "expect")

MODELS = 1_001
"""Number of models: one more than the list has."""


@pytest.fixture
def new_site(start_site: Callable[..., Site]) -> Site:
    return start_site()


def test_many_models_are_listed_and_filtered(watched: Watched, new_site: Site) -> None:
    for number in range(MODELS):
        new_site.client.create_model(f"model-{number:04}", algorithm="falt")
    new_site.client.model("model-0050").update({"a": 1.0}, ["p", "q"])
    page = watched.new_page(new_site.url)
    page.goto(new_site.url)
    rows = page.locator("ml-table.models tbody tr")
    expect(rows).to_have_count(100)
    page.locator("ml-table.models").get_by_label("Filter").fill("model-0050")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("falt")
    assert_accessible(page)
    rows.first.get_by_role("link", name="model-0050").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("model-0050")
    page.go_back()
    expect(rows).to_have_count(100)
    page.locator("ml-table.models").get_by_label("Filter").fill("model-0000")
    expect(rows).to_have_count(1)  # the only row says that no model matches the filter
    expect(rows.first).not_to_contain_text("falt")
    page.locator("ml-table.models").get_by_label("Filter").fill("")
    page.get_by_label("Names that begin with").fill("model-0000")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("falt")
