"""Queue of the updates of a model."""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from manylabel_service.environment import time
from manylabel_service.errors import QueueFull, ServiceError
from manylabel_service.online.state.apply import ApplyResult
from manylabel_service.online.state.dry_run import Checked, SizeDelta
from manylabel_service.online.state.log_entries import Change
from manylabel_service.settings import Settings
from manylabel_service.work_rate import GRACE_SHARE, WorkRate

C = TypeVar("C", bound=Change)

GROUP_EXAMPLES = 10_000
FIRST_EXAMPLES = 256
GROUP_SHARE = 0.125
"""Maximum time to learn the examples of one append, as a share of the longest allowed wait. GROUP_EXAMPLES is the
maximum number of examples of an append; FIRST_EXAMPLES is the maximum before the speed of learning is known. A single
entry may have more. The server responds to all updates of a group after the last one is learnt."""

RETRY_SECONDS = 1.0
"""Value of Retry-After for a full queue in seconds."""


@dataclass(slots=True, eq=False)
class Pending(Generic[C]):
    """Admitted change that waits for its response: its log entry, and the result of the dry run of an update.

    Attributes
    ----------
    refused : errors of the examples rejected separately, by index; `change` is without them.
    growth : growth of the model by the update.
    deadline : time of the queue's clock; if earlier changes are not complete by then, the change is rejected.
    result : result, once the change is queued.
    """

    change: C
    payload: bytes
    checked: Checked | None = None
    refused: Mapping[int, ServiceError] = field(default_factory=dict)
    deadline: float = math.inf
    growth: SizeDelta = field(init=False)
    result: "asyncio.Future[ApplyResult]" = field(init=False)

    def __post_init__(self) -> None:
        self.growth = SizeDelta() if self.checked is None else self.checked.growth


MAX_BYTES = 2**28
"""Maximum bytes of queued examples per model."""

TIMED_EXAMPLES = 64
"""Minimum number of examples of a group whose time is measured; smaller groups mostly measure the append."""


class UpdateQueue:
    """Queue of the updates of one model, from admission to response.

    Parameters
    ----------
    model_name : name for messages.
    settings : of the server.
    clock : returns the time in seconds.

    Attributes
    ----------
    growth : growth of the model by all waiting and running updates.
    payload_bytes : bytes of the log entries of these updates.
    """

    def __init__(self, model_name: str, settings: Settings, clock: Callable[[], float] | None = None) -> None:
        self._name = model_name
        self._max_examples = settings.limits.max_queue_examples
        self._max_seconds = settings.max_queue_wait_seconds
        self._clock = clock or time.monotonic
        self._rate = WorkRate(TIMED_EXAMPLES, self._clock)
        self._waiting: deque[Pending[Any]] = deque()
        self._wake = asyncio.Event()
        self.growth = SizeDelta()
        self.payload_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def examples(self) -> int:
        """Number of examples in waiting and running updates."""
        return self.growth.examples

    @property
    def seconds(self) -> float:
        """Return the estimated wait of an update, from the recent speed of the model."""
        return self._rate.seconds(self.growth.examples)

    def check_wait(self) -> None:
        """Raise QueueFull if a new update would exceed the maximum wait."""
        seconds = self.seconds
        if seconds > self._max_seconds:
            raise self._too_long(seconds - self._max_seconds)

    async def put(self, pending: Pending[Any]) -> ApplyResult:
        """Put a change into the queue, and wait for its result. Raises QueueFull."""
        now = self._clock()
        pending.deadline = max(pending.deadline, now + GRACE_SHARE * self._max_seconds)
        if (seconds := self.seconds) > pending.deadline - now:
            raise self._too_long(seconds - (pending.deadline - now))
        self._check_room(pending.growth.examples, len(pending.payload))
        pending.result = asyncio.get_running_loop().create_future()
        self._waiting.append(pending)
        self.growth = self.growth.plus(pending.growth)
        self.payload_bytes += len(pending.payload)
        self._wake.set()
        return await pending.result

    def _check_room(self, n_examples: int, n_bytes: int) -> None:
        for waiting, more, limit, unit in (
            (self.growth.examples, n_examples, self._max_examples, "examples"),
            (self.payload_bytes, n_bytes, MAX_BYTES, "bytes"),
        ):
            if waiting and waiting + more > limit:
                raise QueueFull(self._name, f"{limit:,} {unit}", RETRY_SECONDS)

    def wake(self) -> None:
        """Make `wait` return."""
        self._wake.set()

    async def wait(self, seconds: float | None) -> None:
        """Wait for an update, for `wake`, or at most `seconds`."""
        self._wake.clear()
        # A timer, because asyncio.wait_for would create a task per update.
        timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, self._wake.set)
        await self._wake.wait()
        if timer is not None:
            timer.cancel()

    def take_group(self) -> list[Pending[Any]]:
        """Return the updates for the next append, oldest first; the caller must resolve them. Reject updates that
        waited too long."""
        group: list[Pending[Any]] = []
        taken, room = 0, min(GROUP_EXAMPLES, self._rate.amount(GROUP_SHARE * self._max_seconds) or FIRST_EXAMPLES)
        now = self._clock()
        while self._waiting and (not group or taken + self._waiting[0].growth.examples <= room):
            pending = self._waiting.popleft()
            if now + self._rate.seconds(taken) > pending.deadline:
                self._answer([pending], [ApplyResult(self._too_long(self._rate.seconds(self.examples)))])
            else:
                group.append(pending)
                taken += pending.growth.examples
        self._rate.begin(taken)
        return group

    def _too_long(self, retry_after: float) -> QueueFull:
        return QueueFull(self._name, f"{self._max_seconds:g} s of learning", round(retry_after, 1))

    def answer(self, group: Sequence[Pending[Any]], results: Sequence[ApplyResult]) -> None:
        """Resolve the requests of the group that was taken last."""
        self._rate.end(sum(result.learnt for result in results))
        self._answer(group, results)

    def _answer(self, group: Sequence[Pending[Any]], results: Sequence[ApplyResult]) -> None:
        for pending, result in zip(group, results, strict=True):
            self.growth = self.growth.minus(pending.growth)
            self.payload_bytes -= len(pending.payload)
            if not pending.result.done():  # done: the client disconnected, and its request was cancelled
                pending.result.set_result(result)

    def refuse(self, reason: Callable[[], ServiceError]) -> None:
        """Fail all waiting requests with an error."""
        waiting = list(self._waiting)
        self._waiting.clear()
        self._answer(waiting, [ApplyResult(reason()) for _ in waiting])
