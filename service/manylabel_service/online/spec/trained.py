"""The spec of a trained model says that it is one; all else is known of its versions.

It is also the spec of the fold over the labels of its answers, which measures and learns nothing.
"""

import json
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from manylabel_service.errors import ReleaseTooOld
from manylabel_service.online.spec.release import REPLAY_VERSIONS
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


_FOLD = "fold"
"""Names the version of the fold in a stored spec, if that is not the first."""


def stored_spec(spec: ModelSpec | TrainedSpec, fold: int) -> bytes:
    """Return a spec as the store keeps it, of a model that keeps to a version of the fold."""
    written = spec.to_bytes()
    return written if fold == 1 else json.dumps({**json.loads(written), _FOLD: fold}).encode()


def read_spec(spec: bytes) -> ModelSpec | TrainedSpec:
    """Return the spec of a stored model of either kind.

    Raises
    ------
    ReleaseTooOld
        Only a newer release computes its version of the fold, or knows its algorithm, an option or a field of it. A
        stored spec has a checksum, and was checked when the model was created.
    ValueError
        It is no spec, or one of a version of the fold that is computed no longer.
    """
    document = json.loads(spec)
    if not isinstance(document, dict):
        raise ValueError("a stored spec must be a JSON object")
    fold = document.pop(_FOLD, 1)
    if type(fold) is int and fold > REPLAY_VERSIONS[-1]:
        raise ReleaseTooOld(
            f"the model has version {fold} of the fold, this release computes up to {REPLAY_VERSIONS[-1]}"
        )
    if fold not in REPLAY_VERSIONS:
        raise ValueError(
            f"the model has version {fold} of the fold, this release computes {REPLAY_VERSIONS[0]} to {REPLAY_VERSIONS[-1]}"
        )
    spec = spec if fold == 1 else json.dumps(document).encode()
    try:
        return TrainedSpec.model_validate_json(spec) if is_trained(spec) else ModelSpec.from_bytes(spec)
    except ValidationError as error:
        if any(problem["type"] == "missing" for problem in error.errors()):
            raise  # a newer release adds to a spec, and leaves nothing out
        problem = error.errors()[0]
        field = ".".join(map(str, problem["loc"])) or "spec"
        raise ReleaseTooOld(f"this release does not know the model's {field}: {problem['msg']}") from error
