"""Stores, datasets and contexts for jobs; training is done by real processes."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.lanes import in_rest
from tests.support.limits import settings_of
from tests.support.waiting import eventually_async

from manylabel_core.datasets import Dataset
from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.forking.client import Child, start
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.job_service import JobService
from manylabel_service.jobs.job_store import JobStore
from manylabel_service.jobs.local_runner import LocalRunner
from manylabel_service.jobs.spec.schemas import Job, JobSpec
from manylabel_service.jobs.spec.trainers import complete
from manylabel_service.jobs.training.request import FitRequest, Part
from manylabel_service.storage import Store
from manylabel_service.trained.artifact import ModelArtifact
from manylabel_service.trained.version_store import VersionStore

WAIT_SECONDS = 300.0
"""Only a test that fails waits this long: on a busy machine a fit may take a while."""

LONG: dict[str, Any] = {
    "trainer": "m3l",
    "params": {"C": 1000.0, "kernel": "rbf", "gamma": 0.05, "optimise": "none", "tol": 1e-9, "max_iter": 6000},
    "data": {"dataset": "songs", "split": "train"},
    "model": "songs-long",
}
"""A job of one fit that takes some seconds, with a checkpoint every few sweeps."""

SHORT: dict[str, Any] = {"trainer": "m3l", "data": {"dataset": "songs", "split": "train"}, "model": "songs"}


def songs(n_rows: int = 300, seed: int = 0) -> Dataset:
    """A dataset of five features and three labels that are hard to learn, with its splits."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5)).astype(np.float32)
    Y = (X @ rng.normal(size=(5, 3)) + 2 * rng.normal(size=(n_rows, 3)) > 0).astype(np.int8)
    splits = {"train": np.arange(n_rows * 3 // 4), "test": np.arange(n_rows * 3 // 4, n_rows)}
    return Dataset.of(X, Y, ("rock", "jazz", "pop"), splits=splits)


def spec(request: dict[str, Any], **changes: Any) -> JobSpec:
    return JobSpec.model_validate({**request, **changes})


@pytest.fixture
def context_of(tmp_path: Path) -> Callable[..., JobContext]:
    """Make contexts: ``context_of(store, job_max_attempts=1)``. Fits have a checkpoint after each iteration."""

    def make(store: Store, /, **settings: Any) -> JobContext:
        given = {"job_niceness": 0, "job_checkpoint_work": 1.0, **settings}
        known = settings_of(data_dir=tmp_path / "data", **given)
        return JobContext(store, known, DatasetStore(store, known), JobStore(store))

    return make


@pytest.fixture
@in_rest  # it forks training processes
async def jobs_of(context_of: Callable[..., JobContext]) -> AsyncIterator[Callable[..., Awaitable[JobService]]]:
    """Start a job service as of a separate process: ``await jobs_of(store, job_slots=2)``; stopped at the end."""
    started: list[JobService] = []

    async def make(store: Store, /, **settings: Any) -> JobService:
        context = context_of(store, **settings)
        jobs = JobService(context, LocalRunner(context, context.settings.job_slots))
        await jobs.start()
        started.append(jobs)
        return jobs

    yield make
    for jobs in started:
        await jobs.stop()


async def add_songs(context: JobContext, name: str = "songs", data: Dataset | None = None) -> None:
    """Add the dataset as a client would."""
    data = data or songs()
    arrays: dict[str, Any] = {"X": data.X, "Y": data.Y.toarray(), "label_names": np.array(data.label_names)}
    with context.datasets.scratch_file() as file:
        np.savez(file, **arrays, train_idx=data.splits["train"], test_idx=data.splits["test"])
        file.seek(0)
        await context.datasets.add(name, file, "npz")


async def wait_until_ended(jobs: JobService, id: str) -> Job:
    """The job once it has ended."""

    async def look() -> Job | None:
        job = await jobs.get(id)
        return job if job.state in ("succeeded", "failed", "cancelled") else None

    return await eventually_async(look, WAIT_SECONDS)


async def wait_for_checkpoint(jobs: JobService, id: str) -> int:
    """Wait until a job that runs has a checkpoint; its iteration."""

    async def look() -> int | None:
        job = await jobs.get(id)
        assert job.state in ("queued", "running"), job
        return job.progress and job.progress.checkpoint

    return await eventually_async(look, WAIT_SECONDS)


def request_of(**changes: Any) -> FitRequest:
    """The request of a fit to the split train of the data in its directory."""
    given = {
        "kind": "fit",
        "trainer": "m3l",
        "params": {},
        "seed": 0,
        "rows": Part(file="data", split="train"),
        "held": None,
        "unlabelled": None,
        "folds": 3,
        "measure": "micro_f1",
        "threads": 1,
        "segment_work": 1.0,
        "memory_bytes": 2**31,
        "niceness": 0,
    }
    return FitRequest(**{**given, **changes})


async def run_child(place: Path, **request: Any) -> list[dict[str, Any]]:
    """Run a training process by itself, to its end, on data that are in its directory; what it told."""
    async with started_child(place, **request) as process:
        return [json.loads(line) async for line in process.stdout]


@asynccontextmanager
async def started_child(place: Path, **request: Any) -> AsyncIterator[Child]:
    """A training process at a request in a directory; it is killed at the end."""
    request_of(**request).write(place)
    until = time.monotonic() + WAIT_SECONDS
    process = await start("manylabel_service.jobs.training.child", str(place), str(until), threads=1)
    try:
        yield process
    finally:
        await process.kill()


@pytest.fixture(scope="session")
@in_rest
def undisturbed_estimator(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The estimator that `LONG` gives if nothing happens to it."""
    place = tmp_path_factory.mktemp("undisturbed")
    (place / "data").write_bytes(songs().to_bytes())
    params = complete("m3l", LONG["params"])
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        told = runner.run(run_child(place, params=params))
    assert told[-1]["event"] == "result"
    return ModelArtifact.from_bytes((place / "result").read_bytes()).estimator


async def estimator_of(context: JobContext, model: str, number: int = 1) -> bytes:
    """The estimator of a version of a model."""
    record = await context.store.models.find(model)
    assert record is not None
    store = VersionStore(record, context.store)
    versions = (await store.read()).versions
    assert list(versions) == list(range(1, number + 1)), "a job makes one version"
    return ModelArtifact.from_bytes(await store.artifact(await store.find(number))).estimator
