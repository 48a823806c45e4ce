"""From the settings to jobs."""

from __future__ import annotations

from collections.abc import Callable

from manylabel_service.datasets.dataset_store import Datasets
from manylabel_service.jobs.context import Office
from manylabel_service.jobs.job_service import Jobs
from manylabel_service.jobs.job_store import Ledger
from manylabel_service.jobs.runners.local import LocalRunner, Runner
from manylabel_service.settings import Settings
from manylabel_service.storage import Store


def open_jobs(store: Store, settings: Settings, datasets: Datasets, published: Callable[[str], None]) -> Jobs:
    """The jobs of a store, still to be started.

    Parameters
    ----------
    store, settings, datasets : of the server.
    published : called with the name of a model when a version was made in this process.
    """
    office = Office(store, settings, datasets, Ledger(store), published)
    return Jobs(office, _runner(office))


def _runner(office: Office) -> Runner:
    if office.settings.job_runner == "local":
        return LocalRunner(office, office.settings.job_slots)
    # Only here: RQ takes a while to import.
    from manylabel_service.jobs.runners.rq import RQRunner

    return RQRunner(office)
