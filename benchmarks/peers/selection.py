"""Selection rule for all contenders: choice of settings and thresholds inside the training half, and evaluation.

Each setting of a grid is fitted by three-fold cross-validation on the training half. Thresholds are chosen on the
out-of-fold scores, one for all labels or one per label, like in the batch trainers. The setting that is best in
cross-validation of the thresholds is fitted to the whole training half and evaluated on the test half. This is done for
micro-F1 and for macro-F1; the default (the first setting of a grid) is evaluated too, with thresholds for micro-F1.
"""

import resource
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.tasks import Problem, Task
from manylabel_core.batch.decisions.choice import Parts, divided, tune_thresholds, validated_scores
from manylabel_core.batch.decisions.thresholds import value
from manylabel_core.metrics import average_precision, macro_f1, micro_f1, ranking_loss

FOLDS, SEED = 3, 0
TARGETS = ("micro_f1", "macro_f1")
DEFAULT = "default"

Matrix = NDArray[np.float64]
Setting = dict[str, Any]


class Scored(NamedTuple):
    """Scores of the rows, and the CPU seconds to learn and to score."""

    scores: Matrix
    training: float
    prediction: float


Run = Callable[[Problem, Setting], Scored]


class Trial(NamedTuple):
    """Setting with its out-of-fold scores, and the validated metrics with thresholds for each target."""

    setting: Setting
    scores: Matrix
    reached: dict[str, float]
    seconds: float


def processor_seconds() -> float:
    """Return the CPU seconds of this process and its ended children."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def choose_and_measure(task: Task, settings: list[Setting], run: Run, seconds: float) -> dict[str, Any]:
    """Search a grid within the time limit, then evaluate the chosen setting for each target."""
    began, problem = processor_seconds(), task.problem
    true = problem.Y > 0
    parts = divided(len(problem.Y), FOLDS, SEED)
    if not parts:
        raise ValueError("too few rows for folds")
    trials: list[Trial] = []
    for setting in settings:
        spent = processor_seconds() - began
        # Up to three fits to all rows, each half as large again as a fold, follow the search.
        if trials and spent + 2.5 * max(trial.seconds for trial in trials) > seconds:
            break
        trials.append(_trial(problem, true, parts, setting, run))
    chosen = {target: max(trials, key=lambda trial: trial.reached[target]) for target in TARGETS}
    chosen[DEFAULT] = trials[0]
    searched = processor_seconds() - began
    fits: dict[int, Scored] = {}
    measured = {}
    for target, trial in chosen.items():
        if id(trial) not in fits:
            fits[id(trial)] = run(problem, trial.setting)
        cuts = tune_thresholds(trial.scores, true, parts, TARGETS[0] if target == DEFAULT else target)
        measured[target] = {"setting": trial.setting, **_measures(task, fits[id(trial)], cuts)}
    return {
        "measured": measured,
        "searched": round(searched, 3),
        "trials": [[trial.setting, trial.reached, round(trial.seconds, 3)] for trial in trials],
        "left_out": len(settings) - len(trials),
        "seconds": round(processor_seconds() - began, 3),
    }


def _trial(problem: Problem, true: NDArray[np.bool_], parts: Parts, setting: Setting, run: Run) -> Trial:
    began, scores = processor_seconds(), np.empty(true.shape)
    for learnt, held in parts:
        scores[held] = run(problem.part(learnt, held), setting).scores
    reached = {target: value(validated_scores(scores, true, parts, target), true, target) for target in TARGETS}
    return Trial(setting, scores, reached, processor_seconds() - began)


def _measures(task: Task, scored: Scored, cuts: Matrix) -> dict[str, float | None]:
    predicted = (scored.scores > cuts).astype(np.int8)
    found = {
        "micro_f1": micro_f1(task.truth, predicted),
        "macro_f1": macro_f1(task.truth, predicted),
        "ranking_loss": ranking_loss(task.truth, scored.scores),
        "average_precision": average_precision(task.truth, scored.scores),
        "training": scored.training,
        "prediction": scored.prediction,
    }
    return {name: None if np.isnan(number) else round(number, 5) for name, number in found.items()}
