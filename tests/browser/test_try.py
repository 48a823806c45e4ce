"""The page Try it: predictions, explanations and labels."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.browser.articles import article, new_model
from tests.browser.conftest import Site
from tests.browser.watched import PHONE, Watched, assert_accessible, assert_no_sideways_scrolling
from tests.support.lazy import lazy

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = lazy("playwright.sync_api", "expect")


def open_try(page: Page, site: Site, name: str) -> None:
    page.goto(site.at(f"/models/{name}/try"))
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()  # the previous page is gone
    expect(page.get_by_role("heading", name="An example")).to_be_visible()


@pytest.mark.smoke
def test_a_record_is_predicted_explained_and_taught(watched: Watched, any_site: Site, name: str) -> None:
    model = new_model(any_site.client, name)
    x = {"title": "The cat saw a dog with soup", "pages": 3}
    kept = model.predict(x, keep="record")
    page = watched.new_page(any_site.url)
    open_try(page, any_site, name)
    expect(page.get_by_text("It is one that was kept to be labelled.")).to_be_visible()
    assert page.get_by_label("title", exact=True).input_value() == x["title"]

    said = model.predict(x, probabilities=True, explain=6)  # the stored example is predicted at once
    assert "pets" in said.labels
    expect(page.get_by_text(f"Predicted: {', '.join(said.labels)}.")).to_be_visible()
    bars = page.locator("ml-bars").first
    shown = {
        row.locator("th").inner_text(): row.locator("td.number").inner_text() for row in bars.locator("tbody tr").all()
    }
    assert {label: float(text) for label, text in shown.items()} == said.probabilities
    assert_accessible(page)

    why = page.locator("details", has=page.get_by_text("pets", exact=True)).first
    marks = why.locator("mark.ml-for").all_inner_texts()
    assert {"+cat", "+dog"} <= set(marks)
    expect(why.locator("summary data")).to_have_attribute("title", str(said.scores["pets"]))
    first = max(said.explanations["pets"].for_, key=lambda part: part.contribution)
    row = why.locator("tbody tr").filter(has=page.get_by_role("rowheader", name=f"{first.feature} ("))
    assert float(row.locator("td.number").inner_text()) == first.contribution

    updates = model.status().updates
    page.get_by_label("Another label").fill("zoo")
    page.keyboard.press("Enter")
    expect(page.get_by_role("checkbox", name="zoo")).to_be_checked()
    page.get_by_role("button", name="Teach these labels").click()
    expect(page.get_by_text("Learnt.")).to_be_visible()
    assert model.status().updates == updates + 1
    assert kept.id not in [each.id for each in model.predictions().predictions]
    after = model.predict(x, probabilities=True)
    taught = (
        page.get_by_role("region", name="Before and after").locator("tbody tr").filter(has_text="zoo").locator("td")
    )
    assert taught.nth(0).inner_text() == "–"
    assert float(taught.nth(1).inner_text()) == after.probabilities["zoo"]
    assert_accessible(page)

    page.reload()  # the form begins with the last example
    expect(page.get_by_text("It is the one that you tried last.")).to_be_visible()
    assert page.get_by_label("pages", exact=True).input_value() == "3"
    page.get_by_label("pages", exact=True).fill("7")  # another example: learnt by itself
    page.get_by_role("button", name="Predict").click()
    page.get_by_role("button", name="Teach these labels").click()
    expect(page.get_by_text("Learnt.")).to_be_visible()
    assert model.status().updates == updates + 2


def test_the_page_is_used_by_keyboard_on_a_phone(watched: Watched, site: Site, name: str) -> None:
    new_model(site.client, name, n_kept=1)
    page = watched.new_page(site.url, viewport=PHONE, color_scheme="dark")
    open_try(page, site, name)
    json = page.get_by_role("radio", name="Fields")
    json.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="JSON")).to_be_checked()
    page.keyboard.press("Tab")
    field = page.get_by_label("Example, as JSON")
    expect(field).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type('{"title": ')
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("This is not JSON")).to_be_visible()
    field.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type('{"title": "a dog, a cat and a hamster", "made": {"with": "love"}}')
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Predict")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Predicted: pets.")).to_be_visible()
    assert_no_sideways_scrolling(page)
    assert_accessible(page)
    field.fill('{"title": [[1]]}')
    page.get_by_role("button", name="Predict").click()
    expect(page.get_by_role("alert")).to_contain_text("/x/title/0")


def test_texts_and_numbers_are_predicted(page: Page, site: Site, name: str) -> None:
    texts = site.client.create_model(f"{name}-texts", algorithm="falt")
    chance = random.Random(0)
    texts.update_many([(x["title"], y) for x, y in (article(chance) for _ in range(120))])
    open_try(page, site, texts.name)
    page.get_by_role("radio", name="Text").check()
    page.get_by_label("Text", exact=True).last.fill("A cat with cheese")
    page.get_by_role("button", name="Predict").click()
    expect(page.get_by_role("heading", name="Why")).to_be_visible()
    expect(page.locator("mark", has_text="cat").first).to_be_visible()

    numbers = site.client.create_model(f"{name}-numbers", algorithm="kernel_falt", features=3)
    numbers.update_many([([chance.random(), chance.random(), 1.0], [f"l{i % 3}"]) for i in range(60)])
    open_try(page, site, numbers.name)
    page.get_by_role("button", name="Predict").click()
    expect(page.get_by_text("This model cannot say why")).to_be_visible()
    assert page.locator(".example-fields input").count() == 3
    page.get_by_label("1", exact=True).fill("")
    page.get_by_role("button", name="Teach these labels").click()
    expect(page.get_by_text("Learnt.")).to_be_visible()

    plain = site.client.create_model(f"{name}-plain", algorithm="passive_aggressive", params={"calibrate": False})
    plain.update({"cat": 1}, ["pets"])
    open_try(page, site, plain.name)
    page.get_by_label("Name of the field").fill("cat")
    page.get_by_label("Its value").fill("1")
    page.get_by_role("button", name="Predict").click()
    expect(page.get_by_text("The bars are scores: predicted above 0.")).to_be_visible()
    expect(page.get_by_text("Predicted: pets.")).to_be_visible()
    assert_accessible(page)


def test_a_trained_model_counts_labels_and_does_not_learn(page: Page, site: Site, trained: str) -> None:
    open_try(page, site, trained)
    page.get_by_label("title", exact=True).fill("cat and dog")
    page.get_by_role("button", name="Predict").click()
    expect(page.get_by_role("heading", name="Tell the truth")).to_be_visible()
    expect(page.get_by_text("A trained model does not learn from single examples")).to_be_visible()
    page.get_by_role("button", name="Count it").click()
    expect(page.get_by_text("Counted.")).to_be_visible()
    assert site.client.model(trained).metrics().cumulative.examples == 1
    assert_accessible(page)


def test_a_key_without_the_scope_to_learn_can_predict(watched: Watched, keyed_site: Site, name: str) -> None:
    new_model(keyed_site.client, name)
    key = keyed_site.client.keys.create(name="trying", scopes=["predict"]).key
    page = watched.new_page(keyed_site.url)
    page.goto(keyed_site.at(f"/models/{name}/try"))
    page.get_by_label("Key", exact=True).fill("ml_wrong")
    page.get_by_role("button", name="Use this key").click()
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Use this key").click()
    page.get_by_label("Name of the field").fill("title")
    page.get_by_label("Its value").fill("cat and dog")
    page.get_by_role("button", name="Predict").click()
    expect(page.get_by_text("Predicted: pets.")).to_be_visible()
    page.get_by_role("button", name="Teach these labels").click()
    expect(page.get_by_role("alert")).to_contain_text("scope_missing")


def test_a_missing_model_is_reported(page: Page, site: Site) -> None:
    page.goto(site.at("/models/no-such-model/try"))
    expect(page.get_by_role("alert")).to_contain_text("model_not_found")
