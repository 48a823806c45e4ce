"""The spec of a trained model says that it is one; all else is known of its versions.

It is also the spec of the fold over the labels of its answers, which measures and learns nothing.
"""

import json
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from manylabel_service.online.spec.spec import ModelSpec

TRAINED = "trained"
"""The algorithm of a trained model: each version says itself which trainer made it."""

WINDOW = 1000
"""Number of examples in the sliding window of the measures of each version."""


class TrainedSpec(BaseModel):
    """A trained spec names a model whose versions are made by jobs. To a fold it says that nothing is declared."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    algorithm: Literal["trained"] = "trained"

    features: ClassVar[None] = None
    labels: ClassVar[None] = None
    limits: ClassVar[None] = None
    text: ClassVar[None] = None
    durability: ClassVar[None] = None
    window: ClassVar[int] = WINDOW

    def to_bytes(self) -> bytes:
        """Return the spec as the store keeps it."""
        return self.model_dump_json().encode()


def is_trained(spec: bytes) -> bool:
    """Return whether this is the spec of a trained model, and not of one that learns online."""
    return bool(json.loads(spec).get("algorithm") == TRAINED)


def read_spec(spec: bytes) -> ModelSpec | TrainedSpec:
    """Return the spec of a stored model of either kind; raise ValueError if it is none."""
    return TrainedSpec.model_validate_json(spec) if is_trained(spec) else ModelSpec.from_bytes(spec)
