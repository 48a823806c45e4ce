"""From the settings to jobs."""

from __future__ import annotations

from collections.abc import Callable

from manylabel_service.datasets.catalogue import Datasets
from manylabel_service.jobs.jobs import Jobs
from manylabel_service.jobs.ledger import Ledger
from manylabel_service.jobs.office import Office
from manylabel_service.jobs.runners import LocalRunner, Runner
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
    from manylabel_service.jobs.rq_runner import RQRunner

    return RQRunner(office)
