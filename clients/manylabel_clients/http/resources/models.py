"""Models of a server: learn, predict, stream, watch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

import httpx2

from manylabel_clients.http.errors import ManyLabelError
from manylabel_clients.http.resources.examples import (
    Example,
    Features,
    Labels,
    Truth,
    encode_example,
    encode_pair,
    encode_truth,
)
from manylabel_clients.http.resources.forgetting import ForgettingRequests
from manylabel_clients.http.resources.labels import LabelRequests
from manylabel_clients.http.resources.metrics import Metrics, MetricsHistory, Reliability
from manylabel_clients.http.resources.model_status import AnyStatus, model_status
from manylabel_clients.http.resources.predictions import (
    Keep,
    Prediction,
    UnlabelledPage,
    Updated,
    predictions,
    updated,
)
from manylabel_clients.http.resources.records import from_json
from manylabel_clients.http.resources.requests import MAX_KEY_OF_MANY, is_replay, new_key
from manylabel_clients.http.resources.resource import (
    AsyncResource,
    SyncResource,
    async_events,
    awaited,
    documented_as,
    sync,
    sync_events,
)
from manylabel_clients.http.resources.snapshots import SnapshotRequests
from manylabel_clients.http.resources.stream import ExampleStream, LearningStream, LineResult, StreamSummary
from manylabel_clients.http.resources.versions import VersionRequests
from manylabel_clients.http.transport.batches import BATCH_SIZE, Batches, Items, asking
from manylabel_clients.http.transport.connections import AsyncConnections, SyncConnections
from manylabel_clients.http.transport.exchange import Exchange, count_from, read
from manylabel_clients.http.transport.retry import Retry
from manylabel_clients.http.transport.sse import EventStream


@dataclass(frozen=True, slots=True)
class Event:
    """Event of a model."""

    kind: str
    """``update``, ``drift``, ``label``, ``rollback``, ``promoted``, ``not_promoted``, ``metrics`` or ``dropped`` (some
    are not here)."""
    position: str
    """Log position up to which all events are included: `events` resume after it. Opaque."""
    data: dict[str, Any]
    """Fields of the server's documentation."""


def model_path(name: str) -> str:
    """Return the path of a model on its server."""
    return f"/v1/models/{quote(name, safe='')}"


