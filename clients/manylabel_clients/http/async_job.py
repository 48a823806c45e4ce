"""One training job of a server, with the asynchronous client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from manylabel_clients.http._async import AsyncCarrier
from manylabel_clients.http._job_calls import JobCalls
from manylabel_clients.http.job_types import ENDED, JobEvent, JobStatus, LogLine


class AsyncJob:
    """One training job of a server, with the calls of `Job`, awaited."""

    def __init__(self, client: AsyncCarrier, id: str) -> None:
        self._client = client
        self._id = id
        self._calls = JobCalls(id, client._retry, client._clock)

    @property
    def id(self) -> str:
        """Its name on the server."""
        return self._id

    async def status(self) -> JobStatus:
        """What the server says about the job."""
        return await self._client._run(self._calls.status())

    async def wait(self, timeout: float | None = None) -> JobStatus:  # noqa: ASYNC109 - how long the job may take
        """Wait until it has ended; see `Job.wait`."""
        return await self._client._run(self._calls.wait(timeout))

    async def events(self, *, after: str | None = None) -> AsyncIterator[JobEvent]:
        """What happens to the job, until it has ended; see `Job.events`."""
        async with aclosing(self._client._watch(self._calls.watching(after))) as events:
            async for event in events:
                yield event
                if event.kind == "state" and event.data["state"] in ENDED:
                    return

    async def log(self) -> list[LogLine]:
        """What it has written so far."""
        return await self._client._run(self._calls.log())

    async def cancel(self) -> JobStatus:
        """Stop it; see `Job.cancel`."""
        return await self._client._run(self._calls.cancel())

    async def retry(self) -> JobStatus:
        """Queue it again; see `Job.retry`."""
        return await self._client._run(self._calls.again())

    def __repr__(self) -> str:
        return f"AsyncJob({self._client.base_url!r}, {self._id!r})"
