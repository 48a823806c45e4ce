"""The page of a model: live measures, labels, snapshots and versions."""

from __future__ import annotations

import random
import re

import pytest
from tests.browser.conftest import Site
from tests.browser.pages import fact
from tests.browser.watched import DESK, PHONE, TABLET, Watched, assert_accessible, assert_no_sideways_scrolling
from tests.support.lazy import lazy

from manylabel_clients import with_teacher

expect = lazy("playwright.sync_api", "expect")

LABELS = 1_000


def as_shown(number: float) -> str:
    """All digits, as JavaScript writes them: 1 for 1.0."""
    return str(number).removesuffix(".0")


@pytest.mark.smoke
def test_an_online_model_is_watched_and_rolled_back(watched: Watched, any_site: Site, name: str) -> None:
    """Over each store: numbers to the digit, live, with a rollback and its past."""
    model = any_site.client.create_model(name, algorithm="falt", params={"drift": "adwin"}, window=50)
    draw = random.Random(7)
    topics = [draw.randrange(6) for _ in range(80)]
    items = [({f"w{topic}": 1.0, f"v{draw.randrange(9)}": 1.0}, [f"topic {topic}"]) for topic in topics]
    model.update_many(items[:60])
    page = watched.new_page(any_site.url)
    page.goto(any_site.at(f"/models/{name}"))
    curve = page.locator("ml-line").first
    expect(fact(page, "Examples")).to_contain_text("60")
    told = curve.locator("canvas")
    expect(told).to_have_attribute("aria-label", re.compile("at 60"))
    snapshots = page.get_by_role("region", name="Snapshots").first
    snapshots.get_by_role("button", name="Take a snapshot").click()
    expect(snapshots.locator(".said")).to_contain_text("Snapshot taken.")
    model.update_many(items[60:])
    expect(fact(page, "Examples")).to_contain_text("80")
    metrics = model.metrics()
    expect(fact(page, "Micro-F1")).to_contain_text(as_shown(metrics.window.micro_f1))
    expect(fact(page, "Baseline")).to_contain_text(as_shown(metrics.window.baseline.micro_f1))
    frequent = page.get_by_role("region", name="Rare and frequent labels").locator("tbody tr")
    few = metrics.by_seen.below_20
    expect(frequent).to_have_count(4)
    expect(frequent.nth(2).locator("td").first).to_have_text(f"{few.true:g}")
    expect(frequent.nth(2).locator("td").last).to_contain_text(as_shown(few.f1))
    curve.hover()
    assert_accessible(page)

    page.get_by_label("Measure", exact=True).select_option("hamming_loss")
    expect(told).to_have_attribute("aria-label", re.compile("Hamming loss"))
    snapshots.get_by_role("button", name="Roll back to before").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("is forgotten on every server")
    assert_accessible(page)
    dialog.get_by_role("button", name="Roll back").click()
    expect(fact(page, "Examples")).to_contain_text("60")
    expect(page.get_by_role("region", name="Events")).to_contain_text("rollback")
    assert model.status().updates == 60
    snapshots.get_by_role("button", name="Delete before").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(snapshots.locator(".said")).to_contain_text("Deleted before")


def test_the_reliability_of_probabilities_is_shown(watched: Watched, site: Site, name: str) -> None:
    draw = random.Random(11)
    topics = [draw.randrange(4) for _ in range(200)]
    items = [({f"w{topic}": 1.0, f"v{draw.randrange(5)}": 1.0}, [f"topic {topic}"]) for topic in topics]
    model = site.client.create_model(name, algorithm="falt")
    page = watched.new_page(site.url, viewport=PHONE)
    page.goto(site.at(f"/models/{name}"))
    section = page.get_by_role("region", name="Reliability")
    expect(section).to_contain_text("Nothing was learnt yet.")
    expect(section.locator("ml-line")).to_be_hidden()
    model.update_many(items)
    found = model.reliability()
    expect(fact(page, "Brier score")).to_contain_text(str(found.brier_score))
    expect(fact(page, "Expected calibration error")).to_contain_text(str(found.expected_calibration_error))
    section.locator("canvas").scroll_into_view_if_needed()
    there = [each for each in found.bins if each.count]
    told = f"to {there[-1].share_true:g} at {there[-1].mean_probability}"
    expect(section.locator("canvas")).to_have_attribute("aria-label", re.compile(re.escape(told)))
    section.get_by_text("Values").click()
    rows = section.locator("tbody tr")
    expect(rows).to_have_count(len(there))
    for row, each in zip(rows.all(), reversed(there), strict=True):
        expect(row.locator("th")).to_have_text(str(each.mean_probability))
        expect(row.locator("td").nth(1)).to_have_text(f"{each.count:,}")
    assert_accessible(page)
    assert_no_sideways_scrolling(page)

    plain = site.client.create_model(f"{name}-plain", params={"calibrate": False, "optimise": "none"})
    plain.update_many(items[:9])
    page.goto(site.at(f"/models/{name}-plain"))
    expect(section).to_contain_text("This model has no probabilities")


