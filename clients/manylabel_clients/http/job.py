"""One training job of a server, with the synchronous client."""

from __future__ import annotations

from collections.abc import Iterator

from manylabel_clients.http._job_calls import JobCalls
from manylabel_clients.http._sync import SyncCarrier
from manylabel_clients.http.job_types import ENDED, JobEvent, JobStatus, LogLine


class Job:
    """One training job of a server: `Client.train` and `Client.job` give it."""

    def __init__(self, client: SyncCarrier, id: str) -> None:
        self._client = client
        self._id = id
        self._calls = JobCalls(id, client._retry, client._clock)

    @property
    def id(self) -> str:
        """Its name on the server."""
        return self._id

    def status(self) -> JobStatus:
        """What the server says about the job."""
        return self._client._run(self._calls.status())

    def wait(self, timeout: float | None = None) -> JobStatus:
        """Wait until it has ended, for at most `timeout` seconds; None waits as long as it takes.

        Raises
        ------
        JobFailed
            If it failed, or was cancelled.
        TimeoutError
            If it has not ended when the time is over. It goes on.
        """
        return self._client._run(self._calls.wait(timeout))

    def events(self, *, after: str | None = None) -> Iterator[JobEvent]:
        """What happens to the job, from where it stands or after an event seen earlier, until it has ended.

        A connection that is lost is made again, and the events go on after the last one seen.

        Raises
        ------
        NotFound
            If there is no such job (any more).
        ManyLabelError
            If the server cannot be reached, after all retries.
        """
        for event in self._client._watch(self._calls.watching(after)):
            yield event
            if event.kind == "state" and event.data["state"] in ENDED:
                return

    def log(self) -> list[LogLine]:
        """What it has written so far."""
        return self._client._run(self._calls.log())

    def cancel(self) -> JobStatus:
        """Stop it; nothing comes of it.

        Raises
        ------
        Conflict
            If it has ended.
        """
        return self._client._run(self._calls.cancel())

    def retry(self) -> JobStatus:
        """Queue it again, after it failed or was cancelled; it goes on from its last checkpoint, if it has one.

        Raises
        ------
        Conflict
            If it did neither.
        """
        return self._client._run(self._calls.again())

    def __repr__(self) -> str:
        return f"Job({self._client.base_url!r}, {self._id!r})"
