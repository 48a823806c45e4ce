"""Spec of a trained model, which has only its kind, because all other facts depend on the versions.

The log of its delayed labels has the same spec; replay of this log computes only metrics.
"""

import json
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from manylabel_service.errors import ReleaseTooOld
from manylabel_service.online.spec.follow import FIELD as FOLLOW
from manylabel_service.online.spec.follow import SWITCHES, Follow
from manylabel_service.online.spec.spec import ModelSpec

TRAINED = "trained"
"""Algorithm of a trained model; each version names its trainer."""

WINDOW = 1000
"""Number of examples in the sliding window of the measures of each version."""


class TrainedSpec(BaseModel, defer_build=True):
    """Spec of a model whose versions are made by jobs, without features and labels."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    algorithm: Literal["trained"] = "trained"

    features: ClassVar[None] = None
    labels: ClassVar[None] = None
    limits: ClassVar[None] = None
    text: ClassVar[None] = None
    window: ClassVar[int] = WINDOW

    def to_bytes(self) -> bytes:
        """Return the spec as stored bytes."""
        return self.model_dump_json().encode()


def is_trained(spec: bytes) -> bool:
    """Return whether this is the spec of a trained model, not of an online model."""
    return bool(json.loads(spec).get("algorithm") == TRAINED)


def following_spec(spec: ModelSpec, follow: Follow) -> bytes:
    """Return the stored bytes of the spec of a follower."""
    return json.dumps({**json.loads(spec.to_bytes()), FOLLOW: follow.model_dump(exclude_none=True)}).encode()


def read_spec(spec: bytes) -> ModelSpec | TrainedSpec:
    """Return the spec of a stored model of either kind.

    Raises
    ------
    ReleaseTooOld
        Only a newer release supports the algorithm, an option or a field of the spec. A stored spec has a checksum,
        and was checked when the model was created.
    ValueError
        The bytes are not a spec.
    """
    document = json.loads(spec)
    if not isinstance(document, dict):
        raise ValueError("a stored spec must be a JSON object")
    parts = [document.pop(field, None) for field in (FOLLOW, SWITCHES)]
    spec = json.dumps(document).encode() if any(parts) else spec
    try:
        return TrainedSpec.model_validate_json(spec) if is_trained(spec) else ModelSpec.from_bytes(spec)
    except ValidationError as error:
        if any(problem["type"] == "missing" for problem in error.errors()):
            raise  # newer releases only add fields to a spec
        problem = error.errors()[0]
        field = ".".join(map(str, problem["loc"])) or "spec"
        raise ReleaseTooOld(f"this release does not know the model's {field}: {problem['msg']}") from error
