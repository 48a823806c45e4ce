"""Delay of the event loop: how late it wakes a sleeping task."""

import asyncio
import time
from typing import NoReturn

from manylabel_service.telemetry.metrics import Telemetry

SLEEP_SECONDS = 0.02
"""A stall is seen when it ends, whole but for the part of this that had not passed when it began."""


async def measure(telemetry: Telemetry) -> NoReturn:
    """Sleep again and again, and count how late each waking is; for a separate task."""
    while True:
        due = time.perf_counter() + SLEEP_SECONDS
        await asyncio.sleep(SLEEP_SECONDS)
        telemetry.woke(max(0.0, time.perf_counter() - due))
