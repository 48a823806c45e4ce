"""Event loop in virtual time: which process runs next, and when, follows from a seed.

Each callback belongs to a process, named in its context; tasks, timers and callbacks inherit the process of their
creator. Callbacks of one process run in the order in which they became ready, as in an asyncio loop of its own; the
seed chooses the order between processes. Work for a thread runs at once, after a delay from the seed. A crashed process
never runs again: its callbacks, tasks and timers are dropped, between any two callbacks, so at any await.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from math import inf
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


class _Handle:
    """Callback of a process, like `asyncio.TimerHandle`."""

    __slots__ = ("args", "callback", "context", "process", "stopped", "time")

    def __init__(
        self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context | None, time: float
    ) -> None:
        self.callback, self.args, self.time = callback, args, time
        self.context = copy_context() if context is None else context
        self.process = self.context.get(PROCESS, "")
        self.stopped = False

    def cancel(self) -> None:
        self.stopped = True
        self.args = ()

    def cancelled(self) -> bool:
        return self.stopped

    def when(self) -> float:
        return self.time


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
        self._queues: dict[str, deque[_Handle]] = {}
        self._runnable: list[str] = []
        """Names of the processes with callbacks that are ready, except paused ones."""
        self._timers: list[tuple[float, float, int, _Handle]] = []
        self._n_timers = 0
        self.resumed: dict[str, float] = {}
        self._paused: dict[str, float] = {}
        self._due = inf
        """Time of the next timer, or of the end of a pause; a timer that was stopped may be earlier."""
        self._crashes: dict[str, tuple[int, Callable[[], None]]] = {}
        self._tasks: list[tuple[str, asyncio.Task[Any]]] = []
        """All tasks with their processes, so that coroutines of crashed processes are not closed, and so not run."""
        self.set_task_factory(self._task)

    # -- of an event loop -----------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        handle = _Handle(callback, args, context, when)
        self._n_timers += 1
        heappush(self._timers, (when, self.rng.random(), self._n_timers, handle))
        if when < self._due:
            self._due = when
        return handle

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        handle = _Handle(callback, args, context, self._now)
        self._add(handle)
        return handle

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
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

    def _run_once(self) -> None:
        """Run callbacks until the loop is stopped."""
        runnable, queues, random = self._runnable, self._queues, self.rng.random
        while not self._stopping:  # type: ignore[attr-defined]
            while not runnable:
                self._advance()
            at = int(random() * len(runnable)) if len(runnable) > 1 else 0
            name = runnable[at]
            queue = queues[name]
            handle = queue.popleft()
            if not queue:
                runnable[at] = runnable[-1]
                runnable.pop()
            if not handle.stopped:
                self._run(name, handle)

    def _run(self, name: str, handle: _Handle) -> None:
        self.steps += 1
        self._now += STEP_SECONDS
        if self.steps > MAX_STEPS:
            raise Stuck(f"more than {MAX_STEPS:,} steps")
        try:
            handle.context.run(handle.callback, *handle.args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.call_exception_handler({"message": f"exception in {handle.callback}", "exception": error})
        if self.ended:
            raise Ended
        if self._crashes and name in self._crashes:
            left, then = self._crashes.pop(name)
            if left > 1:
                self._crashes[name] = left - 1, then
            else:
                self.crash(name)
                then()
        if self._due <= self._now:
            self._release()

    def _add(self, handle: _Handle) -> None:
        name = handle.process
        if name in self.crashed:
            return
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = deque()
        if not queue and name not in self._paused:
            self._runnable.append(name)
        queue.append(handle)

    def _release(self) -> None:
        """Make timers ready that are due, and continue processes whose pause is over."""
        timers, now = self._timers, self._now
        while timers and timers[0][0] <= now:
            handle = heappop(timers)[-1]
            if not handle.stopped:
                self._add(handle)
        if self._paused:
            for name in [name for name, until in self._paused.items() if until <= now]:
                self._resume(name)
        self._note_due()

    def _note_due(self) -> None:
        """Note the time of the next timer, or of the end of a pause."""
        self._due = self._timers[0][0] if self._timers else inf
        if self._paused:
            self._due = min(self._due, *self._paused.values())

    def _resume(self, name: str) -> None:
        del self._paused[name]
        if self._queues.get(name):
            self._runnable.append(name)

    def _advance(self) -> None:
        """Go on to the next timer, or the end of a pause."""
        timers = self._timers
        while timers and timers[0][-1].stopped:
            heappop(timers)
        self._note_due()
        if self._due == inf:
            raise Stuck("deadlock: nothing is ready, and there is no timer")
        self._now = max(self._now, self._due)
        self._release()

    def _task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, context: Any = None) -> asyncio.Task[Any]:
        task = asyncio.Task(coroutine, loop=loop, context=context)
        self._tasks.append((PROCESS.get() if context is None else context.get(PROCESS, ""), task))
        if len(self._tasks) % 1_000 == 0:
            self._tasks = [each for each in self._tasks if not each[1].done()]
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
        self._queues.pop(name, None)
        self._paused.pop(name, None)
        if name in self._runnable:
            self._runnable.remove(name)

    def coroutines_of(self, name: str) -> list[Any]:
        """Return the suspended coroutines of the tasks of a process."""
        return [task.get_coro() for of, task in self._tasks if of == name and not task.done()]

    def pause(self, name: str, seconds: float) -> None:
        """Let a process stand still for some time, as if it were suspended."""
        self._paused[name] = self.resumed[name] = self._now + seconds
        self._due = min(self._due, self._paused[name])
        if name in self._runnable:
            self._runnable.remove(name)

    def calm(self) -> None:
        """End all pauses, and plan no more crashes."""
        for name in list(self._paused):
            self._resume(name)
        self._crashes.clear()

    def dispose(self) -> None:
        """Forget all that is still to run."""
        for _, task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._timers.clear()
        self._crashes.clear()
        self._queues.clear()
        self._runnable.clear()
        self._tasks.clear()
        self.close()
