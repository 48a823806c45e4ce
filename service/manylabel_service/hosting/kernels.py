"""Compiled functions of this process, by tier: which are loaded, which are being compiled, and how long this will take.

A server is ready once the tier `base` is loaded. A child process compiles the functions that are not on disk yet. A
request waits for a tier that is only being loaded, and fails with `NotCompiled` if it needs a tier that is being
compiled. If a function were called before that, numba would compile it in the calling thread, and no other thread could
compile or load functions meanwhile. `GATE` prevents such calls.
"""

import asyncio
import math
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from os import SEEK_END
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, ParamSpec, TypeVar
from weakref import WeakSet

import structlog

from manylabel_core import kernels as core
from manylabel_service import compile_functions
from manylabel_service.errors import NotReady

BASE = "base"
SERVED = (BASE, "vectors", "groups", "promise", "sparse", "options", "kernel")
"""Tiers that a server loads, in the order in which they are compiled."""

_WHAT: Mapping[str, str] = {
    BASE: "all models",
    "vectors": "vectors",
    "groups": "groups and parents of labels",
    "promise": "promised precision or parity",
    "sparse": "large tables of weights",
    "options": "this learner or its options",
    "kernel": "kernel learners",
}
"""Purpose of the functions of each tier, in error messages."""

BAR_WIDTH = 30
"""Number of characters of a full bar."""
POLL_SECONDS = 0.5
"""Seconds between two checks which functions are on disk, while functions are compiled."""
UNKNOWN_RETRY_SECONDS = 5.0
"""Seconds of Retry-After before there is an estimate."""
MIN_MEASURED = 3
"""Minimum number of compiled functions for an estimate of the remaining time."""
ERROR_BYTES = 2_000
"""Maximum bytes of a child's error output that are logged."""

_AT_FIRST_CALL = "functions are compiled when they are first called"

log = structlog.get_logger()

T = TypeVar("T")
P = ParamSpec("P")


class Compiling(NamedTuple):
    """Progress of a compilation: functions on disk, all functions, and the estimated seconds left, if known."""

    done: int
    total: int
    seconds_left: float | None

    def to_json(self) -> dict[str, float | None]:
        """Return the progress for clients."""
        seconds = self.seconds_left
        return {"done": self.done, "total": self.total, "seconds_left": None if seconds is None else round(seconds, 1)}


class NotCompiled(NotReady):
    """The functions that a model or a change needs are being compiled; nothing was changed.

    `tiers` are the needed tiers that are not loaded yet.
    """

    tiers: tuple[str, ...] = ()
    compiling: Compiling | None = None


