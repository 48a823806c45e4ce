"""Connections to Label Studio by project, and reading of the annotations of a project.

Label Studio sends each webhook once. When it requests training, the server reads the annotations made while the
server was down.
"""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Hashable
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeVar

import httpx2
import jiter

from manylabel_service import outgoing
from manylabel_service.settings import origin_of
from manylabel_service.slices import Pace
from manylabel_service.storage import ModelMeta

MAX_MODELS = 100
"""Maximum number of models with stored configuration and connections, the latest."""
MAX_SKIPPED = 100
"""Maximum number of skipped fields per model that are remembered, so that each is logged once."""
MAX_PROJECTS = 100
"""Maximum number of connections per model, the latest."""

PAGE_TASKS = 100
MAX_PAGES = 100
MAX_PAGE_BYTES = 2**25
MAX_PAGE_MARKS = 1_000_000
"""Maximum number of commas, quotes, brackets and escapes in a page. Finding as many takes about a second."""
MARKS_AT_ONCE = 1_000
MAX_TASK_BYTES = 2**20
MAX_TASK_VALUES = 50_000
"""Maximum number of JSON values in a task. Parsing as many takes some 10 ms."""
TIMEOUT_SECONDS = 20.0

_TASKS = re.compile(rb'"tasks"\s*:\s*\[')
_MARK = re.compile(rb'\\.|["\[\]{},]', re.DOTALL)

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Connection(NamedTuple):
    """The origin (scheme://host:port) of a Label Studio, the access token of its user, and the number of a project."""

    url: str
    token: str
    project: int


class FetchFailed(Exception):
    """The annotations cannot be read; the server's log has the message."""


class Connections:
    """Connections and labelling configurations of models, in the memory of this process.

    Access tokens are not written to the store, whose readers could use them. Label Studio sends its token again with
    each call of setup. `urls` are the origins that may be requested.
    """

    def __init__(self, urls: Collection[str]) -> None:
        self._urls = urls
        self._configs: OrderedDict[ModelMeta, str] = OrderedDict()
        self._projects: OrderedDict[ModelMeta, OrderedDict[int, Connection]] = OrderedDict()
        self._skipped: OrderedDict[ModelMeta, set[str]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._urls)

    def note_config(self, record: ModelMeta, config: str) -> None:
        """Store the latest labelling configuration of a model."""
        _put(self._configs, record, config, MAX_MODELS)

    def config(self, record: ModelMeta) -> str | None:
        """Return the latest labelling configuration of a model; None if it is not stored."""
        return self._configs.get(record)

    def note_skipped(self, record: ModelMeta, fields: Collection[str]) -> list[str]:
        """Remember fields of tasks that a model skips; return those that are new."""
        known = self._skipped.get(record, set())
        new = sorted(set(fields) - known)[: MAX_SKIPPED - len(known)]
        _put(self._skipped, record, known.union(new), MAX_MODELS)
        return new

    def add(self, record: ModelMeta, project: int, hostname: str, token: str) -> None:
        """Store the connection of a project, unless its Label Studio may not be requested."""
        url = origin_of(hostname)
        if url is not None and url in self._urls:
            projects = self._projects.get(record, OrderedDict())
            _put(self._projects, record, projects, MAX_MODELS)
            _put(projects, project, Connection(url, token, project), MAX_PROJECTS)

    def find(self, record: ModelMeta, project: int) -> Connection | None:
        """Return the connection of a project; None if it is not stored."""
        projects = self._projects.get(record)
        return None if projects is None else projects.get(project)


def _put(values: OrderedDict[Key, Value], key: Key, value: Value, most: int) -> None:
    values[key] = value
    values.move_to_end(key)
    if len(values) > most:
        values.popitem(last=False)


