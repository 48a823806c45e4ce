"""Tasks: a dataset each, split into a half for training and selection, and a half for evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.data_sets import load_split, load_stream, load_views, load_views_split
from manylabel_core.checks import is_sparse

SETS = (
    "emotions", "image", "yeast", "scene", "mfeat", "enron", "corel5k", "rcv1sub1", "bibtex", "tmc2007_500", "debtags",
    "delicious",
)  # fmt: skip
"""Sets of `streams` that are not generated, small ones first."""
OF_VIEWS = ("corel5k_inria", "3sources_mv")
"""Additional sets with several views."""
VIEWS = ("emotions", "yeast", "scene", "mfeat", *OF_VIEWS)

Matrix = NDArray[Any]


def taken(X: Any, rows: NDArray[np.int64]) -> Any:
    """Return rows of a matrix, sparse ones with 32-bit indices, because some learners accept only these."""
    part = X[rows]
    if is_sparse(part):
        part.indices, part.indptr = part.indices.astype(np.int32), part.indptr.astype(np.int32)
    return part


class Problem(NamedTuple):
    """Training rows, shape (n_samples, n_features), dense or CSR, their labels, and rows to score.

    `views` has the columns of each view; it is empty if there is only one view.
    """

    X: Any
    Y: NDArray[np.int8]
    other: Any
    views: dict[str, NDArray[np.int64]]

    def part(self, learnt: NDArray[np.int64], held: NDArray[np.int64]) -> Problem:
        """Return a problem with some of the training rows to learn and others to score."""
        return Problem(taken(self.X, learnt), self.Y[learnt], taken(self.X, held), self.views)


class Task(NamedTuple):
    """Dataset by name: the problem, and the true labels of the scored rows."""

    name: str
    problem: Problem
    truth: NDArray[np.int8]

    @property
    def dense(self) -> bool:
        return not is_sparse(self.problem.X)

    def __str__(self) -> str:
        rows, labels = self.problem.Y.shape
        kind = "dense" if self.dense else "sparse"
        return f"{rows:,} + {len(self.truth):,} rows, {self.problem.X.shape[1]:,} features ({kind}), {labels} labels"


def load_task(folder: Path, name: str) -> Task:
    """Return a dataset with its official split, else the halves of a random order (debtags: in file order)."""
    if name in OF_VIEWS:
        views, Y = load_views(folder, name)
        return _task(name, *_side_by_side(views), Y, load_views_split(folder, name))
    X, Y = load_stream(folder, name)
    Y = Y.toarray() if is_sparse(Y) else Y
    return _task(name, X, _columns(folder, name), np.asarray(Y, dtype=np.int8), load_split(folder, name))


def _task(name: str, X: Any, views: dict[str, Matrix], Y: Matrix, split: tuple[Matrix, Matrix] | None) -> Task:
    X = sp.csr_array(X) if is_sparse(X) else np.asarray(X, dtype=np.float64)
    train, test = split or _halves(name, len(Y))
    return Task(name, Problem(taken(X, train), Y[train], taken(X, test), views), Y[test])


def _halves(name: str, n_samples: int) -> tuple[Matrix, Matrix]:
    order = np.arange(n_samples) if name == "debtags" else np.random.default_rng(0).permutation(n_samples)
    return order[: n_samples // 2], order[n_samples // 2 :]


def _columns(folder: Path, name: str) -> dict[str, Matrix]:
    """Return the columns of each view of a set whose features are concatenated."""
    if name not in VIEWS:
        return {}
    if name == "scene":  # 49 means and 49 variances of blocks of the image for each colour
        return {part: np.flatnonzero(np.arange(294) // 49 % 3 == at) for at, part in enumerate("LUV")}
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        if name == "mfeat":
            parts = [part for part in sorted(file) if part.startswith("X_")]
            ends = np.cumsum([0, *(file[part].shape[1] for part in parts)])
            return {part[2:]: np.arange(ends[at], ends[at + 1]) for at, part in enumerate(parts)}
        if "view_id" not in file:
            return {}
        return {str(view): np.flatnonzero(file["view_id"] == at) for at, view in enumerate(file["view_names"])}


def _side_by_side(views: dict[str, Any]) -> tuple[Any, dict[str, Matrix]]:
    ends = np.cumsum([0, *(view.shape[1] for view in views.values())])
    columns = {part: np.arange(ends[at], ends[at + 1]) for at, part in enumerate(views)}
    if any(is_sparse(view) for view in views.values()):
        return sp.csr_array(sp.hstack(list(views.values()), format="csr")), columns
    return np.hstack(list(views.values())), columns
