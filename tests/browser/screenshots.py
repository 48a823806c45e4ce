"""Screenshots for docs/images: ``make screenshots``. They are not part of `make test`, which would change the files."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Page, expect
from tests.browser.conftest import Site
from tests.browser.watched import PHONE, Watched

FOLDER = Path(__file__).parents[2] / "docs" / "images"
MESSAGES = 1_500
COLOURS = 200
"""Number of colours of a picture: a quarter of the size without a visible difference."""
SPELT = {("billing", 0): "Billing", ("billing", 3): "biling", ("returns", 5): "return"}
"""Other spellings of labels of messages, by the remainder of their number."""
DESK = {"width": 1180, "height": 860}


@pytest.fixture(scope="module")
def desk(start_site: Callable[..., Site]) -> Site:
    return start_site()


@pytest.fixture(scope="module", autouse=True)
def models(desk: Site, browser: Any) -> None:
    """Two help desks with different learners, and a model trained from the stream of the first."""
    page = browser.new_page()
    page.goto(desk.url)
    page.locator("main section").first.wait_for()
    messages = page.evaluate(
        """async (n) => {
          const main = document.querySelector('script[type=module]').src;
          const { message } = await import(new URL('pages/overview/sample.js', main));
          return Array.from({ length: n }, message);
        }""",
        MESSAGES,
    )
    page.close()
    examples = [(each["x"], each["y"]) for each in messages]
    client = desk.client
    spec = {"params": {"drift": "adwin"}, "window": 300}
    for name, algorithm, n in (
        ("helpdesk", "falt", MESSAGES),
        ("helpdesk-salt", "salt", MESSAGES),
        ("returns", "falt", 400),
    ):
        client.create_model(name, algorithm=algorithm, **spec).update_many(examples[:n], batch_size=10)
    client.train("mlrl", {"stream": "helpdesk", "last": 600}, "helpdesk-mlrl", holdout=0.3).wait(timeout=300)
    client.model("helpdesk").take_snapshot()
    grown = client.create_model("tickets", algorithm="falt")
    grown.update_many([(x, [SPELT.get((label, n % 7), label) for label in y]) for n, (x, y) in enumerate(examples)])
    grown.search_doubts().wait(timeout=300)


def save(page: Page, name: str, full: bool = False) -> None:
    page.wait_for_timeout(1_500)  # rates, and a curve that has been drawn, are there then
    picture = Image.open(BytesIO(page.screenshot(full_page=full)))
    FOLDER.mkdir(exist_ok=True)
    picture.convert("RGB").quantize(COLOURS).save(FOLDER / f"{name}.png", optimize=True)


@pytest.mark.parametrize(
    ("name", "route", "options"),
    [
        ("models", "/", {"viewport": DESK}),
        ("model", "/models/helpdesk", {"viewport": DESK}),
        ("model-dark", "/models/helpdesk", {"viewport": DESK, "color_scheme": "dark"}),
        ("model-phone", "/models/helpdesk", {"viewport": PHONE}),
        ("trained", "/models/helpdesk-mlrl", {"viewport": DESK}),
        ("labels", "/models/tickets/labels", {"viewport": DESK}),
        ("jobs", "/jobs", {"viewport": DESK}),
        ("operations", "/operations", {"viewport": DESK}),
    ],
)
def test_picture(watched: Watched, desk: Site, name: str, route: str, options: dict[str, Any]) -> None:
    page = watched.new_page(desk.url, **options)
    page.goto(desk.at(route))
    expect(page.locator("main h1")).to_be_visible()
    page.locator("main table tbody tr, main .suggestions li").filter(visible=True).first.wait_for()
    if name == "models":
        expect(page.locator("dl.facts").first).not_to_contain_text("–")  # rates need two requests
    save(page, name)


def test_picture_of_reliability(watched: Watched, desk: Site) -> None:
    page = watched.new_page(desk.url, viewport=DESK)
    page.goto(desk.at("/models/helpdesk"))
    section = page.get_by_role("region", name="Reliability")
    expect(section.locator("ml-line")).to_be_visible()
    section.evaluate("(section) => section.scrollIntoView({ block: 'end' })")
    save(page, "reliability")


def test_picture_of_try(watched: Watched, desk: Site) -> None:
    page = watched.new_page(desk.url, viewport=DESK)
    page.goto(desk.at("/models/helpdesk/try"))
    expect(page.locator("main h1")).to_be_visible()
    page.get_by_label("Text", exact=True).check()
    page.locator("main textarea").first.fill("Hello, I was charged twice and the parcel has not arrived. Thanks.")
    page.get_by_role("button", name="Predict").click()
    page.locator("ml-bars").first.wait_for()
    save(page, "try")
