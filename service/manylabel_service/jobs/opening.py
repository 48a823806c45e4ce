"""From the settings to jobs."""

from __future__ import annotations

from collections.abc import Callable

from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.job_service import JobService
from manylabel_service.jobs.job_store import JobStore
from manylabel_service.jobs.runners.local import LocalRunner, Runner
from manylabel_service.settings import Settings
from manylabel_service.storage import Store


def open_jobs(store: Store, settings: Settings, datasets: DatasetStore, published: Callable[[str], None]) -> JobService:
    """The jobs of a store, still to be started.

    Parameters
    ----------
    store, settings, datasets : of the server.
    published : called with the name of a model when a version was made in this process.
    """
    office = JobContext(store, settings, datasets, JobStore(store), published)
    return JobService(office, _runner(office))


def _runner(office: JobContext) -> Runner:
    if office.settings.job_runner == "local":
        return LocalRunner(office, office.settings.job_slots)
    # Only here: RQ takes a while to import.
    from manylabel_service.jobs.runners.rq import RQRunner

    return RQRunner(office)
