"""The version that predicts, and its successor on the way into memory.

What the log says is served is loaded by one task, in a thread, while the version before answers on. Then one step
puts the new one in its place. The position moves with that step, so that it never claims what is not answered yet.
"""

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from manylabel_core.state import DamagedState
from manylabel_service.errors import ModelGone, NoVersionServed, ServiceError, StorageGone, VersionDamaged
from manylabel_service.hosting.events import Event, Events
from manylabel_service.hosting.position_waiters import PositionWaiters
from manylabel_service.storage import START, ModelRecord, Store, position_key
from manylabel_service.trained.predictor import Predictor
from manylabel_service.trained.version import Version
from manylabel_service.trained.version_store import Promoted, VersionCatalogue

RETRY_SECONDS = 5.0
"""After which a version is tried again that could not be loaded."""

log = structlog.get_logger()


class ActiveVersion:
    """Keeps the version in memory that is served.

    Parameters
    ----------
    record, store : the model and where its versions are.
    catalogue : gives what the log says.
    events : told of each change, once it is made here.

    Attributes
    ----------
    serving : the version that predicts; None where none is served, or can be.
    position : of the log, up to which it is the one that is to be served.
    """

    def __init__(
        self, record: ModelRecord, store: Store, catalogue: Callable[[], VersionCatalogue], events: Events
    ) -> None:
        self.serving: Predictor | None = None
        self.position = START
        self._record = record
        self._store = store
        self._catalogue = catalogue
        self._events = events
        self._untold: deque[Promoted] = deque()
        self._arrivals = PositionWaiters(lambda: self.position)
        self._due = asyncio.Event()
        self._turn = asyncio.Lock()
        self._changes = 0
        self._gap = False
        self._trouble: ServiceError | None = None
        self._task: asyncio.Task[None] | None = None

    # -- from outside -----------------------------------------------------------------------------

    def on(self) -> tuple[Predictor, str]:
        """The version that predicts, and its position.

        Raises
        ------
        NoVersionServed, VersionDamaged
        """
        if self.serving is None:
            raise self._trouble or NoVersionServed(self._record.name)
        return self.serving, self.position

    def measures(self) -> None:
        """A trained model is not measured while it predicts."""
        return

    @property
    def busy(self) -> bool:
        """Whether anybody waits for a position, or a version is being loaded."""
        return bool(self._arrivals) or self._turn.locked()

    def heard(self, promoted: Promoted | None) -> None:
        """The log has gone on."""
        if promoted is not None and self._events:
            self._untold.append(promoted)
        self._due.set()

    def lost(self) -> None:
        """The store has lost some of the log; what is left of it is the truth now."""
        self._untold.clear()
        self._gap = True
        self._due.set()

    def reached(self, position: str) -> bool:
        """Whether the position is at or after another."""
        return self._arrivals.reached(position)

    async def arrival(self, position: str, seconds: float) -> None:
        """Wait, for so long at most, until the position is reached."""
        await self._arrivals.wait(position, seconds)

    def start(self) -> None:
        """Begin to follow what the log says."""
        self._task = asyncio.create_task(self._run(), name=f"stage of {self._record.name}")

    def stop(self) -> None:
        """End now."""
        if self._task is not None:
            self._task.cancel()
        self._arrivals.give_up()
        self._events.close()

    async def ended(self) -> None:
        """Wait for the end."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def load(self, version: Version) -> Predictor:
        """A version, ready to predict; the one that predicts already is not loaded again.

        Raises
        ------
        VersionDamaged, StorageGone, ModelGone
        """
        async with self._turn:
            if self.serving is not None and self.serving.version == version:
                return self.serving
            data = await self._store.snapshots.get(self._record, version.position)
            if data is None:
                raise VersionDamaged(self._record.name, version.number, "its contents are gone")
            try:
                return await asyncio.to_thread(Predictor, version, data)
            except DamagedState as error:
                raise VersionDamaged(self._record.name, version.number, str(error)) from error

    def settled(self, loaded: Predictor | None = None) -> bool:
        """Whether the version in memory is the one to be served, once `loaded` has been put there if it is."""
        catalogue = self._catalogue()
        target = None if catalogue.served is None else catalogue.versions[catalogue.served]
        for serving in (self.serving, loaded):
            if target == (None if serving is None else serving.version):
                self._put(serving, catalogue.position)
                return True
        return False

    async def settle(self) -> None:
        """Load the version that is to be served, if there is one that can be.

        Raises
        ------
        StorageGone, ModelGone
        """
        while not self.settled():
            catalogue, changes = self._catalogue(), self._changes
            assert catalogue.served is not None  # else it is settled
            target, position = catalogue.versions[catalogue.served], catalogue.position
            try:
                serving = await self.load(target)
            except VersionDamaged as error:
                self._complain(error)
                return
            if self._changes == changes:  # else a later one is there already
                self._put(serving, position)

    # -- the task ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(None if self.settled() else RETRY_SECONDS):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            try:
                await self.settle()
            except (StorageGone, ModelGone) as error:  # the model hears of it too, and does what is to be done
                log.info("version_not_loaded", model=self._record.name, error=str(error))
            except Exception:  # the version before answers on
                log.exception("version_not_loaded", model=self._record.name)

    def _put(self, serving: Predictor | None, position: str) -> None:
        self._changes += 1
        if serving is not self.serving:
            self.serving = serving
            log.info("version_served", model=self._record.name, version=serving and serving.version.number)
        self.position = position
        self._trouble = None
        self._arrivals.notify()
        self._tell()

    def _tell(self) -> None:
        if self._gap:
            self._gap = False
            self._events.gap()
        here = position_key(self.position)
        told = False
        while self._untold and position_key(self._untold[0].position) <= here:
            promoted = self._untold.popleft()
            self._events.record(Event("promoted", promoted.position, promoted._asdict()))
            told = True
        if told:
            self._events.notify()

    def _complain(self, error: VersionDamaged) -> None:
        if self._trouble is None or str(error) != str(self._trouble):
            action = "promote another version, or delete the model"
            log.error("version_not_loaded", model=self._record.name, error=str(error), action=action)
        self._trouble = error
