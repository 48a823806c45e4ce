"""Sources of true labels and the factors of their weights, in the spec of a model."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


class Sources(BaseModel):
    """Factors of the weights of examples, by the source of their labels. Labels of people count in full."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    machine: _Share = 0.0
    """Factor for labels that a model has predicted and no person has checked; 0: nothing is learnt from them."""
    rule: _Share = 1.0
    """Factor for labels that a rule has given; 0: nothing is learnt from them."""

    def factor(self, source: str) -> float:
        """Return the factor of a source."""
        return self.machine if source == "machine" else self.rule if source == "rule" else 1.0
