"""Parameters of the trainers as pydantic models.

The trainers come from the catalogue of core. Nothing here loads an estimator: a server only validates requests, and the
training process loads its estimator.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, StrictBool, conlist, create_model

from manylabel_core.batch import catalogue
from manylabel_core.batch.catalogue import TRAINERS, Trainer


class Params(BaseModel):
    """Parameters of a trainer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def arguments(self, Y: Any) -> dict[str, Any]:
        """Return the arguments of the estimator for training labels Y: a CSR array of shape (n_samples, n_labels)."""
        return catalogue.arguments(self.model_dump(), Y)


def _params_of(trainer: Trainer) -> type[Params]:
    """Make the model of a trainer's parameters."""
    fields: Any = {
        each.name: (
            Union[tuple(map(_annotation, each.kinds))],  # noqa: UP007 (of types that are not known before)
            Field(default=each.default, description=each.description),
        )
        for each in trainer.parameters
    }
    return create_model(f"{trainer.estimator}Params", __base__=Params, __doc__=trainer.title, **fields)


def _annotation(kind: catalogue.Kind) -> Any:
    match kind:
        case catalogue.Number():
            return _number(kind)
        case catalogue.Choice(words):
            return Literal[words]
        case catalogue.Flag():
            return StrictBool
        case catalogue.Null():
            return None
        case catalogue.Matrix(entries, most_rows):
            return conlist(conlist(_number(entries), min_length=1, max_length=most_rows), max_length=most_rows)


def _number(kind: catalogue.Number) -> Any:
    bounds: Any = {"ge": kind.least, "gt": kind.above, "le": kind.most, "lt": kind.below}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    if kind.integer:
        return Annotated[int, Field(strict=True, **given)]
    return Annotated[float, Field(strict=True, allow_inf_nan=False, **given)]


PARAMS: dict[str, type[Params]] = {name: _params_of(trainer) for name, trainer in TRAINERS.items()}
"""The parameters of each trainer, by its name."""


def complete(trainer: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with the defaults of those that are missing. Raises pydantic.ValidationError if one is
    unknown or not allowed."""
    return PARAMS[trainer].model_validate(dict(params)).model_dump()


def needs(trainer: Trainer) -> str:
    """Return a sentence about the data that a trainer needs."""
    views = "a dataset with several views" if trainer.views else "labelled rows of one view"
    return f"{views}; rows in data.unlabelled are learnt from too" if trainer.unlabelled else views
