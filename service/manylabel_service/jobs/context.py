"""Store, settings and datasets of jobs, and the intervals of their monitoring."""

from collections.abc import Callable
from dataclasses import dataclass

from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.jobs.job_store import JobStore
from manylabel_service.settings import Settings
from manylabel_service.storage import Store

LEASE_SECONDS = 10.0
"""Seconds without a heartbeat after which a lease has expired."""
VALID_SECONDS = 8.0
"""Seconds after a heartbeat for which the training process may run (self-fencing); less than `LEASE_SECONDS`."""
HEARTBEAT_SECONDS = 3.0
"""Seconds between two heartbeats."""
PROGRESS_SECONDS = 1.0
"""Seconds between two heartbeats with progress to report."""
POLL_SECONDS = 0.5
"""Poll interval in seconds; a cancelled job stops within this time."""
RETRY_SECONDS = 1.0
"""Seconds between two attempts while the store is unavailable."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """Dependencies of the job components of one process.

    `published` is called in this process with the name of a model that has a new version.
    """

    store: Store
    settings: Settings
    datasets: DatasetStore
    job_store: JobStore
    published: Callable[[str], None] = lambda name: None