async def annotated_tasks(connection: Connection, deadline: float) -> AsyncGenerator[dict[str, Any] | None, None]:
    """Yield the tasks of a project with their annotations, up to 10,000; None for a task that is too large.

    No page is requested after the deadline (time.monotonic). Raises FetchFailed.
    """
    url = httpx2.URL(connection.url).copy_with(path="/api/tasks")
    headers = {"Authorization": f"Token {connection.token}", "Accept-Encoding": "identity"}
    addresses = await _addresses(url)
    context = await outgoing.tls_context()
    async with outgoing.client(context, TIMEOUT_SECONDS, headers) as client:
        for page in range(1, MAX_PAGES + 1):
            if time.monotonic() > deadline:
                return
            query = {"project": connection.project, "page": page, "page_size": PAGE_TASKS, "fields": "all"}
            raw, number = await _page(client, url, addresses, query, deadline), 0
            async for task in _tasks(raw):
                number += 1
                yield task
            if number < PAGE_TASKS:
                return


async def _addresses(url: httpx2.URL) -> list[str]:
    """Return the IP addresses of a host.

    A link-local address, where machines of a cloud find their credentials, must be in the setting itself: no name may
    resolve to it.
    """
    try:
        addresses = await outgoing.resolve(url, TIMEOUT_SECONDS)
    except outgoing.HostUnknown as error:
        raise FetchFailed(str(error)) from error
    is_name = outgoing.literal(url.host) is None
    if is_name and any(outgoing.embedded(ip_address(address)).is_link_local for address in addresses):
        raise FetchFailed("its name resolves to a link-local address")
    return addresses


async def _page(
    client: httpx2.AsyncClient, url: httpx2.URL, addresses: list[str], query: dict[str, Any], deadline: float
) -> bytearray:
    """Return a page from the first address that can be connected to."""

    async def page(address: str) -> bytearray:
        return await _get(client, url, address, query)

    try:
        async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
            return await outgoing.from_first(addresses, page)
    except (httpx2.HTTPError, TimeoutError) as error:
        raise FetchFailed(type(error).__name__) from error


async def _get(client: httpx2.AsyncClient, url: httpx2.URL, address: str, query: dict[str, Any]) -> bytearray:
    body = bytearray()
    async with outgoing.requested(client, "GET", url, address, params=query) as response:
        if response.status_code == 404 and query["page"] > 1:  # no more pages
            return bytearray(b'{"tasks": []}')
        if response.status_code != 200:
            raise FetchFailed(f"status {response.status_code}")
        if response.headers.get("content-encoding", "identity") != "identity":
            raise FetchFailed("compressed, which was not requested")
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MAX_PAGE_BYTES:
                raise FetchFailed(f"more than {MAX_PAGE_BYTES:,} bytes")
    return body


async def _tasks(raw: bytearray) -> AsyncIterator[dict[str, Any] | None]:
    """Yield the tasks of a page; None for a task that is too large.

    Parsing holds the interpreter, in a thread too. So each task is parsed separately after a check of its size, and
    other requests run in between.
    """
    found = _TASKS.search(raw)
    if found is None:
        raise FetchFailed("no list of tasks")
    begin = depth = values = number = 0
    in_string, pace = False, Pace()
    for count, mark in enumerate(_MARK.finditer(raw, found.end())):
        if count % MARKS_AT_ONCE == 0:
            await pace.rest()
        if count == MAX_PAGE_MARKS:
            raise FetchFailed(f"more than {MAX_PAGE_MARKS:,} commas, quotes, brackets and escapes in a page")
        sign = mark[0]
        if sign == b'"':
            in_string = not in_string
        elif in_string:
            continue
        elif sign in b"[{":
            begin, values = (mark.start(), 0) if depth == 0 else (begin, values + 1)
            depth += 1
        elif sign == b",":
            values += 1
        elif sign in b"]}":
            if depth == 0:
                return
            depth -= 1
            if depth == 0:
                number += 1
                if number > PAGE_TASKS:
                    raise FetchFailed(f"more than {PAGE_TASKS} tasks in a page")
                too_large = mark.end() - begin > MAX_TASK_BYTES or values > MAX_TASK_VALUES
                yield None if too_large else _task(bytes(raw[begin : mark.end()]))
    raise FetchFailed("the list of tasks is incomplete")


def _task(raw: bytes) -> dict[str, Any]:
    try:
        task = jiter.from_json(raw)
    except ValueError as error:
        raise FetchFailed("a task is not JSON") from error
    if not isinstance(task, dict):
        raise FetchFailed("a task is not an object")
    return task
