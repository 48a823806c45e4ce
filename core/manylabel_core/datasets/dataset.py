"""A dataset in memory: examples with one or several views, their labels, and all names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manylabel_core.datasets import serialisation
from manylabel_core.datasets.label_details import LabelDetails
from manylabel_core.datasets.report import TableReport
from manylabel_core.datasets.serialisation import View
from manylabel_core.records import TextSettings

__all__ = ["SINGLE", "Dataset", "View"]

SINGLE = "x"
"""Name of the view of a dataset with a single view."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples and their labels.

    The values are float32, like those of examples over HTTP: training and prediction use the same numbers.

    Attributes
    ----------
    views : dict of str to ndarray or csr_array, float32, of shape (n_samples, n_features of the view)
        A single view is named ``"x"``. A value that is NaN in an ndarray, or not stored in a csr_array, is missing; a
        stored 0 is a value.
    Y : csr_array of shape (n_samples, n_labels), int8
        1 for each relevant label; no zeros are stored.
    label_names : tuple of str
    feature_names : dict of str to (tuple of str or None)
        By view; None if features are only numbered.
    splits : dict of str to ndarray of int64
        Ascending rows of the splits that the file itself defines, usually "train" and "test".
    labelled : ndarray of shape (n_samples,), bool
        False for rows with unknown labels; their rows of `Y` are empty.
    missing : dict of str to ndarray of shape (n_samples,), bool
        By view, True for rows that lack the view; their values are 0. Views that every row has are omitted.
    text : TextSettings or None
        Text options of the records, used for predictions as well; None if all features are numbers.
    weights : ndarray of shape (n_samples,), float64, or None
        Sample weights, above 0 and at most `manylabel_core.rows.MAX_EXAMPLE_WEIGHT`; None if all are 1.
    label_details : dict of str to dict of str
        Known titles, descriptions and URIs of labels, by label and field.
    report : TableReport or None
        Report of the reader of a table or of JSON lines; None for other files. It is not stored, and a selection of
        rows has none.

    Examples
    --------
    >>> import io
    >>> from manylabel_core.datasets import read_csv
    >>> songs = read_csv(io.BytesIO(b"tempo,rock,jazz\\n120,1,0\\n80,0,1\\n"), label_columns=2)
    >>> songs.X
    array([[120.],
           [ 80.]], dtype=float32)
    >>> songs.Y.toarray()
    array([[1, 0],
           [0, 1]], dtype=int8)
    >>> songs.describe()["cardinality"]
    1.0
    >>> Dataset.from_bytes(songs.to_bytes()).label_names
    ('rock', 'jazz')
    """

    views: dict[str, View]
    Y: sp.csr_array
    label_names: tuple[str, ...]
    feature_names: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    splits: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    labelled: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    missing: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    text: TextSettings | None = None
    weights: NDArray[np.float64] | None = None
    label_details: LabelDetails = field(default_factory=dict)
    report: TableReport | None = None

    def __post_init__(self) -> None:
        if not self.feature_names:
            object.__setattr__(self, "feature_names", dict.fromkeys(self.views))
        if not len(self.labelled):
            object.__setattr__(self, "labelled", np.ones(self.n_rows, dtype=np.bool_))
        object.__setattr__(self, "missing", {name: mask for name, mask in self.missing.items() if mask.any()})
        if self.weights is not None and (self.weights == 1.0).all():
            object.__setattr__(self, "weights", None)

    @property
    def n_rows(self) -> int:
        """Return the number of examples."""
        return int(self.Y.shape[0])

    @property
    def n_labels(self) -> int:
        """Return the number of labels."""
        return int(self.Y.shape[1])

    @property
    def n_features(self) -> int:
        """Return the number of features, of all views together."""
        return sum(int(view.shape[1]) for view in self.views.values())

    @property
    def X(self) -> View:  # noqa: N802 (mathematics keeps its letters)
        """Return the features of all views side by side, of shape (n_samples, n_features); CSR if a view is CSR."""
        views = list(self.views.values())
        if len(views) == 1:
            return views[0]
        dense = [view for view in views if isinstance(view, np.ndarray)]
        if len(dense) == len(views):
            return np.hstack(dense)
        return sp.csr_array(sp.hstack([stored(view) for view in views], format="csr"))

    @property
    def names(self) -> tuple[str, ...] | None:
        """Return the names of the columns of `X`, prefixed with the view (``view.name``) if views share a name; None
        without names.
        """
        listed = [(view, name) for view, names in self.feature_names.items() for name in names or ()]
        if len(listed) < self.n_features:
            return None
        if len({name for _, name in listed}) == len(listed):
            return tuple(name for _, name in listed)
        return tuple(f"{view}.{name}" for view, name in listed)

    def take(self, rows: ArrayLike) -> Dataset:
        """Return the examples at these row numbers (or where a mask is true), in this order, without splits."""
        chosen = np.asarray(rows)
        if not chosen.size:
            chosen = chosen.astype(np.int64)  # numpy cannot infer the type of an empty list
        views = {name: view[chosen] for name, view in self.views.items()}
        names, labelled = dict(self.feature_names), self.labelled[chosen].copy()
        missing = {name: mask[chosen] for name, mask in self.missing.items()}
        weights = None if self.weights is None else self.weights[chosen]
        others = self.text, weights, self.label_details
        return Dataset(views, self.Y[chosen], self.label_names, names, {}, labelled, missing, *others)

    def split(self, name: str | None = None) -> Dataset:
        """Return a split of the dataset; None or ``"all"`` returns all rows. Raises ValueError if the split does not
        exist.
        """
        if name in self.splits:
            return self.take(self.splits[name])
        if name is None or name == "all":
            return self
        raise ValueError(f"there is no split {name!r}; allowed are {', '.join([*self.splits, 'all'])}")

    def describe(self) -> dict[str, Any]:
        """Return counts as JSON values.

        Returns
        -------
        dict
            "rows", "features", "labels", "unlabelled" (rows); "cardinality" and "density", the relevant labels of a
            labelled row and their share of all; "views", the number of features of each; "splits", the number of rows
            of each. If rows lack views, "missing" counts these rows by view. "weighted" is true if rows have weights,
            and otherwise absent.
        """
        n_labelled = int(np.count_nonzero(self.labelled))
        cardinality = self.Y.nnz / n_labelled if n_labelled else 0.0
        return {
            "rows": self.n_rows,
            "features": self.n_features,
            "labels": self.n_labels,
            "cardinality": cardinality,
            "density": cardinality / self.n_labels if self.n_labels else 0.0,
            "views": {name: int(view.shape[1]) for name, view in self.views.items()},
            "splits": {name: len(rows) for name, rows in self.splits.items()},
            "unlabelled": self.n_rows - n_labelled,
            **({"missing": {name: int(mask.sum()) for name, mask in self.missing.items()}} if self.missing else {}),
            **({} if self.weights is None else {"weighted": True}),
        }

    def label_counts(self) -> NDArray[np.int64]:
        """Return for each label the number of rows that have it, as an array of shape (n_labels,)."""
        return np.bincount(self.Y.indices, minlength=self.n_labels).astype(np.int64)

    def to_bytes(self) -> bytes:
        """Serialise the dataset for `from_bytes`; the same content always gives the same bytes."""
        return serialisation.to_bytes(vars(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Dataset:
        """Inverse of `to_bytes`; raise DamagedState for other bytes. The bytes may come from an untrusted source."""
        return cls(**serialisation.from_bytes(data))

    @classmethod
    def of(cls, X: View, Y: Any, label_names: tuple[str, ...], **others: Any) -> Dataset:
        """Return a dataset with one view; `others` are its other attributes, `feature_names` is a tuple or None."""
        names: Mapping[str, tuple[str, ...] | None] = {SINGLE: others.pop("feature_names", None)}
        return cls({SINGLE: X}, sp.csr_array(Y, dtype=np.int8), label_names, dict(names), **others)


def stored(view: View) -> sp.csr_array:
    """Return a view as a CSR array that stores all present values, including zeros."""
    if not isinstance(view, np.ndarray):
        return view
    has = ~np.isnan(view)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(has.sum(axis=1))])
    return sp.csr_array((view[has], np.nonzero(has)[1].astype(np.int32), indptr), shape=view.shape)
