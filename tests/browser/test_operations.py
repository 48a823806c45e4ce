"""Operations in the page: keys, replicas, snapshots and webhooks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.browser.conftest import Site
from tests.browser.pages import opened, section
from tests.browser.watched import PHONE, Watched, assert_accessible, assert_no_sideways_scrolling
from tests.service.webhooks.receiver import receiving, status
from tests.support.lazy import lazy
from tests.support.waiting import eventually

from manylabel_clients import Client, Unauthorized
from manylabel_service.settings import origin_of

expect = lazy("playwright.sync_api", "expect")


@pytest.mark.smoke
def test_keys_are_created_changed_and_revoked(keyed_site: Site, watched: Watched, name: str) -> None:
    page = opened(watched, keyed_site, "/operations", keyed_site.key)
    keys = section(page, "Keys")
    keys.get_by_text("Make a key").click()
    keys.get_by_role("button", name="Make the key").click()
    expect(keys.get_by_label("name (required)")).to_have_attribute("aria-invalid", "true")
    keys.get_by_label("name (required)").fill(name)
    keys.get_by_label("read", exact=True).check()
    keys.get_by_label("models").fill("tags-*, demo")
    keys.get_by_label("expires_at").fill("2001-01-01T00:00:00Z")
    keys.get_by_role("button", name="Make the key").click()
    expect(keys.get_by_label("expires_at")).to_have_attribute("aria-invalid", "true")
    keys.get_by_label("expires_at").fill("2099-01-31T12:00:00Z")
    keys.get_by_label("requests_per_second").fill("50")
    keys.get_by_role("button", name="Make the key").click()
    made = keys.locator(".command code")
    expect(made).to_contain_text("ml_")
    key = made.inner_text()
    expect(keys.get_by_role("button", name="Copy")).to_be_visible()
    assert_accessible(page)
    (listed,) = [each for each in keyed_site.client.keys.list() if each.name == name]
    assert (listed.scopes, listed.models, listed.rates.requests_per_second) == (["read"], ["tags-*", "demo"], 50)
    with Client(keyed_site.url, api_key=key) as client:
        assert client.models() == []

        row = keys.get_by_role("row", name=name)
        row.get_by_role("button", name=f"Change {name}").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("note").fill("until she leaves")
        dialog.get_by_role("button", name="Change").click()
        expect(row).to_contain_text("until she leaves")
        changed = keyed_site.client.keys.get(listed.id)
        assert (changed.note, changed.expires_at, changed.rates) == (
            "until she leaves",
            listed.expires_at,
            listed.rates,
        )

        row.get_by_role("button", name=f"Revoke {name}").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(row).to_contain_text("revoked")
        with pytest.raises(Unauthorized):
            client.models()
    page.reload()
    expect(keys.get_by_role("row", name=name)).to_be_visible()
    assert key not in page.content()

    page.set_viewport_size(PHONE)
    assert_no_sideways_scrolling(page)


def test_a_missing_scope_is_reported_in_each_section(keyed_site: Site, watched: Watched) -> None:
    key = keyed_site.client.keys.create("a reader", scopes=["read"]).key
    page = opened(watched, keyed_site, "/operations", key)
    expect(section(page, "This server")).to_contain_text("ready")
    expect(section(page, "Replicas").get_by_role("row").nth(1)).to_contain_text("answers now")
    expect(section(page, "Keys").get_by_role("alert")).to_contain_text("scope_missing")
    assert_accessible(page)
    page.get_by_role("link", name="Jobs").click()
    expect(page.get_by_text("No job yet")).to_be_visible()
    expect(page.locator(".command code")).to_contain_text("manylabel jobs submit")


def test_a_snapshot_is_downloaded_and_uploaded_as_a_model(
    any_site: Site, watched: Watched, name: str, tmp_path: Path
) -> None:
    any_site.client.create_model(name).update_many([({"a": 1.0}, ["b"])] * 9)
    page = opened(watched, any_site, "/operations", color_scheme="dark")
    archive = section(page, "Archive")
    archive.get_by_label("Model", exact=True).select_option(name)
    with page.expect_download() as download:
        archive.get_by_role("button", name="Download its state").click()
    path = tmp_path / "model.snapshot"
    download.value.save_as(path)
    archive.get_by_label("Snapshot").set_input_files(path)
    archive.get_by_label("New model").fill(f"{name}-copy")
    archive.get_by_role("button", name="Make a model of it").click()
    expect(archive.get_by_role("link", name=f"{name}-copy")).to_be_visible()
    assert any_site.client.model(f"{name}-copy").status().updates == 9
    archive.get_by_role("button", name="Make a model of it").click()
    expect(archive.get_by_role("alert")).to_contain_text("model_exists")
    section(page, "Replicas").get_by_text("Positions of models", exact=True).first.click()
    position = any_site.client.model(name).status().position
    expect(section(page, "Replicas").get_by_role("row", name=re.compile(f"^{name} "))).to_contain_text(position)
    assert_accessible(page)


def test_webhooks_show_their_deliveries(start_site: Callable[..., Site], watched: Watched, name: str) -> None:
    with receiving() as receiver:
        site = start_site("sqlite", "--webhook-urls", str(origin_of(receiver.url)))
        made = site.client.webhooks.create(receiver.url, events=["label"], secret=receiver.secret)
        page = opened(watched, site, "/operations")
        webhooks = section(page, "Webhooks")
        row = webhooks.get_by_role("row", name=receiver.url)
        row.get_by_role("button", name="Test").click()
        expect(webhooks).to_contain_text("Test event: delivered (204)")
        site.client.create_model(name).update({"a": 1.0}, ["x"])
        receiver.waits_for("label")
        eventually(lambda: site.client.webhooks.get(made.id).delivered == 1)
        row.get_by_role("button", name="Deliveries").click()
        expect(webhooks.get_by_role("cell", name="delivered (204)")).to_be_visible()
        assert_accessible(page)
        receiver.respond = lambda handler: status(handler, 410)
        site.client.model(name).update({"a": 1.0}, ["y"])
        eventually(lambda: site.client.webhooks.get(made.id).state == "disabled")
        row.get_by_role("button", name="Deliveries").click()
        expect(row).to_contain_text("disabled")
        receiver.respond = lambda handler: status(handler, 204)
        row.get_by_role("button", name="Enable").click()
        expect(row).to_contain_text("active")
        row.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(webhooks).to_contain_text("No webhooks.")
        assert site.client.webhooks.list() == []
