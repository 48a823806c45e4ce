"""A server and its models as a whole: create and list models, wait until the server is ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import httpx2

from manylabel_clients.http.errors import Compiling, Conflict, ManyLabelError
from manylabel_clients.http.resources.model_status import AnySummary, model_status, model_summary
from manylabel_clients.http.resources.models import AsyncModel, Model
from manylabel_clients.http.resources.resource import Resource, call, given, handle, path_of, with_query
from manylabel_clients.http.responses import ModelStatus, Replicas
from manylabel_clients.http.transport.exchange import (
    Exchange,
    Pause,
    Request,
    compiling_in,
    failure,
    is_transient,
    read,
    send,
)
from manylabel_clients.http.transport.json_body import BYTES, encode, from_json
from manylabel_extras import MissingExtra

_READY_POLL_SECONDS = 0.1


class ServerCalls(Resource):
    """Calls about a server and its models as a whole."""

    @handle(Model, AsyncModel)
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
        old_names: str | None = None,
        window: int | None = None,
        limits: Mapping[str, Any] | None = None,
        groups: Sequence[Mapping[str, Any]] | None = None,
        parents: Mapping[str, str] | None = None,
        promise: Mapping[str, Any] | None = None,
        sources: Mapping[str, float] | None = None,
        init_from: str | Mapping[str, Any] | None = None,
        follow: str | Mapping[str, Any] | None = None,
        exist_ok: bool = False,
    ) -> Exchange[str]:
        """Create a model; the server sets the defaults of omitted fields.

        Parameters
        ----------
        algorithm : str
            Name of the learner, such as ``falt`` or ``kernel_salt``; docs/learners.md has all.
        features : sequence of str, or int, optional
            Names or number of the features; others are rejected. Default: features are added when they first appear.
        labels : sequence of str or mapping, optional
            Names of the labels, or mappings with a "name" and any of "title", "description" and "uri"; other labels are
            rejected. Default: labels are added when they first appear.
        exist_ok : bool
            Whether to return an existing model of this name, whatever its spec. If the first attempt got no response, a
            model of the same spec that has learnt nothing counts as the one created.
        """
        spec = given(
            name=name,
            algorithm=algorithm,
            params=params,
            features=features,
            labels=labels,
            scaling=scaling,
            missing=missing,
            text=text,
            old_names=old_names,
            window=window,
            limits=limits,
            groups=groups,
            parents=parents,
            promise=promise,
            sources=sources,
            init_from={"model": init_from} if isinstance(init_from, str) else init_from,
            follow={"model": follow, "from": "start"} if isinstance(follow, str) else follow,
        )
        try:
            response = yield from self._post("/v1/models", encode(spec))
            read(response, lambda answer: answer["name"])
        except Conflict as conflict:
            # Creating a model has no idempotency key.
            if not (exist_ok or (conflict.maybe_done and (yield from self._is_new(spec)))):
                raise
        return name

    @handle(Model, AsyncModel)
    def fork_model(self, name: str, model: str, at: str | None = None) -> Exchange[str]:
        """Create a model from the state of another at a position or time, without its idempotency keys.

        If a first attempt got no response, a second may raise Conflict with `maybe_done`, because the first created the
        model.
        """
        response = yield from self._post("/v1/models", encode({"name": name, "fork": given(model=model, at=at)}))
        read(response, lambda answer: answer["name"])
        return name

    @handle(Model, AsyncModel)
    def create_model_like(self, name: str, model: str, *, exist_ok: bool = False) -> Exchange[str]:
        """Create a model that has learnt nothing, with the spec, labels, groups and promise of another.

        Parameters
        ----------
        name : str
            Name of the new model.
        model : str
            Name of the other model, the template.
        exist_ok : bool
            Whether to return an existing model of this name, whatever its spec. Otherwise, if a first attempt got no
            response, a second may raise Conflict with `maybe_done`, because the first created the model.
        """
        try:
            response = yield from self._post("/v1/models", encode({"name": name, "like": model}))
            read(response, lambda answer: answer["name"])
        except Conflict as conflict:
            if not (exist_ok and conflict.code == "model_exists"):
                raise
        return name

    @handle(Model, AsyncModel)
    def upload_model(self, name: str, snapshot: bytes) -> Exchange[str]:
        """Create a model from a downloaded snapshot of this or another server, without its idempotency keys.

        If a first attempt got no response, a second may raise Conflict with `maybe_done`, because the first created the
        model.
        """
        response = yield from send(Request("PUT", path_of("models", name), snapshot, BYTES), self._retry)
        read(response, lambda answer: answer["name"])
        return name

    @call
    def models(
        self, prefix: str | None = None, *, sort: Literal["name", "used"] = "name"
    ) -> Exchange[list[AnySummary]]:
        """Return the models of the server, read page by page; models in its memory have their status.

        Parameters
        ----------
        prefix : str, optional
            Beginning of the names.
        sort : str
            Order: by name, or with ``"used"`` latest used first.
        """
        found: list[AnySummary] = []
        after = None
        while True:
            path = with_query("/v1/models", prefix=prefix, sort=sort if sort != "name" else None, after=after)
            models, after = yield from self._get(path, _page)
            found += models
            if after is None:
                return found

    @call
    def delete_models(self, prefix: str, *, followers: bool = False) -> Exchange[list[str]]:
        """Delete all models whose names begin with a prefix, and return their names.

        After an attempt without a response, the result has only the names of the models that the retry deleted. Raises
        Conflict if a model with another name follows one of them, unless `followers` deletes it too.
        """
        path = with_query("/v1/models", prefix=prefix, followers="delete" if followers else None)
        response = yield from send(Request("DELETE", path), self._retry)
        return read(response, lambda answer: [str(name) for name in answer["deleted"]])

    @call
    def export_models(self, prefix: str) -> Exchange[bytes]:
        """Return a tar file with all models whose names begin with a prefix.

        The file ``NAME.safetensors`` of an online model is a snapshot, which `upload_model` takes; ``NAME.version`` of
        a trained model is its served version with names.
        """
        return (yield from self._download(with_query("/v1/export", prefix=prefix)))

    @call
    def replicas(self) -> Exchange[Replicas]:
        """Return the processes that share the store of the server, and their versions."""
        return (yield from self._get("/v1/replicas", Replicas))

    @call
    def wait_ready(
        self, timeout: float = 60.0, on_progress: Callable[[Compiling], object] | None = None
    ) -> Exchange[None]:
        """Wait until the server is ready, for at most `timeout` seconds.

        The first start of a server on a machine compiles functions; `on_progress` is called with the progress, several
        times a second.

        Raises Unavailable if it is not ready in time, ConnectionFailed if nothing responds, and ApiError at once if
        another program responds.
        """
        clock = self._connections.clock
        deadline = clock() + timeout
        while (error := (yield from self._not_ready(timeout))) is not None:
            timeout = deadline - clock()
            if timeout <= 0 or not is_transient(error):
                raise error
            if on_progress is not None and (compiling := compiling_in(error)) is not None:
                on_progress(compiling)
            yield Pause(min(_READY_POLL_SECONDS, timeout))

    def _not_ready(self, timeout_seconds: float) -> Exchange[ManyLabelError | None]:
        request = Request("GET", "/readyz", timeout_seconds=max(timeout_seconds, _READY_POLL_SECONDS))
        reply = yield request
        is_ready = isinstance(reply, httpx2.Response) and reply.is_success
        return None if is_ready else failure(reply, request)

    def _is_new(self, spec: Mapping[str, Any]) -> Exchange[bool]:
        """Return whether the model of this name has learnt nothing and has this spec."""
        if "follow" in spec:  # a follower may have learnt many examples already
            path = with_query("/v1/models", prefix=spec["name"], limit=1)
            summaries, _ = yield from self._get(path, _page)
            followed = [getattr(each, "follow", None) for each in summaries if each.name == spec["name"]]
            return any(follow and follow["model"] == spec["follow"]["model"] for follow in followed)
        status = yield from self._get(path_of("models", spec["name"]), model_status)
        if not isinstance(status, ModelStatus):
            return False
        asked = {**spec, "params": {**status.params, **spec.get("params", {})}, "updates": 0}
        if "limits" in spec:  # the server also lists omitted limits
            asked["limits"] = {"features": None, "labels": None, **spec["limits"]}
        if "text" in spec:  # the server also lists omitted settings
            asked["text"] = _text_settings(spec["text"])
        compared = ("updates", "algorithm", "params", "scaling", "missing", "text", "limits")
        return all(asked[part] == getattr(status, part) for part in compared if part in asked)


def _page(answer: Mapping[str, Any]) -> tuple[list[AnySummary], str | None]:
    """Return the models of a page, and where the next page begins."""
    return [from_json(model_summary, one) for one in answer["models"]], answer.get("next")


def _text_settings(given: Mapping[str, Any]) -> Any:
    """Return text options with the server's defaults; unchanged if core is not installed."""
    try:
        from manylabel_core.records import TextSettings  # imports SciPy, which other calls do not need
    except MissingExtra:
        return given
    return TextSettings.from_json(given).to_json()
