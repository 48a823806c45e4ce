"""What a job learns from and is measured on if it does not say so, and whether its result is served."""

from __future__ import annotations

from typing import Any

import pytest
from tests.service.jobs.conftest import SHORT, add_songs, ended, songs, spec

from manylabel_core.datasets import Dataset
from manylabel_service.jobs.spec.schemas import Job

WHOLE = {**SHORT, "data": {"dataset": "songs"}}


@pytest.fixture
async def done(sqlite_store: Any, jobs_of: Any) -> Any:
    jobs = await jobs_of(sqlite_store, job_checkpoint_work=1e9)
    await add_songs(jobs._context)

    async def run(**changes: Any) -> tuple[Job, list[str]]:
        job, _ = await jobs.submit(spec(WHOLE, **changes), None)
        return await ended(jobs, job.id), [line.text for line in await jobs.log(job.id)]

    return run


async def test_train_is_learnt_and_test_measured_where_nothing_else_is_said(done: Any) -> None:
    job, _ = await done()
    data: Dataset = songs()
    assert (job.data.split, job.result.rows) == ("train", data.split("train").n_rows)
    assert job.result.held_out.rows == data.split("test").n_rows
    assert (job.result.converged, job.result.promoted, job.result.held_back) == (True, True, None)
    assert 0 <= job.result.gap <= 1e-3


async def test_all_rows_are_learnt_if_that_is_said_and_then_the_result_is_not_served(done: Any) -> None:
    job, lines = await done(data={"dataset": "songs", "split": "all"})
    assert (job.result.rows, job.result.held_out) == (songs().n_rows, None)
    assert (job.result.promoted, job.result.held_back) == (False, "it was not measured")
    assert lines[-1] == "version 1 is not served: it was not measured"
    job, _ = await done(data={"dataset": "songs", "split": "all"}, promote=True)
    assert (job.result.promoted, job.result.held_back) == (True, None)


async def test_a_fit_that_has_not_converged_is_not_served(done: Any) -> None:
    job, lines = await done(params={"max_iter": 1, "tol": 1e-9})
    assert (job.result.converged, job.result.promoted) == (False, False)
    assert job.result.held_back == f"its fit has not converged (gap {job.result.gap:.2g})"
    assert lines[-1] == f"version 1 is not served: {job.result.held_back}"
    job, _ = await done(params={"max_iter": 1, "tol": 1e-9}, promote=True)
    assert (job.result.version, job.result.converged, job.result.promoted) == (2, False, True)


async def test_a_worse_version_is_served_and_said_to_be_worse(done: Any) -> None:
    first, lines = await done(params={"C": 1.0})
    assert (first.result.worse, any("served, but" in line for line in lines)) == (None, False)
    same, _ = await done(params={"C": 1.0}, holdout={"dataset": "songs", "split": "test"})
    assert same.result.worse is None
    before, after = same.result.held_out.measures["micro_f1"], None
    worse, lines = await done(params={"C": 1e-9}, promote=True)
    after = worse.result.held_out.measures["micro_f1"]
    assert after < before
    assert worse.result.worse == (
        f"its micro-F1 of {after:.4f} is below the {before:.4f} of version 2, which it replaces, on the same rows"
    )
    assert lines[-1] == f"version 3 is served, but {worse.result.worse}"
    await done(params={"C": 1.0})
    other, _ = await done(params={"C": 1e-9}, holdout=0.5, promote=True)
    assert other.result.worse is None, "it was measured on other rows"
    kept, _ = await done(params={"C": 1e-9}, promote=False)
    assert kept.result.worse is None, "it replaces none"


async def test_a_version_with_another_scaling_is_not_served_silently(done: Any) -> None:
    await done()
    job, _ = await done(params={"scaling": "standard"})
    assert job.result.held_back == "it differs from version 1: its scaling is standard, not auto"
