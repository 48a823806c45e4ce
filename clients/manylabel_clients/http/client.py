"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from manylabel_clients.http._base import DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL, BaseClient
from manylabel_clients.http._exchange import Pause, Reply, Steps
from manylabel_clients.http._model_calls import BATCH_SIZE, ModelCalls
from manylabel_clients.http.retry import Retry
from manylabel_clients.http.types import Example, Features, Labels, Metrics, ModelStatus, Prediction, Updated

T = TypeVar("T")


class Client(BaseClient):
    """A ManyLabel server, over pooled connections. Threads may share it.

    Parameters
    ----------
    base_url : str
        Address of the server.
    timeout : float or httpx2.Timeout
        Seconds an attempt may take to connect, and between bytes.
    retry : Retry
        When a call is tried again.
    headers : mapping, optional
        Sent with each request.
    transport : httpx2.BaseTransport, optional
        Carries the requests in place of real connections.
    sleep, clock : callable
        How to wait, and the time, in seconds.

    Raises
    ------
    ValueError
        If `base_url` is no HTTP address.

    Every call raises a `ManyLabelError` when it cannot be answered; see `manylabel_clients.http.errors`.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000")                       # doctest: +SKIP
    >>> tags = client.create_model("tags", algorithm="falt", scaling="unit")  # doctest: +SKIP
    >>> tags.update({"word=cat": 1}, ["pets"])                         # doctest: +SKIP
    >>> tags.predict({"word=cat": 1}).labels                           # doctest: +SKIP
    ['pets']
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        *,
        timeout: float | httpx2.Timeout = DEFAULT_TIMEOUT_SECONDS,
        retry: Retry = Retry(),  # noqa: B008 - a frozen value
        headers: Mapping[str, str] | None = None,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(base_url, timeout, retry, headers, clock)
        self._http = httpx2.Client(transport=transport, **self._options)
        self._sleep = sleep

    def create_model(
        self,
        name: str,
        *,
        algorithm: str = "falt",
        params: Mapping[str, Any] | None = None,
        features: Sequence[str] | int | None = None,
        labels: Sequence[str] | None = None,
        scaling: str | None = None,
        durability: str | None = None,
        window: int | None = None,
        exist_ok: bool = False,
    ) -> Model:
        """Create a model; what is left out, the server decides.

        Parameters
        ----------
        name : str
            Lower-case letters, digits, dots, dashes and underscores; at most 64.
        algorithm : str
            ``falt``, ``salt`` or ``kernel_falt``.
        params : mapping, optional
            The algorithm's parameters, as ``{"eta": 0.5, "passes": 1.0}``.
        features : sequence of str, or int, optional
            Names, or the number, of the features: no others are accepted. None: they appear as they come.
        labels : sequence of str, optional
            Names of the labels: no others are accepted. None: they appear as they come.
        scaling : str, optional
            ``none``, ``unit`` or ``standard``.
        durability : str, optional
            What an update has survived when it is answered: ``memory``, ``log`` or ``fsync``.
        window : int, optional
            Examples in the sliding window of the metrics.
        exist_ok : bool
            Whether a model that has the name already will do, whatever its spec.

        Raises
        ------
        Conflict
            If the name is taken. After an attempt that got no answer, a model that has learnt nothing and is
            what was asked for counts as the one created.
        Invalid
            If the server does not accept the spec.
        """
        spec = {
            "name": name,
            "algorithm": algorithm,
            "params": params,
            "features": features,
            "labels": labels,
            "scaling": scaling,
            "durability": durability,
            "window": window,
        }
        self._run(self._calls.create_model(spec, exist_ok))
        return self.model(name)

    def model(self, name: str) -> Model:
        """The model of this name. Asks nothing of the server, not even whether it exists."""
        return Model(self, name)

    def models(self) -> list[ModelStatus]:
        """The status of every model."""
        return self._run(self._calls.models())

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Wait, for at most `timeout` seconds, until the server is ready.

        Raises
        ------
        Unavailable
            If the server is there and still not ready when the time is over.
        ConnectionFailed
            If no server answers by then.
        ApiError
            At once, if something answers that is no ManyLabel server.
        """
        self._run(self._calls.wait_ready(timeout))

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, steps: Steps[T]) -> T:
        reply: Reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            if isinstance(step, Pause):
                self._sleep(step.seconds)
                reply = None
                continue
            try:
                timeout = httpx2.USE_CLIENT_DEFAULT if step.timeout_seconds is None else step.timeout_seconds
                reply = self._http.request(
                    step.method, step.path, content=step.body, headers=step.headers, timeout=timeout
                )
            except httpx2.RequestError as error:
                reply = error


class Model:
    """One model of a server: `Client.create_model` and `Client.model` give it.

    An example `x` is a mapping of names to numbers, a sequence or array of all numbers in order,
    `Sparse(indices, values)`, or one row of a SciPy sparse matrix. Its truth `y` is a list of names (the
    complete set: all other labels are false) or a mapping of names to true or false (all others are unknown).

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

    @property
    def name(self) -> str:
        """Its name on the server."""
        return self._name

    def predict(self, x: Features) -> Prediction:
        """Labels and scores of one example."""
        return self._client._run(self._calls.predict(x))

    def predict_many(self, xs: Iterable[Features], *, batch_size: int = BATCH_SIZE) -> list[Prediction]:
        """Labels and scores of many examples, in their order."""
        return self._client._run(self._calls.predict_many(xs, batch_size))

    def update(self, x: Features, y: Labels, *, key: str | None = None) -> Updated:
        """Learn one example."""
        return self._client._run(self._calls.update(x, y, key))

    def update_many(
        self, examples: Iterable[Example], *, batch_size: int = BATCH_SIZE, key: str | None = None
    ) -> Updated:
        """Learn many examples, pairs of x and y, in their order. The receipt is that of the last request."""
        return self._client._run(self._calls.update_many(examples, batch_size, key))

    def predict_update(self, x: Features, y: Labels, *, key: str | None = None) -> tuple[Prediction, Updated]:
        """Learn one example; answers what was predicted before."""
        return self._client._run(self._calls.predict_update(x, y, key))

    def predict_update_many(
        self, examples: Iterable[Example], *, batch_size: int = BATCH_SIZE, key: str | None = None
    ) -> tuple[list[Prediction], Updated]:
        """Learn many examples, in their order; answers what was predicted just before each was learnt."""
        return self._client._run(self._calls.predict_update_many(examples, batch_size, key))

    def metrics(self) -> Metrics:
        """How well the model predicted what it then learnt."""
        return self._client._run(self._calls.metrics())

    def status(self) -> ModelStatus:
        """What the server says about the model."""
        return self._client._run(self._calls.status())

    def delete(self) -> None:
        """Delete the model and all it has learnt."""
        self._client._run(self._calls.delete())

    def __repr__(self) -> str:
        return f"Model({self._client.base_url!r}, {self._name!r})"
