"""Versions of a trained model, and which one is served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manylabel_clients.http.resources.resource import Resource, call, new_key, with_query
from manylabel_clients.http.transport.exchange import Exchange, read
from manylabel_clients.http.transport.json_body import encode


@dataclass(frozen=True, slots=True)
class Version:
    """Immutable result of a job for a trained model."""

    version: int
    served: bool
    """Whether this version is served."""
    created: str
    """Time of creation (RFC 3339, UTC)."""
    job: str
    """Id of the job that made it."""
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None
    """Metrics on held-out rows, if any."""
    converged: bool
    """Whether the fit converged within its iterations."""
    gap: float | None
    """Upper bound of the relative distance from the optimum; None if unknown."""
    scaling: str
    """Scaling of the features, in training and in predictions."""
    not_promoted_because: str | None
    """Reasons why the version was not served when it was created; None if it was, or if the job requested it."""
    rows: int
    """Number of examples learnt."""
    sampled: dict[str, Any] | None
    """Examples from a stream: how many were requested, sampled and omitted, and the same in words, ``text``."""
    bytes: int
    position: str
    """Position in the model's log. Opaque."""
    baseline: dict[str, float] | None = None
    """Metrics on the same rows of predicting the most frequent training labels."""
    data: dict[str, Any] | None = None
    """Training data, as in the job: ``dataset`` and ``split``, or ``stream`` and ``last``."""
    worse: str | None = None
    """Amount by which the version scored lower than the one it replaced, on the same rows; else None."""


@dataclass(frozen=True, slots=True)
class Promoted:
    """Result of a promotion: the served version of a trained model, or the result for a follower."""

    model: str
    """Name of the model; for a follower, its leader, which now has the algorithm and state of the follower."""
    position: str
    """Position for `predict(at_least=...)`. Opaque."""
    version: int | None = None
    previous: int | None = None
    """Version served before; promoting it switches back."""
    follower: str | None = None
    """Name of the follower, which now has the algorithm and state of the leader; promoting it again switches back."""
    algorithm: str | None = None
    """Algorithm of the model now, if a follower was promoted."""
    updates: int | None = None
    """Number of examples that the model has learnt, if a follower was promoted."""
    since: str | None = None
    """Position at which the history of the model begins now, if a follower was promoted."""


@dataclass(frozen=True, slots=True)
class ModelDetail:
    """Details of a version: scores, label relations and convergence."""

    version: int
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None
    label_scores: dict[str, Any] | None
    """F1, precision, recall and support of each label, on held-out rows."""
    label_correlation: dict[str, Any] | None
    """``labels`` and ``values``, a matrix: correlations of label weights (MLRL and SSMLRL)."""
    view_weights: dict[str, float] | None
    """Weight of each view (LSA-MML)."""
    convergence: dict[str, list[float]]
    """``iteration``, ``objective``, ``gap`` and ``seconds`` along the fit."""
    baseline: dict[str, float] | None = None
    """Metrics on the same rows of predicting the most frequent training labels."""
    label_decisions: dict[str, Any] | None = None
    """By label, the ``threshold`` of its scores, and the ``calibration`` of its probability (None without
    probabilities).
    """


class VersionCalls(Resource):
    """Calls about the versions of one trained model."""

    @call
    def versions(self) -> Exchange[list[Version]]:
        """Return the versions of the model, newest first."""
        return (yield from self._list(f"{self._path}/versions", "versions", Version))

    @call
    def promote(self, version: int | None = None, *, force: bool = False, key: str | None = None) -> Exchange[Promoted]:
        """Serve another version of a trained model, newer or older, or promote this follower.

        A follower and its leader exchange algorithm and state at one position of the log.

        Parameters
        ----------
        version : int, optional
            Number of a version of a trained model; omitted for a follower.
        force : bool, default=False
            Whether to serve a version whose features or scaling differ from those of the served one.
        key : str, optional
            Idempotency key for a follower: with the same key, a retry does not promote it again.

        Raises
        ------
        Conflict
            The features or scaling of the version differ and `force` is false, or the follower cannot be promoted. The
            message states the reason.
        """
        body = None if version is None else encode({"version": version, **({"force": True} if force else {})})
        # Promoting a version twice has no further effect; promoting a follower twice switches back.
        response = yield from self._post(f"{self._path}/promote", body, new_key(key) if version is None else None)
        return read(response, Promoted)

    @call
    def download_version(self, version: int, *, names: bool = False) -> Exchange[bytes]:
        """Return the bytes of a version's estimator, for `from_bytes` of `manylabel_core.batch`.

        With `names` it is a safetensors file with the estimator and the names of features and labels.
        """
        path = with_query(f"{self._path}/versions/{version}", names="true" if names else None)
        return (yield from self._download(path))

    @call
    def delete_version(self, version: int) -> Exchange[None]:
        """Delete a version that is not served."""
        yield from self._delete(f"{self._path}/versions/{version}")

    @call
    def detail(self, version: int | None = None) -> Exchange[ModelDetail]:
        """Return scores and relations of labels, weights of views, and convergence of the fit.

        The default is the served version; `manylabel_clients.plots` draws the details.
        """
        return (yield from self._get(with_query(f"{self._path}/detail", version=version), ModelDetail))