class Gate:
    """Gate that prevents the use of tiers that are not loaded. All tiers are open until a `Kernels` closes them.

    Attributes
    ----------
    closed : tiers that are not loaded yet, in a process that serves.
    loaded : tiers that this process has loaded.
    """

    def __init__(self) -> None:
        self.closed: frozenset[str] = frozenset()
        self.loaded: frozenset[str] = frozenset()
        self._counts: dict[str, core.Counts] = {}
        self._seconds_each: float | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._stopping: WeakSet[asyncio.AbstractEventLoop] = WeakSet()

    def close(self, tiers: Iterable[str]) -> None:
        """Close the tiers that are not loaded; if no tier was closed before, a compilation begins."""
        if not self.closed:
            self._counts, self._seconds_each = {}, None
        self.closed |= frozenset(tiers) - self.loaded

    def open(self, tiers: Iterable[str]) -> None:
        """Open tiers, because they are loaded, and wake the waiting requests."""
        self.loaded |= frozenset(tiers)
        self.closed -= self.loaded
        self._wake()

    def note(self, counts: Mapping[str, core.Counts], seconds_each: float | None) -> None:
        """Note the counts of some tiers, and the mean seconds per function since the compilation began."""
        self._counts |= counts
        self._seconds_each = seconds_each
        self._wake()

    def compiling(self, tiers: Iterable[str]) -> Compiling | None:
        """Return the progress of compiling the tiers that are not loaded; None if all are on disk.

        The counts include all tiers that are compiled before them, so that `done` rises until the last tier is on disk.
        """
        needed = [tier for tier in SERVED if tier in self.closed.intersection(tiers)]
        if all(self._n_left(tier) == 0 for tier in needed):
            return None
        due = [tier for tier in SERVED[: SERVED.index(needed[-1]) + 1] if tier in self._counts]
        total, left = sum(self._counts[tier].total for tier in due), sum(map(self._n_left, due))
        return Compiling(total - left, total, None if self._seconds_each is None else self._seconds_each * left)

    def _n_left(self, tier: str) -> int:
        """Return the number of functions of a tier that are not on disk."""
        counts = self._counts.get(tier)
        return max(0, counts.total - counts.stored) if counts is not None and tier in self.closed else 0

    def require(self, tiers: Iterable[str]) -> None:
        """Raise NotCompiled if one of the tiers is closed."""
        if not self.closed:
            return
        needed = tuple(tier for tier in tiers if tier in self.closed)
        if needed:
            raise self.refusal(needed)

    def refusal(self, tiers: tuple[str, ...]) -> NotCompiled:
        """Return the error of a request that needs these tiers."""
        progress, what = self.compiling(tiers), " and ".join(_WHAT[tier] for tier in tiers)
        if progress is None:
            return NotCompiled(f"functions for {what} are being loaded", tiers=tiers)
        detail = f"functions for {what} are being compiled, {progress.done} of {progress.total}"
        if progress.seconds_left is None:
            return NotCompiled(detail, UNKNOWN_RETRY_SECONDS, tiers, progress)
        seconds = max(1.0, float(math.ceil(progress.seconds_left)))
        return NotCompiled(f"{detail}, about {seconds:g} s", seconds, tiers, progress)

    async def wait(self, tiers: Iterable[str], *, on_disk: bool = False) -> None:
        """Wait until all of the tiers are open; raise NotCompiled if this event loop has given up.

        With `on_disk`, also raise NotCompiled if one of the tiers is being compiled, because this takes long. A tier on
        disk is loaded within two seconds after the start.
        """
        needed, loop = tuple(tiers), asyncio.get_running_loop()
        while self.closed.intersection(needed):
            if loop in self._stopping or (on_disk and self.compiling(needed) is not None):
                self.require(needed)
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    @property
    def waits(self) -> bool:
        """True while something waits for a tier."""
        return bool(self._waiters)

    def give_up(self) -> None:
        """End all waits of this event loop, including later ones, because the server stops."""
        self._stopping.add(asyncio.get_running_loop())
        self._wake()

    def _wake(self) -> None:
        for waiter in list(self._waiters):
            with suppress(RuntimeError):  # its event loop is closed
                waiter.get_loop().call_soon_threadsafe(_end, waiter)


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


GATE = Gate()
"""The gate of this process, because numba loads a function once per process."""


