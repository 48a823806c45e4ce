"""The parameters of each learner: what a client may give, and a store keeps.

The bounds here are those of a service, where one example must not hold up all others. The learner decides which
parameters go together: `ModelSpec` asks it.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from manylabel_core import FALT, SALT, KernelFALT, KernelPassiveAggressive, PassiveAggressive
from manylabel_core.online.kernel_salt import KernelSALT
from manylabel_core.online.learner import OnlineLearner

_Budget = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
_Positive = Annotated[float, Field(strict=True, gt=0, le=2.0**20, allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(strict=True, ge=0, le=2.0**20, allow_inf_nan=False)]


# The paper searches M up to 4 L; the bounds keep one example's learning short.
_Passes = Annotated[int, Field(strict=True, ge=1, le=1000)]
_PassesPerLabel = Annotated[float, Field(strict=True, gt=0, le=4, allow_inf_nan=False)]


def _one_of(names: Iterable[str]) -> Any:
    """Return a field whose choices are those of core; the learner itself refuses others."""
    return Field(default=None, strict=True, json_schema_extra={"enum": [*names, None]})


class Params(BaseModel):
    """Parameters that all learners have. Null leaves a choice to the learner; in a `ModelSpec` it is made already."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    _learner: ClassVar[type[OnlineLearner]]

    calibrate: StrictBool = True
    """If true, there are calibrated probabilities, label by label."""
    optimise: Literal["none", "micro_f1", "macro_f1", "hamming"] | None = None
    """Each label's decision threshold is chosen for this measure, which needs `calibrate`; with none, labels above the
    learnt threshold are predicted. Null takes micro_f1, or none where `passes` are given, without `calibrate`, and for
    the baselines."""
    drift: Literal["adwin"] | None = None
    """This detector watches the errors of each label, and of all labels together, for a rise."""
    on_drift: Literal["raise", "restart"] | None = None
    """An alarm makes steps as large as at the start (raise), resets a label (restart), or does nothing; needs
    `drift`."""

    @classmethod
    def choices(cls, name: str) -> list[str]:
        """Return the choices of a parameter of which the core keeps the list; none where there is no such one."""
        extra: Any = cls.model_fields[name].json_schema_extra if name in cls.model_fields else None
        return [] if extra is None else [choice for choice in extra["enum"] if choice is not None]

    def learner(self, scaling: str | None, missing: str | None = None) -> OnlineLearner:
        """Return a new, untrained learner."""
        make: Any = self._learner  # each learner has parameters of its own
        learner: OnlineLearner = make(**self.model_dump(), scaling=scaling, missing=missing)
        return learner


class _MarginParams(Params):
    """Parameters of learners that learn weights by margins."""

    average: StrictBool = False
    """If true, the mean of the weights so far predicts, instead of the current weights."""
    fit_intercept: StrictBool = True
    """If true, a constant feature is added."""
    intercept_scaling: _Positive = 0.3
    """This is the constant feature."""


class _ThresholdingParams(_MarginParams):
    """Parameters of FALT, SALT and their kernel versions."""

    eta: _Positive | None = None
    """This is the step size; null takes what suits the step."""
    passes: _Passes | None = None
    """The gradient step makes at most this many passes over one example. Without a step, they choose that one."""
    passes_per_label: _PassesPerLabel | None = None
    """This multiple of the number of labels replaces `passes`; null with the gradient step and no `passes`
    takes 1."""


class FaltParams(_ThresholdingParams):
    """FALT: a linear model with a learnt threshold."""

    _learner = FALT

    step: str | None = _one_of(FALT.steps)
    """An example is learnt by solving its problem, with a step size for each feature (adaptive), with one for all
    (implicit), or adaptive beside a centroid of each label, under one logistic model (stacked); or by passes
    (gradient)."""


class _DampedParams(_MarginParams):
    """Parameters of SALT and its kernel version."""

    delta: _Positive | None = None
    """This is added to the root of the summed squared gradients; large values damp the first steps. Null takes what
    suits the step."""