class ModelRequests(LabelRequests, SnapshotRequests, ForgettingRequests, VersionRequests):
    """Requests about one model."""

    def __init__(self, name: str, retry: Retry) -> None:
        super().__init__(retry, model_path(name))
        self.name = name

    def predict(
        self,
        x: Features,
        *,
        keep: Keep = False,
        at_least: str | None = None,
        version: int | None = None,
        probabilities: bool = False,
        explain: int = 0,
        top: int | None = None,
        only: Iterable[str] | None = None,
        except_: Iterable[str] | None = None,
    ) -> Exchange[Prediction]:
        """Return labels and scores of one example.

        Parameters
        ----------
        x : Features
            The example.
        keep : bool or "record"
            Whether the server keeps the example, so that its truth can be given later: see `label`. With "record" it
            also keeps what was posted, for the person who labels it: see `predictions`.
        at_least : str, optional
            The response has seen all updates up to this position, as a receipt has it; for servers with replicas.
        version : int, optional
            Version of a trained model that predicts. Default: the version that is served.
        probabilities : bool
            Whether to return the probability of each label too.
        explain : int
            Maximum number of features named for each predicted label, and as many against it; at
            most 100. For linear models.
        top : int, optional
            Number of labels with scores, the highest first; by default at most as many as the
            server names (1,000).
        only, except_ : iterable of str, optional
            Labels that the response is restricted to, and labels that it omits: names, or prefixes that end in
            ``*``; at most 1,000 of each.

        Raises
        ------
        Invalid
            If the example does not fit the model, the model has no probabilities (`calibrate` is false, or jobs
            train it), or it is not linear and is to explain.
        """
        body = asking(encode_example(x), _wanted(probabilities, explain, top, only, except_))
        return read((yield from self._post(self._predict_path(keep, at_least, version), body)), _only_prediction)

    def predict_many(
        self,
        xs: Items[Features],
        *,
        batch_size: int = BATCH_SIZE,
        keep: Keep = False,
        at_least: str | None = None,
        version: int | None = None,
        probabilities: bool = False,
        explain: int = 0,
        top: int | None = None,
        only: Iterable[str] | None = None,
        except_: Iterable[str] | None = None,
    ) -> Exchange[list[Prediction]]:
        """Return labels and scores of many examples, in their order."""
        batches = Batches(xs, encode_example, batch_size)
        wanted = _wanted(probabilities, explain, top, only, except_)
        responses = yield from self._post_many(self._predict_path(keep, at_least, version), batches, None, wanted)
        return _all_predictions(responses)

    def update(
        self,
        x: Features,
        y: Labels,
        *,
        weight: float | None = None,
        source: str | None = None,
        ref: str | None = None,
        key: str | None = None,
    ) -> Exchange[Updated]:
        """Learn one example.

        Parameters
        ----------
        x, y : Features, Labels
            The example, and its truth.
        weight : float, optional
            Factor of its loss, above 0 and at most 1,000; 1 if omitted. In calls with many examples
            it stands behind x and y.
        source : str, optional
            Source of the truth: "human" if it is omitted, "machine" or "rule". Metrics and a promise of precision
            count the labels of people only. In calls with many examples it stands behind the weight.
        ref : str, optional
            Your name for the example, such as the number of a customer, to `forget` it by. Only the log has it. In
            calls with many examples it stands behind the source.
        key : str, optional
            Idempotency key of the request, which is learnt once.
        """
        body = encode_example(x, y, weight, source, ref)
        return _receipt([(yield from self._post(f"{self._path}/update", body, new_key(key)))])

    def update_many(
        self, examples: Items[Example], *, batch_size: int = BATCH_SIZE, key: str | None = None
    ) -> Exchange[Updated]:
        """Learn many examples in their order: (x, y), optionally followed by weight, source and ref.

        The receipt is that of the last request.
        """
        batches, key = Batches(examples, encode_pair, batch_size), new_key(key, MAX_KEY_OF_MANY)
        return _receipt((yield from self._post_many(f"{self._path}/update", batches, key)))

    def predict_update(
        self,
        x: Features,
        y: Labels,
        *,
        weight: float | None = None,
        source: str | None = None,
        ref: str | None = None,
        key: str | None = None,
        probabilities: bool = False,
    ) -> Exchange[tuple[Prediction, Updated]]:
        """Learn one example, like `update`; return the prediction made just before."""
        body = asking(encode_example(x, y, weight, source, ref), {"probabilities": probabilities})
        response = yield from self._post(f"{self._path}/predict-update", body, new_key(key))
        return read(response, _only_prediction), _receipt([response])

    def predict_update_many(
        self,
        examples: Items[Example],
        *,
        batch_size: int = BATCH_SIZE,
        key: str | None = None,
        probabilities: bool = False,
    ) -> Exchange[tuple[list[Prediction], Updated]]:
        """Learn many examples in their order; return the predictions made just before each was learnt."""
        batches, key = Batches(examples, encode_pair, batch_size), new_key(key, MAX_KEY_OF_MANY)
        wanted = {"probabilities": probabilities}
        responses = yield from self._post_many(f"{self._path}/predict-update", batches, key, wanted)
        receipt = _receipt(responses)
        return _all_predictions(responses), receipt

    def predictions(self, *, order: str = "newest", limit: int = 20) -> Exchange[UnlabelledPage]:
        """Return stored predictions without labels, as the model predicts them now.

        Parameters
        ----------
        order : str
            "newest"; "uncertainty": first those whose labels would teach the model most; or "review": those that need
            review, the most uncertain first.
        limit : int
            Most predictions returned, up to 100.
        """
        query = urlencode({"order": order, "limit": limit})
        return (yield from self._get(f"{self._path}/predictions?{query}", partial(from_json, UnlabelledPage)))

    def label(
        self,
        id: str,
        y: Labels,
        *,
        weight: float | None = None,
        source: str | None = None,
        ref: str | None = None,
        key: str | None = None,
    ) -> Exchange[Updated]:
        """Submit the true labels of an example that was predicted with `keep`.

        Metrics count the prediction that was served; a trained model learns nothing. A mapping may have some of the
        labels, and others follow. `weight`, `source` and `ref` are as in `update`.

        Raises
        ------
        NotFound
            If there is no such prediction.
        Conflict
            If it has been labelled before, or told one of these labels.
        Expired
            If it was kept no longer.
        """
        body = encode_truth(id, y, weight, source, ref)
        return _receipt([(yield from self._post(f"{self._path}/labels", body, new_key(key)))])

    def label_many(
        self, truths: Items[Truth], *, batch_size: int = BATCH_SIZE, key: str | None = None
    ) -> Exchange[Updated]:
        """Learn many predicted examples in their order: (id, y), optionally followed by weight, source and ref.

        The receipt is that of the last request.
        """
        batches = Batches(truths, lambda truth: encode_truth(*truth), batch_size)
        key = new_key(key, MAX_KEY_OF_MANY)
        return _receipt((yield from self._post_many(f"{self._path}/labels", batches, key)))

    def stream(
        self,
        examples: Items[Example],
        *,
        key: str | None = None,
        first: int = 1,
        batch_size: int = BATCH_SIZE,
        probabilities: bool = False,
    ) -> ExampleStream:
        """Learn any number of examples lazily in batches, and yield the prediction made just before each was learnt.

        An interrupted batch is resumed: each example is learnt once. A rejected example yields its `error`, and the
        others are still learnt.

        Parameters
        ----------
        examples : iterable of (x, y), with weight, source and ref behind them where needed
            Drawn as the responses are. `AsyncModel.stream` takes an asynchronous iterable too.
        key : str, optional
            Name of the stream. With the same key, a new process can continue the stream: examples whose numbers were
            learnt under it are not learnt again.
        first : int
            Number of the first example.
        batch_size : int
            Examples sent in one request, at most.
        probabilities : bool
            Whether to say how likely each label was, too.

        Raises
        ------
        ManyLabelError
            If it cannot continue; `done` is the number of the last example answered.
        """
        return ExampleStream(self._path, examples, key, first, batch_size, probabilities, self._retry)

    def learn(
        self, examples: Items[Example], *, key: str | None = None, first: int = 1, batch_size: int = BATCH_SIZE
    ) -> LearningStream:
        """Learn any number of examples lazily in batches, and yield a summary per request.

        This is the fastest way to learn, because nothing is predicted. An interrupted batch is resumed: each example is
        learnt once. The first rejected example ends it; all examples before it are learnt.

        Parameters
        ----------
        examples, key, first, batch_size
            The same as for `stream`.

        Raises
        ------
        ManyLabelError
            If it cannot continue; `done` is the number of the last example learnt.
        """
        return LearningStream(self._path, examples, key, first, batch_size, self._retry)

    def events(self, *, after: str | None = None, kinds: Collection[str] = ()) -> EventStream[Event]:
        """Iterate over the events of the model from now on, or after the position of an earlier event.

        The iteration does not end. A lost connection is restored, and the events resume after the last one received.
        With `kinds`, only events of these kinds and ``dropped`` are sent.

        Raises
        ------
        NotFound
            If the model is deleted.
        ManyLabelError
            If the server cannot be reached, after all retries.
        """
        return EventStream(self._path, after, self._retry, Event, query=urlencode([("kind", kind) for kind in kinds]))

    def metrics(self, *, version: int | None = None) -> Exchange[Metrics]:
        """Return the prequential metrics of the model.

        For a trained model, the metrics are those of one version, by its delayed labels.

        Raises
        ------
        Conflict
            If a version is requested of a model that learns online, or none is served.
        """
        which = "" if version is None else f"?version={version}"
        return (yield from self._get(f"{self._path}/metrics{which}", partial(from_json, Metrics)))

    def metrics_history(self, *, labels: Iterable[str] = (), version: int | None = None) -> Exchange[MetricsHistory]:
        """Return the history of the prequential metrics.

        The values are exactly those that `metrics` had at each point: fewer than 256 equally spaced points, and now.

        Parameters
        ----------
        labels
            Labels whose own measures are wanted too, at fewer points; up to 16.
        version
            Version of a trained model whose predictions are measured. Default: the version that is served.

        Raises
        ------
        NotFound
            If the model does not know one of the labels.
        Conflict
            If a version is requested of a model that learns online, or none is served.
        """
        query = [("label", label) for label in labels]
        if version is not None:
            query.append(("version", str(version)))
        path = f"{self._path}/metrics/history"
        path = f"{path}?{urlencode(query)}" if query else path
        return (yield from self._get(path, partial(from_json, MetricsHistory)))

    def reliability(self, label: str | None = None) -> Exchange[Reliability]:
        """Return the reliability diagram.

        Each example is predicted before it is learnt, and counts with every label whose truth is known.

        Parameters
        ----------
        label : str, optional
            The label that is counted; without it all labels are counted together.

        Raises
        ------
        NotFound
            If the model does not know the label.
        Conflict
            If jobs train the model.
        ManyLabelError
            If it has no probabilities: it was created with `calibrate` false.
        """
        path = f"{self._path}/metrics/reliability"
        path = path if label is None else f"{path}?{urlencode({'label': label})}"
        return (yield from self._get(path, partial(from_json, Reliability)))

    def status(self) -> Exchange[AnyStatus]:
        """Return the status of the model."""
        return (yield from self._get(self._path, model_status))

    def delete(self, *, followers: bool = False) -> Exchange[None]:
        """Delete the model and all it has learnt.

        Parameters
        ----------
        followers : bool
            Whether the models that follow it are deleted too.

        Raises
        ------
        Conflict
            If models follow it, and are not to be deleted.
        """
        yield from self._delete(f"{self._path}?followers=delete" if followers else self._path)

    def _predict_path(self, keep: Keep, at_least: str | None, version: int | None) -> str:
        parameters = {"keep": "record" if keep == "record" else "true"} if keep else {}
        if version is not None:
            parameters["version"] = str(version)
        if at_least is not None:
            parameters["at_least"] = at_least
        return f"{self._path}/predict?{urlencode(parameters)}" if parameters else f"{self._path}/predict"

    def _post_many(
        self, path: str, batches: Batches[Any], key: str | None, wanted: Mapping[str, Any] = MappingProxyType({})
    ) -> Exchange[list[httpx2.Response]]:
        """Send the examples in as many sequential requests as necessary; the server learns them in order."""
        responses: list[httpx2.Response] = []
        while (batch := (yield from batches.draw())) is not None:
            # Derived from the key of the call and the offset, so that a repeated call repeats the same keys.
            batch_key = f"{key}-{batch.start}" if key is not None and batch.start else key
            try:
                responses.append((yield from self._post(path, batch.body(wanted), batch_key)))
            except ManyLabelError as error:
                count_from(error, batch.start)
                raise
        return responses


