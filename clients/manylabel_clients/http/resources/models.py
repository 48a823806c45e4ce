"""Models of a server: learn, predict, stream, watch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

import httpx2

from manylabel_clients.http.errors import ManyLabelError, TooLarge
from manylabel_clients.http.resources.doubts import DoubtCalls
from manylabel_clients.http.resources.examples import (
    Example,
    Features,
    Frame,
    Labels,
    Line,
    Truth,
    encode_example,
    encode_pair,
    encode_truth,
    is_frame,
    rows_of,
)
from manylabel_clients.http.resources.forgetting import ForgettingCalls
from manylabel_clients.http.resources.label_health import LabelHealthCalls
from manylabel_clients.http.resources.labels import LabelCalls
from manylabel_clients.http.resources.model_status import AnyStatus, model_status
from manylabel_clients.http.resources.resource import (
    MAX_KEY_OF_MANY,
    AsyncResource,
    Connections,
    SyncResource,
    call,
    events,
    new_key,
    path_of,
    receipt,
    with_query,
)
from manylabel_clients.http.resources.snapshots import SnapshotCalls
from manylabel_clients.http.resources.stream import (
    BatchStream,
    ExampleStream,
    LearningStream,
    LineResult,
    StreamSummary,
    predictions,
)
from manylabel_clients.http.resources.versions import VersionCalls
from manylabel_clients.http.responses import Metrics, MetricsHistory, Prediction, Reliability, UnlabelledPage, Updated
from manylabel_clients.http.transport.batches import BATCH_SIZE, Batches, Items, asking
from manylabel_clients.http.transport.exchange import Exchange, count_from, read
from manylabel_clients.http.transport.sse import EventStream

Keep = bool | Literal["record", "asked"]
"""Whether the server stores the prediction for delayed labels. With "record", it also stores the example as posted.
With "asked", it stores the prediction only if the teacher is asked or people should check the answer."""


@dataclass(frozen=True, slots=True)
class Event:
    """Event of a model."""

    kind: str
    """``update``, ``drift``, ``label``, ``parity``, ``rollback``, ``promoted``, ``not_promoted``, ``metrics`` or
    ``dropped`` (events were lost).
    """
    position: str
    """Opaque log position, after which `events` resumes."""
    data: dict[str, Any]
    """Fields of the event; the server's documentation describes them."""


