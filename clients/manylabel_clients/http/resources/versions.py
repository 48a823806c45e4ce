"""Versions of a trained model, and which one is served."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

from manylabel_clients.http.resources.records import from_json, list_reader
from manylabel_clients.http.resources.requests import Requests
from manylabel_clients.http.transport.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Version:
    """Immutable result of a job for a trained model."""

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
    converged: bool
    """Whether the fit came to its end before it had used up its iterations."""
    gap: float | None
    """Relative distance from the optimum at its end, at most; None where that is not known."""
    scaling: str
    """Scaling of the features, in training and in predictions."""
    not_promoted_because: str | None
    """Reasons why the version was not served when it was created; None if it was, or if the job requested it."""
    rows: int
    """Examples learnt from."""
    sampled: dict[str, Any] | None
    """Examples from a stream: how many were requested, sampled and omitted, and the same in words, ``text``."""
    bytes: int
    position: str
    """Position in the model's log. Opaque."""
    baseline: dict[str, float] | None = None
    """On the same rows, of predicting for each the labels that were frequent in training."""
    data: dict[str, Any] | None = None
    """Training data, as in the job: ``dataset`` and ``split``, or ``stream`` and ``last``."""
    worse: str | None = None
    """Says that it measured lower than the one it replaced when it was made, on the same rows."""


@dataclass(frozen=True, slots=True)
class Promoted:
    """Result of a promotion: the version that is served now."""

    model: str
    version: int
    previous: int | None
    """The version served before: promoting it switches back."""
    position: str
    """Position for `predict(at_least=...)`. Opaque."""


@dataclass(frozen=True, slots=True)
class ModelDetail:
    """Details of a version: its scores, its contents and the course of its fit."""

    version: int
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None
    label_scores: dict[str, Any] | None
    """F1, precision, recall and support of each label, on the rows that were held out."""
    label_correlation: dict[str, Any] | None
    """``labels`` and ``values``, a matrix: how their weights go together (MLRL and SSMLRL)."""
    view_weights: dict[str, float] | None
    """Weight of each view (LSA-MML)."""
    convergence: dict[str, list[float]]
    """``iteration``, ``objective``, ``gap`` and ``seconds`` along the fit."""
    baseline: dict[str, float] | None = None
    """On the same rows, of predicting for each the labels that were frequent in training."""
    label_decisions: dict[str, Any] | None = None
    """By label: the ``threshold`` of its scores, and the ``calibration`` of its probability, None if it has none."""


class VersionRequests(Requests):
    """Requests about the versions of one trained model."""

    def versions(self) -> Exchange[list[Version]]:
        """Return the versions of a model that jobs have trained, the newest first."""
        return (yield from self._get(f"{self._path}/versions", list_reader("versions", partial(from_json, Version))))

    def promote(self, version: int, *, force: bool = False) -> Exchange[Promoted]:
        """Serve this version from now on; with `force`, also if its features or their scaling differ from those served.

        Raises Conflict, with the difference, without `force`.
        """
        # No idempotency key: promoting a version twice equals promoting it once.
        wanted = {"version": version, **({"force": True} if force else {})}
        return (yield from self._post_value(f"{self._path}/promote", wanted, partial(from_json, Promoted)))

    def download_version(self, version: int, *, names: bool = False) -> Exchange[bytes]:
        """Return the bytes of a version's estimator, for `from_bytes` of `manylabel_core.batch`.

        With `names` it is a safetensors file that holds this, and the names of features and labels.
        """
        query = "?names=true" if names else ""
        return (yield from self._download(f"{self._path}/versions/{version}{query}"))

    def delete_version(self, version: int) -> Exchange[None]:
        """Delete a version that is not served."""
        yield from self._delete(f"{self._path}/versions/{version}")

    def detail(self, version: int | None = None) -> Exchange[ModelDetail]:
        """Return scores and relations of labels, weights of views, and convergence of the fit.

        They are those of the version served, or of another; `manylabel_clients.plots` draws them.
        """
        return (yield from self._get(f"{self._path}/detail{_query(version)}", partial(from_json, ModelDetail)))


def _query(version: int | None) -> str:
    return "" if version is None else f"?{urlencode({'version': version})}"
