"""Artifact of a version: a fitted estimator, the names of its columns, and the convergence of its fit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from manylabel_core import Vocabulary
from manylabel_core.datasets.label_details import LabelDetails
from manylabel_core.datasets.serialisation import details_from_array, details_to_array
from manylabel_core.records import TextSettings
from manylabel_core.state import DamagedState, NewerState, State
from manylabel_service.errors import ReleaseTooOld

VERSION = 1
"""Format version of `ModelArtifact.to_bytes`."""


@dataclass(frozen=True, slots=True)
class Convergence:
    """Convergence of a fit, in lists of equal length; an unknown gap is infinite."""

    iteration: list[int] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    gap: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ModelArtifact:
    """Contents of a version.

    Attributes
    ----------
    estimator : bytes of a fitted estimator of `manylabel_core.batch`.
    labels : label names in the order of the columns of Y.
    features : by view (``"x"`` if there is only one), in the order of the estimator: names of the columns, or the
        number of unnamed columns.
    label_scores : on held-out rows, by label: ``{"f1": ..., "precision": ..., "recall": ..., "support": ...}``; None if
        missing.
    convergence : convergence of the fit.
    text : text options of the training records; None for numbers only.
    label_details : known titles, descriptions and URIs by label and field.
    """

    estimator: bytes
    labels: tuple[str, ...]
    features: Mapping[str, tuple[str, ...] | int]
    label_scores: Mapping[str, Mapping[str, float]] | None = None
    convergence: Convergence = field(default_factory=Convergence)
    text: TextSettings | None = None
    label_details: LabelDetails = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Serialise the artifact for `from_bytes`. Raises ValueError."""
        arrays: dict[str, NDArray[Any]] = {"estimator": np.frombuffer(self.estimator, dtype=np.uint8)}
        _put(arrays, "labels", _distinct("labels", self.labels).state())
        for number, names in enumerate(self.features.values()):
            if not isinstance(names, int):
                _put(arrays, f"features.{number}", _distinct("features", names).state())
        measures = list(next(iter(self.label_scores.values()))) if self.label_scores else []
        if self.label_scores is not None:
            arrays["label_scores"] = self._score_table(measures)
        if self.label_details:
            arrays["label_details"] = details_to_array(self.label_details)
        for name in Convergence.__slots__:
            arrays[f"convergence.{name}"] = np.array(getattr(self.convergence, name), dtype=np.float64)
        header = {
            "contents": VERSION,
            "views": [[view, names if isinstance(names, int) else None] for view, names in self.features.items()],
            "measures": measures,
            "text": None if self.text is None else self.text.to_json(),
        }
        return State(arrays, header).to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the object of `to_bytes`. Raises manylabel_core.state.DamagedState or ReleaseTooOld."""
        try:
            arrays, header = State.from_bytes(data)
        except NewerState as error:
            raise ReleaseTooOld(f"the contents of a version are {error}") from error
        version = header.get("contents")
        if type(version) is int and version > VERSION:
            raise ReleaseTooOld(f"a version has contents of format {version}; this release reads up to {VERSION}")
        try:
            return cls._restored(arrays, header)
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            raise DamagedState(f"not the contents of a version: {error!r}") from error

    @classmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> Self:
        labels = _names(arrays, "labels")
        features = {
            view: _names(arrays, f"features.{number}") if width is None else int(width)
            for number, (view, width) in enumerate(header["views"])
        }
        scores: dict[str, dict[str, float]] | None = None
        if "label_scores" in arrays:
            rows = arrays["label_scores"].tolist()
            scores = {
                label: dict(zip(header["measures"], row, strict=True)) for label, row in zip(labels, rows, strict=True)
            }
        traces = {name: arrays[f"convergence.{name}"].tolist() for name in Convergence.__slots__}
        traces["iteration"] = [int(iteration) for iteration in traces["iteration"]]
        text = None if header["text"] is None else TextSettings.from_json(header["text"])
        details = details_from_array(arrays.get("label_details"), labels)
        return cls(arrays["estimator"].tobytes(), labels, features, scores, Convergence(**traces), text, details)

    def _score_table(self, measures: list[str]) -> NDArray[np.float64]:
        """Return scores of shape (n_labels, n_measures), float64."""
        assert self.label_scores is not None
        try:
            rows = [[self.label_scores[label][measure] for measure in measures] for label in self.labels]
        except KeyError as error:
            raise ValueError(f"label_scores: {error} is missing") from error
        return np.array(rows, dtype=np.float64).reshape(len(self.labels), len(measures))


def _distinct(what: str, names: tuple[str, ...]) -> Vocabulary:
    vocabulary = Vocabulary(names)
    if len(vocabulary) != len(names):
        raise ValueError(f"{what}: a name is repeated")
    return vocabulary


def _put(arrays: dict[str, NDArray[Any]], part: str, named: Mapping[str, NDArray[Any]]) -> None:
    arrays.update({f"{part}.{name}": array for name, array in named.items()})


def _names(arrays: Mapping[str, NDArray[Any]], part: str) -> tuple[str, ...]:
    return Vocabulary.from_state({name: arrays[f"{part}.{name}"] for name in ("bytes", "offsets")}).names
