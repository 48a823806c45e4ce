"""The synchronous client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from manylabel_clients.http.model import Model
from manylabel_clients.http.training import TrainingClient
from manylabel_clients.http.types import AnySummary


class Client(TrainingClient):
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
        limits: Mapping[str, Any] | None = None,
        init_from: str | Mapping[str, Any] | None = None,
        exist_ok: bool = False,
    ) -> Model:
        """Create a model; what is left out, the server decides.

        Parameters
        ----------
        name : str
            Lower-case letters, digits, dots, dashes and underscores; at most 64.
        algorithm : str
            ``falt``, ``salt``, ``kernel_falt``, ``kernel_salt``, ``passive_aggressive`` or
            ``kernel_passive_aggressive``.
        params : mapping, optional
            The algorithm's parameters, as ``{"optimise": "macro_f1", "drift": "adwin"}``.
        features : sequence of str, or int, optional
            Names, or the number, of the features: no others are accepted. None: they appear as they come.
        labels : sequence of str, optional
            Names of the labels: no others are accepted. None: they appear as they come.
        scaling : str, optional
            ``auto``, ``none``, ``unit`` or ``standard``.
        durability : str, optional
            What an update has survived when it is answered: ``log`` or ``fsync``.
        window : int, optional
            Examples in the sliding window of the metrics.
        limits : mapping, optional
            Most features and labels, and what becomes of more: as
            ``{"features": {"most": 10_000, "policy": "hash"}, "labels": {"most": 200, "policy": "ignore"}}``.
        init_from : str or mapping, optional
            A model that a job has trained, or a version of it, ``{"model": name, "version": number}``: the new model
            begins as that predicts, and goes on from there.
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
            "limits": limits,
            "init_from": {"model": init_from} if isinstance(init_from, str) else init_from,
        }
        self._run(self._calls.create_model(spec, exist_ok))
        return self.model(name)

    def model(self, name: str) -> Model:
        """The model of this name. Asks nothing of the server, not even whether it exists."""
        return Model(self, name)

    def upload_model(self, name: str, snapshot: bytes) -> Model:
        """Create a model from a snapshot that was downloaded, from this server or another.

        It goes on from there, and knows nothing of the requests to the old one. Of two attempts of which the first got
        no answer, the second may find the name taken, by the model itself: then the Conflict says `maybe_done`.
        """
        self._run(self._calls.upload_model(name, snapshot))
        return self.model(name)

    def models(self) -> list[AnySummary]:
        """What every model is; of those in the server's memory its status."""
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
