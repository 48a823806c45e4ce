"""Parameters of the trainers as pydantic models.

The trainers come from the catalogue of core. Nothing here loads an estimator: a server only validates requests, and the
training process loads its estimator.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from manylabel_core.batch import catalogue
from manylabel_core.batch.catalogue import TRAINERS, Trainer
from manylabel_service.parameters import model_of


class Params(BaseModel, defer_build=True):
    """Parameters of a trainer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def arguments(self, Y: Any) -> dict[str, Any]:
        """Return the arguments of the estimator for training labels Y: a CSR array of shape (n_samples, n_labels)."""
        return catalogue.arguments(self.model_dump(), Y)


PARAMS: dict[str, type[Params]] = {
    name: model_of(f"{trainer.estimator}Params", Params, trainer.title, trainer.parameters)
    for name, trainer in TRAINERS.items()
}
"""The parameters of each trainer, by its name."""


def complete(trainer: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters, with defaults for missing ones. Raises pydantic.ValidationError if a parameter is unknown
    or has an invalid value."""
    return PARAMS[trainer].model_validate(dict(params)).model_dump()


def needs(trainer: Trainer) -> str:
    """Return a sentence about the data that a trainer needs."""
    views = "a dataset with several views" if trainer.views else "labelled rows of one view"
    return f"{views}; rows in data.unlabelled are learnt from too" if trainer.unlabelled else views
