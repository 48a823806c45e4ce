"""A lifetime: servers that share a store, clients that retry, and faults; everything follows from the seed."""

import asyncio
import gc
import random
import sys
import traceback
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog
from tests.simulation.coverage import Coverage
from tests.simulation.disk import Disk
from tests.simulation.loop import PROCESS, Ended, SimulatedLoop, Stuck
from tests.simulation.network import Faults, FaultyNetwork
from tests.simulation.place import MemoryPlace
from tests.simulation.store import SimulatedStore
from tests.simulation.training import Trainings, supervision

from manylabel_service import environment
from manylabel_service.access.key import KeyStore
from manylabel_service.access.keyring import Keyring
from manylabel_service.app import open_registry
from manylabel_service.archive.service import ArchiveService
from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.errors import ServiceError
from manylabel_service.jobs.context import JobContext
from manylabel_service.jobs.job_service import JobService
from manylabel_service.jobs.job_store import JobStore
from manylabel_service.jobs.local_runner import LocalRunner
from manylabel_service.models.forgetting import Forgetter
from manylabel_service.models.membership import EXPIRY_SECONDS
from manylabel_service.models.membership import KIND as MEMBERS
from manylabel_service.models.promoting import Promoter
from manylabel_service.models.registry import Registry
from manylabel_service.online.history import archiver
from manylabel_service.settings import Settings
from manylabel_service.storage import blob_places, open_when_available
from manylabel_service.storage.blob_places import agree_on_blobs
from manylabel_service.storage.places.place import Place

T = TypeVar("T")

UNIX_SECONDS = 1_700_000_000
"""Unix time at which a lifetime begins."""
BROKEN_SECONDS = 3_600.0
"""Most that a broken clock is off."""
REPLY_SECONDS = 30.0
"""Time after which a client gives up on a reply."""
QUIET_SECONDS = 120.0
"""Time after the last fault within which all requests must have succeeded."""
DEAD = "the server that worked on it has ended"
"""Reason with which a change is undone whose server is dead."""
BACKOFF_SECONDS = (0.1, 5.0)
SHORT_SEGMENTS = {"SEGMENT_BYTES": 450, "STATE_EXAMPLES": 10, "STATE_SHARE": 0, "READ_ENTRIES": 7}
"""Limits of a history in which a lifetime closes several segments."""


class Violation(AssertionError):
    """A promise of the service that was broken."""


class Disconnected(Exception):
    """The connection between a client and a server ended before the reply."""


@dataclass(eq=False)
class Server:
    """Process of a server, assembled as `manylabel_service.app.create_app` does, without HTTP."""

    process: str
    network: FaultyNetwork
    store: SimulatedStore
    registry: Registry
    forgetter: Forgetter
    promoter: Promoter
    keyring: Keyring
    jobs: JobContext
    job_service: JobService | None
    archive: ArchiveService | None
    blobs: str | None
    starting: asyncio.Task[None] | None = None
    pending: dict[asyncio.Future[Any], None] = field(default_factory=dict)
    alive: bool = True
    disturbed_at: float = 0.0
    """Time at which it was started, or its connection to the store was last cut."""

    async def start(self) -> None:
        """Start like `manylabel_service.lifespan.lifespan`."""

        async def components() -> None:
            await agree_on_blobs(self.store, self.blobs)
            await self.keyring.start(check=False)
            await self.registry.start()
            if self.job_service is not None:
                await self.job_service.start()
            if self.archive is not None:
                self.archive.start()

        await open_when_available(self.store, components, BACKOFF_SECONDS)

    async def stop(self) -> None:
        """Stop in the order of `manylabel_service.lifespan.lifespan`."""
        if self.starting is not None:
            self.starting.cancel()
            await asyncio.gather(self.starting, return_exceptions=True)
        if self.job_service is not None:
            await self.job_service.stop()
        await self.registry.stop()
        if self.archive is not None:
            await self.archive.stop()
        await self.keyring.stop()
        await self.store.close()


