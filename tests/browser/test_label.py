"""The page Label: stored predictions are labelled by keyboard, with undo."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from tests.browser.articles import new_model
from tests.browser.conftest import Site
from tests.browser.pages import opened
from tests.browser.watched import PHONE, Watched, assert_accessible, assert_no_sideways_scrolling
from tests.support.lazy import lazy
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = lazy("playwright.sync_api", "expect")

QUESTION = "Which labels does this have?"


def open_label(page: Page, site: Site, name: str) -> None:
    page.goto(site.at(f"/models/{name}/label"))
    expect(page.get_by_role("heading", name=QUESTION)).to_be_visible()


def fact(page: Page, name: str) -> str:
    return page.locator(".facts > div").filter(has_text=name).locator("dd").inner_text()


def ticked(page: Page) -> list[str]:
    return [box.get_attribute("value") or "" for box in page.locator(".ml-pick input").all() if box.is_checked()]


@pytest.mark.smoke
def test_labels_are_given_by_the_keyboard_and_taken_back(watched: Watched, any_site: Site, name: str) -> None:
    model = new_model(any_site.client, name, n_kept=3)
    queue = model.predictions(order="uncertainty").predictions
    updates = model.status().updates
    page = watched.new_page(any_site.url)
    open_label(page, any_site, name)
    expect(page.get_by_text(str(queue[0].record["title"]), exact=True)).to_be_visible()
    assert ticked(page) == sorted(queue[0].labels, key=lambda label: -queue[0].probabilities[label])
    assert fact(page, "Waiting") == "3"
    seen = page.evaluate("""() => [...document.querySelectorAll('.ml-pick .quiet')].map((each) =>
      [...each.querySelectorAll('*'), each].flatMap((one) => parseFloat(getComputedStyle(one).fontSize)
        ? [...one.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data) : []).join(''))""")
    assert seen, "the labels have their probabilities beside them"
    assert max(map(len, seen)) <= 6, "four digits are seen of a long fraction"
    assert_accessible(page)

    for box in range(3):  # change the predicted labels to the first label only
        if (page.locator(".ml-pick input").nth(box).is_checked()) != (box == 0):
            page.keyboard.press(str(box + 1))
    (first,) = ticked(page)
    page.keyboard.press("Enter")
    expect(page.get_by_text(str(queue[1].record["title"]), exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="About to be sent")).to_be_visible()
    assert_accessible(page)
    assert model.status().updates == updates

    page.keyboard.press("u")
    expect(page.get_by_text(str(queue[0].record["title"]), exact=True)).to_be_visible()
    assert ticked(page) == [first]
    expect(page.get_by_role("heading", name="About to be sent")).to_have_count(0)
    page.keyboard.press("l")
    page.keyboard.type("zoo")
    page.keyboard.press("Enter")
    assert set(ticked(page)) == {first, "zoo"}
    page.keyboard.press("Enter")
    expect(page.get_by_text(str(queue[1].record["title"]), exact=True)).to_be_visible()
    page.keyboard.press("s")
    expect(page.get_by_text(str(queue[2].record["title"]), exact=True)).to_be_visible()
    page.get_by_role("button", name="Send now").click()
    expect(page.locator(".facts > div").filter(has_text="Labelled here").locator("dd")).to_have_text("1")
    status = model.status()
    assert (status.updates, status.labels) == (updates + 1, 4)
    assert [each.id for each in model.predictions().predictions if each.id == queue[0].id] == []
    assert fact(page, "Skipped") == "1"
    metrics = model.metrics()
    readout = page.locator("ml-line .ml-readout")
    expect(readout).to_contain_text(f"{metrics.cumulative.examples} examples learnt")
    expect(readout).to_contain_text(f"the latest {metrics.window.micro_f1}")
    readout.hover()
    page.locator("ml-line canvas").hover()

    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Nothing waits for labels")).to_be_visible()
    expect(page.get_by_text("keep=record'")).to_be_visible()
    page.get_by_role("link", name="Models").first.click()  # pending labels are sent when the page is left
    eventually(lambda: model.status().updates == updates + 2)


def test_labels_are_sent_after_a_while(watched: Watched, site: Site, name: str) -> None:
    model = new_model(site.client, name, n_kept=8)
    updates = model.status().updates
    page = watched.new_page(site.url)
    page.clock.install()
    open_label(page, site, name)
    for _ in range(6):
        before = page.locator(".ml-record").inner_text()
        page.keyboard.press("Enter")
        expect(page.locator(".ml-record")).not_to_have_text(before, use_inner_text=True)
    eventually(lambda: model.status().updates == updates + 1)  # five can be taken back, no more
    page.clock.fast_forward(11_000)
    expect(page.get_by_role("heading", name="About to be sent")).to_have_count(0)
    eventually(lambda: model.status().updates == updates + 6)

    page.get_by_role("checkbox", name="Keys").uncheck()  # then a letter is a letter
    page.keyboard.press("s")
    assert fact(page, "Skipped") == "0"
    page.get_by_role("checkbox", name="Keys").check()
    page.locator("h2").first.click()
    page.clock.pause_at(datetime.now() + timedelta(days=1))  # from here on, time sends nothing
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="About to be sent")).to_be_visible()
    page.get_by_role("link", name="Models").first.click()
    expect(page.get_by_role("heading", name="Models", level=1)).to_be_visible()
    eventually(lambda: model.status().updates == updates + 7)
    open_label(page, site, name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="About to be sent")).to_be_visible()
    page.close(run_before_unload=False)  # as when the tab is closed
    eventually(lambda: model.status().updates == updates + 8)


def test_an_empty_queue_says_how_it_is_filled(watched: Watched, site: Site, name: str) -> None:
    model = new_model(site.client, name, n_learnt=10)
    page = watched.new_page(site.url, viewport=PHONE, color_scheme="dark")
    page.goto(site.at(f"/models/{name}/label"))
    expect(page.get_by_text(f"{site.url}/v1/models/{name}/predict?keep=record")).to_be_visible()
    assert_no_sideways_scrolling(page)
    assert_accessible(page)
    model.predict({"title": "a cat"}, keep=True)  # without the record
    page.get_by_role("button", name="Look again").click()
    expect(page.get_by_text("Only the features of this example were stored")).to_be_visible()
    assert_no_sideways_scrolling(page)
    assert_accessible(page)


def test_a_prediction_labelled_by_another_client_is_reported(page: Page, site: Site, name: str) -> None:
    model = new_model(site.client, name, n_kept=2)
    open_label(page, site, name)
    for each in model.predictions().predictions:
        model.label(each.id, ["pets"])
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Send now").click()
    expect(page.get_by_role("alert")).to_contain_text("prediction_labelled")
    assert fact(page, "Labelled here") == "0"


def test_a_key_without_the_scope_to_learn_is_refused(watched: Watched, keyed_site: Site, name: str) -> None:
    new_model(keyed_site.client, name, n_kept=1)
    key = keyed_site.client.keys.create(name="reading", scopes=["predict", "read"]).key
    page = opened(watched, keyed_site, f"/models/{name}/label", key)
    expect(page.get_by_role("alert")).to_contain_text("scope_missing")
    assert_accessible(page)
