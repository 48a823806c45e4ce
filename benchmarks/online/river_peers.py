"""river's multi-output learners on the same streams, in the same process, as far as they get within a time limit.

They are binary relevance and a chain of logistic regressions on standardised features (sparse features unchanged), the
same of Hoeffding trees, and a Hoeffding tree over label sets.
"""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.checks import is_sparse


def _standardised(make: Callable[[], Any]) -> Callable[[bool], Any]:
    def build(dense: bool) -> Any:
        from river import preprocessing

        return preprocessing.StandardScaler() | make() if dense else make()

    return build


def logistic() -> Any:
    """Return a logistic regression of river."""
    from river import linear_model

    return linear_model.LogisticRegression()


def _tree() -> Any:
    from river import tree

    return tree.HoeffdingTreeClassifier()


def multioutput(kind: str, base: Callable[[], Any]) -> Callable[[], Any]:
    """Return a constructor of a multi-output classifier of river."""

    def make() -> Any:
        from river import multioutput as kinds

        return getattr(kinds, kind)(base())

    return make


RIVER: dict[str, Callable[[bool], Any]] = {
    "river PerOutputClassifier, logistic": _standardised(multioutput("PerOutputClassifier", logistic)),
    "river ClassifierChain, logistic": _standardised(multioutput("ClassifierChain", logistic)),
    "river PerOutputClassifier, Hoeffding tree": _standardised(multioutput("PerOutputClassifier", _tree)),
    "river ClassifierChain, Hoeffding tree": _standardised(multioutput("ClassifierChain", _tree)),
    "river MultiClassEncoder, Hoeffding tree": _standardised(multioutput("MultiClassEncoder", _tree)),
}
"""Constructors of learners by name, for dense or sparse examples."""


def predict_and_learn(
    make: Callable[[bool], Any], X: Any, Y: NDArray[np.int8], limit: float
) -> tuple[NDArray[np.int8], float]:
    """Return predictions for the examples reached within `limit` seconds, and the seconds."""
    model, predicted = make(not is_sparse(X)), []
    labels = range(Y.shape[1])
    examples = zip(_dictionaries(X), (dict(enumerate(row)) for row in Y.astype(bool).tolist()), strict=True)
    taken = 0.0
    for x, y in examples:  # conversion to dictionaries is not timed
        began = time.process_time()
        answer = model.predict_one(x) or {}
        model.learn_one(x, y)
        taken += time.process_time() - began
        predicted.append([bool(answer.get(label)) for label in labels])
        if taken > limit:
            break
    return np.array(predicted, dtype=np.int8), taken


def _dictionaries(X: Any) -> Iterator[dict[int, float]]:
    if not is_sparse(X):
        yield from (dict(enumerate(row)) for row in X.tolist())
        return
    for first, last in pairwise(X.indptr):
        yield dict(zip(X.indices[first:last].tolist(), X.data[first:last].tolist(), strict=True))
