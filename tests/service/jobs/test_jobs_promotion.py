"""Default training and test rows of a job, and whether its result is served."""

from __future__ import annotations

from typing import Any

import pytest
from tests.service.jobs.conftest import SHORT, add_songs, songs, spec, wait_until_ended

from manylabel_core.datasets import Dataset
from manylabel_service.jobs.spec.schemas import Job

WHOLE = {**SHORT, "data": {"dataset": "songs"}}


@pytest.fixture
async def done(sqlite_store: Any, jobs_of: Any) -> Any:
    jobs = await jobs_of(sqlite_store, job_checkpoint_work=1e9)
    await add_songs(jobs._context)

    async def run(**changes: Any) -> tuple[Job, list[str]]:
        job, _ = await jobs.submit(spec(WHOLE, **changes), None)
        return await wait_until_ended(jobs, job.id), [line.text for line in await jobs.log(job.id)]

    return run


async def test_the_default_splits_are_train_and_test(done: Any) -> None:
    job, _ = await done()
    data: Dataset = songs()
    assert (job.data.split, job.result.rows) == ("train", data.split("train").n_rows)
    assert job.result.held_out.rows == data.split("test").n_rows
    assert (job.result.converged, job.result.promoted, job.result.not_promoted_because) == (True, True, None)
    assert 0 <= job.result.gap <= 1e-3


async def test_a_version_of_all_rows_is_not_served_by_default(done: Any) -> None:
    job, lines = await done(data={"dataset": "songs", "split": "all"})
    assert (job.result.rows, job.result.held_out) == (songs().n_rows, None)
    assert (job.result.promoted, job.result.not_promoted_because) == (False, "it was not evaluated")
    assert lines[-1] == "version 1 is not served: it was not evaluated"
    job, _ = await done(data={"dataset": "songs", "split": "all"}, promote="always")
    assert (job.result.promoted, job.result.not_promoted_because) == (True, None)


async def test_a_fit_that_has_not_converged_is_not_served(done: Any) -> None:
    job, lines = await done(params={"max_iter": 1, "tol": 1e-9})
    assert (job.result.converged, job.result.promoted) == (False, False)
    assert job.result.not_promoted_because == f"its fit did not converge (gap {job.result.gap:.2g})"
    assert lines[-1] == f"version 1 is not served: {job.result.not_promoted_because}"
    job, _ = await done(params={"max_iter": 1, "tol": 1e-9}, promote="always")
    assert (job.result.version, job.result.converged, job.result.promoted) == (2, False, True)


async def test_a_worse_version_is_served_only_on_request(done: Any) -> None:
    first, _ = await done(params={"C": 1.0})
    same, _ = await done(params={"C": 1.0}, holdout={"dataset": "songs", "split": "test"})
    assert (first.result.promoted, same.result.promoted, same.result.not_promoted_because) == (True, True, None)

    worse, lines = await done(params={"C": 1e-9})
    before, after = (job.result.held_out.measures["micro_f1"] for job in (same, worse))
    assert after < before
    by = f"its micro-F1 of {after:.4f} is below the {before:.4f} of version 2 on the same rows"
    assert (worse.result.promoted, worse.result.not_promoted_because, worse.result.worse) == (False, by, None)
    assert lines[-1] == f"version 3 is not served: {by}"

    anyway, lines = await done(params={"C": 1e-9}, promote="always")
    assert (anyway.result.promoted, anyway.result.not_promoted_because, anyway.result.worse) == (True, None, by)
    assert lines[-1] == f"version 4 is served, although {by}"

    better, _ = await done(params={"C": 1.0})
    assert (better.result.promoted, better.result.not_promoted_because) == (True, None)
    elsewhere, _ = await done(params={"C": 1e-9}, holdout=0.5)
    assert (elsewhere.result.promoted, elsewhere.result.worse) == (True, None), "it was measured on other rows"
    by_hand, _ = await done(params={"C": 1e-9}, promote="never")
    assert (by_hand.result.promoted, by_hand.result.not_promoted_because, by_hand.result.worse) == (False, None, None)


async def test_a_version_with_another_scaling_is_not_served_silently(done: Any) -> None:
    await done()
    job, _ = await done(params={"scaling": "standard"})
    assert job.result.not_promoted_because.startswith("it differs from version 1: its scaling is standard, not auto")
