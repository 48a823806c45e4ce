"""Contenders of scikit-learn, LightGBM and CatBoost.

Forests and boosting get unscaled features, linear machines standardised dense features or L2-normalised sparse rows.
Labels are int64: OneVsRestClassifier confuses more than 127 labels of int8.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.peers.contenders import Contender, timed, varying
from benchmarks.peers.selection import SEED, Setting
from benchmarks.peers.tasks import Problem, Task
from manylabel_core.checks import is_sparse

TREES = 300
COSTS = (1.0, 0.1, 0.01, 10.0)


def forest(name: str) -> Callable[[Problem, Setting], Any]:
    """Return a forest for all labels together."""

    def fit(problem: Problem, setting: Setting) -> Any:
        from sklearn import ensemble

        model = getattr(ensemble, name)(TREES, random_state=SEED, **setting)
        model.fit(_features(problem.X), problem.Y.astype(np.int64))

        def score(X: Any) -> Any:
            votes = model.predict_proba(_features(X))
            return np.column_stack([of_label[:, 1] for of_label in (votes if problem.Y.shape[1] > 1 else [votes])])

        return score

    return fit


def machines(problem: Problem, setting: Setting) -> Any:
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    model = make_pipeline(_scaler(problem), OneVsRestClassifier(LinearSVC(random_state=SEED, **setting)))
    return model.fit(problem.X, problem.Y.astype(np.int64)).decision_function


def chain(problem: Problem, setting: Setting) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multioutput import ClassifierChain
    from sklearn.pipeline import make_pipeline

    link = LogisticRegression(solver="liblinear", random_state=SEED, **setting)
    X = sp.csr_matrix(problem.X) if is_sparse(problem.X) else problem.X
    model = make_pipeline(_scaler(problem), ClassifierChain(link, order="random", random_state=SEED))
    model.fit(X, problem.Y.astype(np.int64))
    return lambda other: model.predict_proba(sp.csr_matrix(other) if is_sparse(other) else other)


def light_boosting(problem: Problem, setting: Setting) -> Any:
    from lightgbm import LGBMClassifier

    X = _features(problem.X)
    models = [
        LGBMClassifier(random_state=SEED, n_jobs=1, verbosity=-1, **setting).fit(X, y) for y in problem.Y.T.astype(int)
    ]
    return lambda other: np.column_stack([model.predict_proba(_features(other))[:, 1] for model in models])


def cat_boosting(problem: Problem, setting: Setting) -> Any:
    from catboost import CatBoostClassifier

    fixed = {"loss_function": "MultiLogloss", "random_seed": SEED, "thread_count": 1, "verbose": False}
    model = CatBoostClassifier(**fixed, allow_writing_files=False, **setting)
    model.fit(_features(problem.X), problem.Y.astype(int))
    return lambda other: model.predict_proba(_features(other))


def _features(X: Any) -> Any:
    return sp.csr_matrix(X, dtype=np.float32) if is_sparse(X) else np.asarray(X, dtype=np.float32)


def _scaler(problem: Problem) -> Any:
    from sklearn.preprocessing import Normalizer, StandardScaler

    return Normalizer() if is_sparse(problem.X) else StandardScaler()


def _trees(task: Task) -> list[Setting]:
    """Return settings of forests: defaults, larger leaves, more features per split."""
    return [{}, {"min_samples_leaf": 3}, {"max_features": 0.2}]


def _costs(task: Task) -> list[Setting]:
    return [{"C": cost} for cost in COSTS]


def _light(task: Task) -> list[Setting]:
    return [{}, {"n_estimators": 200, "learning_rate": 0.05, "num_leaves": 15, "colsample_bytree": 0.5}]


def _cat(task: Task) -> list[Setting]:
    return [{"iterations": 300}, {"iterations": 300, "depth": 4}]


def _several(task: Task) -> str:
    return "" if task.problem.Y.shape[1] > 1 else "there is one label"


def _theirs(name: str, package: str, settings: Any, fit: Any) -> Contender:
    return Contender(name, package, settings, varying(timed(fit)), _several)


THEIRS = (
    _theirs("RandomForest", "scikit-learn", _trees, forest("RandomForestClassifier")),
    _theirs("ExtraTrees", "scikit-learn", _trees, forest("ExtraTreesClassifier")),
    _theirs("ClassifierChain, logistic", "scikit-learn", _costs, chain),
    _theirs("OneVsRest, LinearSVC", "scikit-learn", _costs, machines),
    _theirs("LightGBM, per label", "lightgbm", _light, light_boosting),
    _theirs("CatBoost, MultiLogloss", "catboost", _cat, cat_boosting),
)
