"""A task takes examples from a stream, and its result becomes a version of a model."""

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


async def gather(context: JobContext, record: JobRecord, directory: Path) -> dict[str, Any]:
    """Take the examples of a stream and keep them with the job; return how many there were."""
    data = record.spec.data
    assert isinstance(data, DataOfStream)
    counts = await rows_of_stream(context.store, context.settings, data.stream, data.last, directory / DATA)
    await context.store.blobs.put(gathered_key(record.id), pieces_of_file(directory / DATA))
    return {"stream": data.stream, **counts._asdict()}


async def publish_result(context: JobContext, record: JobRecord, directory: Path, made: dict[str, Any]) -> Result:
    """Make the result of a fit a version of the job's model; it is the same version however often this is called.

    Parameters
    ----------
    context : of this process.
    record : the job.
    directory : the directory of the training process.
    made : the result that it reported: `rows`, `held_out`, `seconds`.
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
    artifact = await asyncio.to_thread((directory / RESULT).read_bytes)
    number = await publish(context.store, context.settings, spec.model, artifact, meta, promote=spec.promote)
    return Result(
        model=spec.model,
        version=number,
        rows=made["rows"],
        held_out=held_out,
        params=task.params,
        trials=record.trials(),
        seconds=made["seconds"],
    )
