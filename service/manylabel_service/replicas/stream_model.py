"""The fold: a model's state as a pure function of its spec and of the log of its updates.

Nothing here waits, stores or looks at a clock, and no setting of a server enters: two processes
that fold the same entries hold the same bits.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core import Prequential, Vocabulary
from manylabel_core.rows import Rows
from manylabel_core.state import dump, load
from manylabel_service.replicas.answers import KeyWindow, prediction
from manylabel_service.replicas.examples import Features, Prediction
from manylabel_service.replicas.feature_space import Columns, FeatureSpace
from manylabel_service.replicas.spec import ModelSpec
from manylabel_service.storage import START


class StreamModel:
    """A learner with the names of its features and labels, its measures and its seen keys.

    Attributes
    ----------
    position : of the last log entry folded in.
    updates : examples learnt.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.features = FeatureSpace(spec.features)
        self.labels = Vocabulary()
        self.labels.add(spec.labels or ())
        self.learner = spec.learner()
        # Declared labels have scores from the start. Memory for declared features is taken when they are learnt.
        self.learner.grow(0, len(self.labels))
        self.prequential = Prequential(window=spec.window)
        self.keys = KeyWindow()
        self.position = START
        self.updates = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the state takes."""
        parts = (self.learner, self.features.names, self.labels, self.prequential, self.keys)
        return sum(part.nbytes for part in parts)

    def nbytes_after(self, n_features: int, n_labels: int, n_examples: int, n_values: int) -> int:
        """Most bytes of memory once there are so many columns, and examples with so many values are learnt."""
        grown = self.learner.nbytes_after(n_features, n_labels, n_examples, n_values)
        return self.nbytes - self.learner.nbytes + grown

    def predict(self, xs: Sequence[Features]) -> list[Prediction]:
        """Predictions by the present state; features it has not learnt are left out.

        The examples must have passed `features.check`.
        """
        scores = self.learner.score(as_rows([self.features.find(x) for x in xs]))
        names = self.labels.names
        return [prediction(row, names) for row in scores]

    def to_bytes(self) -> bytes:
        """The state, for `from_bytes`. Only reads, so it may run beside predictions, not beside a fold."""
        features, layout = self.features.state()
        arrays = {
            **_prefixed("learner", self.learner.state()),
            **_prefixed("features", features),
            **_prefixed("labels", self.labels.to_arrays()),
            **_prefixed("prequential", self.prequential.state()),
            "keys": self.keys.to_array(),
        }
        header = {
            "spec": self.spec.model_dump(mode="json"),
            "position": self.position,
            "updates": self.updates,
            "layout": layout,
        }
        return dump(arrays, header)

    @classmethod
    def from_bytes(cls, data: bytes) -> "StreamModel":
        """The model that `to_bytes` saw.

        Raises
        ------
        manylabel_core.state.DamagedState
            The bytes are not what `to_bytes` wrote.
        """
        arrays, header = load(data)
        model = cls(ModelSpec.model_validate(header["spec"]))
        model.learner.restore(_group("learner", arrays))
        model.features.restore(_group("features", arrays), header["layout"])
        model.labels = Vocabulary.from_arrays(_group("labels", arrays))
        model.prequential.restore(_group("prequential", arrays))
        model.keys = KeyWindow.from_array(arrays["keys"])
        model.position = header["position"]
        model.updates = header["updates"]
        return model


def as_rows(columns: Sequence[Columns]) -> Rows:
    """Examples by their columns as CSR arrays."""
    indptr = np.zeros(len(columns) + 1, dtype=np.int64)
    if len(columns) == 1:  # the usual request; saves two copies
        indices, values = columns[0]
        indptr[1] = len(indices)
        return Rows(indptr, indices, values)
    np.cumsum([len(indices) for indices, _ in columns], out=indptr[1:])
    return Rows(
        indptr,
        np.concatenate([indices for indices, _ in columns]),
        np.concatenate([values for _, values in columns]),
    )


def _prefixed(part: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"{part}.{name}": array for name, array in arrays.items()}


def _group(part: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    prefix = f"{part}."
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
