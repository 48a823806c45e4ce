"""Parameters of the learners, as sent by clients and stored.

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
    """Return a field with the choices of core; the learner itself rejects others."""
    return Field(default=None, strict=True, json_schema_extra={"enum": [*names, None]})


class Params(BaseModel):
    """Parameters of all learners. Null leaves the choice to the learner; a `ModelSpec` has the resolved value."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    _learner: ClassVar[type[OnlineLearner]]

    calibrate: StrictBool = True
    """Whether probabilities are calibrated for each label."""
    optimise: Literal["none", "micro_f1", "macro_f1", "hamming"] | None = None
    """Metric that the decision threshold of each label optimises; needs `calibrate`. With none, labels above the learnt
    threshold are predicted. Null means micro_f1, or none if `passes` are given, without `calibrate`, and for the
    baselines."""
    drift: Literal["adwin"] | None = None
    """Drift detector for the errors of each label and of all labels together; null for no detector."""
    on_drift: Literal["raise", "restart"] | None = None
    """Reaction to an alarm of the detector: make steps as large as at the start (raise), reset the label (restart), or
    none (null). Needs `drift`."""

    @classmethod
    def choices(cls, name: str) -> list[str]:
        """Return the choices of a parameter whose list is in core; an empty list for others."""
        extra: Any = cls.model_fields[name].json_schema_extra if name in cls.model_fields else None
        return [] if extra is None else [choice for choice in extra["enum"] if choice is not None]

    def learner(self, scaling: str | None, missing: str | None = None) -> OnlineLearner:
        """Return a new, untrained learner."""
        make: Any = self._learner  # each learner has its own parameters
        learner: OnlineLearner = make(**self.model_dump(), scaling=scaling, missing=missing)
        return learner


class _MarginParams(Params):
    """Parameters of learners that learn weights by margins."""

    average: StrictBool = False
    """Whether the mean of the weights so far predicts, instead of the current weights."""
    fit_intercept: StrictBool = True
    """Whether a constant feature is added."""
    intercept_scaling: _Positive = 0.3
    """Value of the constant feature."""


class _ThresholdingParams(_MarginParams):
    """Parameters of FALT, SALT and their kernel versions."""

    eta: _Positive | None = None
    """Step size; null means the default of the step."""
    passes: _Passes | None = None
    """Maximum number of passes of the gradient step over one example. Without `step`, it selects the gradient step."""
    passes_per_label: _PassesPerLabel | None = None
    """Maximum number of passes per label, instead of `passes`. Null means 1 with the gradient step and no `passes`."""


class FaltParams(_ThresholdingParams):
    """FALT: a linear model with a learnt threshold."""

    _learner = FALT

    step: str | None = _one_of(FALT.steps)
    """Update rule: solve the problem of the example with a step size per feature (adaptive) or a single step size
    (implicit), combine the adaptive model and a centroid of each label in a logistic model (stacked), or make passes
    (gradient)."""


class _DampedParams(_MarginParams):
    """Parameters of SALT and its kernel version."""

    delta: _Positive | None = None
    """Constant added to the root of the summed squared gradients; large values damp the first steps. Null means the
    default of the step."""


class SaltParams(_ThresholdingParams, _DampedParams):
    """SALT: a linear model with a learnt threshold, and a step size per weight (AdaGrad)."""

    _learner = SALT

    step: str | None = _one_of(SALT.steps)
    """Update rule: solve the problem of the example (implicit), combine that model and a centroid of each label in a
    logistic model (stacked), or make passes (gradient)."""


class _KernelParams(_MarginParams):
    """Parameters of kernel learners."""

    fit_intercept: StrictBool = False
    """Whether a constant is added to the kernel."""
    intercept_scaling: _Positive = 0.3
    """Square root of the constant that is added to the kernel."""
    kernel: Literal["rbf", "linear", "poly"] = "rbf"
    """Kernel function."""
    coef0: _NotNegative = 1.0
    """Constant of the polynomial kernel."""
    degree: Annotated[int, Field(strict=True, ge=1, le=10)] = 2
    """Degree of the polynomial kernel."""
    budget: _Budget | None = None
    """Maximum number of support vectors, or number of kernel features. Null keeps all vectors, up to the size limit of
    a model."""
    strategy: str | None = _one_of(KernelFALT.strategies)
    """Budget strategy: project a vector onto the others, merge it with another, or use a linear model on kernel
    features (rff, nystroem). Null means the best one."""
    seed: Annotated[int, Field(strict=True, ge=0, le=2**53 - 1)] = 0
    """Random seed of the kernel features."""


class _KernelThresholdingParams(_KernelParams, _ThresholdingParams):
    """Parameters of kernel FALT and kernel SALT."""

    step: str | None = _one_of(KernelFALT.steps)
    """Update rule: solve the problem of the example (implicit), combine the kernel and two linear experts (stacked), or
    make passes (gradient)."""
    gamma: _Positive | None = None
    """Coefficient of the kernel: 1 / (2 s2) for an RBF kernel of the width s2 of the paper. Null means the default for
    the step, the kernel and the budget."""


class KernelFaltParams(_KernelThresholdingParams):
    """Kernel FALT: a nonlinear model of support vectors with a learnt threshold."""

    _learner = KernelFALT


class KernelSaltParams(_KernelThresholdingParams, _DampedParams):
    """Kernel SALT: SALT on `budget` kernel features."""

    _learner = KernelSALT

    budget: _Budget = 500
    """Number of kernel features."""
    strategy: str | None = _one_of(KernelSALT.strategies)
    """Kernel features: from examples (nystroem), or random (rff). Null means the best one."""


class _AggressiveParams(_MarginParams):
    """Parameters of the baselines."""

    C: _Positive = 1.0
    """Aggressiveness: the penalty of the loss that remains after a step."""
    variant: Literal["PA-I", "PA-II"] = "PA-I"
    """Whether C penalises the loss (PA-I) or its square (PA-II)."""


class PassiveAggressiveParams(_AggressiveParams):
    """Passive-aggressive binary relevance: a linear model for each label."""

    _learner = PassiveAggressive


class KernelPassiveAggressiveParams(_KernelParams, _AggressiveParams):
    """Kernel passive-aggressive binary relevance: a model of support vectors for each label."""

    _learner = KernelPassiveAggressive

    gamma: _Positive = 1.0
    """Coefficient of the kernel: 1 / (2 s2) for an RBF kernel of the width s2 of the paper."""


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
