"""Event loop in virtual time: which process runs next, and when, follows from a seed.

Each callback belongs to a process, named in its context; tasks, timers and callbacks inherit the process of their
creator. Callbacks of one process run in the order in which they became ready, as in an asyncio loop of its own; the
seed chooses the order between processes. Work for a thread runs at once, after a delay from the seed. A crashed process
never runs again: its callbacks, tasks and timers are dropped, between any two callbacks, so at any await.
"""

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import Any

PROCESS: ContextVar[str] = ContextVar("process", default="")
"""Process to which a callback belongs; the empty name is the simulation itself, which never crashes."""

STEP_SECONDS = 5e-6
"""Virtual time that a callback takes."""
THREAD_SECONDS = 0.002
"""Mean delay of the work of a thread."""
MAX_STEPS = 2_000_000


class Stuck(AssertionError):
    """Nothing will ever run again, or something runs for ever."""


class Ended(Exception):
    """The lifetime has ended early."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """Loop of all processes of a lifetime.

    Parameters
    ----------
    rng : source of the order and of the delays.

    Attributes
    ----------
    steps : number of callbacks that have run.
    crashed : names of the processes that have crashed.
    resumed : times at which the last pauses of processes end.
    ended : set to end the lifetime with `Ended`.
    """

    def __init__(self, rng: random.Random) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rng = rng
        self.steps = 0
        self.crashed: set[str] = set()
        self.ended = False
        self._now = 1_000.0
        self._ready_of: dict[str, deque[asyncio.Handle]] = {}
        self._timers: list[tuple[float, float, int, asyncio.TimerHandle]] = []
        self._n_timers = 0
        self.resumed: dict[str, float] = {}
        self._paused: dict[str, float] = {}
        self._crashes: dict[str, tuple[int, Callable[[], None]]] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        """All tasks, so that the coroutines of crashed processes are not closed, which would run their code."""
        self.set_task_factory(self._task)

    # -- of an event loop -----------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._n_timers += 1
        heapq.heappush(self._timers, (when, self.rng.random(), self._n_timers, handle))
        return handle

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._add(handle)
        return handle

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        done = self.create_future()

        def run() -> None:
            if done.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(result)

        self.call_later(self.rng.expovariate(1 / THREAD_SECONDS), run)
        return done

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to do: a cancelled timer is dropped when it is due."""

    def _run_once(self) -> None:
        runnable = self._runnable()
        while not runnable:
            self._advance()
            runnable = self._runnable()
        name = runnable[0] if len(runnable) == 1 else self.rng.choice(runnable)
        handle = self._ready_of[name].popleft()
        if handle.cancelled():
            return
        self.steps += 1
        self._now += STEP_SECONDS
        if self.steps > MAX_STEPS:
            raise Stuck(f"more than {MAX_STEPS:,} steps")
        handle._run()
        if self.ended:
            raise Ended
        if self._crashes and name in self._crashes:
            left, then = self._crashes.pop(name)
            if left > 1:
                self._crashes[name] = left - 1, then
            else:
                self.crash(name)
                then()
        self._release()

    def _add(self, handle: asyncio.Handle) -> None:
        name = handle._context.get(PROCESS, "")  # type: ignore[attr-defined]
        if name not in self.crashed:
            queue = self._ready_of.get(name)
            if queue is None:
                queue = self._ready_of[name] = deque()
            queue.append(handle)

    def _runnable(self) -> list[str]:
        return [name for name, queue in self._ready_of.items() if queue and name not in self._paused]

    def _release(self) -> None:
        """Make timers ready that are due, and continue processes whose pause is over."""
        while self._timers and self._timers[0][0] <= self._now:
            handle = heapq.heappop(self._timers)[-1]
            if not handle.cancelled():
                self._add(handle)
        for name in [name for name, until in self._paused.items() if until <= self._now]:
            del self._paused[name]

    def _advance(self) -> None:
        """Go on to the next timer, or the end of a pause."""
        while self._timers and self._timers[0][-1].cancelled():
            heapq.heappop(self._timers)
        times = [self._timers[0][0]] if self._timers else []
        times += self._paused.values()
        if not times:
            raise Stuck("deadlock: nothing is ready, and there is no timer")
        self._now = max(self._now, min(times))
        self._release()

    def _task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, context: Any = None) -> asyncio.Task[Any]:
        task = asyncio.Task(coroutine, loop=loop, context=context)
        self._tasks.append(task)
        if len(self._tasks) % 1_000 == 0:
            self._tasks = [task for task in self._tasks if not task.done()]
        return task

    # -- of a simulation ------------------------------------------------------------------------------

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task in a process."""
        context = copy_context()
        context.run(PROCESS.set, name)
        return self.create_task(work, context=context)

    def crash_after(self, name: str, steps: int, then: Callable[[], None]) -> None:
        """Crash a process after some more of its callbacks, and call a function."""
        self._crashes[name] = steps, then

    def crash(self, name: str) -> None:
        """Crash a process."""
        self.crashed.add(name)
        self._crashes.pop(name, None)
        self._ready_of.pop(name, None)
        self._paused.pop(name, None)

    def pause(self, name: str, seconds: float) -> None:
        """Let a process stand still for some time, as if it were suspended."""
        self._paused[name] = self.resumed[name] = self._now + seconds

    def calm(self) -> None:
        """End all pauses, and plan no more crashes."""
        self._paused.clear()
        self._crashes.clear()

    def dispose(self) -> None:
        """Forget all that is still to run."""
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._timers.clear()
        self._crashes.clear()
        self._ready_of.clear()
        self._tasks.clear()
        self.close()
