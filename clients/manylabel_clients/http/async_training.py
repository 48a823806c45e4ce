"""The part of the asynchronous client that is about data sets and training jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manylabel_clients.http._async import AsyncCarrier
from manylabel_clients.http.async_job import AsyncJob
from manylabel_clients.http.dataset_types import DatasetInfo, LabelColumns, ReportBytes, Source
from manylabel_clients.http.job_types import JobStatus, Trainer, TrainingData


class AsyncTrainingClient(AsyncCarrier):
    """Data sets and jobs of a server: a part of `AsyncClient`, with the calls of `TrainingClient`, awaited."""

    async def upload_dataset(
        self,
        name: str,
        source: Source,
        *,
        format: str | None = None,
        labels: LabelColumns | Path | None = None,
        train_rows: int | None = None,
        report: ReportBytes | None = None,
    ) -> DatasetInfo:
        """Send a labelled file to the server, to train from; see `Client.upload_dataset`."""
        options = {} if train_rows is None else {"split": str(train_rows)}
        return await self._run(self._datasets.upload(name, source, format, labels, options, report))

    async def datasets(self) -> list[DatasetInfo]:
        """The data sets of the server."""
        return await self._run(self._datasets.datasets())

    async def dataset(self, name: str, *, details: bool = False) -> DatasetInfo:
        """One of them; see `Client.dataset`."""
        return await self._run(self._datasets.dataset(name, details))

    async def delete_dataset(self, name: str) -> None:
        """Delete a data set that no job needs any more; see `Client.delete_dataset`."""
        await self._run(self._datasets.delete(name))

    async def trainers(self) -> list[Trainer]:
        """What the server can train, with what parameters."""
        return await self._run(self._training.trainers())

    async def train(
        self,
        trainer: str,
        data: TrainingData,
        model: str,
        *,
        params: Mapping[str, Any] | None = None,
        holdout: float | Mapping[str, Any] | None = None,
        search: Mapping[str, Any] | None = None,
        seed: int | None = None,
        promote: bool | None = None,
        key: str | None = None,
    ) -> AsyncJob:
        """Have a model trained; answers as soon as the job is queued; see `Client.train`."""
        spec = {
            "trainer": trainer,
            "params": params,
            "holdout": holdout,
            "search": search,
            "seed": seed,
            "model": model,
            "promote": promote,
        }
        return self.job((await self._run(self._training.submit(spec, data, key))).id)

    def job(self, id: str) -> AsyncJob:
        """The job of this id. Asks nothing of the server, not even whether it exists."""
        return AsyncJob(self, id)

    async def jobs(self, *, state: str | None = None, limit: int | None = None) -> list[JobStatus]:
        """Jobs of the server, the newest first; of one state, if given."""
        return await self._run(self._training.jobs(state, limit))
