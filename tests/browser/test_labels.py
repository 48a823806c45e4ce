"""The page Labels: suggestions are applied, dismissed and undone; doubtful labels are checked by keyboard."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.browser.conftest import Site
from tests.browser.pages import opened
from tests.browser.watched import PHONE, Watched, assert_accessible, assert_no_sideways_scrolling
from tests.support.lazy import lazy
from tests.support.waiting import eventually

from manylabel_clients.http.client import Client
from manylabel_clients.http.resources.models import Model

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

expect = lazy("playwright.sync_api", "expect")

MARKUP = "<img src=x onerror=alert(1)>"


def grown(client: Client, name: str) -> Model:
    """Return a model with a label in two spellings, a child of a label, and an example without its label."""
    model = client.create_model(name, algorithm="falt")
    chance = random.Random(1)
    examples = []
    for animal in chance.sample(["Cat", "dog", "poodle", MARKUP], counts=[30] * 4, k=120):
        labels = {"Cat": [chance.choice(["CAT", "CAT", "Cat"])], "poodle": ["poodle", "dog"]}.get(animal, [animal])
        examples.append(({animal: 1.0, f"w{chance.randrange(5)}": 1.0, "all": 1.0}, labels))
    model.update_many(examples)
    return model


def open_labels(page: Page, site: Site, name: str) -> None:
    page.goto(site.at(f"/models/{name}/labels"))
    expect(page.get_by_role("heading", name="Suggestions")).to_be_visible()


def suggestion(page: Page, text: str) -> Locator:
    return page.locator(".suggestions > li").filter(has_text=text)


@pytest.mark.smoke
def test_suggestions_are_applied_and_doubts_are_checked(watched: Watched, any_site: Site, name: str) -> None:
    model = grown(any_site.client, name)
    model.update({"dog": 1.0, "all": 1.0}, [], ref=f"photo 7 {MARKUP}")
    page = watched.new_page(any_site.url)
    open_labels(page, any_site, name)
    spelling = suggestion(page, "differ only in spelling")
    expect(spelling).to_contain_text("0 with both")
    expect(page.get_by_text("No search has ended yet").first).to_be_visible()
    assert_accessible(page)

    page.get_by_role("button", name="Search the examples").click()
    implied = suggestion(page, "30 of 30 examples with poodle also have dog")
    expect(implied).to_be_visible()
    expect(page.get_by_text("examined 121 examples, up to position")).to_be_visible()
    assert_accessible(page)
    spelling.get_by_role("button", name="Merge into CAT").click()
    expect(page.get_by_text("Cat is now part of CAT.")).to_be_visible()
    expect(spelling).to_have_count(0)
    assert {each.label: each.retired for each in model.labels().labels}["Cat"]
    page.locator(".change").get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Cat is now part of CAT.")).to_have_count(0)
    expect(spelling).to_be_visible()
    assert not {each.label: each.retired for each in model.labels().labels}["Cat"]
    implied.get_by_role("button", name="Dismiss").click()
    expect(page.get_by_text("poodle: dismissed")).to_be_visible()
    expect(implied).to_have_count(0)
    assert [each.kind for each in model.health().suggestions] == ["name"]

    updates = model.status().updates
    page.get_by_role("button", name="Labels that may be missing").click()
    expect(page.get_by_text(f"photo 7 {MARKUP}").first).to_be_visible()  # a text, as are all names
    assert_accessible(page)
    box = page.locator(".ml-pick").filter(has_text="dog").get_by_role("checkbox")
    assert not box.is_checked()
    page.keyboard.press("1")
    assert box.is_checked()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="About to be sent")).to_be_visible()
    page.keyboard.press("u")
    expect(page.get_by_role("heading", name="About to be sent")).to_have_count(0)
    assert box.is_checked()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Send now").click()
    eventually(lambda: model.status().updates == updates + 1)
    assert model.metrics().corrections == 1
    assert model.log()[-1]["corrects"]["labels"] == ["dog"]


def test_a_dry_run_shows_metrics_without_and_with_the_change(watched: Watched, site: Site, name: str) -> None:
    model = grown(site.client, name)
    page = watched.new_page(site.url, viewport=PHONE)
    open_labels(page, site, name)
    suggestion(page, "differ only in spelling").get_by_role("button", name="Dry run").click()
    table = page.get_by_role("table", name="Each example is predicted before it is learnt")
    expect(table.get_by_role("row", name="F1 of both labels, if either name counts")).to_be_visible()
    expect(page.get_by_text("of 120 examples would have other labels")).to_be_visible()
    assert_no_sideways_scrolling(page)
    assert_accessible(page)
    assert len(model.health().suggestions) == 1
    page.goto(site.at(f"/jobs/{site.client.jobs(limit=1)[0].id}"))
    expect(page.get_by_role("row", name="micro-F1")).to_be_visible()
    assert_accessible(page)


def test_a_confirmed_label_is_not_asked_again(watched: Watched, site: Site, name: str) -> None:
    model = grown(site.client, name)
    model.update({"dog": 1.0, "all": 1.0}, [])
    model.search_doubts().wait()
    n_doubts = len(model.doubts().doubts)
    page = watched.new_page(site.url, viewport=PHONE, color_scheme="dark")
    open_labels(page, site, name)
    page.get_by_role("button", name="Labels that may be missing").click()
    expect(page.get_by_text("was sent without a ref")).to_be_visible()
    assert_no_sideways_scrolling(page)
    assert_accessible(page)
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Models").first.click()  # the page sends the choices when the user leaves it
    eventually(lambda: len(model.doubts().doubts) == n_doubts - 1)
    assert model.metrics().corrections is None


def test_a_change_that_is_refused_says_why(page: Page, site: Site, name: str) -> None:
    model = grown(site.client, name)
    open_labels(page, site, name)
    model.rename_label("Cat", "lion")
    row = suggestion(page, "differ only in spelling")
    row.get_by_role("button", name="Merge into CAT").click()
    expect(row.get_by_role("alert")).to_be_visible()


def test_a_key_without_the_scope_to_learn_sees_suggestions_alone(watched: Watched, keyed_site: Site, name: str) -> None:
    grown(keyed_site.client, name)
    key = keyed_site.client.keys.create(name="reading", scopes=["predict", "read"]).key
    page = opened(watched, keyed_site, f"/models/{name}/labels", key)
    expect(suggestion(page, "differ only in spelling")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("scope_missing")
    assert_accessible(page)
