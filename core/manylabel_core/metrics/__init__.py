"""Metrics of multi-label predictions: functions for a batch, and `Prequential` for a stream.

All functions take the true labels `Y`, and the predicted labels `P` or the `scores`. `Y` and `P` have 0 and 1 and the
shape (n_samples, n_labels), as ndarrays or sparse; `scores` is an ndarray of that shape without NaN. `sample_weight`
has the weights of the examples. They return a Python float, raise ValueError for invalid input, and process large
matrices in blocks.

All of them, and `Prequential`, follow two conventions:

- **0/0 is 0.** The precision of an example without predicted labels, its recall without true ones, the F1
  of a label that is never true and never predicted, a ranking loss without pairs, an empty mean: all are 0, and
  the example or label counts in the mean. (Only `macro_auc` is a mean over the labels that have a ROC curve,
  and `ndcg_at` over the examples that have a true label.)
- **Ties count against the model.** Where scores tie, the order with the worst result counts. (Only
  `macro_auc` counts a tie as one half, as the area under a curve does.)

scikit-learn has some of these metrics with other conventions. It treats one label as a binary problem, and counts an
example without labels as correct in its average precision. It needs temporary arrays of the size of the whole matrix.
If the definitions agree, the docstring names scikit-learn's function, and tests compare both.

`measures.MEASURES` lists the functions by name. Functions are imported on request, because some load numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manylabel_core.metrics.best import f1_at, ndcg_at, precision_at
    from manylabel_core.metrics.example_based import (
        example_f1,
        f1,
        hamming_loss,
        precision,
        recall,
        subset_accuracy,
    )
    from manylabel_core.metrics.label_based import macro_auc, macro_f1, micro_f1
    from manylabel_core.metrics.prequential import Prequential
    from manylabel_core.metrics.ranking import average_precision, coverage, one_error, ranking_loss

__all__ = [
    "Prequential",
    "average_precision",
    "coverage",
    "example_f1",
    "f1",
    "f1_at",
    "hamming_loss",
    "macro_auc",
    "macro_f1",
    "micro_f1",
    "ndcg_at",
    "one_error",
    "precision",
    "precision_at",
    "ranking_loss",
    "recall",
    "subset_accuracy",
]

_MODULES = {
    **dict.fromkeys(("example_f1", "f1", "hamming_loss", "precision", "recall", "subset_accuracy"), "example_based"),
    **dict.fromkeys(("macro_auc", "macro_f1", "micro_f1"), "label_based"),
    **dict.fromkeys(("Prequential",), "prequential"),
    **dict.fromkeys(("f1_at", "ndcg_at", "precision_at"), "best"),
    **dict.fromkeys(("average_precision", "coverage", "one_error", "ranking_loss"), "ranking"),
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
