"""Lets calls in while a store is open, and its closing wait for those under way."""

from __future__ import annotations

import asyncio

from manylabel_service.errors import StorageGone


class Gate:
    """Closed at first. A context manager to be held around each call; for one event loop, not for threads."""

    def __init__(self) -> None:
        self.is_open = False
        self._inside = 0
        self._empty = asyncio.Event()

    def open(self) -> None:
        """Let calls in."""
        self.is_open = True

    def __enter__(self) -> None:
        if not self.is_open:
            raise StorageGone("the store is not open", heals=False)
        self._inside += 1

    def __exit__(self, *_: object) -> None:
        self._inside -= 1
        if not self._inside:
            self._empty.set()

    async def close(self) -> None:
        """Refuse new calls, and wait for those inside."""
        self.is_open = False
        while self._inside:
            self._empty.clear()
            await self._empty.wait()
