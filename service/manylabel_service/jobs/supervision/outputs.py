"""Where a task meets the rest of the service: examples from a stream, and the version that comes of a fit."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from manylabel_service.datasets.from_stream import rows_of_stream
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.job_record import JobRecord
from manylabel_service.jobs.job_store import gathered_key
from manylabel_service.jobs.spec.schemas import DataOfStream, HeldOut, Result
from manylabel_service.jobs.training.request import DATA, RESULT
from manylabel_service.storage import pieces_of_file
from manylabel_service.trained.publishing import publish
from manylabel_service.trained.version import VersionMeta


async def gather(office: JobContext, record: JobRecord, place: Path) -> dict[str, Any]:
    """Take the examples of a stream and keep them with the job; what there was."""
    data = record.spec.data
    assert isinstance(data, DataOfStream)
    counts = await rows_of_stream(office.store, office.settings, data.stream, data.last, place / DATA)
    await office.store.blobs.put(gathered_key(record.id), pieces_of_file(place / DATA))
    return {"stream": data.stream, **counts._asdict()}


async def publish_result(office: JobContext, record: JobRecord, place: Path, made: dict[str, Any]) -> Result:
    """Make the result of a fit a version of the job's model; the same version however often it is called.

    Parameters
    ----------
    office : of this process.
    record : the job.
    place : the directory of the training process.
    made : what that said of its result: `rows`, `held_out`, `seconds`.
    """
    spec, task = record.spec, record.tasks[-1]
    held_out = None if made["held_out"] is None else HeldOut.model_validate(made["held_out"])
    meta = VersionMeta(
        job=record.id,
        trainer=spec.trainer,
        params=task.params,
        rows=made["rows"],
        measures=None if held_out is None else held_out.measures,
        created_unix_ms=time.time_ns() // 1_000_000,
    )
    contents = await asyncio.to_thread((place / RESULT).read_bytes)
    version = await publish(office.store, office.settings, spec.model, contents, meta, promote=spec.promote)
    return Result(
        model=spec.model,
        version=version.number,
        rows=made["rows"],
        held_out=held_out,
        params=task.params,
        trials=record.trials(),
        seconds=made["seconds"],
    )