def test_a_thousand_labels_are_listed_and_models_compared(watched: Watched, site: Site, name: str) -> None:
    model = site.client.create_model(name, algorithm="falt")
    model.update_many([({f"w{i}": 1.0}, list({f"label {i}", f"label {i // 2}"})) for i in range(LABELS)])
    page = watched.new_page(site.url, viewport=PHONE)
    page.goto(site.at(f"/models/{name}"))
    labels = page.get_by_role("region", name="Labels").first
    rows = labels.locator("ml-table tbody tr")
    expect(rows).to_have_count(100)
    expect(labels).to_contain_text("100 of 1,000 shown")
    labels.get_by_label("Filter").fill("label 777")
    expect(rows).to_have_count(1)
    found = next(each for each in model.labels(limit=LABELS).labels if each.label == "label 777")
    assert found.frequency is not None
    assert found.threshold is not None
    expect(rows.first).to_contain_text(str(found.frequency))
    expect(rows.first).to_contain_text(str(found.threshold))
    labels.get_by_label("Filter").fill("")
    labels.locator("thead").get_by_role("button", name="Label").click()
    expect(rows.first).to_contain_text("label 0")
    assert_accessible(page)
    assert_no_sideways_scrolling(page)

    other = f"{name}-challenger"
    site.client.create_model(other, algorithm="salt").update_many([({"a": 1.0}, ["p"])] * 5)
    page.reload()
    page.get_by_label("Compare with").select_option(other)
    page.locator("ml-line").first.scroll_into_view_if_needed()
    expect(page.locator("ml-line").first.locator("canvas")).to_have_attribute(
        "aria-label", re.compile(f"{other}: Window")
    )


def test_versions_of_a_trained_model_are_shown_promoted_and_deleted(watched: Watched, site: Site, name: str) -> None:
    draw = random.Random(3)
    rows = [[draw.random() for _ in range(4)] for _ in range(120)]
    lines = ["a,b,c,d,p,q,r"] + [
        ",".join([*map(str, row), str(int(row[0] > 0.5)), str(int(row[0] > 0.4)), str(int(row[1] > 0.6))])
        for row in rows
    ]
    client = site.client
    client.upload_dataset(name, "\n".join(lines).encode(), format="csv", labels=3)
    for promote in ("always", "never"):
        client.train("mlrl", name, name, holdout=0.3, promote=promote).wait(timeout=300)
    page = watched.new_page(site.url)
    page.goto(site.at(f"/models/{name}"))
    versions = page.get_by_role("region", name="Versions").first
    expect(versions.locator("tbody tr")).to_have_count(2)
    detail = client.model(name).detail()
    served = page.get_by_role("region", name="The version served").first
    expect(served.locator("ml-heat canvas")).to_be_visible()
    expect(page.get_by_role("region", name="Reliability")).to_have_count(0)
    assert detail.label_scores is not None
    expect(served.locator("ml-table")).to_contain_text(str(detail.label_scores["p"]["f1"]))
    served.locator("ml-heat canvas").hover()
    assert_accessible(page)
    versions.get_by_role("button", name="Promote version 2").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("All servers then predict with it")
    dialog.get_by_role("button", name="Promote").click()
    expect(versions.locator(".said")).to_contain_text("Version 2 is served")
    assert client.model(name).status().version == 2
    versions.get_by_role("button", name="Delete version 1").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(versions.locator("tbody tr")).to_have_count(1)
    assert_accessible(page)


