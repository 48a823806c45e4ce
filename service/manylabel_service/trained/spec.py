"""What the store knows of a trained model before any version: that it is one."""

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict

TRAINED = "trained"
"""The algorithm of a trained model: each version says itself which trainer made it."""


class TrainedSpec(BaseModel):
    """A model whose versions are made by jobs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    algorithm: Literal["trained"] = "trained"

    @property
    def written(self) -> bytes:
        """As the store keeps it."""
        return self.model_dump_json().encode()


def is_trained(spec: bytes) -> bool:
    """Whether this is the spec of a trained model, and not of one that learns online."""
    return bool(json.loads(spec).get("algorithm") == TRAINED)
