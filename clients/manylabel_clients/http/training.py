"""The part of the synchronous client that is about data sets and training jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manylabel_clients.http._sync import SyncCarrier
from manylabel_clients.http.dataset_types import DatasetInfo, LabelColumns, ReportBytes, Source
from manylabel_clients.http.job import Job
from manylabel_clients.http.job_types import JobStatus, Trainer, TrainingData


class TrainingClient(SyncCarrier):
    """Data sets and jobs of a server: a part of `Client`."""

    def upload_dataset(
        self,
        name: str,
        source: Source,
        *,
        format: str | None = None,
        labels: LabelColumns | Path | None = None,
        train_rows: int | None = None,
        report: ReportBytes | None = None,
    ) -> DatasetInfo:
        """Send a labelled file to the server, to train from.

        Parameters
        ----------
        name : str
            Lower-case letters, digits, dots, dashes and underscores; at most 64.
        source : str, Path, bytes or binary file
            A file by its name, the bytes themselves, or an open file. Only what can be read from its start again can
            be sent again when a connection breaks.
        format : str, optional
            ``libsvm``, ``arff``, ``npz``, ``ndjson`` or ``csv``. None goes by the ending of the name.
        labels : Path, int or list of str, optional
            Which columns are labels. ARFF: a Mulan XML file, or how many of the first (the last, if negative)
            attributes; CSV: names, or how many of the last columns.
        train_rows : int, optional
            So many rows, the first, are the split ``train``, and the others ``test``.
        report : callable, optional
            Called with how many bytes have been sent so far.

        Raises
        ------
        Invalid
            If the server cannot read the file; the message says where.
        Conflict
            If the name is taken. After an attempt that got no answer, a data set that was made of the same file
            counts as the one sent.
        TooLarge
            If it exceeds a limit of the server.
        """
        options = {} if train_rows is None else {"split": str(train_rows)}
        return self._run(self._datasets.upload(name, source, format, labels, options, report))

    def datasets(self) -> list[DatasetInfo]:
        """The data sets of the server."""
        return self._run(self._datasets.datasets())

    def dataset(self, name: str, *, details: bool = False) -> DatasetInfo:
        """One of them; with its labels' names and counts, if asked for."""
        return self._run(self._datasets.dataset(name, details))

    def delete_dataset(self, name: str) -> None:
        """Delete a data set that no job needs any more; models trained from it stay.

        Raises
        ------
        Conflict
            If a job that has not ended needs it.
        """
        self._run(self._datasets.delete(name))

    def trainers(self) -> list[Trainer]:
        """What the server can train, with what parameters."""
        return self._run(self._training.trainers())

    def train(
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
    ) -> Job:
        """Have a model trained; answers as soon as the job is queued.

        Parameters
        ----------
        trainer : str
            ``m3l``, ``mlrl``, ...: `trainers` has them all.
        data : str or mapping
            The name of a data set, ``{"dataset": name, "split": "train"}``, or ``{"stream": model, "last": n}``: the
            last examples that an online model has learnt.
        model : str
            Name of the model of which the result is a new version.
        params : mapping, optional
            Parameters of the trainer; what is left out has its default.
        holdout : float or mapping, optional
            A share of the rows, or data as above, to measure the model on, and not to learn from.
        search : mapping, optional
            Looks for the best parameters, as ``{"kind": "grid", "params": {"C": [0.1, 1]}, "folds": 5,
            "measure": "micro_f1"}``.
        seed : int, optional
            Of all that is up to chance.
        promote : bool, optional
            False leaves the version that is served as it is.
        key : str, optional
            The same key with the same job is one job, also from a new process. Without one, the call has one of its
            own for its retries.

        Raises
        ------
        Invalid
            If the server does not accept it; `errors` says which part, and what is allowed.
        Busy
            If too many jobs wait already.
        """
        spec = {
            "trainer": trainer,
            "params": params,
            "holdout": holdout,
            "search": search,
            "seed": seed,
            "model": model,
            "promote": promote,
        }
        return self.job(self._run(self._training.submit(spec, data, key)).id)

    def job(self, id: str) -> Job:
        """The job of this id. Asks nothing of the server, not even whether it exists."""
        return Job(self, id)

    def jobs(self, *, state: str | None = None, limit: int | None = None) -> list[JobStatus]:
        """Jobs of the server, the newest first; of one state, if given."""
        return self._run(self._training.jobs(state, limit))
