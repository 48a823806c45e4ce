"""Predictions with partial labels: known labels, and their share of the metrics."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from manylabel_core.metrics.prequential import PartialTruth, Prequential
from manylabel_core.metrics.prequential_state import MAX_UNITS
from manylabel_core.rows import Targets

MAX_BYTES = 2**25
"""Maximum bytes per model; above it, the oldest prediction counts as completely labelled."""

_ID_BYTES, _LABEL_BYTES = 800, 20
"""Estimated bytes of an id, and of each known label; constants, so that the result does not depend on the machine."""


class PartialLabels:
    """Partial labels by the id of the prediction, in order of their first part.

    A rollback keeps the labels received so far, like idempotency keys, but restores `measured`, like the metrics.
    `versions` has the version of a trained model that predicted, if any; then `measured` has the columns of this
    version.
    """

    def __init__(self) -> None:
        self._told: dict[str, NDArray[np.int32]] = {}
        self._n_labels = 0
        self.measured: dict[str, PartialTruth] = {}
        self.versions: dict[str, int] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._told)

    def __contains__(self, id: str) -> bool:
        return id in self._told

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return _ID_BYTES * len(self._told) + _LABEL_BYTES * self._n_labels

    def repeated(self, id: str, columns: Iterable[int]) -> list[int]:
        """Return which of the columns are already known for this id."""
        told = self._told[id]
        return [column for column in columns if column in told]

    def tell(self, id: str, columns: Sequence[int]) -> None:
        """Add labels of an id; close the oldest ids above the limit."""
        new = np.array(columns, dtype=np.int32)
        self._told[id] = np.concatenate([self._told[id], new]) if id in self._told else new
        self._n_labels += len(new)
        while self.nbytes > MAX_BYTES and len(self._told) > 1:
            self.close(next(iter(self._told)))

    def measure(
        self,
        id: str,
        prequential: Prequential,
        scores: NDArray[Any],
        targets: Targets,
        n_known: NDArray[Any],
        probabilities: NDArray[np.float64] | None = None,
        version: int | None = None,
    ) -> None:
        """Evaluate the new labels of an id together with its earlier ones; see `Prequential.update_part`."""
        measured = prequential.update_part(scores, targets, n_known, self.measured.get(id), probabilities)
        if measured is not None and id in self._told:
            self.measured[id] = measured
            if version is not None:
                self.versions[id] = version

    def close(self, id: str) -> None:
        """Accept no further partial labels for this id."""
        if (told := self._told.pop(id, None)) is not None:
            self._n_labels -= len(told)
            self.measured.pop(id, None)
            self.versions.pop(id, None)

    def close_version(self, version: int) -> None:
        """Accept no further partial labels for predictions of a version."""
        for id in [id for id, its in self.versions.items() if its == version]:
            self.close(id)

    def roll_back(self, target: "PartialLabels") -> None:
        """Restore, from another state, the contributions of the open ids to the metrics."""
        self.measured = {id: truth for id, truth in target.measured.items() if id in self._told}

    def to_array(self) -> NDArray[np.uint8]:
        """Return the partial labels as bytes: a row for each id."""
        rows = [[id, told.astype("<i4").tobytes(), *self._packed(id)] for id, told in self._told.items()]
        return np.frombuffer(msgpack.packb(rows), dtype=np.uint8)

    def _packed(self, id: str) -> list[object]:
        if (measured := self.measured.get(id)) is None:
            return []
        labels, truth, margins = measured.labels.astype("<i4"), measured.truth, measured.margins.astype("<f8")
        version = [self.versions[id]] if id in self.versions else []
        return [measured.number, labels.tobytes(), truth.tobytes(), margins.tobytes(), measured.weight, *version]

    @classmethod
    def from_array(cls, packed: NDArray[np.uint8]) -> "PartialLabels":
        """Restore from the output of `to_array`. Raises ValueError."""
        truths = cls()
        try:
            for id, told, *measured in msgpack.unpackb(packed.tobytes()):
                if not isinstance(id, str) or id in truths:
                    raise ValueError("parts: ids must be distinct strings")
                truths.tell(id, np.frombuffer(told, dtype="<i4").tolist())
                if measured:
                    truths.measured[id] = _unpacked(*measured[:5])
                if measured[5:]:
                    (truths.versions[id],) = measured[5:]
        except (TypeError, msgpack.UnpackException) as error:
            raise ValueError(f"parts: {error}") from error
        return truths

    def check(self, n_labels: int) -> None:
        """Raise ValueError unless the labels of each prediction are distinct and below n_labels, and include the
        measured ones."""
        for id, told in self._told.items():
            measured = self.measured.get(id)
            if len(np.unique(told)) < len(told) or ((told < 0) | (told >= n_labels)).any():
                raise ValueError("parts: columns of labels must be distinct, and belong to existing labels")
            if measured is not None and id not in self.versions and not np.isin(measured.labels, told).all():
                raise ValueError("parts: a measured label was not submitted")


def _unpacked(number: Any, labels: bytes, truth: bytes, margins: bytes, weight: Any) -> PartialTruth:
    measured = PartialTruth(
        number,
        np.frombuffer(labels, dtype="<i4"),
        np.frombuffer(truth, dtype=np.uint8) == 1,
        np.frombuffer(margins, dtype="<f8").reshape(2, -1),
        weight,
    )
    if type(weight) is not int or not 0 < weight <= MAX_UNITS:
        raise ValueError("parts: a weight must be above 0 and at most 1,000")
    if type(number) is not int or not 0 < len(measured.labels) == len(measured.truth) == measured.margins.shape[1]:
        raise ValueError("parts: each label must have one true value and one margin")
    if np.isinf(measured.margins).any() or len(np.unique(measured.labels)) < len(measured.labels):
        raise ValueError("parts: labels must be distinct, and no margin infinite")
    return measured
