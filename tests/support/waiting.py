"""Waiting for observable states, with and without an event loop."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar, cast

T = TypeVar("T")

DEADLINE_SECONDS = 120.0
"""Only a test that fails waits this long: nothing is measured with it, and a busy machine may take a while."""
PAUSES_SECONDS = 0.001, 0.032
"""Between two looks: the first pause, which doubles up to the last."""


def eventually(
    holds: Callable[[], T],
    seconds: float = DEADLINE_SECONDS,
    *,
    ignore: type[Exception] | tuple[type[Exception], ...] = (),
    otherwise: Callable[[], str] = str,
) -> T:
    """Return the first true answer of `holds`, which is asked again and again.

    Parameters
    ----------
    holds : returns something true once the state is reached.
    seconds : until the test fails.
    ignore : exceptions of `holds` that mean "not yet".
    otherwise : returns what else to say when the test fails.
    """
    ends = time.monotonic() + seconds
    pause = PAUSES_SECONDS[0]
    while True:
        last: object
        try:
            if answer := holds():
                return answer
            last = answer
        except ignore as error:
            last = error
        if time.monotonic() > ends:
            _fail(seconds, last, otherwise())
        time.sleep(pause)
        pause = min(2 * pause, PAUSES_SECONDS[1])


async def eventually_async(
    holds: Callable[[], T | Awaitable[T]],
    seconds: float = DEADLINE_SECONDS,
    *,
    ignore: type[Exception] | tuple[type[Exception], ...] = (),
    otherwise: Callable[[], str] = str,
) -> T:
    """Return the first true answer of `holds`, a function or a coroutine function, while the event loop goes on.

    Parameters are those of `eventually`.
    """
    ends = time.monotonic() + seconds
    pause = PAUSES_SECONDS[0]
    while True:
        last: object
        try:
            asked = holds()
            if answer := cast(T, await asked if inspect.isawaitable(asked) else asked):
                return answer
            last = answer
        except ignore as error:
            last = error
        if time.monotonic() > ends:
            _fail(seconds, last, otherwise())
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSES_SECONDS[1])


def _fail(seconds: float, last: object, otherwise: str) -> NoReturn:
    raise AssertionError(f"not within {seconds:g} s, the last answer was {last!r}. {otherwise}") from (
        last if isinstance(last, Exception) else None
    )
