"""Clocks and randomness of this process, which a simulation replaces.

A module that imports `time`, `random` or `secrets` from here can also run in a simulation, with virtual time and a
random seed.
"""

import random as _random
import secrets as _secrets
import time as _time
from collections.abc import Callable, Sequence
from typing import Any


class Clocks:
    """Functions of the module `time`."""

    def __init__(self) -> None:
        self.time: Callable[[], float] = _time.time
        self.time_ns: Callable[[], int] = _time.time_ns
        self.monotonic: Callable[[], float] = _time.monotonic
        self.perf_counter: Callable[[], float] = _time.perf_counter


class Random:
    """Functions of the module `random`."""

    def __init__(self) -> None:
        self.random: Callable[[], float] = _random.random


class Secrets:
    """Functions of the module `secrets`."""

    def __init__(self) -> None:
        self.choice: Callable[[Sequence[Any]], Any] = _secrets.choice
        self.token_bytes: Callable[[int], bytes] = _secrets.token_bytes
        self.token_hex: Callable[[int], str] = _secrets.token_hex


time, random, secrets = Clocks(), Random(), Secrets()
