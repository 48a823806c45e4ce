"""Limits on the features and labels of a model, and the policy above the limits; they are part of the spec.

Limits of a server decide which entries are appended to a log. The limits of this module are applied when an entry is
applied, so they have the same effect on every replica.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from manylabel_core import Vocabulary
from manylabel_core.rows import MAX_COLUMNS
from manylabel_service.documented import Documented
from manylabel_service.hosting.examples import Labels

_Most = Annotated[int, Field(strict=True, ge=1, le=MAX_COLUMNS)]


def _nameable(policy: Any) -> Any:
    if policy == "hash":
        raise PydanticCustomError("label_hash", "must be reject or ignore: a response could not name a hashed label")
    return policy


class _Limit(Documented):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FeatureLimit(_Limit):
    """Maximum number of features of a model, and the policy for features above it."""

    most: _Most
    """Maximum number of columns."""
    policy: Literal["reject", "ignore", "hash"]
    """Policy for features above the limit: `reject` refuses the update, `ignore` omits the feature from the example,
    `hash` lets features share columns from the first example on.
    """


class LabelLimit(_Limit):
    """Maximum number of labels of a model, and the policy for labels above it."""

    most: _Most
    """Maximum number of labels."""
    policy: Annotated[Literal["reject", "ignore"], BeforeValidator(_nameable)]
    """Policy for labels above the limit: `reject` refuses the update, `ignore` omits the label from the true labels."""


class ModelLimits(_Limit):
    """Maximum numbers of features and labels of a model; null for the limits of the server."""

    features: FeatureLimit | None = None
    """Limit of the features."""
    labels: LabelLimit | None = None
    """Limit of the labels."""

    @property
    def rejects(self) -> bool:
        """True if an update can be rejected because of the limits."""
        return most_of(self.features, "reject") is not None or most_of(self.labels, "reject") is not None

    @property
    def ignores(self) -> bool:
        """True if a part of an example can be omitted because of the limits."""
        return most_of(self.features, "ignore") is not None or most_of(self.labels, "ignore") is not None

    @property
    def hashes(self) -> bool:
        """True if the names of features are not stored."""
        return self.features is not None and self.features.policy == "hash"

    def within(self, n_features: int, n_labels: int) -> tuple[int, int]:
        """Reduce estimated numbers of columns to the limits."""
        if self.features is not None:
            n_features = min(n_features, self.features.most)
        return n_features, n_labels if self.labels is None else min(n_labels, self.labels.most)


UNLIMITED = ModelLimits()


def limits_to_dict(limits: ModelLimits | None) -> dict[str, Any] | None:
    """Return the limits as a dict."""
    return None if limits is None else limits.model_dump(mode="json")


def most_of(limit: FeatureLimit | LabelLimit | None, policy: str) -> int | None:
    """Return the maximum number of columns if the limit has this policy, else None."""
    return limit.most if limit is not None and limit.policy == policy else None


def take_labels(labels: Vocabulary, y: Labels, limit: LabelLimit | None) -> tuple[list[int], NDArray[np.int8]]:
    """Return columns and signs of the labels of an example, without ignored ones; new labels get columns."""
    if limit is None or limit.policy != "ignore":
        return labels.add(y.names), y.signs
    columns = labels.lookup(y.names)
    if -1 not in columns:
        return columns, y.signs
    labels.add(labels.unknown(y.names)[: limit.most - len(labels)])
    columns = labels.lookup(y.names)
    kept = np.array(columns, dtype=np.int32) >= 0
    return [column for column in columns if column >= 0], y.signs[kept]


def check_ignored(count: Any, n_columns: int, limit: FeatureLimit | LabelLimit | None) -> int:
    """Return the validated count of ignored features or labels of an untrusted state. Raises ValueError."""
    most = most_of(limit, "ignore")
    if type(count) is not int or not 0 <= count < 2**63:
        raise ValueError("ignored must be an integer of at least 0")
    if count and n_columns != most:
        raise ValueError("ignored must be 0 if the limit is not reached")
    return count


def check_labels(labels: Vocabulary, ignored: Any, limit: LabelLimit | None) -> int:
    """Return the count of ignored labels; raise the errors of `check_ignored`, and ValueError if the labels exceed the
    limit."""
    if limit is not None and len(labels) > limit.most:
        raise ValueError(f"labels: {len(labels)} labels exceed the limit of {limit.most}")
    return check_ignored(ignored, len(labels), limit)


def _only_undeclared(limits: ModelLimits | None, info: ValidationInfo) -> ModelLimits | None:
    if limits is not None and (errors := list(_pointless(limits, info.data))):
        raise ValidationError.from_exception_data("limits", errors)
    return limits


def _pointless(limits: ModelLimits, spec: dict[str, Any]) -> Iterator[InitErrorDetails]:
    for kind in ("features", "labels"):
        if getattr(limits, kind) is not None and spec.get(kind) is not None:
            error = PydanticCustomError("limit_declared", "must be null if {kind} are declared", {"kind": kind})
            yield InitErrorDetails(type=error, loc=(kind,), input=None)


LimitsField = Annotated[ModelLimits | None, AfterValidator(_only_undeclared)]
"""Field `limits` of a spec, which must follow `features` and `labels`, because its validation reads them."""
