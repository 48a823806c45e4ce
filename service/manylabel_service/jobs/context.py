"""What everybody who works at jobs in one process shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.jobs.job_store import JobStore
from manylabel_service.settings import Settings
from manylabel_service.storage import Store

LEASE_SECONDS = 10.0
"""Who has not given a sign of life for so long is dead, as far as others can see."""
HOLD_SECONDS = 8.0
"""So long after a sign of life was sent its sender may let a process compute: less than the lease."""
BEAT_SECONDS = 3.0
"""Between two signs of life."""
TELL_SECONDS = 1.0
"""Between two signs of life when there is progress to tell."""
LOOK_SECONDS = 0.5
"""How often everybody looks for changes: a job that was cancelled stops after so long."""
RETRY_SECONDS = 1.0
"""Between two attempts while the store is gone."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """Where jobs are, and what working at them needs.

    `published` is called in this process with the name of a model that has a new version.
    """

    store: Store
    settings: Settings
    datasets: DatasetStore
    ledger: JobStore
    published: Callable[[str], None] = lambda name: None
