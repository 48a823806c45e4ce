"""Transformer of records to a matrix for batch trainers, with scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from manylabel_core.records.bounds import RecordLimits
from manylabel_core.records.encoder import RecordEncoder
from manylabel_core.records.given_columns import given_pairs, with_given, with_new_given
from manylabel_core.records.text import TextSettings

Record = str | Mapping[str, Any]


class RecordVectorizer(TransformerMixin, BaseEstimator):
    """Transformer of records into rows of a sparse matrix, with a column per feature seen in `fit`.

    Features are those of `RecordEncoder`. Columns are in the order in which features first appear. After them, there is
    a column for each optional number, which some records of `fit` lack. The column is 1 for records with the number
    (``price=given``), so that a model can use its absence. If all records contain only numbers, or there are more than
    256 number fields, there are no such columns. `transform` omits new features. A trainer fitted to the matrix is
    identical bit for bit to a trainer that a job fits to a dataset of these records.

    Parameters
    ----------
    text : sequence of str, mapping or TextSettings, optional
        The text fields, or all text options. None: strings of more than 200 characters are texts.
    limits : RecordLimits, optional
        Limits of one record.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        Column of each feature.

    Examples
    --------
    >>> from manylabel_core import M3L
    >>> vectorizer = RecordVectorizer(text=["title"])
    >>> X = vectorizer.fit_transform([{"title": "Black cat", "age": 3}, {"title": "Old dog", "home": True}])
    >>> vectorizer.get_feature_names_out().tolist()
    ['title=black', 'title=cat', 'age', 'title=old', 'title=dog', 'home', 'age=given', 'home=given']
    >>> model = M3L(scaling="auto", optimise="none").fit(X, [[1, 0], [0, 1]])
    >>> model.predict(vectorizer.transform([{"title": "A black cat!", "colour": "unheard of"}])).tolist()
    [[1, 0]]
    """

    def __init__(
        self, text: TextSettings | Mapping[str, Any] | Sequence[str] | None = None, limits: RecordLimits | None = None
    ) -> None:
        self.text = text
        self.limits = limits

    def fit(self, records: Iterable[Record], y: Any = None) -> Self:
        """Assign columns to the features of some records.

        Raises ValueError if a setting of `text` is not allowed, or a record is invalid (`RecordError`).
        """
        self.fit_transform(records)
        return self

    def fit_transform(self, records: Iterable[Record], y: Any = None) -> sp.csr_array:
        """Fit, and return the `transform` of the same records; errors as in `fit`."""
        self.vocabulary_: dict[str, int] = {}
        rows, names = with_new_given(self._rows(records, grow=True), list(self.vocabulary_))
        self.vocabulary_ = {name: column for column, name in enumerate(names)}
        self._given = given_pairs(self.vocabulary_)
        return rows

    def transform(self, records: Iterable[Record]) -> sp.csr_array:
        """Return the features of records, (n_samples, n_features), float32.

        Raises the errors of `fit`, or NotFittedError before `fit`.
        """
        if not hasattr(self, "vocabulary_"):
            raise NotFittedError("this RecordVectorizer is not fitted yet: call fit with some records")
        rows: sp.csr_array = with_given(self._rows(records, grow=False), self._given, len(self.vocabulary_))
        return rows

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns."""
        return np.array(list(self.vocabulary_), dtype=object)

    def _rows(self, records: Iterable[Record], grow: bool) -> sp.csr_array:
        encoder = RecordEncoder(TextSettings.of(self.text), self.limits)
        columns = self.vocabulary_
        indices: list[int] = []
        values: list[float] = []
        indptr = [0]
        for record in records:
            for name, value in encoder.encode(record).items():
                column = columns.setdefault(name, len(columns)) if grow else columns.get(name)
                if column is not None:
                    indices.append(column)
                    values.append(value)
            indptr.append(len(indices))
        arrays = np.array(values, dtype=np.float32), np.array(indices, dtype=np.int32), np.array(indptr, dtype=np.int64)
        rows = sp.csr_array(arrays, shape=(len(indptr) - 1, len(columns)))
        rows.sort_indices()
        return rows
