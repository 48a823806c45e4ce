"""Waiting for a model to reach a position of its log."""

import asyncio
from collections.abc import Callable

from manylabel_service.storage import position_key


class PositionWaiters:
    """Waiters for positions of one model."""

    def __init__(self, position: Callable[[], str]) -> None:
        self._position = position
        self._awaited: list[tuple[tuple[int, ...], asyncio.Future[None]]] = []

    def __bool__(self) -> bool:
        """Return whether a caller waits."""
        return bool(self._awaited)

    def reached(self, position: str) -> bool:
        """Return whether the model is at or after a position."""
        return position_key(self._position()) >= position_key(position)

    async def wait(self, position: str, seconds: float) -> None:
        """Wait at most `seconds` until `notify` finds the model at or after the position, or `give_up` is called."""
        arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        awaited = position_key(position), arrival
        self._awaited.append(awaited)
        try:
            await asyncio.wait([arrival], timeout=seconds)
        finally:
            self._awaited.remove(awaited)

    def notify(self) -> None:
        """Wake the waiters whose position is reached."""
        if self._awaited:
            here = position_key(self._position())
            self._release(lambda key: key <= here)

    def give_up(self) -> None:
        """Wake all waiters because the model has stopped."""
        self._release(lambda _: True)

    def _release(self, due: Callable[[tuple[int, ...]], bool]) -> None:
        for key, arrival in self._awaited:
            if due(key) and not arrival.done():
                arrival.set_result(None)
