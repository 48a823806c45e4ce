"""Parameters of the learners, as sent by clients and stored.

`manylabel_core` has bounds for clients that suit a service, in which one example must not delay all others. `ModelSpec`
calls the learner to validate combinations of parameters.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Union

from pydantic import ConfigDict

from manylabel_core.online import LEARNERS
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.parameters import Choice, parameters
from manylabel_service.documented import Documented
from manylabel_service.parameters import model_of


class Params(Documented):
    """Parameters of a learner. Null means the default of the learner, which `ModelSpec` sets."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    _learner: ClassVar[type[OnlineLearner]]

    @classmethod
    def choices(cls, name: str) -> list[str]:
        """Return the words that a parameter accepts; an empty list for other parameters."""
        kinds = [kind for each in parameters(cls._learner) if each.name == name for kind in each.kinds]
        return [word for kind in kinds if isinstance(kind, Choice) for word in kind.words]

    def learner(self, scaling: str | None, missing: str | None = None) -> OnlineLearner:
        """Return a new, untrained learner."""
        make: Any = self._learner  # each learner has its own parameters
        learner: OnlineLearner = make(**self.model_dump(), scaling=scaling, missing=missing)
        return learner


_OF_THE_SPEC = ("scaling", "missing")
"""Parameters that are fields of `ModelSpec`."""

_TEXTS: Mapping[str, str] = {
    "falt": "FALT: a linear model with a learnt threshold.",
    "salt": "SALT: a linear model with a learnt threshold, and a step size per weight (AdaGrad).",
    "kernel_falt": "Kernel FALT: a nonlinear model of support vectors with a learnt threshold.",
    "kernel_salt": "Kernel SALT: SALT on `budget` kernel features.",
    "passive_aggressive": "Passive-aggressive binary relevance: a linear model for each label.",
    "kernel_passive_aggressive": "Kernel passive-aggressive binary relevance: a model of support vectors for each "
    "label.",
}


def _params_of(algorithm: str, learner: type[OnlineLearner], text: str) -> type[Params]:
    name = "".join(map(str.capitalize, algorithm.split("_")))
    params = model_of(
        f"{name}Params", Params, text, (each for each in parameters(learner) if each.name not in _OF_THE_SPEC)
    )
    params._learner = learner
    return params


PARAMS: Mapping[str, type[Params]] = {name: _params_of(name, each, _TEXTS[name]) for name, each in LEARNERS.items()}
"""Parameter models by algorithm."""

AnyParams: Any = Union[tuple(PARAMS.values())]  # noqa: UP007 (of types that are not known before)