class World:
    """Everything in a lifetime.

    Parameters
    ----------
    seed : of the lifetime.

    Attributes
    ----------
    rng : source of what clients do, and of the faults.
    trace : what happened: virtual time, process, and a text.
    archived : objects of the archive; None: the servers do not archive.
    blobs : address of the place of blobs; None: the store has them.
    short_segments : whether segments of a history have few entries, with states between them.
    trainings : training processes; None: the servers run no jobs.
    broken_clock : place of the servers whose clock shows another time whenever it is read.
    disturbed_at : time at which the last fault of a server ends.
    coverage : counts of the faults and crashes; None: they are not counted.
    settings : of all servers; set before the first starts.
    """

    settings: Settings

    def __init__(self, seed: int, coverage: Coverage | None = None) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.loop = SimulatedLoop(random.Random(self.rng.random()))
        self.random = random.Random(self.rng.random())
        self.began = self.loop.time()
        self.skews: dict[str, float] = {}
        self.broken_clock: str | None = None
        self.disk = Disk(self.now_ms, random.Random(self.rng.random()))
        self.faults = Faults()
        self.trace: list[tuple[float, str, str]] = []
        self.slots: list[Server | None] = []
        self.archived: dict[str, bytes] | None = None
        self.blobs: str | None = None
        self.short_segments = False
        self.trainings: Trainings | None = None
        self.coverage = coverage
        self.disturbed_at = 0.0
        self.violation: str | None = None
        self.cause = ""
        self._started = 0
        self._over = False

    # -- time and trace -------------------------------------------------------------------------------

    def unix(self, process: str) -> float:
        """Return the time by the clock of a process, or of the store."""
        skew = self.skews.get(process[:1], 0.0)
        if process[:1] == self.broken_clock:
            skew += self.random.uniform(-BROKEN_SECONDS, BROKEN_SECONDS)
        return UNIX_SECONDS + self.loop.time() - self.began + skew

    def now_ms(self) -> int:
        """Return the time by the clock of the store."""
        return int(1_000 * self.unix("store"))

    def note(self, text: str, process: str | None = None) -> None:
        """Add a line to the trace."""
        self.trace.append((self.loop.time() - self.began, PROCESS.get() if process is None else process, text))

    def logged(self, logger: Any, method: str, event: dict[str, Any]) -> Any:
        """Take a line of the log of a server into the trace; an unexpected error is a violation."""
        if self._over:
            raise structlog.DropEvent
        said = " ".join(f"{key}={value}" for key, value in event.items() if key not in ("event", "exc_info"))
        self.note(f"log {event['event']} {said}")
        if event["event"] == "replacement_undone":
            self._check_undone(event["change"], event["error"] == DEAD)
        elif event["event"] == "replica_expired":
            self._check_expired(event["replica"])
        error = event.get("exc_info")
        error = sys.exc_info()[1] if error is True else error
        if error and not isinstance(error, ServiceError):
            self.fail(f"unexpected error: {event['event']}: {error!r}", error)
        raise structlog.DropEvent

    def _check_undone(self, change: str, as_dead: bool) -> None:
        """Check that a process undoes no change on which another one works that runs undisturbed."""
        for server in self.servers:
            quiet = self.loop.time() - max(server.disturbed_at, self.loop.resumed.get(server.process, 0.0))
            heard = not as_dead or (not server.network.cut and quiet > EXPIRY_SECONDS)
            if server.process != PROCESS.get() and change in server.registry.successions._changes and heard:
                self.fail(f"{PROCESS.get()} has undone change {change}, and {server.process} works on it")

    def _check_expired(self, member: str) -> None:
        """Check that no member counts as dead before it was silent for long, whatever the clocks of others show."""
        silent = self.loop.time() - self.disk.put_at[MEMBERS, member]
        if silent < EXPIRY_SECONDS:
            self.fail(f"{PROCESS.get()} takes member {member} for dead, whose last heartbeat came {silent:.1f} s ago")

    def fail(self, text: str, cause: Any = None) -> None:
        """End the lifetime with a violation, which has no references to what still runs."""
        if self.violation is None and not self._over:
            self.note(f"VIOLATION {text}")
            self.violation = text
            if isinstance(cause, BaseException):
                self.cause = "".join(traceback.format_exception(cause))
        self.loop.ended = self.violation is not None

    # -- servers --------------------------------------------------------------------------------------

    @property
    def servers(self) -> list[Server]:
        """Servers that run."""
        return [server for server in self.slots if server is not None and server.alive]

    def start(self, slot: int) -> None:
        """Start a server at a place where none runs."""
        self._started += 1
        process = f"{'abcd'[slot]}{self._started}"
        token = PROCESS.set(process)
        try:  # futures and tasks of the parts belong to the process
            server = self.slots[slot] = self._assemble(process)
        finally:
            PROCESS.reset(token)
        self.note("start", process)
        server.starting = self.loop.spawn(process, self._run(server))

    def _assemble(self, process: str) -> Server:
        """Return a server that has not been started."""
        network, settings = self._network(), self.settings
        store = SimulatedStore(self.disk, network)
        registry = open_registry(store, settings)
        keyring = Keyring(KeyStore(store.documents, settings.limits.max_keys), None)
        context = JobContext(store, settings, DatasetStore(store, settings), JobStore(store), registry.poll)
        jobs = archive = None
        if self.trainings is not None:
            jobs = JobService(context, LocalRunner(context, 2, supervision(self.trainings)))
        if self.archived is not None:
            archive = ArchiveService(store, registry, MemoryPlace(self.archived, self._network()), settings)
        forgetter, promoter = Forgetter(registry.successions), Promoter(registry)
        parts = registry, forgetter, promoter, keyring, context, jobs, archive, self.blobs
        return Server(process, network, store, *parts)

    def _place_outside(self, address: str, title: str = "") -> Place:
        """Return the place of blobs, as a server reaches it."""
        assert self.disk.outside is not None
        return MemoryPlace(self.disk.outside, self._network())

    def _network(self) -> FaultyNetwork:
        return FaultyNetwork(self.loop, self.faults, self.note, self.coverage)

    async def _run(self, server: Server) -> None:
        try:
            await server.start()
            server.disturbed_at = max(server.disturbed_at, self.loop.time())
            self.note(f"started as {server.registry.membership.id}")
        except ServiceError as error:
            self.fail(f"server {server.process} cannot start: {error!r}", error)

    def disturbed(self, until: float) -> None:
        """Note that a server is disturbed until a time."""
        self.disturbed_at = max(self.disturbed_at, until)

    def lose(self, server: Server) -> None:
        """Note that a server has crashed."""
        self.note("CRASH", server.process)
        if self.coverage is not None:
            server.network.crashed()
            self.coverage.note_crash(self.loop.coroutines_of(server.process))
        self._gone(server)

    def _gone(self, server: Server) -> None:
        server.alive = False
        self.disturbed(self.loop.time())
        self.slots[self.slots.index(server)] = None
        for reply in list(server.pending):
            if not reply.done():
                reply.set_exception(Disconnected())

    async def stop(self, server: Server) -> None:
        """Stop a server without a crash."""
        self.note("stop", server.process)
        stopping = self.loop.spawn(server.process, server.stop())
        await asyncio.wait([stopping], timeout=60)
        if not stopping.done():
            self.note("killed: the stop takes too long", server.process)
        elif (error := stopping.exception()) is not None and not isinstance(error, ServiceError):
            self.fail(f"unexpected error: stop: {error!r}", error)
        if server.alive:
            self.loop.crash(server.process)
            self._gone(server)

    async def request(self, server: Server, work: Callable[[Server], Awaitable[T]]) -> T:
        """Return the reply of a server to a client.

        Raises
        ------
        ServiceError
            The reply is an error.
        Disconnected
            The server crashed, or the connection was lost.
        """
        reply: asyncio.Future[T] = self.loop.create_future()
        server.pending[reply] = None

        async def serve() -> None:
            try:
                result = await work(server)
            except ServiceError as error:
                if not reply.done():
                    reply.set_exception(error)
            except Exception as error:
                self.fail(f"unexpected error in a request: {error!r}", error)
            else:
                if not reply.done():
                    reply.set_result(result)

        await asyncio.sleep(self.rng.expovariate(1_000))
        if not server.alive:
            raise Disconnected
        handler = self.loop.spawn(server.process, serve())
        hangs_up = self.faults.active and self.rng.random() < 0.03
        try:
            async with asyncio.timeout(self.rng.uniform(0, 0.02) if hangs_up else REPLY_SECONDS):
                return await reply
        except TimeoutError:
            if server.alive:
                self.loop.spawn(server.process, _cancel(handler))
            raise Disconnected from None
        finally:
            server.pending.pop(reply, None)

    # -- the lifetime ---------------------------------------------------------------------------------

    def run(self, life: Awaitable[None]) -> None:
        """Run a lifetime. Raises Violation."""
        gc.disable()
        with self._environment():
            asyncio.set_event_loop(self.loop)
            self.loop.set_exception_handler(self._handle)
            try:
                self.loop.run_until_complete(life)
            except Stuck as error:
                self.fail(str(error))
            except Ended:
                pass
            finally:
                asyncio.set_event_loop(None)
                del life
                self._end()
                gc.enable()
        if self.violation is not None:
            raise Violation(self.violation)

    def _end(self) -> None:
        """Close the coroutines that are left, which cannot do what they want to do last."""
        self._over = True
        self.loop.ended = False
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        try:
            with warnings.catch_warnings(action="ignore"):
                self.loop.dispose()
                self.slots.clear()
                self.disk.unfinished.clear()
                gc.collect()
        finally:
            sys.unraisablehook = hook

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not isinstance(error, ServiceError | Disconnected):
            self.fail(f"unexpected error: {context.get('message')}: {error!r}", error)

    @contextmanager
    def _environment(self) -> Iterator[None]:
        """Give the product the clocks and the randomness of this lifetime, and take its log."""
        time, secrets = environment.time, environment.secrets
        parts = (time, environment.random, secrets, blob_places, archiver)
        before = [dict(vars(part)) for part in parts]
        time.time = lambda: self.unix(PROCESS.get())
        time.time_ns = lambda: int(1e9 * self.unix(PROCESS.get()))
        time.monotonic = time.perf_counter = self.loop.time
        environment.random.random = self.random.random
        secrets.choice = self.random.choice
        secrets.token_bytes = self.random.randbytes
        secrets.token_hex = lambda n: self.random.randbytes(n).hex()
        blob_places.open_place = self._place_outside
        if self.short_segments:
            vars(archiver).update(SHORT_SEGMENTS)
        structlog.configure(processors=[self.logged])
        try:
            yield
        finally:
            structlog.reset_defaults()
            for part, values in zip(parts, before, strict=True):
                vars(part).update(values)


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
