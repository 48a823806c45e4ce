"""Output of benchmarks: medians with their ranges, targets, and plots."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Return the median of runs, with the smallest and the largest value."""
    return f"{statistics.median(values):{form}} ({min(values):{form}}..{max(values):{form}})"


def verdict(value: float, at_least: float | None = None, at_most: float | None = None) -> str:
    """Return the target of a figure, and whether the figure meets it; empty without a target."""
    aim = at_least if at_most is None else at_most
    if aim is None:
        return ""
    return f"aim {aim:,g}: {'met' if (value >= aim if at_most is None else value <= aim) else 'MISSED'}"


def save_plot(figure: Any, path: Path, **options: Any) -> None:
    """Write a figure of matplotlib to a file, and print its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, **({"metadata": {"Date": None}} if path.suffix == ".svg" else {"dpi": 110}), **options)
    print(f"  wrote {path}")
