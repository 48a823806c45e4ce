"""Updates are refused if they would wait too long at the recent rate of learning."""

import asyncio
import math
from typing import Any

import pytest
from tests.support.limits import settings_of

from manylabel_service.errors import QueueFull
from manylabel_service.online.state.apply import ApplyResult
from manylabel_service.online.state.dry_run import Checked, SizeDelta
from manylabel_service.online.state.log_entries import Update
from manylabel_service.online.updates import update_queue
from manylabel_service.online.updates.update_queue import TIMED_EXAMPLES, Pending, UpdateQueue
from manylabel_service.work_rate import SLOWER


class Queue:
    """A queue whose model learns as fast as a test says, on a clock of its own."""

    def __init__(self, **settings: Any) -> None:
        self.now = 0.0
        self.queue = UpdateQueue("m", settings_of(**{"max_queue_wait_seconds": 2.0, **settings}), lambda: self.now)
        self._tasks: list[asyncio.Task[ApplyResult]] = []

    async def put(self, n_examples: int, seconds: float = math.inf, payload: bytes = b"") -> asyncio.Task[ApplyResult]:
        """Queue an update of some examples with a timeout; raise QueueFull if it would wait longer."""
        update = Update((), None, False, None, None, False)
        checked = Checked(layout=None, growth=SizeDelta(examples=n_examples), known=None, settled=True)
        task = asyncio.create_task(self.queue.put(Pending(update, payload, checked, deadline=self.now + seconds)))
        await asyncio.sleep(0)
        if task.done():
            task.result()
        self._tasks.append(task)
        return task

    def learn(self, examples_a_second: float) -> None:
        """Have the next group learnt."""
        group = self.queue.take_group()
        n_examples = [pending.growth.examples for pending in group]
        self.now += sum(n_examples) / examples_a_second
        self.queue.answer(group, [ApplyResult(None, learnt=n) for n in n_examples])


async def test_an_update_larger_than_the_queue_is_accepted_alone() -> None:
    queue = Queue(max_queue_examples=3)
    await queue.put(5)
    with pytest.raises(QueueFull, match="3 examples"):
        await queue.put(1)
    queue.learn(1000)
    await queue.put(1)


async def test_learnt_updates_free_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_queue, "MAX_BYTES", 100)
    queue = Queue()
    for _ in range(3):
        await queue.put(1, payload=bytes(60))
        with pytest.raises(QueueFull, match="100 bytes"):
            await queue.put(1, payload=bytes(60))
        queue.learn(1000)
    assert (queue.queue.payload_bytes, queue.queue.examples) == (0, 0)


async def test_no_update_is_refused_before_the_rate_is_known() -> None:
    queue = Queue()
    for _ in range(90):
        await queue.put(1000)


async def test_an_update_that_would_wait_too_long_is_refused_before_it_is_read() -> None:
    queue = Queue()
    await queue.put(1000)
    queue.learn(1000)
    assert queue.queue.seconds == 0
    await queue.put(2000)
    assert queue.queue.seconds == 2.0
    queue.queue.check_wait()
    await queue.put(1000)
    with pytest.raises(QueueFull, match="2 s of learning") as refused:
        queue.queue.check_wait()
    assert refused.value.retry_after == 1.0


async def test_an_update_is_refused_when_it_has_waited_too_long() -> None:
    """The time that it has waited counts, and the updates before it in its group, not the first estimate."""
    queue = Queue()
    await queue.put(1000)
    queue.learn(1000)
    waiting = [await queue.put(200, seconds=2.0) for _ in range(11)]
    with pytest.raises(QueueFull, match="2 s of learning"):
        await queue.put(1, seconds=2.0)
    endless = await queue.put(1)
    while queue.queue:
        queue.learn(500)  # half as fast as it was
        await asyncio.sleep(0)
    assert isinstance(endless, asyncio.Task)
    assert (await endless).learnt == 1
    results = [(await task).answer for task in waiting]
    assert [isinstance(answer, QueueFull) for answer in results] == [False] * 6 + [True] * 5
    assert queue.queue.examples == 0


async def test_an_update_that_arrived_slowly_is_learnt_if_the_queue_is_empty() -> None:
    queue = Queue()
    late = await queue.put(1000, seconds=-60.0)
    queue.learn(1000)
    assert (await late).learnt == 1000


async def test_a_group_takes_at_most_an_eighth_of_the_wait_to_learn() -> None:
    queue = Queue()
    await queue.put(1000)
    queue.learn(1000)
    for _ in range(10):
        await queue.put(50)
    assert len(queue.queue.take_group()) == 5


async def test_the_time_since_a_group_began_reduces_the_wait() -> None:
    queue = Queue()
    await queue.put(1000)
    queue.learn(1000)
    await queue.put(2000)
    queue.queue.take_group()
    await queue.put(1000)
    assert queue.queue.seconds == 3.0
    queue.now += 1.5
    assert queue.queue.seconds == 1.5
    queue.now += 10.0
    assert queue.queue.seconds == 1.0, "the group is overdue, and may be done at any moment"


async def test_one_slow_group_does_not_close_the_queue() -> None:
    queue = Queue()
    await queue.put(1000)
    queue.learn(1000)
    await queue.put(1000)
    queue.learn(1)  # the disk was busy
    await queue.put(1000)
    assert queue.queue.seconds == pytest.approx(1 / SLOWER)


async def test_the_estimate_follows_a_lower_rate() -> None:
    queue = Queue()
    await queue.put(1000)
    queue.learn(1000)
    for _ in range(20):
        await queue.put(1000)
        queue.learn(100)
    await queue.put(1000)
    assert queue.queue.seconds == pytest.approx(10.0)


async def test_small_groups_do_not_count_for_the_rate() -> None:
    """Most of their time is the append, which a larger group shares."""
    queue = Queue()
    for _ in range(5):
        await queue.put(TIMED_EXAMPLES - 1)
        queue.learn(1)
    assert queue.queue.seconds == 0
    await queue.put(1000)
    assert queue.queue.seconds == 0


async def test_errors_do_not_count_for_the_rate() -> None:
    queue = Queue()
    await queue.put(1000)
    queue.learn(1000)
    await queue.put(1000)
    group = queue.queue.take_group()
    queue.now += 1e-3
    queue.queue.answer(group, [ApplyResult(QueueFull("m", "", 1))])
    await queue.put(1000)
    assert queue.queue.seconds == 1.0
