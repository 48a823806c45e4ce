"""Exponential backoff between two attempts.

tenacity would save few lines, and takes 34 ms to import.
"""

from collections.abc import Iterator


def pauses(least: float, most: float) -> Iterator[float]:
    """Yield the seconds before each further attempt: `least`, doubled each time, up to `most`."""
    while True:
        yield least
        least = min(2 * least, most)
