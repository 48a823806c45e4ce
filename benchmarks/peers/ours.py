"""Contenders of this project. Features are scaled like the default of jobs (`scaling="auto"`)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers.contenders import Contender, timed
from benchmarks.peers.selection import SEED, Setting
from benchmarks.peers.tasks import Problem, Task
from manylabel_core import FALT, SALT
from manylabel_core.batch import LSAMML, M3L, MLRL, PrBR, PrML

COSTS = (1.0, 0.1, 10.0, 0.3, 3.0, 0.03)
WIDTHS = ("scale", 0.5, 2.0)
"""Values of gamma of the RBF kernel; rows have about unit norm."""
LAMBDAS = (0.1, 0.03, 0.3, 0.01)
"""Values of lam of MLRL, times the number of rows."""
RHOS = (0.1, 0.3, 0.03, 1.0, 3.0)
PASSES = (1, 3, 10)


def batch(estimator: Callable[..., Any], **fixed: Any) -> Callable[[Problem, Setting], Any]:
    """Return a trainer without thresholds: those of all contenders are chosen by one rule."""

    def fit(problem: Problem, setting: Setting) -> Any:
        params = {**fixed, **setting}
        if "lam_n" in params:
            params["lam"] = params.pop("lam_n") / len(problem.Y)
        return estimator(scaling="auto", optimise="none", **params).fit(problem.X, problem.Y).label_scores

    return fit


def online(learner: Callable[..., Any]) -> Callable[[Problem, Setting], Any]:
    """Return an online learner that learns the rows several times, each time in another order."""

    def fit(problem: Problem, setting: Setting) -> Any:
        random, model = np.random.default_rng(SEED), learner()
        for _ in range(setting["passes"]):
            order = random.permutation(len(problem.Y))
            model.partial_fit(problem.X[order], problem.Y[order])
        return model.decision_function

    return fit


def views(problem: Problem, setting: Setting) -> Any:
    def split(X: Any) -> dict[str, Any]:
        return {name: X[:, columns] for name, columns in problem.views.items()}

    model = LSAMML(optimise="none", scaling="none", **setting).fit(split(problem.X), problem.Y)
    return lambda X: model.label_scores(split(X))


def _grid(**values: Any) -> Callable[[Task], list[Setting]]:
    """Return settings that vary one parameter at a time; the first values are the default."""
    settings: list[Setting] = [{}]
    for name, found in values.items():
        settings = [{**setting, name: value} for value in found for setting in settings]
    return lambda task: settings


def _view_settings(task: Task) -> list[Setting]:
    kernels: list[Setting] = [{"kernel": "linear", "scaling": "auto"}]
    return kernels + ([{"kernel": "rbf", "scaling": "standard"}] if task.dense else [])


def _priced(rho: float) -> Setting:
    return {"rho": rho, "C": 3 * rho}


def _sparse(task: Task) -> str:
    return "" if task.dense else "the kernel is for dense rows"


def _ours(name: str, settings: Any, fit: Any, unfit: Any = None) -> Contender:
    return Contender(name, "manylabel", settings, timed(fit), ours=True, **({"unfit": unfit} if unfit else {}))


OURS = (
    _ours("M3L, linear", _grid(C=COSTS), batch(M3L)),
    _ours("M3L, RBF", _grid(C=COSTS, gamma=WIDTHS), batch(M3L, kernel="rbf"), _sparse),
    _ours("MLRL, linear", _grid(lam_n=LAMBDAS), batch(MLRL)),
    _ours("MLRL, RBF", _grid(lam_n=LAMBDAS), batch(MLRL, kernel="rbf"), _sparse),
    _ours("PrML", lambda task: [_priced(rho) for rho in RHOS], batch(PrML)),
    _ours("PrBR", lambda task: [_priced(rho) for rho in RHOS], batch(PrBR)),
    _ours("LSA-MML", _view_settings, views, lambda task: "" if task.problem.views else "there are no views"),
    _ours("FALT", _grid(passes=PASSES), online(FALT)),
    _ours("SALT", _grid(passes=PASSES), online(SALT)),
)