class ModelCalls(LabelCalls, SnapshotCalls, DoubtCalls, LabelHealthCalls, ForgettingCalls, VersionCalls):
    """Calls of `Model` and `AsyncModel`."""

    def __init__(self, connections: Connections, name: str) -> None:
        super().__init__(connections, path_of("models", name))
        self.name: Final = name
        """Name of the model on the server."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connections.shown_url!r}, {self.name!r})"

    @call
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
        keep : bool, "record" or "asked"
            Whether the server stores the prediction, for `label`. "record" also stores the example as posted. "asked"
            stores the prediction only if the teacher is asked, or people should check the answer.
        at_least : str, optional
            Position of a receipt: the prediction includes all updates up to it.
        version : int, optional
            Version of a trained model that predicts. Default: the served version.
        probabilities : bool
            Whether to return probabilities too.
        explain : int
            Maximum number of features for and against each predicted label, at most 100; for linear models.
        top : int, optional
            Number of labels with scores, the highest first.
        only, except_ : iterable of str, optional
            Labels to return, and labels to omit: names, or prefixes with ``*``; at most 1,000 of each.
        """
        body = asking(encode_example(x), _wanted(probabilities, explain, top, only, except_))
        return read((yield from self._post(self._predict_path(keep, at_least, version), body)), _only_prediction)

    @call
    def predict_many(
        self,
        xs: Items[Features] | Frame,
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
        """Return labels and scores of many examples, in their order.

        Each row of a data frame is an example. If a response would be too large, because the model has many labels, the
        request is divided.
        """
        examples: Any = rows_of(xs) if is_frame(xs) else xs
        batches = Batches(examples, encode_example, batch_size, what="examples")
        wanted = _wanted(probabilities, explain, top, only, except_)
        responses = yield from self._post_many(self._predict_path(keep, at_least, version), batches, None, wanted)
        return _all_predictions(responses)

    @call
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
            The example, and its true labels.
        weight : float, optional
            Sample weight, above 0 and at most 1,000; default 1.
        source : str, optional
            Source of the labels: "human" (default), "machine" or "rule".
        ref : str, optional
            Your reference for the example, such as the id of a record or person, by which you can `forget` the example.
        key : str, optional
            Idempotency key: a request with the same key is learnt once.
        """
        body = encode_example(x, y, weight, source, ref)
        return receipt([(yield from self._post(f"{self._path}/update", body, new_key(key)))], Updated)

    @call
    def update_many(
        self, examples: Items[Example], *, batch_size: int = BATCH_SIZE, key: str | None = None
    ) -> Exchange[Updated]:
        """Learn many examples in their order: (x, y), optionally followed by weight, source and ref.

        The receipt is that of the last request.
        """
        batches, key = Batches(examples, encode_pair, batch_size), new_key(key, MAX_KEY_OF_MANY)
        return receipt((yield from self._post_many(f"{self._path}/update", batches, key)), Updated)

    @call
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
        return read(response, _only_prediction), receipt([response], Updated)

    @call
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
        updated = receipt(responses, Updated)
        return _all_predictions(responses), updated

    @call
    def predictions(self, *, order: str = "newest", limit: int = 20) -> Exchange[UnlabelledPage]:
        """Return up to `limit` (at most 100) stored predictions without labels, as the model predicts them now.

        `order` is "newest", "uncertainty" (first those whose labels would teach the model most) or "review" (those that
        need review, the most uncertain first).
        """
        path = with_query(f"{self._path}/predictions", order=order, limit=limit)
        return (yield from self._get(path, UnlabelledPage))

    @call
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
        """Submit all or some true labels of a stored prediction (`keep`); later calls can submit other labels.

        Raises NotFound for an unknown prediction, Conflict if it has these labels already, and Expired if it has
        expired.
        """
        body = encode_truth(id, y, weight, source, ref)
        return receipt([(yield from self._post(f"{self._path}/labels", body, new_key(key)))], Updated)

    @call
    def label_many(
        self, truths: Items[Truth], *, batch_size: int = BATCH_SIZE, key: str | None = None
    ) -> Exchange[Updated]:
        """Learn many predicted examples in their order: (id, y), optionally followed by weight, source and ref.

        The receipt is that of the last request.
        """
        batches = Batches(truths, lambda truth: encode_truth(*truth), batch_size, what="(id, y)")
        key = new_key(key, MAX_KEY_OF_MANY)
        return receipt((yield from self._post_many(f"{self._path}/labels", batches, key)), Updated)

    @events
    def stream(
        self,
        examples: Items[Example],
        *,
        key: str | None = None,
        first: int = 1,
        batch_size: int = BATCH_SIZE,
        probabilities: bool = False,
    ) -> BatchStream[LineResult]:
        """Learn any number of examples lazily in batches, and yield the prediction made just before each was learnt.

        An interrupted batch is resumed: each example is learnt once. A rejected example yields its `error`, and the
        others are still learnt. If the stream cannot continue, `done` of the error is the number of the last example
        with a response.

        Parameters
        ----------
        examples : iterable of (x, y), optionally followed by weight, source and ref
            The examples, which are read as the results are consumed. `AsyncModel.stream` also accepts an asynchronous
            iterable.
        key : str, optional
            Name of the stream, with which a new process can resume: examples learnt under it are not learnt again.
        first : int
            Number of the first example.
        batch_size : int
            Maximum number of examples in a request.
        probabilities : bool
            Whether to return probabilities too.
        """
        return ExampleStream(self._path, examples, key, first, batch_size, probabilities, self._retry)

    @events
    def learn(
        self, examples: Items[Line], *, key: str | None = None, first: int = 1, batch_size: int = BATCH_SIZE
    ) -> BatchStream[StreamSummary]:
        """Learn any number of examples lazily in batches, and yield a summary per request.

        Arguments and errors are those of `stream`, but the first rejected example ends the iteration: all earlier
        examples are learnt. This is the fastest way to learn, because nothing is predicted.

        An example may also be a line of JSON, as bytes. None skips a number, so that the numbers of a stream may have
        gaps, like the offsets of a Kafka topic.
        """
        return LearningStream(self._path, examples, key, first, batch_size, self._retry)

    @events
    def events(self, *, after: str | None = None, kinds: Collection[str] = ()) -> EventStream[Event]:
        """Iterate over the events of the model from now on, or after the position of an earlier event. The iteration
        does not end.

        A lost connection is restored, and the events resume after the last one received. With `kinds`, only events of
        these kinds and ``dropped`` are sent.
        """
        return EventStream(with_query(f"{self._path}/events", kind=list(kinds)), after, self._retry, Event)

    @call
    def metrics(self, *, version: int | None = None) -> Exchange[Metrics]:
        """Return the prequential metrics of the model; for a trained model, those of one version from its delayed
        labels."""
        return (yield from self._get(with_query(f"{self._path}/metrics", version=version), Metrics))

    @call
    def metrics_history(self, *, version: int | None = None) -> Exchange[MetricsHistory]:
        """Return the history of the prequential metrics, at fewer than 256 equally spaced points and at present."""
        return (yield from self._get(with_query(f"{self._path}/metrics/history", version=version), MetricsHistory))

    @call
    def reliability(self, label: str | None = None) -> Exchange[Reliability]:
        """Return the reliability diagram of a label, or of all labels together."""
        return (yield from self._get(with_query(f"{self._path}/metrics/reliability", label=label), Reliability))

    @call
    def status(self) -> Exchange[AnyStatus]:
        """Return the status of the model."""
        return (yield from self._get(self._path, model_status))

    @call
    def delete(self, *, followers: bool = False) -> Exchange[None]:
        """Delete the model; raise Conflict if models follow it, unless `followers` deletes these too."""
        yield from self._delete(with_query(self._path, followers="delete" if followers else None))

    def _predict_path(self, keep: Keep, at_least: str | None, version: int | None) -> str:
        kept = None if not keep else "true" if keep is True else keep
        return with_query(f"{self._path}/predict", keep=kept, version=version, at_least=at_least)

    def _post_many(
        self, path: str, batches: Batches[Any], key: str | None, wanted: Mapping[str, Any] = MappingProxyType({})
    ) -> Exchange[list[httpx2.Response]]:
        """Send the examples in as many sequential requests as necessary; the server learns them in order.

        Without a key, nothing is learnt: a batch whose response would be too large is halved, and later batches are
        smaller.
        """
        responses: list[httpx2.Response] = []
        while (batch := (yield from batches.draw())) is not None:
            # Derived from the key of the call and the offset, so that a repeated call repeats the same keys.
            batch_key = f"{key}-{batch.start}" if key is not None and batch.start else key
            parts = [batch]
            while parts:
                part = parts.pop()
                try:
                    responses.append((yield from self._post(path, part.body(wanted), batch_key)))
                except ManyLabelError as error:
                    if key is None and len(part.items) > 1 and _is_batch_too_large(error):
                        first, second = part.halves()
                        batches.limit(len(first.items))
                        parts += second, first
                        continue
                    count_from(error, part.start)
                    raise
        return responses


def _is_batch_too_large(error: ManyLabelError) -> bool:
    """Return whether the server rejected a batch that it may accept in parts."""
    return isinstance(error, TooLarge) and error.code == "batch_too_large"


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


class Model(ModelCalls, SyncResource):
    """Model of a server, from `Client.create_model` or `Client.model`.

    An example `x` is a mapping of names to numbers, a sequence or array of all numbers in order,
    `Sparse(indices, values)`, one row of a SciPy sparse matrix or of a data frame; or, for a model of several views,
    ``{"views": {"text": ..., "image": ...}}`` with each view in one of these forms. Its true labels `y` are a list of
    names (complete: all other labels are false) or a mapping of names to True or False (partial: all others are
    unknown).

    Calls with many examples send them in order, in requests of at most `batch_size` examples. The server learns all
    examples of a request or none. If a later request fails, earlier ones are learnt already: `done` of the error is
    their number of examples.

    Each learning call has an idempotency key, so that its retries count once. Pass your own key to repeat the call from
    a new process. While the server stores the key, it learns the same examples with the same key and `batch_size` once.
    """


class AsyncModel(ModelCalls, AsyncResource):
    """Model of a server with the calls of `Model` as coroutines. Calls with many examples accept async iterables."""
