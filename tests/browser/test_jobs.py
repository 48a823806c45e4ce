"""Jobs in the page: submitted by a form, watched, compared, promoted and cancelled."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.browser.conftest import Site
from tests.browser.pages import opened, section
from tests.browser.watched import PHONE, Watched, assert_accessible, assert_no_sideways_scrolling
from tests.support.lazy import lazy

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

expect = lazy("playwright.sync_api", "expect")

JOB_MS = 120_000
"""A training process has to start; only a test that fails waits this long."""


def learn(site: Site, name: str, n: int = 90) -> None:
    """A model that has learnt a few words."""
    words = {"pets": "cat", "music": "song", "news": "vote"}
    examples = []
    for number in range(n):
        labels = [label for at, label in enumerate(words) if (number >> at) % 2]
        examples.append(({**{f"word={words[label]}": 1.0 for label in labels}, f"number={number % 7}": 1.0}, labels))
    site.client.create_model(name).update_many(examples)


def facts(page: Page, name: str) -> Locator:
    return page.locator("dl.facts div", has=page.get_by_text(name, exact=True)).locator("dd")


@pytest.mark.smoke
def test_a_job_is_submitted_watched_compared_and_promoted(site: Site, watched: Watched, name: str) -> None:
    learn(site, name)
    page = opened(watched, site, f"/models/{name}")
    page.get_by_role("link", name="Train another model on this stream").click()
    expect(page.get_by_label("stream (required)")).to_have_value(f'"{name}"')
    target = page.get_by_label("model (required)")
    expect(target).to_have_value(f"{name}-m3l")
    assert_accessible(page)
    target.fill("No such Name")
    page.get_by_role("button", name="Order this job").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(target).to_have_attribute("aria-invalid", "true")
    expect(target).to_be_focused()
    target.fill(f"{name}-m3l")
    page.get_by_label("promote").select_option("never")
    page.get_by_text("Parameters; each has a default").click()
    page.get_by_label("C", exact=True).fill("0.5")
    page.get_by_role("button", name="Order this job").click()

    expect(page.get_by_role("heading", name="Job", exact=True)).to_be_visible()
    expect(page.get_by_text("Ordered", exact=True)).to_be_visible()
    expect(facts(page, "State")).to_have_text("succeeded", timeout=JOB_MS)
    (job,) = [each for each in site.client.jobs() if each.model == f"{name}-m3l"]
    assert job.result is not None
    assert (job.params["C"], job.holdout, job.promote, job.data) == (0.5, 0.2, "never", job.data)
    outcome = section(page, "Result")
    expect(outcome).to_contain_text("it is not served")
    row = outcome.get_by_role("row", name="Micro-F1")
    held_out = job.result.held_out
    assert held_out is not None
    shown = [float(cell) for cell in row.get_by_role("cell").all_inner_texts()]
    window = site.client.model(name).metrics().window
    assert shown == [held_out["measures"]["micro_f1"], held_out["baseline"]["micro_f1"], window.micro_f1]
    converged = section(page, "How it converges")
    expect(converged).to_contain_text("converged after")
    expect(section(page, "Log").get_by_role("listitem")).not_to_have_count(0)
    assert_accessible(page)

    outcome.get_by_role("button", name="Promote version 1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("All servers then predict with it")
    dialog.get_by_role("button", name="Promote", exact=True).click()
    expect(outcome).to_contain_text("it is served")
    assert [each.served for each in site.client.model(f"{name}-m3l").versions()] == [True]

    page.set_viewport_size(PHONE)
    assert_no_sideways_scrolling(page)
    page.goto(site.at("/jobs"))
    mine = page.get_by_role("row", name=f"{name}-m3l")
    expect(mine).to_contain_text("version 1")
    assert_no_sideways_scrolling(page)
    assert_accessible(page)


def test_a_job_learns_from_a_dataset_in_redis(
    sites: Callable[[str], Site], watched: Watched, name: str, tmp_path: Path
) -> None:
    site = sites("redis")
    rows = [{"x": {"a": n % 5, "b": n % 3}, "y": ["five"] if n % 5 else ["three"]} for n in range(60)]
    (tmp_path / "rows.ndjson").write_text("\n".join(map(json.dumps, rows)))
    site.client.upload_dataset(f"{name}-rows", tmp_path / "rows.ndjson")
    page = opened(watched, site, "/jobs/new", viewport=PHONE)
    page.get_by_label("a dataset", exact=True).check()
    section(page, "What it learns from").get_by_label("dataset (required)").select_option(f"{name}-rows")
    page.get_by_label("nothing more").check()
    page.get_by_role("button", name="Order this job").click()
    expect(page.get_by_label("model (required)")).to_have_attribute("aria-invalid", "true")
    assert_no_sideways_scrolling(page)
    page.get_by_label("model (required)").fill(name)
    page.get_by_label("promote").select_option("always")
    page.get_by_role("button", name="Order this job").click()
    expect(facts(page, "State")).to_have_text("succeeded", timeout=JOB_MS)
    outcome = section(page, "Result")
    expect(outcome).to_contain_text("it is served")
    expect(outcome).to_contain_text("No rows were held out")
    assert site.client.model(name).predict({"a": 0, "b": 1}).labels == ["three"]


def test_a_file_is_uploaded_and_read_otherwise(site: Site, watched: Watched, name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.csv"
    path.write_text("size;code;tags\n120,5;007;rock|loud\nNA;012;calm\n80;007;\n")
    page = opened(watched, site, "/datasets/new", viewport=PHONE)
    page.get_by_role("button", name="File", exact=True).set_input_files(path)
    expect(page.get_by_label("Name of the dataset")).to_have_value(name)
    page.get_by_role("button", name="Read the file").click()
    expect(page.get_by_role("alert")).to_contain_text("label_columns")
    page.get_by_label("tags", exact=True).fill("tags")
    page.get_by_role("button", name="Read the file").click()
    report = section(page, "What was understood")
    expect(report.get_by_role("row", name="size")).to_contain_text("number")
    expect(report.get_by_role("list", name="Notes")).to_contain_text("leading zeros")
    assert_accessible(page)
    assert_no_sideways_scrolling(page)
    report.get_by_label("Read code as").select_option("number")
    page.get_by_role("button", name="Read the file").click()
    expect(report.get_by_label("The first rows")).to_contain_text('"code":7')
    details = site.client.dataset(name, details=True).details or {}
    assert [column["kind"] for column in details["report"]["columns"]] == ["number", "number", "labels"]
    report.get_by_role("link", name="Order a job on it").click()
    expect(section(page, "What it learns from").get_by_label("dataset (required)")).to_have_value(f'"{name}"')
    page.goto(site.at("/jobs"))
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the dataset").click()
    expect(section(page, "Datasets")).not_to_contain_text(name)


def test_a_default_search_depends_on_the_kernel(site: Site, watched: Watched, name: str) -> None:
    learn(site, name)
    page = opened(watched, site, f"/jobs/new?model={name}")
    page.get_by_label("every combination").check()
    expect(section(page, "Search")).to_contain_text("with the kernel rbf also tries gamma: scale, 2")
    page.get_by_text("Parameters; each has a default").click()
    section(page, "Who trains").get_by_label("kernel", exact=True).select_option("rbf")
    page.get_by_role("button", name="Order this job").click()
    expect(page.get_by_text("Ordered", exact=True)).to_be_visible()
    (job,) = [each for each in site.client.jobs() if each.model == f"{name}-m3l"]
    assert job.search is not None
    assert job.search["params"] == {"C": [0.01, 0.1, 0.3, 1.0, 10.0], "gamma": ["scale", 2.0]}
    site.client.job(job.id).cancel()
    assert_accessible(page)


def test_a_search_is_watched_cancelled_and_retried(site: Site, watched: Watched, name: str) -> None:
    learn(site, name)
    page = opened(watched, site, f"/jobs/new?model={name}")
    page.get_by_label("every combination").check()
    values = page.get_by_role("group", name="Values to try").get_by_label("C", exact=True)
    expect(values).to_have_value("0.01, 0.1, 0.3, 1, 10")
    values.fill("0.1, -1")
    page.get_by_role("button", name="Order this job").click()
    expect(page.get_by_role("alert")).to_contain_text("/search/params")
    values.fill("0.1, 0.5, 1, 5, 10, 50, 100")
    section(page, "Search").get_by_label("folds", exact=True).first.fill("20")
    page.get_by_text("Parameters; each has a default").click()
    section(page, "Who trains").get_by_label("tol", exact=True).fill("1e-10")
    section(page, "Who trains").get_by_label("max_iter", exact=True).fill("1000000")
    page.get_by_role("button", name="Order this job").click()

    expect(facts(page, "State")).to_have_text("running", timeout=JOB_MS)
    expect(page.get_by_role("heading", name="Trials")).to_be_visible()
    page.get_by_role("button", name="Cancel this job").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("without a result")
    dialog.get_by_role("button", name="Cancel", exact=True).click()  # the dialog, not the job
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Cancel this job").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(facts(page, "State")).to_have_text("cancelled", timeout=JOB_MS)
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("dialog").get_by_role("button", name="Try again").click()
    expect(facts(page, "State")).to_have_text("running", timeout=JOB_MS)

    page.get_by_role("link", name="All jobs").click()
    mine = page.get_by_role("row", name=f"{name}-m3l")
    expect(mine).to_contain_text("running")
    mine.get_by_role("button", name=f"Cancel m3l for {name}-m3l").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(mine).to_contain_text("cancelled", timeout=JOB_MS)
    page.get_by_label("Show those").select_option("failed")
    expect(mine).to_have_count(0)
