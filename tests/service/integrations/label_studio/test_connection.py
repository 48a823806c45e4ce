"""Connections to Label Studio, and reading its tasks."""

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import jiter
import pytest
from tests.support.hosts import resolving
from tests.support.http_server import http_server

from manylabel_service.integrations.label_studio import connection
from manylabel_service.integrations.label_studio.connection import Connection, Connections, FetchFailed, annotated_tasks
from manylabel_service.storage import ModelMeta

URL = "http://localhost:8080"


def record(name: str) -> ModelMeta:
    return ModelMeta(name, 1, "{}")  # type: ignore[arg-type]


def test_the_number_of_connections_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_PROJECTS", 3)
    monkeypatch.setattr(connection, "MAX_MODELS", 2)
    connections = Connections([URL])
    for project in (1, 2, 3, 1, 4):
        connections.add(record("a"), project, f"{URL}/", "t")
    assert [connections.find(record("a"), project) is not None for project in (1, 2, 3, 4)] == [True, False, True, True]
    for name in ("b", "c"):
        connections.add(record(name), 1, URL, "t")
        connections.note_config(record(name), "<View/>")
    assert [connections.find(record(name), 1) for name in "abc"] == [None, *[Connection(URL, "t", 1)] * 2]
    connections.note_config(record("d"), "<View/>")
    assert [connections.config(record(name)) for name in "bcd"] == [None, "<View/>", "<View/>"]


class Studio(BaseHTTPRequestHandler):
    """Sends one page."""

    page = b'{"tasks": [{"id": 1}]}'
    hosts: list[str | None] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.hosts.append(self.headers["Host"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.page)


@pytest.fixture
def studio() -> Iterator[type[Studio]]:
    class Own(Studio):
        hosts: list[str | None] = []  # noqa: RUF012

    with http_server(Own) as Own.url:  # type: ignore[attr-defined]
        yield Own


async def tasks_of(url: str) -> list[Any]:
    return [task async for task in annotated_tasks(Connection(url, "t", 1), time.monotonic() + 60)]


async def test_the_checked_address_of_a_name_is_connected_to(studio: Any, monkeypatch: Any) -> None:
    url = studio.url.replace("127.0.0.1", "studio.test")
    resolving(monkeypatch, "127.0.0.2", "127.0.0.1")  # the first refuses connections
    assert await tasks_of(url) == [{"id": 1}]
    assert studio.hosts == [url.removeprefix("http://")]


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "::ffff:169.254.169.254"])
async def test_a_name_of_a_link_local_address_is_not_connected_to(
    studio: Any, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    resolving(monkeypatch, "127.0.0.1", address)
    with pytest.raises(FetchFailed):
        await tasks_of(studio.url.replace("127.0.0.1", "studio.test"))
    assert studio.hosts == []


async def test_a_page_is_parsed_task_by_task(studio: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []

    def from_json(raw: bytes) -> Any:
        parsed.append(len(raw))
        return jiter.from_json(raw)

    monkeypatch.setattr(connection, "jiter", type("Counting", (), {"from_json": staticmethod(from_json)}))
    odd = b'{"a": "[{,\\"\\\\", "b": [[{}], {"c": "}"}]}'
    wide, long = (
        b'{"x": [%s]}' % b",".join([b"[]"] * connection.MAX_TASK_VALUES),
        b'{"x": "%s"}' % (b"a" * 2**20),
    )
    studio.page = b'{"total": 3, "tasks": [%s]}' % b" , ".join([odd, wide, b"{}", long])
    assert await tasks_of(studio.url) == [jiter.from_json(odd), None, {}, None]
    assert parsed == [len(odd), 2]


async def test_the_size_of_a_page_is_limited(studio: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for page in (b" " * 100, b"{}," * 30 + b"{}"):
        studio.page = b'{"tasks": [%s]}' % page
        assert len(await tasks_of(studio.url)) == page.count(b"{")
    monkeypatch.setattr(connection, "MAX_PAGE_MARKS", 80)
    with pytest.raises(FetchFailed):
        await tasks_of(studio.url)
    monkeypatch.setattr(connection, "MAX_PAGE_BYTES", 100)
    studio.page = b'{"tasks": [%s]}' % (b" " * 100)
    with pytest.raises(FetchFailed):
        await tasks_of(studio.url)
