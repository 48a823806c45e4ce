"""What the linear learners share: a table of weights."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.checks import check_flag
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.models.linear._experts import MOST_RECORDED
from manylabel_core.online.models.linear._learn import learn_falt
from manylabel_core.online.models.linear._table import PADDING, score_linear
from manylabel_core.online.scaling.scaling import MAX_COUNT
from manylabel_core.online.storage import MAX_WEIGHT, check_range, enlarged
from manylabel_core.rows import Rows, Targets


class LinearLearner(OnlineLearner):
    """A learner with one weight, and further numbers in planes of their own, per feature and column.

    The planes stand side by side, feature by feature: see `_table`. Row 0 is the intercept. A pair of models has the
    weights of the second, "steady", in a plane of their own, and a record of how the two predict. With `average`
    the last planes are the drags of the weights, and every column has an age.
    """

    _ranges: Mapping[str, tuple[float, float]] = MappingProxyType({})
    """What the numbers of a plane lie between, if not as weights do."""

    _table: NDArray[Any]
    _ages: NDArray[np.int64]
    _record: NDArray[np.float64]
    _seen: NDArray[np.float64]

    @property
    def _sums(self) -> tuple[str, ...]:
        """Names of the planes that a learner keeps between weights and drag."""
        return ()

    @property
    def _paired(self) -> bool:
        """Whether there is a second model, with steady steps."""
        return False

    @property
    def _planes(self) -> tuple[str, ...]:
        steady, drags = (("steady",), ("drag", "steady_drag")) if self._paired else ((), ("drag",))
        return ("weights", *self._sums, *steady, *(drags if self._averages else ()))

    def _create(self) -> None:
        self._averages = check_flag("average", self.average)
        self._table = np.zeros((1, len(self._planes), _padded(1)), dtype=self.dtype)
        self._ages = np.zeros(1 if self._averages else 0, dtype=np.int64)
        self._record = np.zeros((2 if self._paired else 0, 2))
        self._seen = np.zeros(0)

    def _enlarge(self, n_features: int, n_labels: int) -> None:
        self._table = enlarged(self._table, (1 + n_features, len(self._planes), _padded(1 + n_labels)))
        if self._averages:
            self._ages = enlarged(self._ages, (1 + n_labels,))

    def _learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        model = self._table, self._ages, self._record, self._seen
        learn_falt(*model, self._constant, self._step, *rows, *targets, scores)

    def _score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        score_linear(self._table, self._ages, self._record, self._constant, *rows, scores)

    def _restart(self, label: int) -> None:
        self._table[:, :, 1 + label] = 0.0
        self._ages[1 + label : 2 + label] = 0

    def _model(self) -> dict[str, NDArray[Any]]:
        live = self._table[: 1 + self._n_features, :, : 1 + self._n_labels]
        arrays: dict[str, NDArray[Any]] = {name: live[:, plane] for plane, name in enumerate(self._planes)}
        if self._averages:
            arrays["ages"] = self._ages[: 1 + self._n_labels]
        if self._paired:
            arrays["record"] = self._record
        return arrays

    def _model_bytes(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        ages = self._ages.itemsize * (1 + n_labels) if self._averages else 0
        return self._table.itemsize * len(self._planes) * (1 + n_features) * (1 + n_labels) + ages + self._record.nbytes

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        shapes = {arrays[name].shape for name in self._planes}
        if len(shapes) > 1 or 0 in arrays["weights"].shape:
            raise ValueError(f"state must hold {' and '.join(self._planes)} of one shape, not empty")
        for name in self._planes:
            check_range(name, arrays[name], *self._ranges.get(name, (-MAX_WEIGHT, MAX_WEIGHT)))
        n_features, n_labels = (length - 1 for length in arrays["weights"].shape)
        self._enlarge(n_features, n_labels)
        for plane, name in enumerate(self._planes):
            self._table[:, plane, : 1 + n_labels] = arrays[name]
        if self._averages:
            if arrays["ages"].shape != (1 + n_labels,):
                raise ValueError("state must hold one of ages for each label and the threshold")
            check_range("ages", arrays["ages"], 0, MAX_COUNT)
            self._ages = arrays["ages"]
        if self._paired:
            if arrays["record"].shape != (2, 2):
                raise ValueError("state must hold a record of two numbers for each of two models")
            check_range("record", arrays["record"], 0.0, MOST_RECORDED)
            self._record = arrays["record"]
        return n_features, n_labels


def _padded(n_columns: int) -> int:
    return -(-n_columns // PADDING) * PADDING
