"""Metadata of a version, and the rule for serving a new one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ConfigDict

MEASURE = "micro_f1"
"""Metric by which versions are compared."""

Promote = Literal["if_better", "always", "never"]
"""Rule for serving a new version: if it is better, always, or only by a manual promotion."""


@dataclass(frozen=True, slots=True)
class VersionMeta:
    """Metadata of a version: its origin.

    Attributes
    ----------
    job : id of the job, which makes one version of a model.
    trainer : name of the trainer, such as ``"m3l"``.
    params : parameters of the trainer.
    rows : number of examples learnt.
    measures : metrics on held-out rows; None if missing.
    created_unix_ms : time of the training.
    converged : whether the fit converged within its iterations.
    gap : upper bound of the relative distance from the optimum; None if unknown.
    scaling : name of the feature scaling.
    features : digest of the feature names, or of their number, by view.
    not_promoted_because : reasons why "if_better" did not serve it; None if it was served.
    baseline : metrics of predicting the most frequent labels of the training rows; None without held-out rows.
    taken : sample that the job read from a stream; None for other data.
    data : training data as specified in the job: a dataset or a stream.
    measured_on : digest of the held-out rows; equal digests mean equal rows. None if unknown.
    worse : difference to the version that it replaced under "always", if the replaced version had the higher metric;
        else None.
    """

    job: str
    trainer: str
    params: Mapping[str, Any]
    rows: int
    measures: Mapping[str, float] | None
    created_unix_ms: int
    sampled: Mapping[str, Any] | None = None
    converged: bool = True
    gap: float | None = None
    scaling: str = "none"
    features: str = ""
    not_promoted_because: str | None = None
    baseline: Mapping[str, float] | None = None
    data: Mapping[str, Any] | None = None
    measured_on: str | None = None
    worse: str | None = None

    def differences(self, other: "VersionMeta") -> str:
        """Return a description of the differences between the examples of another version and this one; empty without
        any.
        """
        found = [f"its scaling is {self.scaling}, not {other.scaling}"] if self.scaling != other.scaling else []
        found += ["its features differ"] if self.features != other.features else []
        return " and ".join(found)

    def worse_than(self, other: "VersionMeta", number: int) -> str | None:
        """Return a clause if the micro-F1 is below that of version `number` on the same rows; otherwise None."""
        if self.measured_on is None or self.measured_on != other.measured_on or not (self.measures and other.measures):
            return None
        mine, its = (one.get(MEASURE) for one in (self.measures, other.measures))
        if mine is None or its is None or mine >= its:
            return None
        return f"its micro-F1 of {mine:.4f} is below the {its:.4f} of version {number} on the same rows"


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """Entry of a version in the document of its model, with all facts of limited size.

    `number` counts from 1 and is never reused. `position` is the position of the publication. `size_bytes` is the size
    of the artifact. `id` is the id of the artifact among the artifacts of its job.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    number: int
    position: str
    size_bytes: int
    job: str
    id: str


@dataclass(frozen=True, slots=True)
class Version:
    """Version of a trained model: `ListedVersion` with its metadata; immutable."""

    number: int
    position: str
    size_bytes: int
    meta: VersionMeta
    id: str = ""

    @property
    def listed(self) -> ListedVersion:
        """Version without its metadata."""
        return ListedVersion(self.number, self.position, self.size_bytes, self.meta.job, self.id)
