"""A server and its models as a whole: create and list models, wait until the server is ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import httpx2

from manylabel_clients.http.errors import Conflict, ManyLabelError
from manylabel_clients.http.resources.model_status import AnySummary, ModelStatus, model_status, model_summary
from manylabel_clients.http.resources.models import model_path
from manylabel_clients.http.resources.records import from_json, list_reader
from manylabel_clients.http.resources.replicas import Replicas
from manylabel_clients.http.resources.requests import Requests
from manylabel_clients.http.transport.exchange import Exchange, Pause, Request, failure, is_transient, read, send
from manylabel_clients.http.transport.json_body import BYTES, encode
from manylabel_clients.http.transport.retry import Retry
from manylabel_extras import MissingExtra

_READY_POLL_SECONDS = 0.1


class ServerRequests(Requests):
    """Requests about a server and its models as a whole."""

    def __init__(self, retry: Retry, clock: Callable[[], float]) -> None:
        super().__init__(retry)
        self._clock = clock

    def create_model(
        self,
        name: str,
        *,
        algorithm: str = "falt",
        params: Mapping[str, Any] | None = None,
        features: Sequence[str] | int | None = None,
        labels: Sequence[str | Mapping[str, Any]] | None = None,
        scaling: str | None = None,
        missing: str | None = None,
        text: Mapping[str, Any] | None = None,
        durability: str | None = None,
        old_names: str | None = None,
        window: int | None = None,
        limits: Mapping[str, Any] | None = None,
        groups: Sequence[Mapping[str, Any]] | None = None,
        parents: Mapping[str, str] | None = None,
        promise: Mapping[str, float | None] | None = None,
        sources: Mapping[str, float] | None = None,
        init_from: str | Mapping[str, Any] | None = None,
        follow: str | Mapping[str, Any] | None = None,
        exist_ok: bool = False,
    ) -> Exchange[str]:
        """Create a model; the server sets the defaults of omitted fields.

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
        labels : sequence of str or mapping, optional
            Names of the labels, or mappings with a "name" and any of "title", "description" and "uri": no other labels
            are accepted. None: they appear as they come.
        scaling : str, optional
            ``auto``, ``none``, ``unit`` or ``standard``.
        missing : str, optional
            Where a quantity stands that most examples have and one lacks: ``mean`` (with scaling ``auto``) or ``zero``.
        text : mapping, optional
            How texts in records are read, as ``{"fields": ["title", "body"], "ngrams": 2}``. None: bare strings and
            strings of more than 200 characters are texts, other strings are categories.
        durability : str, optional
            Durability of an update when the server responds: ``log`` or ``fsync``.
        old_names : str, optional
            Updates that name a label by a name that it had before it was renamed or merged: "follow" learns them under
            the current name, "refuse" refuses them.
        window : int, optional
            Examples in the sliding window of the metrics.
        limits : mapping, optional
            Maximum number of features and labels, and how more are handled: such as
            ``{"features": {"most": 10_000, "policy": "hash"}, "labels": {"most": 200, "policy": "ignore"}}``.
        groups : sequence of mapping, optional
            Groups of labels that exclude each other, as
            ``{"name": "priority", "labels": ["low", "mid", "high"], "choose": "one"}``, or ``"at_most_one"``.
        parents : mapping of str, optional
            The parent of each child, as ``{"refund": "billing"}``: a true label implies its parent.
        promise : mapping of str, optional
            A promise of precision, as ``{"precision": 0.95}``; see `Model.set_promise`.
        sources : mapping of str, optional
            Factors of the weights of examples whose labels are not from people, from 0 to 1; by default
            ``{"machine": 0, "rule": 1}``.
        init_from : str or mapping, optional
            A model that a job has trained, or a version of it, ``{"model": name, "version": number}``: the new model
            begins as that predicts, and continues from there.
        follow : str or mapping, optional
            A model whose log the new model learns from, with its own algorithm and parameters, from the beginning of
            the history; or ``{"model": name, "from": "start" or "now", "until": position or time}``.
        exist_ok : bool
            Whether a model that has the name already will do, whatever its spec.

        Raises
        ------
        Conflict
            If the name is taken. After an attempt that got no response, a model that has learnt nothing and is
            what was requested counts as the one created.
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
            "missing": missing,
            "text": text,
            "durability": durability,
            "old_names": old_names,
            "window": window,
            "limits": limits,
            "groups": groups,
            "parents": parents,
            "promise": promise,
            "sources": sources,
            "init_from": {"model": init_from} if isinstance(init_from, str) else init_from,
            "follow": {"model": follow, "from": "start"} if isinstance(follow, str) else follow,
        }
        given = {part: value for part, value in spec.items() if value is not None}
        try:
            response = yield from self._post("/v1/models", encode(given))
            read(response, lambda answer: answer["name"])
        except Conflict as conflict:
            # Creating a model has no idempotency key.
            if not (exist_ok or (conflict.maybe_done and (yield from self._is_new(given)))):
                raise
        return name

    def fork_model(self, name: str, model: str, at: str | None = None) -> Exchange[str]:
        """Create a model from the state of another model, without its idempotency keys.

        Parameters
        ----------
        name : str
            Name of the new model.
        model : str
            The other model, which learns online.
        at : str, optional
            A position of its log, or a time with an offset, as ``2026-11-27T10:03:00Z``. None: now.

        Raises
        ------
        Conflict
            The name is taken. If a first attempt got no response, a second attempt may find the name taken by the model
            itself: then it has `maybe_done`.
        NotFound, Expired
            The other model has no entry at the position, or its history begins later.
        """
        source = {"model": model} if at is None else {"model": model, "at": at}
        response = yield from self._post("/v1/models", encode({"name": name, "fork": source}))
        read(response, lambda answer: answer["name"])
        return name

    def upload_model(self, name: str, snapshot: bytes) -> Exchange[str]:
        """Create a model from a snapshot that was downloaded, from this server or another.

        The model continues from there, without the idempotency keys of the old one. If a first attempt got no response,
        a second attempt may find the name taken by the model itself: then the Conflict has `maybe_done`.
        """
        response = yield from send(Request("PUT", model_path(name), snapshot, BYTES), self._retry)
        read(response, lambda answer: answer["name"])
        return name

    def models(self) -> Exchange[list[AnySummary]]:
        """Return the models of the server; those in its memory with their status."""
        return (yield from self._get("/v1/models", list_reader("models", model_summary)))

    def replicas(self) -> Exchange[Replicas]:
        """Return the processes that share the store of the server, and the versions that are in use."""
        return (yield from self._get("/v1/replicas", partial(from_json, Replicas)))

    def wait_ready(self, timeout: float = 60.0) -> Exchange[None]:
        """Wait, for at most `timeout` seconds, until the server is ready.

        Raises
        ------
        Unavailable
            If the server is there and still not ready when the time is over.
        ConnectionFailed
            If no server answers by then.
        ApiError
            At once, if something answers that is not a ManyLabel server.
        """
        deadline = self._clock() + timeout
        while (error := (yield from self._not_ready(timeout))) is not None:
            timeout = deadline - self._clock()
            if timeout <= 0 or not is_transient(error):
                raise error
            yield Pause(min(_READY_POLL_SECONDS, timeout))

    def _not_ready(self, timeout_seconds: float) -> Exchange[ManyLabelError | None]:
        request = Request("GET", "/readyz", timeout_seconds=max(timeout_seconds, _READY_POLL_SECONDS))
        reply = yield request
        is_ready = isinstance(reply, httpx2.Response) and reply.is_success
        return None if is_ready else failure(reply, request)

    def _is_new(self, spec: Mapping[str, Any]) -> Exchange[bool]:
        """Return whether the model of this name has learnt nothing and has this spec."""
        if "follow" in spec:  # it may be catching up, and may have learnt many examples
            summaries = yield from self.models()
            followed = [getattr(each, "follow", None) for each in summaries if each.name == spec["name"]]
            return any(follow and follow["model"] == spec["follow"]["model"] for follow in followed)
        status = yield from self._get(model_path(spec["name"]), model_status)
        if not isinstance(status, ModelStatus):
            return False
        asked = {**spec, "params": {**status.params, **spec.get("params", {})}, "updates": 0}
        if "limits" in spec:  # the server also lists omitted limits
            asked["limits"] = {"features": None, "labels": None, **spec["limits"]}
        if "text" in spec:  # the server also lists omitted settings
            asked["text"] = _text_settings(spec["text"])
        compared = ("updates", "algorithm", "params", "scaling", "missing", "text", "limits", "durability")
        return all(asked[part] == getattr(status, part) for part in compared if part in asked)


def _text_settings(given: Mapping[str, Any]) -> Any:
    """Return text options with the server's defaults; unchanged if core is not installed."""
    try:
        from manylabel_core.records import TextSettings  # loads SciPy, which other calls do not need
    except MissingExtra:
        return given
    return TextSettings.from_json(given).to_json()
