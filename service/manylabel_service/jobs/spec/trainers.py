"""The trainers: for each its parameters as pydantic checks them, and the estimator behind it.

All come from the catalogue of core, `manylabel_core.batch.catalogue`, where a further one is added. Nothing here
loads an estimator: a server only checks orders, and the process that trains loads the one that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, StrictBool, conlist, create_model

from manylabel_core.batch import catalogue


class Params(BaseModel):
    """Parameters of a trainer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def arguments(self, Y: Any) -> dict[str, Any]:
        """Return what the estimator gets, for training labels Y: a CSR array of shape (n_samples, n_labels)."""
        return catalogue.arguments(self.model_dump(), Y)


def params_of(trainer: catalogue.Trainer) -> type[Params]:
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


@dataclass(frozen=True, slots=True)
class Trainer:
    """Something that makes a model from a data set.

    Attributes
    ----------
    name : as clients call it.
    params : its parameters; the docstring of the class says what the trainer is.
    estimator : where the estimator is, as ``"package.module:Class"``. It is made with `Params.arguments`,
        `random_state`, `n_threads` and `warm_start`, and has `fit(X, Y, ..., label_names=, progress=)`,
        `decision_function(X)`, `to_bytes()` and `from_bytes(data)`.
    views : whether it needs a data set of several views; others learn from one.
    unlabelled : whether it learns from rows without labels too.
    passes : over the rows in an iteration of its fit, roughly; how often there are checkpoints goes by it.
    exact : whether its fit loses nothing when it goes on, so that any iteration may be the last before a checkpoint.
    """

    name: str
    params: type[Params]
    estimator: str
    views: bool = False
    unlabelled: bool = False
    passes: int = 1
    exact: bool = False

    @property
    def title(self) -> str:
        """The description of the trainer, in a sentence."""
        return (self.params.__doc__ or "").split("\n")[0]

    @property
    def needs(self) -> str:
        """The data that the trainer needs, in a sentence."""
        views = "a data set with several views" if self.views else "labelled rows of one view"
        return f"{views}; rows in data.unlabelled are learnt from too" if self.unlabelled else views

    def complete(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters with the defaults of those that are missing.

        Raises
        ------
        pydantic.ValidationError
            If one is unknown or not allowed.
        """
        return self.params.model_validate(dict(params)).model_dump()

    def estimator_class(self) -> Any:
        """The class of the estimator; loads it."""
        module, name = self.estimator.split(":")
        return getattr(import_module(module), name)


TRAINERS: dict[str, Trainer] = {}
"""All trainers, by name."""


def register(trainer: Trainer) -> None:
    """Add a trainer.

    Raises
    ------
    ValueError
        If there is one of that name.
    """
    if trainer.name in TRAINERS:
        raise ValueError(f"there is a trainer named {trainer.name!r} already")
    TRAINERS[trainer.name] = trainer


for _one in catalogue.TRAINERS.values():
    register(
        Trainer(
            _one.name,
            params_of(_one),
            f"manylabel_core.batch:{_one.estimator}",
            views=_one.views,
            unlabelled=_one.unlabelled,
            passes=_one.passes,
            exact=_one.exact,
        )
    )
