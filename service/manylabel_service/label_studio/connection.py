"""Where a project's Label Studio is, as it told when the backend was connected, and its annotations from there.

A webhook is never sent again. So what was annotated while the server was away is read from Label Studio when it asks
for training.
"""

import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Set
from contextlib import suppress
from typing import Any, NamedTuple

import httpx2
import jiter

from manylabel_service.errors import DocumentChanged
from manylabel_service.storage import Document, Documents, ModelRecord

KIND = "label-studio"
MAX_PROJECTS = 100
"""Projects remembered per model, those connected last."""

MAX_CONFIGS = 100
"""Configurations remembered, those set up last."""

PAGE_TASKS = 100
MAX_PAGES = 100
MAX_PAGE_BYTES = 2**25
TIMEOUT_SECONDS = 20.0


class Connection(NamedTuple):
    """A connection has the address of a Label Studio, the token of its user, and the number of a project."""

    address: str
    token: str
    project: int


class FetchFailed(Exception):
    """The annotations cannot be had; the message says why."""


class Connections:
    """The connections of models, kept in the store, so that any server knows them after a restart too.

    Parameters
    ----------
    documents : of the store.
    existing : returns those of some names that models have.
    """

    def __init__(self, documents: Documents, existing: Callable[[Set[str]], Awaitable[set[str]]]) -> None:
        self._documents = documents
        self._existing = existing
        self._configs: OrderedDict[ModelRecord, str] = OrderedDict()

    def note_config(self, record: ModelRecord, config: str) -> None:
        """Remember, in this process, the configuration that was set up last for a model."""
        self._configs[record] = config
        self._configs.move_to_end(record)
        if len(self._configs) > MAX_CONFIGS:
            self._configs.popitem(last=False)

    def config(self, record: ModelRecord) -> str | None:
        """Return the configuration that was set up last for a model, if it is still remembered."""
        return self._configs.get(record)

    async def remember(self, record: ModelRecord, connection: Connection) -> None:
        """Keep a connection of a model; raises StorageError."""
        while True:
            document = await self._documents.get(KIND, record.name)
            known = _projects(document, record.incarnation)
            kept = [connection.address, connection.token]
            if known.get(str(connection.project)) == kept:
                return
            known.pop(str(connection.project), None)
            known[str(connection.project)] = kept
            latest = dict(list(known.items())[-MAX_PROJECTS:])
            value = json.dumps({"incarnation": record.incarnation, "projects": latest}).encode()
            try:
                revision = None if document is None else document.revision
                await self._documents.put(KIND, record.name, value, revision=revision)
            except DocumentChanged:
                continue
            if document is None:
                await self._forget_others()
            return

    async def recall(self, record: ModelRecord, project: int) -> Connection | None:
        """Return the connection of a project; None if it has told none. Raises StorageError."""
        document = await self._documents.get(KIND, record.name)
        found = _projects(document, record.incarnation).get(str(project))
        return None if found is None else Connection(found[0], found[1], project)

    async def _forget_others(self) -> None:
        """Remove what is kept for models that are not there any more."""
        documents = await self._documents.all(KIND)
        there = await self._existing({document.name for document in documents})
        for document in documents:
            if document.name not in there:
                with suppress(DocumentChanged):
                    await self._documents.delete(KIND, document.name, revision=document.revision)


def _projects(document: Document | None, incarnation: int) -> dict[str, list[str]]:
    """Return address and token by project; nothing of an earlier model of that name."""
    if document is None or document.damaged:
        return {}
    kept: dict[str, Any] = json.loads(document.value)
    return kept["projects"] if kept["incarnation"] == incarnation else {}


async def annotated_tasks(connection: Connection) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield the tasks of a project with their annotations, a page at a time, up to 10,000 tasks.

    Raises
    ------
    FetchFailed
        Label Studio does not answer, or with something else.
    """
    headers = {"Authorization": f"Token {connection.token}"}
    async with httpx2.AsyncClient(timeout=TIMEOUT_SECONDS, headers=headers, trust_env=False) as client:
        for page in range(1, MAX_PAGES + 1):
            query = {"project": connection.project, "page": page, "page_size": PAGE_TASKS, "fields": "all"}
            tasks = _tasks(await _get(client, f"{connection.address.rstrip('/')}/api/tasks", query))
            yield tasks
            if len(tasks) < PAGE_TASKS:
                return


async def _get(client: httpx2.AsyncClient, url: str, query: dict[str, Any]) -> bytes:
    """Return what is answered; redirects are not followed."""
    body = bytearray()
    try:
        async with client.stream("GET", url, params=query) as response:
            if response.status_code == 404 and query["page"] > 1:  # there are no more
                return b'{"tasks": []}'
            if response.status_code != 200:
                raise FetchFailed(f"Label Studio answers {response.status_code} to GET /api/tasks")
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_PAGE_BYTES:
                    raise FetchFailed(f"{PAGE_TASKS} tasks of Label Studio have more than {MAX_PAGE_BYTES:,} bytes")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise FetchFailed(f"Label Studio cannot be reached: {type(error).__name__}") from error
    return bytes(body)


def _tasks(raw: bytes) -> list[dict[str, Any]]:
    try:
        answer = jiter.from_json(raw)
    except ValueError as error:
        raise FetchFailed("Label Studio answers no JSON to GET /api/tasks") from error
    tasks = answer.get("tasks") if isinstance(answer, dict) else None
    if not isinstance(tasks, list):
        raise FetchFailed("Label Studio answers no tasks to GET /api/tasks")
    return [task for task in tasks if isinstance(task, dict)]
