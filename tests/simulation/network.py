"""Network between the servers and the disk: it delays calls, loses them or their replies, and is gone at times."""

import asyncio
import random
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from functools import cache
from types import CodeType
from typing import Any, TypeVar

from tests.simulation.coverage import Coverage
from tests.simulation.loop import SimulatedLoop
from tests.simulation.store import Network

from manylabel_service.errors import StorageUnavailable

T = TypeVar("T")

DELAY_SECONDS = 0.001
"""Mean delay of a call, and of its reply."""
TIMEOUT_SECONDS = 0.5
"""Time after which a lost call is reported as an error."""

APPEND = "Logs.append"
"""The call that may arrive twice: the protocol expects of no other that its repetition is harmless."""


@dataclass
class Faults:
    """Faults of a lifetime: the probabilities of each call, while `active`.

    Attributes
    ----------
    lost : the call never reaches the disk; the caller gets an error after the timeout.
    late : as `lost`, but the call reaches the disk after the error.
    unanswered : the call takes effect, and its reply is lost.
    slow : the call or its reply takes up to a second.
    twice : an append takes effect twice.
    counts : number of faults of each kind.
    """

    lost: float = 0.0
    late: float = 0.0
    unanswered: float = 0.0
    slow: float = 0.0
    twice: float = 0.0
    active: bool = True
    counts: dict[str, int] = field(default_factory=dict)

    def draw(self, rng: random.Random, name: str) -> str | None:
        """Return the fault of the next call."""
        if not self.active:
            return None
        chance = rng.random()
        if chance > 1.01 * (self.lost + self.late + self.unanswered + self.slow + self.twice):
            return None
        for fault in ("lost", "late", "unanswered", "slow", "twice"):
            chance -= getattr(self, fault)
            if chance < 0 and (fault != "twice" or name == APPEND):
                self.counts[fault] = self.counts.get(fault, 0) + 1
                return fault
        return None


class FaultyNetwork(Network):
    """Way from one server to the disk.

    Calls of one server overtake each other, as on several connections. A call that was sent may take effect although
    its caller was cancelled or has crashed.

    Attributes
    ----------
    cut : whether the server reaches the disk.
    under_way : names of the calls without a reply, and whether they have taken effect.
    ambush : name of the call after whose start a function is called once, and this function.
    """

    def __init__(
        self, loop: SimulatedLoop, faults: Faults, note: Callable[[str], None], coverage: Coverage | None = None
    ) -> None:
        self.cut = False
        self.under_way: dict[asyncio.Future[Any], tuple[str, bool]] = {}
        self.ambush: tuple[str, Callable[[], None]] | None = None
        self._loop, self._faults, self._note, self._coverage = loop, faults, note, coverage

    async def call(self, step: Callable[[], T]) -> T:
        name = name_of(step.__code__)
        if self.cut:
            self._cover(name, "cut")
            await asyncio.sleep(self._delay(None))
            raise StorageUnavailable("the server does not reach it", heals=True)
        fault = self._faults.draw(self._loop.rng, name)
        reply: asyncio.Future[T] = self._loop.create_future()
        if fault is not None:
            self._note(f"{fault} {name}")
            self._cover(name, fault)
        if fault in ("lost", "late"):
            self._later(TIMEOUT_SECONDS, _fail, reply)
        if fault != "lost":
            seconds = self._delay(fault) + (TIMEOUT_SECONDS if fault == "late" else 0)
            self._later(seconds, self._arrive, step, reply, fault)
        if self.ambush is not None and self.ambush[0] == name:
            (_, spring), self.ambush = self.ambush, None
            spring()
        if self._coverage is None:
            return await reply
        self.under_way[reply] = name, False
        try:
            return await reply
        finally:
            del self.under_way[reply]

    def _arrive(self, step: Callable[[], T], reply: asyncio.Future[T], fault: str | None) -> None:
        error: Exception | None = None
        result: Any = None
        try:
            result = step()
        except Exception as raised:
            error = raised
        if reply in self.under_way:
            self.under_way[reply] = self.under_way[reply][0], True
        if fault == "unanswered":
            self._later(TIMEOUT_SECONDS, _fail, reply)
        elif fault != "late":
            self._later(self._delay(fault), _answer, reply, result, error)
        if fault == "twice":
            self._later(self._delay("slow"), self._arrive, step, self._loop.create_future(), "late")

    def crashed(self) -> None:
        """Note the calls without a reply of a server that has crashed."""
        for name, arrived in self.under_way.values():
            self._cover(name, "crash before the reply" if arrived else "crash before the effect")

    def _cover(self, name: str, fault: str) -> None:
        if self._coverage is not None:
            self._coverage.note_call(name, fault)

    def _delay(self, fault: str | None) -> float:
        return self._loop.rng.expovariate(1 / DELAY_SECONDS) + (self._loop.rng.random() if fault == "slow" else 0.0)

    def _later(self, seconds: float, callback: Callable[..., None], *args: Any) -> None:
        """Call back as the network, which no crash ends."""
        self._loop.call_later(seconds, callback, *args, context=Context())


@cache
def name_of(step: CodeType) -> str:
    """Return the part of the store, and its method, in which a step was made, such as `Logs.append`."""
    return step.co_qualname.partition(".<locals>")[0].removeprefix("_")


def _answer(reply: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if reply.done():
        return
    if error is None:
        reply.set_result(result)
    else:
        reply.set_exception(error)


def _fail(reply: asyncio.Future[Any]) -> None:
    if not reply.done():
        reply.set_exception(StorageUnavailable("it did not answer", heals=True))