@pytest.mark.parametrize("viewport", [PHONE, TABLET, DESK], ids=["phone", "tablet", "desktop"])
def test_the_report_of_a_promise_is_shown(watched: Watched, site: Site, name: str, viewport: dict[str, int]) -> None:
    promise = {"precision": 0.8, "settled": 0.7, "missed": 0.05, "audit_rate": 0.05}
    model = site.client.create_model(f"{name}-{viewport['width']}", algorithm="falt", promise=promise)
    draw = random.Random(3)
    topics = [draw.randrange(4) for _ in range(400)]
    page = watched.new_page(site.url, viewport=viewport)
    page.goto(site.at(f"/models/{name}-{viewport['width']}"))
    panel = page.get_by_role("region", name="Promise of precision")
    expect(fact(page, "Labels").nth(0)).to_be_visible()
    expect(panel).to_contain_text("nothing is applied yet")
    model.update_many([({f"w{topic}": 1.0}, [f"topic {topic if draw.random() < 0.95 else 9}"]) for topic in topics])
    account = model.metrics().promise
    assert account is not None
    total = account["total"]
    assert total["wrong"] > 0
    expect(panel).to_contain_text(f"wrong {total['wrong']}")
    expect(panel).to_contain_text(account["gate"]["why"])
    expect(panel).to_contain_text("allowed 20 %")
    worst = panel.locator("ml-table").nth(1).locator("tbody tr")
    expect(worst).to_have_count(len(account["labels"]))
    expect(worst.first.locator("th")).to_have_text(account["labels"][0]["label"])
    panel.locator("canvas").scroll_into_view_if_needed()
    assert_accessible(page)
    assert_no_sideways_scrolling(page)
    panel.get_by_label("Precision", exact=True).fill("0.95")
    panel.get_by_role("button", name="Promise", exact=True).click()
    expect(panel.locator(".said")).to_contain_text("95 %")
    assert model.status().promise == {**promise, "precision": 0.95}
    panel.get_by_role("button", name="End the promise").click()
    expect(panel.locator(".said")).to_contain_text("Nothing is promised")
    assert model.status().promise is None


def test_the_account_of_a_teacher_is_shown(watched: Watched, site: Site, name: str) -> None:
    promise = {"precision": 0.8, "settled": None, "missed": 0.05, "audit_rate": 0.2}
    model = site.client.create_model(name, promise={**promise, "parity": 0.8}, sources={"machine": 1.0})
    page = watched.new_page(site.url)
    page.goto(site.at(f"/models/{name}"))
    panel = page.get_by_role("region", name="In front of a teacher")
    expect(panel).to_contain_text("the teacher labels all examples")
    draw = random.Random(3)

    def ask(x: dict[str, float]) -> list[str]:
        return [f"topic {word[1:]}" for word in x] if draw.random() < 0.9 else ["odd"]

    answers = list(with_teacher(model, ask).many([{f"w{draw.randrange(4)}": 1.0} for _ in range(300)]))
    alone = next(answer.prediction for answer in answers if not answer.asked)
    assert alone.id is not None
    model.label(alone.id, ["unheard of"])
    promised = model.metrics().promise
    assert promised is not None
    account = promised["parity"]
    assert account["answered"] > 0
    expect(panel).to_contain_text(f"{account['audits_waiting']} waiting")
    expect(panel).to_contain_text(f"asked {account['asked']}")
    expect(panel).to_contain_text("model wrong 1 of 1")
    expect(panel.locator("ml-table tbody tr")).to_have_count(len(account["labels"]))
    panel.get_by_label("Price of 1,000 calls").fill("1000")
    expect(panel.locator("output")).to_contain_text(f"saved: {account['answered']}")
    panel.locator("ml-bars").scroll_into_view_if_needed()
    assert_accessible(page)
    assert_no_sideways_scrolling(page)
    panel.get_by_label("Parity", exact=True).fill("0.9")
    panel.get_by_role("button", name="Promise", exact=True).click()
    expect(panel.locator(".said")).to_contain_text("90 %")
    both = {**promise, "parity": 0.9, "of": "machine", "agreement": "exact"}
    assert model.status().promise == both
    panel.get_by_role("button", name="End the promise").click()
    expect(panel.locator(".said")).to_contain_text("No parity is promised")
    assert model.status().promise == promise


def test_followers_are_listed_beside_their_leader(watched: Watched, site: Site, name: str) -> None:
    model = site.client.create_model(name, algorithm="falt")
    model.update_many([({f"w{n % 3}": 1.0}, [f"topic {n % 3}"]) for n in range(30)])
    page = watched.new_page(site.url)
    page.goto(site.at(f"/models/{name}"))
    region = page.get_by_role("region", name="Followers")
    expect(page.locator("ml-line").first).to_be_visible()
    expect(region).to_be_hidden()
    follower = f"{name[:50]}-f"
    site.client.create_model(follower, algorithm="salt", follow=name)
    rows = region.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("the leader")
    expect(rows.nth(1)).to_contain_text(follower)
    expect(rows.nth(1)).to_contain_text("30")
    assert_accessible(page)
    model.delete(followers=True)
