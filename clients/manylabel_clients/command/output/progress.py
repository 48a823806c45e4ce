"""Progress bars of a fit, here or on a server, and of a server that compiles functions."""

import math
from types import TracebackType
from typing import Self

from manylabel_clients.http.errors import Compiling
from manylabel_clients.progress import ProgressBar, counted


def fold_text(fold: int | None, folds: int | None) -> str:
    """Return a description of the fold that a fit omits, if any."""
    return f"fold {fold} of {folds}, " if fold else ""


class FitBar:
    """Progress bar of a fit, and of a search before it.

    The bar of a fit is full when its duality gap has fallen to `tol`; the scale is logarithmic.

    Parameters
    ----------
    visible : whether to show the bar.
    tol : tolerance of the fit; 0 if it is unknown.
    """

    def __init__(self, visible: bool, tol: float) -> None:
        self._bar = ProgressBar(visible)
        self._tol = tol
        self._first_gap: float | None = None
        self._fold = ""
        self._trials = ""

    def update(self, iteration: int, gap: float | None, seconds: float) -> None:
        """Show the current progress of the fit."""
        gap = gap if gap is not None and math.isfinite(gap) and gap > 0 else None
        self._first_gap = gap if self._first_gap is None else self._first_gap
        gap_text = "" if gap is None else f", gap {gap:.2g}"
        self._bar.draw(
            self._share(gap), f"{self._trials}{self._fold}iteration {iteration:,}{gap_text}, {seconds:.0f} s"
        )

    def update_fold(self, fold: int | None, folds: int | None) -> None:
        """Set the fold that the fit omits; None for none."""
        self._fold = fold_text(fold, folds)

    def update_trials(self, done: int, total: int, best: float | None) -> None:
        """Set the number of finished trials of a search, and the best score so far."""
        self._trials = f"trial {done} of {total}, " + ("" if best is None else f"best {best:.4f}, ")

    def print(self, text: str) -> None:
        """Print a permanent line above the bar."""
        self._bar.print(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.clear()

    def _share(self, gap: float | None) -> float:
        first = self._first_gap
        if first is None or gap is None or not 0 < self._tol < first:
            return 0.0
        return min(1.0, max(0.0, math.log(first / gap) / math.log(first / self._tol)))


class CompilingBar:
    """Progress bar of a server that compiles functions. Without a terminal, one line is printed instead."""

    def __init__(self) -> None:
        self._bar = ProgressBar()
        self._told = False

    def draw(self, compiling: Compiling) -> None:
        """Show the progress; the first call prints that the server compiles functions."""
        if not self._told:
            self._told = True
            self._bar.print(f"It compiles {compiling.total:,} functions, once on this machine.")
        self._bar.draw(counted(compiling.done, compiling.total)[0], str(compiling))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.clear()
