"""Exponential backoff between two attempts.

The package tenacity would save few lines, and takes 34 ms to import.
"""

from collections.abc import Iterator


def pauses(least: float, most: float) -> Iterator[float]:
    """Yield the seconds to wait before each next attempt: `least` at first, doubled each time, up to `most`."""
    while True:
        yield least
        least = min(2 * least, most)
