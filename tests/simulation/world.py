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
from tests.simulation.disk import Disk
from tests.simulation.loop import PROCESS, Ended, SimulatedLoop, Stuck
from tests.simulation.network import Faults, FaultyNetwork
from tests.simulation.store import SimulatedStore
from tests.support.limits import settings_of

from manylabel_service import environment
from manylabel_service.access.key import KeyStore
from manylabel_service.access.keyring import Keyring
from manylabel_service.app import open_registry
from manylabel_service.errors import ServiceError
from manylabel_service.models.forgetting import Forgetter
from manylabel_service.models.membership import EXPIRY_SECONDS
from manylabel_service.models.registry import Registry
from manylabel_service.settings import Settings
from manylabel_service.storage import open_when_available

T = TypeVar("T")

UNIX_SECONDS = 1_700_000_000
"""Unix time at which a lifetime begins."""
REPLY_SECONDS = 30.0
"""Time after which a client gives up on a reply."""
QUIET_SECONDS = 120.0
"""Time after the last fault within which all requests must have succeeded."""
DEAD = "the server that worked on it has ended"
"""Reason with which a change is undone whose server is dead."""
BACKOFF_SECONDS = (0.1, 5.0)


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
    keyring: Keyring
    starting: asyncio.Task[None] | None = None
    pending: set[asyncio.Future[Any]] = field(default_factory=set)
    alive: bool = True
    disturbed_at: float = 0.0
    """Time at which its connection to the store was last cut."""

    async def start(self) -> None:
        """Start like `manylabel_service.lifespan.lifespan`."""

        async def components() -> None:
            await self.keyring.start(check=False)
            await self.registry.start()

        await open_when_available(self.store, components, BACKOFF_SECONDS)

    async def stop(self) -> None:
        """Stop in the order of `manylabel_service.lifespan.lifespan`."""
        if self.starting is not None:
            self.starting.cancel()
            await asyncio.gather(self.starting, return_exceptions=True)
        await self.registry.stop()
        await self.keyring.stop()
        await self.store.close()


def assemble(process: str, disk: Disk, network: FaultyNetwork, settings: Settings) -> Server:
    """Return a server that has not been started."""
    store = SimulatedStore(disk, network)
    registry = open_registry(store, settings)
    keyring = Keyring(KeyStore(store.documents, settings.limits.max_keys), None)
    return Server(process, network, store, registry, Forgetter(registry.successions), keyring)


class World:
    """Everything in a lifetime.

    Parameters
    ----------
    seed : of the lifetime.

    Attributes
    ----------
    rng : source of what clients do, and of the faults.
    trace : what happened: virtual time, process, and a text.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.loop = SimulatedLoop(random.Random(self.rng.random()))
        self.random = random.Random(self.rng.random())
        self.began = self.loop.time()
        self.skews: dict[str, float] = {}
        self.disk = Disk(self.now_ms, random.Random(self.rng.random()))
        self.faults = Faults()
        self.trace: list[tuple[float, str, str]] = []
        self.slots: list[Server | None] = []
        self.settings = settings_of()
        self.violation: str | None = None
        self.cause = ""
        self._started = 0
        self._over = False

    # -- time and trace -------------------------------------------------------------------------------

    def unix(self, process: str) -> float:
        """Return the time by the clock of a process, or of the store."""
        return UNIX_SECONDS + self.loop.time() - self.began + self.skews.get(process[:1], 0.0)

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
        network = FaultyNetwork(self.loop, self.faults, self.note)
        token = PROCESS.set(process)
        try:  # futures and tasks of the parts belong to the process
            server = self.slots[slot] = assemble(process, self.disk, network, self.settings)
        finally:
            PROCESS.reset(token)
        self.note("start", process)
        server.starting = self.loop.spawn(process, self._run(server))

    async def _run(self, server: Server) -> None:
        try:
            await server.start()
            self.note(f"started as {server.registry.membership.id}")
        except ServiceError as error:
            self.fail(f"server {server.process} cannot start: {error!r}", error)

    def lose(self, server: Server) -> None:
        """Note that a server has crashed."""
        self.note("CRASH", server.process)
        self._gone(server)

    def _gone(self, server: Server) -> None:
        server.alive = False
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
        server.pending.add(reply)

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
            server.pending.discard(reply)

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
        parts = (time, environment.random, secrets)
        before = [dict(vars(part)) for part in parts]
        time.time = lambda: self.unix(PROCESS.get())
        time.time_ns = lambda: int(1e9 * self.unix(PROCESS.get()))
        time.monotonic = time.perf_counter = self.loop.time
        environment.random.random = self.random.random
        secrets.choice = self.random.choice
        secrets.token_bytes = self.random.randbytes
        secrets.token_hex = lambda n: self.random.randbytes(n).hex()
        structlog.configure(processors=[self.logged])
        try:
            yield
        finally:
            structlog.reset_defaults()
            for part, values in zip(parts, before, strict=True):
                vars(part).update(values)


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
