"""Calls about the server and its models as a whole, as conversations without I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from manylabel_clients.http import _wire, types
from manylabel_clients.http._exchange import Pause, Request, Steps, exchange, failure, is_transient, read
from manylabel_clients.http._model_calls import ModelCalls, model_path
from manylabel_clients.http.errors import Conflict, ManyLabelError
from manylabel_clients.http.retry import Retry
from manylabel_clients.http.types import AnySummary, ModelStatus

_READY_POLL_SECONDS = 0.1


class ServerCalls:
    """Create and list models; wait for the server."""

    def __init__(self, retry: Retry, clock: Callable[[], float]) -> None:
        self._retry = retry
        self._clock = clock

    def create_model(self, spec: Mapping[str, Any], exist_ok: bool) -> Steps[None]:
        """Create a model from the parts of its spec that are not None.

        Creating carries no key. If an attempt got no answer and the next one finds the name taken, the model
        counts as the one just created when it has learnt nothing and is what was asked for.
        """
        given = {part: value for part, value in spec.items() if value is not None}
        request = Request("POST", "/v1/models", _wire.encode(given), _wire.JSON)
        try:
            response = yield from exchange(request, self._retry)
            read(response, lambda answer: answer["name"])
        except Conflict as conflict:
            if exist_ok or (conflict.maybe_done and (yield from self._is_new(given))):
                return
            raise

    def upload_model(self, name: str, snapshot: bytes) -> Steps[None]:
        """Create a model from a snapshot."""
        request = Request("PUT", model_path(name), snapshot, _wire.BYTES)
        response = yield from exchange(request, self._retry)
        read(response, lambda answer: answer["name"])

    def models(self) -> Steps[list[AnySummary]]:
        """What every model is, and the status of those in memory."""
        response = yield from exchange(Request("GET", "/v1/models"), self._retry)
        return read(response, lambda answer: [types.model_summary(one) for one in answer["models"]])

    def wait_ready(self, timeout_seconds: float) -> Steps[None]:
        """Ask again and again until the server is ready, or the time is over."""
        deadline = self._clock() + timeout_seconds
        while (error := (yield from self._not_ready(timeout_seconds))) is not None:
            timeout_seconds = deadline - self._clock()
            if timeout_seconds <= 0 or not is_transient(error):
                raise error
            yield Pause(min(_READY_POLL_SECONDS, timeout_seconds))

    def _not_ready(self, timeout_seconds: float) -> Steps[ManyLabelError | None]:
        request = Request("GET", "/readyz", timeout_seconds=max(timeout_seconds, _READY_POLL_SECONDS))
        reply = yield request
        is_ready = isinstance(reply, httpx2.Response) and reply.is_success
        return None if is_ready else failure(reply, request)

    def _is_new(self, spec: Mapping[str, Any]) -> Steps[bool]:
        status = yield from ModelCalls(spec["name"], self._retry).status()
        if not isinstance(status, ModelStatus):
            return False
        asked = {**spec, "params": {**status.params, **spec.get("params", {})}, "updates": 0}
        if "limits" in spec:  # the server names those too that are not given
            asked["limits"] = {"features": None, "labels": None, **spec["limits"]}
        shown = ("updates", "algorithm", "params", "scaling", "limits", "durability")
        return all(asked[part] == getattr(status, part) for part in shown if part in asked)
