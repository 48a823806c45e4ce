"""Exponential backoff between two attempts.

tenacity would replace few lines, and takes 34 ms to import.
"""

from collections.abc import Iterator


def pauses(least: float, most: float) -> Iterator[float]:
    """Yield the seconds before each further attempt: `least`, then twice as many each time, at most `most`."""
    while True:
        yield least
        least = min(2 * least, most)
