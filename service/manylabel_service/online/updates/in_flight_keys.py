"""Idempotency keys of completed requests, and of requests in progress in this process."""

from collections.abc import Iterator
from contextlib import contextmanager

from manylabel_service.errors import KeyInFlight, KeyReused
from manylabel_service.idempotency import FORGOTTEN, IdempotencyKey
from manylabel_service.online.state.idempotency_window import IdempotencyWindow
from manylabel_service.online.state.outcome import UpdateOutcome


class InFlightKeys:
    """Idempotency keys of the pending requests to one model."""

    def __init__(self) -> None:
        self._keys: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def stored_answer(self, key: IdempotencyKey, window: IdempotencyWindow) -> UpdateOutcome | None:
        """Return the response stored for the key; None if this is the first request with the key. Raises KeyInFlight or
        KeyReused."""
        if key.key in self._keys:
            raise KeyInFlight(key.key)
        seen = window.find(key.key)
        if seen is None:
            return None
        digest, answer = seen
        if digest not in (FORGOTTEN, key.digest):
            raise KeyReused(key.key)
        return answer

    @contextmanager
    def hold(self, key: IdempotencyKey | None) -> Iterator[None]:
        """Mark a request with the key as in progress within the context."""
        if key is None:
            yield
            return
        self._keys.add(key.key)
        try:
            yield
        finally:
            self._keys.discard(key.key)
