"""Restarts of models after unexpected errors: each is restored from the store, with exponential backoff."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from manylabel_service.environment import time
from manylabel_service.errors import ModelNotFound, NotReady, StorageError
from manylabel_service.storage import ModelMeta, position_key

PAUSES_SECONDS = (1.0, 300.0)
"""Minimum and maximum seconds before a restart; they double each time the model fails at the same position."""

log = structlog.get_logger()


@dataclass
class _Crash:
    """Latest unexpected error of a model; `due` is the time of the restart, None once it was restored."""

    record: ModelMeta
    position: str
    pause: float
    due: float | None


class Restarts:
    """Restarts of the models of a process.

    Parameters
    ----------
    restart : restores a model from the store.
    """

    def __init__(self, restart: Callable[[str], Awaitable[object]]) -> None:
        self._restart = restart
        self._crashes: dict[str, _Crash] = {}
        self._noted = asyncio.Event()

    @property
    def waiting(self) -> set[str]:
        """Names of the models that are not restored yet."""
        return {name for name, crash in self._crashes.items() if crash.due is not None}

    def note(self, record: ModelMeta, position: str) -> float:
        """Note that a model has failed at a position; return the seconds until its restart.

        A model that has learnt more since its last failure is restarted soon. A model that fails again at the same
        position waits longer each time, because a restore takes time and memory from other models. Restarts never end,
        because the cause may be a temporary lack of memory.
        """
        least, most = PAUSES_SECONDS
        before = self._crashes.get(record.name)
        if before is None or before.record != record or position_key(before.position) < position_key(position):
            pause = least
        else:
            pause, position = min(2 * before.pause, most), before.position
        self._crashes[record.name] = _Crash(record, position, pause, time.monotonic() + pause)
        self._noted.set()
        return pause

    def waits(self, name: str) -> ModelMeta | None:
        """Return the metadata of a model that is not restored yet, or None."""
        crash = self._crashes.get(name)
        return None if crash is None or crash.due is None else crash.record

    def check(self, name: str) -> None:
        """Raise NotReady if a model waits for its restart."""
        crash = self._crashes.get(name)
        if crash is not None and crash.due is not None and (left := crash.due - time.monotonic()) > 0:
            raise after_error(name, left)

    def done(self, name: str) -> None:
        """Note that a model was restored."""
        crash = self._crashes.get(name)
        if crash is not None:
            crash.due = None

    def forget(self, name: str) -> None:
        """Note that a model was deleted, or is restored by its next request."""
        self._crashes.pop(name, None)

    async def run(self) -> None:
        """Restart models when they are due, until cancelled."""
        while True:
            self._noted.clear()
            due = {name: crash.due for name, crash in self._crashes.items() if crash.due is not None}
            for name in [name for name, at in due.items() if at <= time.monotonic()]:
                await self._try(name, self._crashes[name])
            soonest = min((crash.due for crash in self._crashes.values() if crash.due is not None), default=None)
            with suppress(TimeoutError):
                async with asyncio.timeout(None if soonest is None else max(0.0, soonest - time.monotonic())):
                    await self._noted.wait()

    async def _try(self, name: str, crash: _Crash) -> None:
        try:
            await self._restart(name)
            crash.due = None  # also if another load had restored it; a later error has replaced the crash
        except ModelNotFound:
            self.forget(name)
        except (NotReady, StorageError):
            pass
        except Exception:
            log.exception("model_restart_failed", model=name)
        if crash.due is not None:
            crash.due = time.monotonic() + PAUSES_SECONDS[0]


def after_error(name: str, seconds: float) -> NotReady:
    """Return the error for requests of a model that has failed."""
    return NotReady(f"model {name!r} is being restored after an error", retry_after=max(1.0, float(round(seconds))))
