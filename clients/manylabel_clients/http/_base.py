"""What both clients share: their parameters. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import httpx2

from manylabel_clients.http._dataset_calls import DatasetCalls
from manylabel_clients.http._job_calls import TrainingCalls
from manylabel_clients.http._server_calls import ServerCalls
from manylabel_clients.http.retry import Retry

DEFAULT_URL = "http://127.0.0.1:8000"
DEFAULT_TIMEOUT_SECONDS = 30.0

# Idle connections are dropped before the server drops them (after 5 s by default): a request sent on one that
# is just being closed would have to be retried.
_LIMITS = httpx2.Limits(max_connections=100, max_keepalive_connections=100, keepalive_expiry=3.0)


class BaseClient:
    """Parameters of a client, and its calls as conversations."""

    def __init__(
        self,
        base_url: str,
        timeout: float | httpx2.Timeout,
        retry: Retry,
        headers: Mapping[str, str] | None,
        clock: Callable[[], float],
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url must start with http:// or https://, not {base_url!r}")
        self._base_url = base_url
        self._retry = retry
        self._clock = clock
        self._calls = ServerCalls(retry, clock)
        self._datasets = DatasetCalls(retry)
        self._training = TrainingCalls(retry)
        self._options: dict[str, Any] = {
            "base_url": base_url,
            "timeout": timeout,
            "limits": _LIMITS,
            "headers": {"User-Agent": f"manylabel/{version('manylabel')}", **(headers or {})},
        }

    @property
    def base_url(self) -> str:
        """Address of the server."""
        return self._base_url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._base_url!r})"