class SaltParams(_ThresholdingParams, _DampedParams):
    """SALT: a linear model with a learnt threshold, and a step size per weight (AdaGrad)."""

    _learner = SALT

    step: str | None = _one_of(SALT.steps)
    """An example is learnt by solving its problem (implicit), also beside a centroid of each label under one logistic
    model (stacked); or by passes (gradient)."""


class _KernelParams(_MarginParams):
    """Parameters of kernel learners."""

    fit_intercept: StrictBool = False
    """If true, a constant is added to the kernel."""
    intercept_scaling: _Positive = 0.3
    """This is the root of the constant that is added."""
    kernel: Literal["rbf", "linear", "poly"] = "rbf"
    """The kernel function is one of these."""
    coef0: _NotNegative = 1.0
    """This is the constant of the polynomial kernel."""
    degree: Annotated[int, Field(strict=True, ge=1, le=10)] = 2
    """This is the degree of the polynomial kernel."""
    budget: _Budget | None = None
    """There are at most this many support vectors, or features that stand for the kernel; null keeps all vectors, up to
    the size limit of a model."""
    strategy: str | None = _one_of(KernelFALT.strategies)
    """The budget is kept by projecting one vector onto the others, or merging it with another; or the model is linear
    in features of the kernel (rff, nystroem). Null takes the best one."""
    seed: Annotated[int, Field(strict=True, ge=0, le=2**53 - 1)] = 0
    """The random features are drawn with this seed."""


class _KernelThresholdingParams(_KernelParams, _ThresholdingParams):
    """Parameters of kernel FALT and kernel SALT."""

    step: str | None = _one_of(KernelFALT.steps)
    """An example is learnt by solving its problem (implicit), also beside two linear experts, whose margins are put
    together with that of the kernel (stacked); or by passes (gradient)."""
    gamma: _Positive | None = None
    """This is the coefficient of the kernel: 1 / (2 s2) for an RBF kernel of the width s2 of the paper. Null takes what
    suits the step, the kernel and the budget."""


class KernelFaltParams(_KernelThresholdingParams):
    """Kernel FALT: a nonlinear model of support vectors with a learnt threshold."""

    _learner = KernelFALT


class KernelSaltParams(_KernelThresholdingParams, _DampedParams):
    """Kernel SALT: SALT on kernel features, as many as the budget."""

    _learner = KernelSALT

    budget: _Budget = 500
    """The kernel has this many features."""
    strategy: str | None = _one_of(KernelSALT.strategies)
    """The features are those of examples (nystroem), or random ones (rff). Null takes the best ones."""


class _AggressiveParams(_MarginParams):
    """Parameters of the baselines."""

    C: _Positive = 1.0
    """This is the aggressiveness: the price of the loss that is left after a step."""
    variant: Literal["PA-I", "PA-II"] = "PA-I"
    """C is the price of the loss (PA-I), or of its square (PA-II)."""


class PassiveAggressiveParams(_AggressiveParams):
    """Passive-aggressive binary relevance: a linear model for each label."""

    _learner = PassiveAggressive


class KernelPassiveAggressiveParams(_KernelParams, _AggressiveParams):
    """Kernel passive-aggressive binary relevance: a model of support vectors, each label by itself."""

    _learner = KernelPassiveAggressive

    gamma: _Positive = 1.0
    """This is the coefficient of the kernel: 1 / (2 s2) for an RBF kernel of the width s2 of the paper."""


AnyParams = (
    FaltParams
    | SaltParams
    | KernelFaltParams
    | KernelSaltParams
    | PassiveAggressiveParams
    | KernelPassiveAggressiveParams
)

PARAMS: Mapping[str, type[Params]] = {
    "falt": FaltParams,
    "salt": SaltParams,
    "kernel_falt": KernelFaltParams,
    "kernel_salt": KernelSaltParams,
    "passive_aggressive": PassiveAggressiveParams,
    "kernel_passive_aggressive": KernelPassiveAggressiveParams,
}
"""By the name of the algorithm."""
