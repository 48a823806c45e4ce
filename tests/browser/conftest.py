"""A browser, servers for it, and pages that are watched.

Tests use locators, and functions where they have something evaluated: a string to wait for would be `eval`, which the
policy of the page forbids, and no test goes round it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.browser.articles import new_model
from tests.browser.elements.site import Elements
from tests.browser.watched import DESK, Watched, launched
from tests.support.http_server import http_server
from tests.support.lanes import in_rest
from tests.support.redis_server import RedisServer
from tests.support.server_process import ServerProcess

from manylabel_clients.http.client import Client

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests but one a page, which `make test-all` runs, for `make test-browser`."""
    for item in items:
        if item.nodeid.startswith("tests/browser/") and item.get_closest_marker("smoke") is None:
            item.add_marker(pytest.mark.browser)


@dataclass(frozen=True)
class Site:
    """A running server, and a client of it that may do everything."""

    process: ServerProcess
    client: Client
    key: str | None = None

    @property
    def url(self) -> str:
        return self.process.url

    def at(self, route: str = "/") -> str:
        """The address of a page, as ``/models/tags/try``."""
        return f"{self.url}/#{route}"


# Its event loop ends after the last test of this folder, because other tests have their own loops.
@pytest.fixture(scope="package")
@in_rest
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """Make pages: ``watched.new_page(server.url, viewport=PHONE)``."""
    watched = Watched(browser)
    yield watched
    watched.close()


@pytest.fixture(scope="package")
def _elements(browser: Browser, elements_site: str) -> Iterator[tuple[Watched, Page]]:
    watched = Watched(browser)
    yield watched, watched.new_page(elements_site)
    watched.close()


@pytest.fixture
def elements(_elements: tuple[Watched, Page], elements_site: str) -> Iterator[Page]:
    """A page that has loaded all elements, such as ``parts.line``, and shows none."""
    watched, page = _elements
    page.set_viewport_size(DESK)
    page.emulate_media(color_scheme="light")
    page.mouse.move(0, 0)
    page.goto(f"{elements_site}/elements.html")
    page.locator("main[data-ready]").wait_for()
    yield page
    watched.check()


@pytest.fixture(scope="package")
def elements_site() -> Iterator[str]:
    with http_server(Elements) as url:
        yield url


@pytest.fixture(scope="package")
def start_site(
    browser: Browser,  # without one, tests are skipped before they start a server
    session_server_process: Callable[..., ServerProcess],
    new_session_redis: Callable[..., RedisServer],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., Site]]:
    """Start servers: ``start_site("redis")``; with `keys`, a server that requires a key, and a client with it."""
    clients: list[Client] = []
    started: list[ServerProcess | RedisServer] = []

    def start(store: str = "sqlite", *flags: str, keys: bool = False) -> Site:
        directory: Path = tmp_path_factory.mktemp("browser")
        if store == "redis":
            redis = new_session_redis(directory / "redis").start()
            started.append(redis)
            flags = ("--store", redis.url, *flags)
        process = session_server_process(*flags, data_dir=directory / "data").start()
        started.append(process)
        client = _client(process.url)
        key = None
        if keys:
            key = client.keys.create(name="tests", scopes=["admin"]).key
            client.close()
            client = _client(process.url, key)
        clients.append(client)
        return Site(process, client, key)

    yield start
    for client in clients:
        client.close()
    for each in reversed(started):
        if each.process is not None:
            each.kill()


def _client(url: str, key: str | None = None) -> Client:
    return Client(url, api_key=key, transport=httpx2.HTTPTransport())


@pytest.fixture(scope="package")
def sites(start_site: Callable[..., Site]) -> Callable[[str], Site]:
    """The shared server of each kind of store, started at the first request."""
    running: dict[str, Site] = {}

    def site(store: str) -> Site:
        if store not in running:
            running[store] = start_site(store)
        return running[store]

    return site


@pytest.fixture
def site(sites: Callable[[str], Site]) -> Site:
    """A shared server without keys, over SQLite; each test has its own model names."""
    return sites("sqlite")


@pytest.fixture(params=["sqlite", "redis"])
def any_site(request: pytest.FixtureRequest, sites: Callable[[str], Site]) -> Site:
    """A shared server without keys, over each kind of store."""
    return sites(request.param)


@pytest.fixture(scope="package")
def trained(sites: Callable[[str], Site]) -> str:
    """Name of a shared trained model on `site`, trained from the stream of "articles"."""
    client = sites("sqlite").client
    new_model(client, "articles")
    job = client.train("m3l", {"stream": "articles", "last": 1000}, "articles-m3l", holdout=0.2, promote="always")
    assert job.wait().state == "succeeded"
    return "articles-m3l"


@pytest.fixture(scope="package")
def keyed_site(start_site: Callable[..., Site]) -> Site:
    """A server that requires keys; `site.key` is an admin key."""
    return start_site(keys=True)


@pytest.fixture
def page(watched: Watched, site: Site) -> Page:
    """A new page for `site`, without an address."""
    return watched.new_page(site.url)


@pytest.fixture(scope="package")
def numbers() -> Iterator[int]:
    return itertools.count()


@pytest.fixture
def name(numbers: Iterator[int]) -> str:
    """A name for a model that no other test has."""
    return f"model-{next(numbers)}"