def _wanted(
    probabilities: bool, explain: int, top: int | None, only: Iterable[str] | None, except_: Iterable[str] | None
) -> dict[str, Any]:
    """Return the fields of a prediction request besides the examples."""
    return {
        "probabilities": probabilities,
        "explain": explain or None,
        "top": top,
        "only": None if only is None else list(only),
        "except": None if except_ is None else list(except_),
    }


def _all_predictions(responses: list[httpx2.Response]) -> list[Prediction]:
    return [prediction for response in responses for prediction in read(response, predictions)]


def _only_prediction(answer: Mapping[str, Any]) -> Prediction:
    return predictions(answer)[0]


def _receipt(responses: list[httpx2.Response]) -> Updated:
    """Return the last response, whose position and counts include all requests."""
    if not responses:
        raise ValueError("there must be at least one example")
    replayed = any(map(is_replay, responses))
    return read(responses[-1], lambda answer: updated(answer, replayed))


class Model(SyncResource[ModelRequests]):
    """Model of a server, from `Client.create_model` or `Client.model`.

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

    def __init__(self, connections: SyncConnections, name: str) -> None:
        super().__init__(connections, ModelRequests(name, connections.retry))

    @property
    def name(self) -> str:
        """Name of the model on the server."""
        return self._requests.name

    predict = sync(ModelRequests.predict)
    update = sync(ModelRequests.update)
    predict_update = sync(ModelRequests.predict_update)
    predictions = sync(ModelRequests.predictions)
    label = sync(ModelRequests.label)
    events = sync_events(ModelRequests.events)
    metrics = sync(ModelRequests.metrics)
    metrics_history = sync(ModelRequests.metrics_history)
    reliability = sync(ModelRequests.reliability)
    labels = sync(ModelRequests.labels)
    describe_labels = sync(ModelRequests.describe_labels)
    set_groups = sync(ModelRequests.set_groups)
    set_promise = sync(ModelRequests.set_promise)
    rename_label = sync(ModelRequests.rename_label)
    merge_label = sync(ModelRequests.merge_label)
    retire_label = sync(ModelRequests.retire_label)
    pause_label = sync(ModelRequests.pause_label)
    resume_label = sync(ModelRequests.resume_label)
    status = sync(ModelRequests.status)
    delete = sync(ModelRequests.delete)

    snapshots = sync(ModelRequests.snapshots)
    take_snapshot = sync(ModelRequests.take_snapshot)
    download_snapshot = sync(ModelRequests.download_snapshot)
    delete_snapshot = sync(ModelRequests.delete_snapshot)
    rollback = sync(ModelRequests.rollback)
    log = sync(ModelRequests.log)
    forget = sync(ModelRequests.forget)
    receipts = sync(ModelRequests.receipts)
    receipt = sync(ModelRequests.receipt)
    verify = sync(ModelRequests.verify)

    versions = sync(ModelRequests.versions)
    promote = sync(ModelRequests.promote)
    download_version = sync(ModelRequests.download_version)
    delete_version = sync(ModelRequests.delete_version)
    detail = sync(ModelRequests.detail)

    @documented_as(ModelRequests.predict_many)
    def predict_many(
        self,
        xs: Iterable[Features],
        *,
        batch_size: int = BATCH_SIZE,
        keep: Keep = False,
        at_least: str | None = None,
        version: int | None = None,
        probabilities: bool = False,
        explain: int = 0,
        top: int | None = None,
        only: Iterable[str] | None = None,
        except_: Iterable[str] | None = None,
    ) -> list[Prediction]:
        return self._connections.run(
            self._requests.predict_many(
                xs,
                batch_size=batch_size,
                keep=keep,
                at_least=at_least,
                version=version,
                probabilities=probabilities,
                explain=explain,
                top=top,
                only=only,
                except_=except_,
            )
        )

    @documented_as(ModelRequests.update_many)
    def update_many(
        self, examples: Iterable[Example], *, batch_size: int = BATCH_SIZE, key: str | None = None
    ) -> Updated:
        return self._connections.run(self._requests.update_many(examples, batch_size=batch_size, key=key))

    @documented_as(ModelRequests.predict_update_many)
    def predict_update_many(
        self,
        examples: Iterable[Example],
        *,
        batch_size: int = BATCH_SIZE,
        key: str | None = None,
        probabilities: bool = False,
    ) -> tuple[list[Prediction], Updated]:
        return self._connections.run(
            self._requests.predict_update_many(examples, batch_size=batch_size, key=key, probabilities=probabilities)
        )

    @documented_as(ModelRequests.label_many)
    def label_many(self, truths: Iterable[Truth], *, batch_size: int = BATCH_SIZE, key: str | None = None) -> Updated:
        return self._connections.run(self._requests.label_many(truths, batch_size=batch_size, key=key))

    @documented_as(ModelRequests.stream)
    def stream(
        self,
        examples: Iterable[Example],
        *,
        key: str | None = None,
        first: int = 1,
        batch_size: int = BATCH_SIZE,
        probabilities: bool = False,
    ) -> Iterator[LineResult]:
        stream = self._requests.stream(
            examples, key=key, first=first, batch_size=batch_size, probabilities=probabilities
        )
        while (answers := self._connections.run(stream.next_answers())) is not None:
            yield from answers

    @documented_as(ModelRequests.learn)
    def learn(
        self, examples: Iterable[Example], *, key: str | None = None, first: int = 1, batch_size: int = BATCH_SIZE
    ) -> Iterator[StreamSummary]:
        stream = self._requests.learn(examples, key=key, first=first, batch_size=batch_size)
        while (summary := self._connections.run(stream.next_summary())) is not None:
            yield summary

    def __repr__(self) -> str:
        return f"Model({self._connections.shown_url!r}, {self.name!r})"


class AsyncModel(AsyncResource[ModelRequests]):
    """A model of a server with the calls of `Model`, awaited; those with many examples also accept async iterables."""

    def __init__(self, connections: AsyncConnections, name: str) -> None:
        super().__init__(connections, ModelRequests(name, connections.retry))

    @property
    def name(self) -> str:
        """Name of the model on the server."""
        return self._requests.name

    predict = awaited(ModelRequests.predict)
    update = awaited(ModelRequests.update)
    predict_update = awaited(ModelRequests.predict_update)
    predictions = awaited(ModelRequests.predictions)
    label = awaited(ModelRequests.label)
    events = async_events(ModelRequests.events)
    metrics = awaited(ModelRequests.metrics)
    metrics_history = awaited(ModelRequests.metrics_history)
    reliability = awaited(ModelRequests.reliability)
    labels = awaited(ModelRequests.labels)
    describe_labels = awaited(ModelRequests.describe_labels)
    set_groups = awaited(ModelRequests.set_groups)
    set_promise = awaited(ModelRequests.set_promise)
    rename_label = awaited(ModelRequests.rename_label)
    merge_label = awaited(ModelRequests.merge_label)
    retire_label = awaited(ModelRequests.retire_label)
    pause_label = awaited(ModelRequests.pause_label)
    resume_label = awaited(ModelRequests.resume_label)
    status = awaited(ModelRequests.status)
    delete = awaited(ModelRequests.delete)

    snapshots = awaited(ModelRequests.snapshots)
    take_snapshot = awaited(ModelRequests.take_snapshot)
    download_snapshot = awaited(ModelRequests.download_snapshot)
    delete_snapshot = awaited(ModelRequests.delete_snapshot)
    rollback = awaited(ModelRequests.rollback)
    log = awaited(ModelRequests.log)
    forget = awaited(ModelRequests.forget)
    receipts = awaited(ModelRequests.receipts)
    receipt = awaited(ModelRequests.receipt)
    verify = awaited(ModelRequests.verify)

    versions = awaited(ModelRequests.versions)
    promote = awaited(ModelRequests.promote)
    download_version = awaited(ModelRequests.download_version)
    delete_version = awaited(ModelRequests.delete_version)
    detail = awaited(ModelRequests.detail)

    predict_many = awaited(ModelRequests.predict_many)
    update_many = awaited(ModelRequests.update_many)
    predict_update_many = awaited(ModelRequests.predict_update_many)
    label_many = awaited(ModelRequests.label_many)

    @documented_as(ModelRequests.stream)
    async def stream(
        self,
        examples: Items[Example],
        *,
        key: str | None = None,
        first: int = 1,
        batch_size: int = BATCH_SIZE,
        probabilities: bool = False,
    ) -> AsyncIterator[LineResult]:
        stream = self._requests.stream(
            examples, key=key, first=first, batch_size=batch_size, probabilities=probabilities
        )
        while (answers := await self._connections.run(stream.next_answers())) is not None:
            for answer in answers:
                yield answer

    @documented_as(ModelRequests.learn)
    async def learn(
        self, examples: Items[Example], *, key: str | None = None, first: int = 1, batch_size: int = BATCH_SIZE
    ) -> AsyncIterator[StreamSummary]:
        stream = self._requests.learn(examples, key=key, first=first, batch_size=batch_size)
        while (summary := await self._connections.run(stream.next_summary())) is not None:
            yield summary

    def __repr__(self) -> str:
        return f"AsyncModel({self._connections.shown_url!r}, {self.name!r})"
