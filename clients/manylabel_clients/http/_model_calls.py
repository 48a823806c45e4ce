"""Calls about one model, as conversations without I/O."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import httpx2

from manylabel_clients.http import _wire, types
from manylabel_clients.http._exchange import Request, Steps, count_from, exchange, read
from manylabel_clients.http._stream import send_piece
from manylabel_clients.http._watching import Watching
from manylabel_clients.http.errors import ManyLabelError, NotFound
from manylabel_clients.http.retry import Retry
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

MAX_MANY_KEY = 240
"""Longest key of a call with many examples, whose later requests append their places to it."""

T = TypeVar("T")

BATCH_SIZE = 500
"""Examples in one request of a `..._many` call, unless told otherwise."""
BATCH_BYTES = 2**20
"""A request is closed before its body grows past this: a quarter of what a server takes by default."""


def model_path(name: str) -> str:
    """Where a model is on its server."""
    return f"/v1/models/{quote(name, safe='')}"


class ModelCalls:
    """Learn, predict and look, with one model."""

    def __init__(self, name: str, retry: Retry) -> None:
        self._retry = retry
        self._path = model_path(name)

    def status(self) -> Steps[AnyStatus]:
        """What the server says about the model."""
        response = yield from exchange(Request("GET", self._path), self._retry)
        return read(response, types.model_status)

    def metrics(self) -> Steps[Metrics]:
        """How well the model predicted what it then learnt."""
        response = yield from exchange(Request("GET", f"{self._path}/metrics"), self._retry)
        return read(response, types.metrics)

    def delete(self) -> Steps[None]:
        """Delete the model; not to find it after an attempt without an answer is success."""
        try:
            yield from exchange(Request("DELETE", self._path), self._retry)
        except NotFound as error:
            if not error.maybe_done:
                raise

    def predict(
        self, x: Features, keep: bool = False, at_least: str | None = None, probabilities: bool = False
    ) -> Steps[Prediction]:
        """Labels of one example."""
        response = yield from self._post(_predict(keep, at_least), _wire.asking(_wire.item(x), probabilities))
        return read(response, _only_prediction)

    def predict_many(
        self,
        xs: Iterable[Features],
        batch_size: int,
        keep: bool = False,
        at_least: str | None = None,
        probabilities: bool = False,
    ) -> Steps[list[Prediction]]:
        """Labels of many examples."""
        items = _items(xs, _wire.item)
        responses = yield from self._post_many(_predict(keep, at_least), items, batch_size, probabilities=probabilities)
        return [prediction for response in responses for prediction in _predictions(response)]

    def update(self, x: Features, y: Labels, key: str | None) -> Steps[Updated]:
        """Learn one example."""
        response = yield from self._post("update", _wire.item(x, y), new_key(key))
        return _receipt([response])

    def update_many(self, examples: Iterable[Example], batch_size: int, key: str | None) -> Steps[Updated]:
        """Learn many examples."""
        return _receipt((yield from self._learn_many("update", examples, batch_size, key)))

    def predict_update(
        self, x: Features, y: Labels, key: str | None, probabilities: bool = False
    ) -> Steps[tuple[Prediction, Updated]]:
        """Predict one example, then learn it."""
        body = _wire.asking(_wire.item(x, y), probabilities)
        response = yield from self._post("predict-update", body, new_key(key))
        return read(response, _only_prediction), _receipt([response])

    def predict_update_many(
        self, examples: Iterable[Example], batch_size: int, key: str | None, probabilities: bool = False
    ) -> Steps[tuple[list[Prediction], Updated]]:
        """Predict each of many examples, then learn it."""
        responses = yield from self._learn_many("predict-update", examples, batch_size, key, probabilities)
        predictions = [prediction for response in responses for prediction in _predictions(response)]
        return predictions, _receipt(responses)

    def label(self, id: str, y: Labels, key: str | None) -> Steps[Updated]:
        """Learn from one kept prediction."""
        response = yield from self._post("labels", _wire.truth(id, y), new_key(key))
        return _receipt([response])

    def label_many(self, truths: Iterable[Truth], batch_size: int, key: str | None) -> Steps[Updated]:
        """Learn from many kept predictions."""
        items = _items(truths, lambda truth: _wire.truth(*truth))
        responses = yield from self._post_many("labels", items, batch_size, new_key(key, MAX_MANY_KEY))
        return _receipt(responses)

    def stream_pieces(
        self, examples: Iterable[Example], key: str | None, first: int, batch_size: int, probabilities: bool = False
    ) -> Iterator[Steps[list[LineAnswer]]]:
        """A conversation for each piece of a stream."""
        if first < 1:
            raise ValueError(f"first must be at least 1, not {first}")
        stream_key = new_key(key)
        _check_batch_size(batch_size)
        for start, lines in _wire.pieces(_items(examples, _labelled), batch_size, BATCH_BYTES):
            yield send_piece(self._path, first + start, lines, stream_key, self._retry, probabilities)

    def watching(self, after: str | None) -> Watching[Event]:
        """The events of the model."""
        return Watching(self._path, after, self._retry, Event)

    def snapshots(self) -> Steps[list[Snapshot]]:
        """What states are kept."""
        response = yield from exchange(Request("GET", f"{self._path}/snapshots"), self._retry)
        return read(response, lambda answer: [types.snapshot(one) for one in answer["snapshots"]])

    def take_snapshot(self) -> Steps[Snapshot]:
        """Keep the present state."""
        response = yield from exchange(Request("POST", f"{self._path}/snapshots"), self._retry)
        return read(response, types.snapshot)

    def download_snapshot(self, position: str) -> Steps[bytes]:
        """A state that is kept."""
        path = f"{self._path}/snapshots/{quote(position, safe='')}"
        response = yield from exchange(Request("GET", path), self._retry)
        return response.content

    def rollback(self, position: str, key: str | None) -> Steps[RolledBack]:
        """Go back to a state that is kept."""
        response = yield from self._post("rollback", _wire.encode({"position": position}), new_key(key))
        return read(response, lambda answer: types.rolled_back(answer, _is_replay(response)))

    def _learn_many(
        self, what: str, examples: Iterable[Example], batch_size: int, key: str | None, probabilities: bool = False
    ) -> Steps[list[httpx2.Response]]:
        responses = yield from self._post_many(
            what, _items(examples, _labelled), batch_size, new_key(key, MAX_MANY_KEY), probabilities
        )
        if not responses:
            raise ValueError("there must be at least one example")
        return responses

    def _post_many(
        self,
        what: str,
        items: Iterable[bytes],
        batch_size: int,
        key: str | None = None,
        probabilities: bool = False,
    ) -> Steps[list[httpx2.Response]]:
        """As many requests as it takes, one after the other: the server learns in the order given."""
        _check_batch_size(batch_size)
        responses = []
        for batch in _wire.batches(items, batch_size, BATCH_BYTES, probabilities):
            # Fixed by the key of the call and the place: the same call repeated repeats the same keys.
            batch_key = f"{key}-{batch.start}" if key is not None and batch.start else key
            try:
                responses.append((yield from self._post(what, batch.body, batch_key)))
            except ManyLabelError as error:
                count_from(error, batch.start)
                raise
        return responses

    def _post(self, what: str, body: bytes, key: str | None = None) -> Steps[httpx2.Response]:
        headers = _wire.JSON if key is None else {**_wire.JSON, "Idempotency-Key": key}
        return (yield from exchange(Request("POST", f"{self._path}/{what}", body, headers), self._retry))


def _predict(keep: bool, at_least: str | None) -> str:
    """The call with its parameters."""
    parameters = {"keep": "true"} if keep else {}
    if at_least is not None:
        parameters["at_least"] = at_least
    return f"predict?{urlencode(parameters)}" if parameters else "predict"


def _check_batch_size(batch_size: int) -> None:
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size}")


def _items(given: Iterable[T], encode: Callable[[T], bytes]) -> Iterator[bytes]:
    """Examples as JSON, one after the other; an error says which one it was."""
    for number, one in enumerate(given):
        with _wire.located(f"/examples/{number}"):
            body = encode(one)
        yield body


def _labelled(example: Example) -> bytes:
    x, y = example
    return _wire.item(x, y)


def new_key(given: str | None, longest: int | None = None) -> str:
    """The idempotency key of a call: the one given, or a new one.

    Raises
    ------
    ValueError
        If the one given does not fit a header.
    """
    if given is None:
        return uuid.uuid4().hex
    if not re.fullmatch("[!-~]+", given):
        raise ValueError(f"key must consist of visible ASCII characters, not {given!r}")
    if longest is not None and len(given) > longest:
        raise ValueError(f"key must have at most {longest} characters here, not {len(given)}")
    return given


def _predictions(response: httpx2.Response) -> list[Prediction]:
    return read(response, types.predictions)


def _only_prediction(answer: Mapping[str, Any]) -> Prediction:
    return types.predictions(answer)[0]


def _receipt(responses: list[httpx2.Response]) -> Updated:
    """The last answer stands for all: positions and counts only rise."""
    if not responses:
        raise ValueError("there must be at least one example")
    replayed = any(map(_is_replay, responses))
    return read(responses[-1], lambda answer: types.updated(answer, replayed))


def _is_replay(response: httpx2.Response) -> bool:
    return response.headers.get("Idempotent-Replayed") == "true"
