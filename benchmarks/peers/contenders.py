"""Contenders: a name, a grid of settings with the default first, and a function that fits a setting and scores rows."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.selection import Run, Scored, Setting
from benchmarks.peers.tasks import Problem, Task


def always(task: Task) -> str:
    return ""


@dataclass(frozen=True)
class Contender:
    """Learner in the comparison.

    Attributes
    ----------
    settings : callable
        Returns the grid for a task.
    unfit : callable
        Returns the reason why it cannot run on a task; empty if it can.
    package : str
        Distribution that contains it.
    ours : bool
    needs : str
        Missing option or installation; empty if it can run.
    """

    name: str
    package: str
    settings: Callable[[Task], list[Setting]]
    run: Run
    unfit: Callable[[Task], str] = always
    ours: bool = False
    needs: str = ""


def timed(fit: Callable[[Problem, Setting], Callable[[Any], Any]]) -> Run:
    """Time a fit, which returns a scoring function, and the scoring."""

    def run(problem: Problem, setting: Setting) -> Scored:
        began = time.process_time()
        score = fit(problem, setting)
        learnt = time.process_time()
        scores = np.asarray(score(problem.other), dtype=np.float64)
        return Scored(scores, learnt - began, time.process_time() - learnt)

    return run


def varying(run: Run) -> Run:
    """Learn only labels that some rows have and some lack; other labels score below or above all others."""

    def run_varying(problem: Problem, setting: Setting) -> Scored:
        Y = problem.Y
        varies = Y.min(axis=0) < Y.max(axis=0)
        if varies.all():
            return run(problem, setting)
        found = run(problem._replace(Y=np.ascontiguousarray(Y[:, varies])), setting)
        return found._replace(scores=_filled(found.scores, Y, varies))

    return run_varying


def _filled(scores: NDArray[np.float64], Y: NDArray[np.int8], varies: NDArray[np.bool_]) -> NDArray[np.float64]:
    lowest, highest = scores.min() - 1.0, scores.max() + 1.0
    filled = np.where(Y[0] > 0, highest, lowest) * np.ones((len(scores), 1))
    filled[:, varies] = scores
    return filled
