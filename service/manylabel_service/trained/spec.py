"""The spec of a trained model says that it is one; all else is known of its versions."""

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict

TRAINED = "trained"
"""The algorithm of a trained model: each version says itself which trainer made it."""


class TrainedSpec(BaseModel):
    """A trained spec names a model whose versions are made by jobs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    algorithm: Literal["trained"] = "trained"

    def to_bytes(self) -> bytes:
        """Return the spec as the store keeps it."""
        return self.model_dump_json().encode()


def is_trained(spec: bytes) -> bool:
    """Return whether this is the spec of a trained model, and not of one that learns online."""
    return bool(json.loads(spec).get("algorithm") == TRAINED)
