"""What calls about the versions of a trained model give: plain frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manylabel_clients.http.types import picked


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a trained model; it never changes."""

    version: int
    served: bool
    """Whether predictions come from this one."""
    created: str
    """When: RFC 3339, UTC."""
    job: str
    """Id of the job that made it."""
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None
    """On the rows that were held out, if any."""
    rows: int
    """Examples learnt from."""
    bytes: int
    position: str
    """Where it stands in the model's log. Opaque."""


@dataclass(frozen=True, slots=True)
class Promoted:
    """Receipt of a change of the version that is served."""

    model: str
    version: int
    previous: int | None
    """The version served before: promoting it switches back."""
    position: str
    """For `predict(at_least=...)`. Opaque."""


@dataclass(frozen=True, slots=True)
class ModelDetail:
    """What there is to see of a version."""

    version: int
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None
    label_scores: dict[str, Any] | None
    """F1, precision, recall and support of each label, on the rows that were held out."""
    label_correlation: dict[str, Any] | None
    """``labels`` and ``values``, a matrix: how their weights go together (MLRL and SSMLRL)."""
    view_weights: dict[str, float] | None
    """How much each view counts (LSA-MML)."""
    convergence: dict[str, list[float]]
    """``iteration``, ``objective``, ``gap`` and ``seconds`` along the fit."""


def version(answer: Mapping[str, Any]) -> Version:
    """A version from its JSON."""
    return picked(Version, answer)


def promoted(answer: Mapping[str, Any]) -> Promoted:
    """The receipt of a promotion from its JSON."""
    return picked(Promoted, answer)


def model_detail(answer: Mapping[str, Any]) -> ModelDetail:
    """What there is to see of a version, from its JSON."""
    return picked(ModelDetail, answer)
