"""Requests for manual snapshots, and the tasks that wait for them."""

import asyncio
from collections.abc import Sequence

from manylabel_service.errors import NotReady, ServiceError
from manylabel_service.online.snapshots.snapshotter import Snapshotter, Storing
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.storage import SnapshotMeta

Waiting = asyncio.Future[SnapshotMeta]


class SnapshotRequests:
    """Requests for snapshots of one model; concurrent requests get the same snapshot."""

    def __init__(self, name: str, snapshots: Snapshotter) -> None:
        self._name = name
        self._snapshots = snapshots
        self._waiting: list[Waiting] = []

    def __bool__(self) -> bool:
        """Return whether a requested snapshot has not been started."""
        return bool(self._waiting)

    @property
    def due(self) -> bool:
        """True if a snapshot can be started now."""
        return bool(self._waiting) and not self._snapshots.busy

    def ask(self) -> Waiting:
        """Request a snapshot of everything learnt so far."""
        waiting: Waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        return waiting

    async def begin(self, model: OnlineModel) -> None:
        """Begin one snapshot for all pending requests, see `Snapshotter.begin`; they resolve when it is stored."""
        n_covered = len(self._waiting)
        storing = await self._snapshots.begin(model)
        if storing is None:
            return
        covered, self._waiting = self._waiting[:n_covered], self._waiting[n_covered:]
        storing.add_done_callback(lambda storing: self._answer(covered, storing))

    def refuse(self, error: ServiceError) -> None:
        """Fail all pending requests with an error."""
        waiting, self._waiting = self._waiting, []
        _refuse(waiting, error)

    def _answer(self, waiting: Sequence[Waiting], storing: Storing) -> None:
        error = None if storing.cancelled() else storing.exception()
        record = None if storing.cancelled() or error is not None else storing.result()
        if record is None:
            _refuse(waiting, error or NotReady(f"a snapshot of model {self._name!r} could not be taken"))
            return
        for future in waiting:
            if not future.done():
                future.set_result(record)


def _refuse(waiting: Sequence[Waiting], error: BaseException) -> None:
    for future in waiting:
        if not future.done():
            future.set_exception(error)