def when_loaded(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return a call that waits for functions that are on disk, and starts again when they are loaded."""

    async def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                return await method(*args, **kwargs)
            except NotCompiled as error:
                await GATE.wait(error.tiers, on_disk=True)

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return repeated(*args, **kwargs) if GATE.closed else method(*args, **kwargs)

    return call


def load(tiers: Sequence[str]) -> None:
    """Load tiers into this process; compile the functions that are not on disk."""
    missing = [tier for tier in tiers if tier not in GATE.loaded]
    if missing:
        core.load(missing)
        GATE.open(missing)


def show(progress: Compiling | None) -> None:
    """Draw the progress as a bar if standard error is a terminal; None erases the bar.

    The cursor returns to the beginning of the line, so that a line of the log overwrites the bar.
    """
    if not sys.stderr.isatty():
        return
    text = ""
    if progress is not None:
        filled = round(BAR_WIDTH * progress.done / progress.total)
        left = "" if progress.seconds_left is None else f", about {progress.seconds_left:.0f} s"
        bar = "━" * filled + "╌" * (BAR_WIDTH - filled)
        text = f"{bar} compiling {progress.done} of {progress.total}{left}"
    sys.stderr.write(f"\r\x1b[K{text}\r")
    sys.stderr.flush()


async def compile_in_child(tiers: Sequence[str], errors: IO[bytes]) -> Process:
    """Start a child process that compiles the functions that are not on disk, `base` first. Its error output goes to a
    file."""
    program = [sys.executable, "-P", "-m", compile_functions.__name__]
    return await asyncio.create_subprocess_exec(*program, *tiers, stdin=DEVNULL, stdout=DEVNULL, stderr=errors)


class Kernels:
    """Compilation and loading of the functions of a server.

    Parameters
    ----------
    gate : gate that is closed until functions are loaded.
    count : returns the number of functions of tiers that are on disk.
    load : loads tiers into this process, and compiles functions that are not on disk; runs in a thread.
    start : starts a process that compiles the functions that are not on disk, and writes errors to a file.
    poll_seconds : seconds between two checks of the disk.
    """

    def __init__(
        self,
        gate: Gate = GATE,
        count: Callable[[Sequence[str]], core.Counts] = core.count,
        load: Callable[[Sequence[str]], None] = core.load,
        start: Callable[[Sequence[str], IO[bytes]], Awaitable[Process]] = compile_in_child,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self.gate = gate
        self._count, self._load, self._start, self._show = count, load, start, show
        self._poll_seconds = poll_seconds
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load `base`; compile and load the rest in the background."""
        if self._task is None:
            missing = [tier for tier in SERVED if tier not in self.gate.loaded]
            if not missing:
                return
            self.gate.close(missing)
            self._task = asyncio.create_task(self._run(missing), name="kernels")
        await self.gate.wait((BASE,))

    async def stop(self) -> None:
        """End the child process, and the waits for tiers of this event loop."""
        self.gate.give_up()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, tiers: Sequence[str]) -> None:
        try:
            await self._load_all(list(tiers))
        except Exception:
            log.exception("kernels_failed", action=_AT_FIRST_CALL)
            self.gate.open(tiers)

    async def _load_all(self, missing: list[str]) -> None:
        counts: dict[str, core.Counts] = {}
        for tiers in ((BASE,), SERVED[1:]):  # the server is ready before the other tiers are counted
            counts |= await self._counts([tier for tier in tiers if tier in missing])
            self.gate.note(counts, None)
            await self._load_complete(missing, counts)
        if not missing:
            return
        begun, n_missing = time.monotonic(), _n_missing(counts)
        log.info("kernels_compile", functions=n_missing, tiers=list(missing), reason=core.why_not_shipped())
        reason = await self._compile(missing, begun, n_missing)
        if missing:
            log.warning("kernels_child_failed", error=reason, action="compiling in this process")
            for tier in list(missing):
                await self._load_tier(tier)
        log.info("kernels_compiled", functions=n_missing, seconds=round(time.monotonic() - begun, 1))

    async def _compile(self, missing: list[str], begun: float, n_missing: int) -> str:
        """Let a child process compile tiers; load each complete tier, and remove it from the list. If tiers remain,
        return the reason."""
        with TemporaryFile() as errors:
            try:
                child = await self._start(missing, errors)
            except OSError as error:
                return str(error)
            try:
                await self._load_while_compiled(child, missing, begun, n_missing)
                await child.wait()
            finally:
                if child.returncode is None:
                    child.kill()
                    await child.wait()
            errors.seek(max(0, errors.seek(0, SEEK_END) - ERROR_BYTES))
            written = errors.read().decode(errors="replace").strip()
        if child.returncode == 0:
            return "the child process has ended, but not all functions are on disk: is NUMBA_CACHE_DIR writable?"
        return f"the child process has ended with status {child.returncode}: {written}"

    async def _load_while_compiled(self, child: Process, missing: list[str], begun: float, n_missing: int) -> None:
        ended = asyncio.create_task(child.wait())
        try:
            is_over = False
            while missing and not is_over:
                await asyncio.wait([ended], timeout=self._poll_seconds)
                is_over = ended.done()
                counts = await self._counts(missing)
                n_compiled = n_missing - _n_missing(counts)
                seconds_each = (time.monotonic() - begun) / n_compiled if n_compiled >= MIN_MEASURED else None
                self.gate.note(counts, seconds_each)
                self._show(self.gate.compiling((BASE,)) or self.gate.compiling(missing))
                await self._load_complete(missing, counts)
        finally:
            self._show(None)
            ended.cancel()

    async def _counts(self, tiers: Sequence[str]) -> dict[str, core.Counts]:
        return await asyncio.to_thread(lambda: {tier: self._count((tier,)) for tier in tiers})

    async def _load_complete(self, missing: list[str], counts: Mapping[str, core.Counts]) -> None:
        """Load the tiers that are on disk, and remove them from the list."""
        for tier in [each for each in missing if each in counts and counts[each].stored >= counts[each].total]:
            await self._load_tier(tier)
            missing.remove(tier)

    async def _load_tier(self, tier: str) -> None:
        """Load a tier and open it, even if it cannot be loaded: numba then compiles each function at its first call."""
        try:
            await asyncio.to_thread(self._load, (tier,))
        except Exception:  # such as a truncated file
            log.exception("kernels_failed", tier=tier, action=_AT_FIRST_CALL)
        self.gate.open((tier,))


def _n_missing(counts: Mapping[str, core.Counts]) -> int:
    return sum(total - stored for stored, total in counts.values())
