"""Components of an application, which endpoints receive."""

import asyncio
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from manylabel_service.access.keyring import Keyring
from manylabel_service.api.web.bodies import BodyBuffer
from manylabel_service.api.web.large_json import ParseQueue
from manylabel_service.api.web.streaming import DownloadSlots
from manylabel_service.archive.service import ArchiveService
from manylabel_service.audit.log import AuditLog
from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.jobs.job_service import JobService
from manylabel_service.models.forgetting import Forgetter
from manylabel_service.models.promoting import Promoter
from manylabel_service.models.registry import Registry
from manylabel_service.settings import Settings
from manylabel_service.telemetry.metrics import Telemetry
from manylabel_service.ui import Files
from manylabel_service.webhooks.deliverer import Deliverer


@dataclass(frozen=True, slots=True)
class Context:
    """Components of one application.

    `draining` is set when the server begins to stop, and ends responses without an end. An upload with its model in
    memory holds the lock `uploading`, so there is at most one. Requests with a whole version in memory hold
    `examining`, and responses that send a file hold `downloads`. `page` has the files of the web UI. `audit` and
    `archive` are None if they are disabled. `held_bodies` counts the memory of request bodies, and large ones wait in
    `turns` to be parsed.
    """

    settings: Settings
    registry: Registry
    forgetter: Forgetter
    promoter: Promoter
    telemetry: Telemetry
    datasets: DatasetStore
    jobs: JobService
    keyring: Keyring
    webhooks: Deliverer
    page: Files
    held_bodies: BodyBuffer
    turns: ParseQueue
    audit: AuditLog | None = None
    archive: ArchiveService | None = None
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    uploading: asyncio.Lock = field(default_factory=asyncio.Lock)
    downloads: DownloadSlots = field(default_factory=DownloadSlots)
    examining: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))


def context_of(request: Request) -> Context:
    """Return the context of the application, which the dispatcher has set."""
    context: Context = request.scope["context"]
    return context


async def _context(request: Request) -> Context:
    return context_of(request)  # a coroutine, because FastAPI runs plain functions in a thread


ContextOf = Annotated[Context, Depends(_context)]
"""Context as a parameter of an endpoint, which FastAPI sets."""
