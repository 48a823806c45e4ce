"""Event loop lag: delay of waking a sleeping task."""

import asyncio
import time
from typing import NoReturn

from manylabel_service.telemetry.metrics import Telemetry

SLEEP_SECONDS = 0.02
"""Seconds of a sleep; a stall is measured up to the part of this that had not passed when it began."""


async def measure(telemetry: Telemetry) -> NoReturn:
    """Sleep repeatedly, and count the delay of each wake-up; for a separate task."""
    while True:
        due = time.perf_counter() + SLEEP_SECONDS
        await asyncio.sleep(SLEEP_SECONDS)
        telemetry.woke(max(0.0, time.perf_counter() - due))
