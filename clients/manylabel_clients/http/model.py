"""One model of a server, with the synchronous client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from manylabel_clients.http._model_calls import BATCH_SIZE, ModelCalls
from manylabel_clients.http._version_calls import VersionCalls
from manylabel_clients.http.types import (
    AnyStatus,
    Event,
    Example,
    Features,
    Labels,
    LineAnswer,
    Metrics,
    Prediction,
    RolledBack,
    Snapshot,
    Truth,
    Updated,
)
from manylabel_clients.http.version_types import ModelDetail, Promoted, Version

if TYPE_CHECKING:
    from manylabel_clients.http.client import Client


class Model:
    """One model of a server: `Client.create_model` and `Client.model` give it.

    An example `x` is a mapping of names to numbers, a sequence or array of all numbers in order,
    `Sparse(indices, values)`, or one row of a SciPy sparse matrix; or, for a model of several views,
    ``{"views": {"text": ..., "image": ...}}`` with each view in one of these forms. Its truth `y` is a list of names
    (the complete set: all other labels are false) or a mapping of names to true or false (all others are unknown).

    Calls with many examples send them in order, in requests of at most `batch_size` examples. A request is
    learnt as a whole or not at all; the call as a whole is not: when a later request fails, the error says in
    `done` how many examples had been answered before it.

    Every learning call carries an idempotency key, so that its retries count once. Give one yourself to make
    the call repeatable from a new process: the same key with the same examples (and `batch_size`) is learnt
    once, for as long as the server remembers the key.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name
        self._calls = ModelCalls(name, client._retry)
        self._versions = VersionCalls(name, client._retry)

    @property
    def name(self) -> str:
        """Its name on the server."""
        return self._name

    def predict(
        self, x: Features, *, keep: bool = False, at_least: str | None = None, probabilities: bool = False
    ) -> Prediction:
        """Labels and scores of one example.

        Parameters
        ----------
        x : Features
            The example.
        keep : bool
            Whether the server keeps the example, so that its truth can be told later: see `label`.
        at_least : str, optional
            The answer has seen all updates up to this position, as a receipt has it; for servers with replicas.
        probabilities : bool
            Whether to say how likely each label is, too. As in all calls that answer predictions.

        Raises
        ------
        Invalid
            If the example does not fit the model, or the model has no probabilities (`calibrate` is false, or jobs
            train it).
        """
        return self._client._run(self._calls.predict(x, keep, at_least, probabilities))

    def predict_many(
        self,
        xs: Iterable[Features],
        *,
        batch_size: int = BATCH_SIZE,
        keep: bool = False,
        at_least: str | None = None,
        probabilities: bool = False,
    ) -> list[Prediction]:
        """Labels and scores of many examples, in their order."""
        return self._client._run(self._calls.predict_many(xs, batch_size, keep, at_least, probabilities))

    def update(self, x: Features, y: Labels, *, key: str | None = None) -> Updated:
        """Learn one example."""
        return self._client._run(self._calls.update(x, y, key))

    def update_many(
        self, examples: Iterable[Example], *, batch_size: int = BATCH_SIZE, key: str | None = None
    ) -> Updated:
        """Learn many examples, pairs of x and y, in their order. The receipt is that of the last request."""
        return self._client._run(self._calls.update_many(examples, batch_size, key))

    def predict_update(
        self, x: Features, y: Labels, *, key: str | None = None, probabilities: bool = False
    ) -> tuple[Prediction, Updated]:
        """Learn one example; answers what was predicted before."""
        return self._client._run(self._calls.predict_update(x, y, key, probabilities))

    def predict_update_many(
        self,
        examples: Iterable[Example],
        *,
        batch_size: int = BATCH_SIZE,
        key: str | None = None,
        probabilities: bool = False,
    ) -> tuple[list[Prediction], Updated]:
        """Learn many examples, in their order; answers what was predicted just before each was learnt."""
        return self._client._run(self._calls.predict_update_many(examples, batch_size, key, probabilities))

    def label(self, id: str, y: Labels, *, key: str | None = None) -> Updated:
        """Learn an example that was predicted with `keep`, now that its truth is known.

        Raises
        ------
        NotFound
            If there is no such prediction.
        Conflict
            If it has been labelled before.
        Expired
            If it was kept no longer.
        """
        return self._client._run(self._calls.label(id, y, key))

    def label_many(self, truths: Iterable[Truth], *, batch_size: int = BATCH_SIZE, key: str | None = None) -> Updated:
        """Learn many such examples, pairs of id and y, in their order. The receipt is that of the last request."""
        return self._client._run(self._calls.label_many(truths, batch_size, key))

    def stream(
        self,
        examples: Iterable[Example],
        *,
        key: str | None = None,
        first: int = 1,
        batch_size: int = BATCH_SIZE,
        probabilities: bool = False,
    ) -> Iterator[LineAnswer]:
        """Learn any number of examples, and say for each what was predicted before; lazily, piece by piece.

        A piece that breaks off, whatever the reason, is gone on with where it did: each example is learnt once. One
        that the server refuses is answered with its `error`, and the others are still learnt.

        Parameters
        ----------
        examples : iterable of pairs of x and y
            Drawn as the answers are.
        key : str, optional
            Names the stream. The same key makes it possible to go on with it from a new process: examples with numbers
            that were learnt under it are not learnt again.
        first : int
            Number of the first example.
        batch_size : int
            Examples sent in one request, at most.
        probabilities : bool
            Whether to say how likely each label was, too.

        Raises
        ------
        ManyLabelError
            If it cannot go on; `done` is the number of the last example answered.
        """
        for piece in self._calls.stream_pieces(examples, key, first, batch_size, probabilities):
            yield from self._client._run(piece)

    def events(self, *, after: str | None = None) -> Iterator[Event]:
        """What happens to the model from now on, or after the position of an event seen earlier; does not end.

        A connection that is lost is made again, and the events go on after the last one seen.

        Raises
        ------
        NotFound
            If the model is deleted.
        ManyLabelError
            If the server cannot be reached, after all retries.
        """
        return self._client._watch(self._calls.watching(after))

    def snapshots(self) -> list[Snapshot]:
        """The states of the model that are kept, the newest first."""
        return self._client._run(self._calls.snapshots())

    def take_snapshot(self) -> Snapshot:
        """Keep the present state."""
        return self._client._run(self._calls.take_snapshot())

    def download_snapshot(self, position: str) -> bytes:
        """A state that is kept, as a safetensors file; `upload_model` makes a model of it."""
        return self._client._run(self._calls.download_snapshot(position))

    def rollback(self, position: str, *, key: str | None = None) -> RolledBack:
        """Forget what was learnt after a snapshot, on every server that has the model."""
        return self._client._run(self._calls.rollback(position, key))

    def versions(self) -> list[Version]:
        """The versions of a model that jobs have trained, the newest first."""
        return self._client._run(self._versions.versions())

    def promote(self, version: int) -> Promoted:
        """Serve this version from now on; in one step, and as well an earlier one than the one served now."""
        return self._client._run(self._versions.promote(version))

    def download_version(self, version: int) -> bytes:
        """A version as its estimator's `to_bytes`: `manylabel_core.batch` reads it."""
        return self._client._run(self._versions.download(version))

    def delete_version(self, version: int) -> None:
        """Delete a version that is not served."""
        self._client._run(self._versions.delete(version))

    def detail(self, version: int | None = None) -> ModelDetail:
        """Scores and relations of labels, weights of views, course of the fit: of the version served, or another."""
        return self._client._run(self._versions.detail(version))

    def plot(self, what: str, *, format: str = "png", version: int | None = None) -> bytes:
        """The same as a picture.

        Parameters
        ----------
        what : str
            ``label-scores``, ``label-correlation``, ``view-weights`` or ``convergence``.
        format : str
            ``png`` or ``svg``.
        version : int, optional
            None is the one served.
        """
        return self._client._run(self._versions.plot(what, format, version))

    def metrics(self) -> Metrics:
        """How well the model predicted what it then learnt."""
        return self._client._run(self._calls.metrics())

    def status(self) -> AnyStatus:
        """What the server says about the model."""
        return self._client._run(self._calls.status())

    def delete(self) -> None:
        """Delete the model and all it has learnt."""
        self._client._run(self._calls.delete())

    def __repr__(self) -> str:
        return f"Model({self._client.base_url!r}, {self._name!r})"
