"""Base of learners that update margins: adaptive label thresholding and the passive-aggressive baselines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.models.linear.centroid import Centroid
from manylabel_core.online.models.linear.model import LinearModel
from manylabel_core.online.models.second_order.model import SecondOrder
from manylabel_core.online.models.stack.model import Stack
from manylabel_core.online.updates._multipass import MAX_PASSES
from manylabel_core.online.updates._update import IMPLICIT, MAX_STEP, MULTIPASS, PASSIVE_AGGRESSIVE, Update
from manylabel_core.parameters import FLAG, NULL, Choice, Number, declared, parameter

POSITIVE = Number(above=0, most=2.0**20)
"""Range of step sizes, deltas and coefficients of kernels; the paper searches up to 2^10."""

GRADIENT = "gradient"
"""Kind of step of the paper: a series of passes. The other kinds are implicit updates."""

STACKED = "stacked"
"""Kind of step with several experts, one of which takes steps; their margins are combined into log-odds."""

VARIANTS = ("PA-I", "PA-II")
"""Variants of the passive-aggressive loss: slack costs C times its amount, or C times its square."""


def step_size(steps: Mapping[str, float]) -> Any:
    """Return the parameter `eta` of a learner with these kinds of steps, and the default of each."""
    return parameter(
        None,
        POSITIVE,
        NULL,
        text="Step size. It suits examples of unit norm; choose a smaller one, by |x|^2, for larger ones. The loss is "
        "multiplied by it, and for all but the gradient step by the number of labels too, so that an irrelevant label "
        f"moves by about as much, however many labels there are. None means {grouped(steps)}.",
        adjustable=True,
    )


def damping(deltas: Mapping[str, float]) -> Any:
    """Return the parameter `delta` of a learner, and the default for each kind of step."""
    text = f"Constant that damps the first steps of a weight. None means {grouped(deltas)}."
    return parameter(None, POSITIVE, NULL, text=text, adjustable=True)


def step_kind(steps: Mapping[str, float], text: str) -> Any:
    """Return the parameter `step` of a learner, which selects one of these kinds of steps."""
    ends = "None means 'stacked', or 'gradient' if passes are set."
    return parameter(None, Choice(tuple(steps)), NULL, text=f"{text} {ends}")


def grouped(values: Mapping[str, float]) -> str:
    """Return the kinds of steps grouped by value, for example "1 (stacked, implicit) or 0.5 (gradient)"."""
    kinds = {value: ", ".join(kind for kind in values if values[kind] == value) for value in values.values()}
    return " or ".join(f"{value:g} ({names})" for value, names in kinds.items())


@declared
class MarginLearner(OnlineLearner):
    """Base of learners that move their weights along each example by an update computed from its scores."""

    fit_intercept: bool = parameter(
        True, FLAG, text="Whether a constant feature is added after scaling, or a constant to the kernel."
    )
    intercept_scaling: float = parameter(
        0.3,
        POSITIVE,
        text="Value of the constant feature, or root of the constant of the kernel; with a stack also the constant "
        "feature of the linear experts. Set it by the norm of the examples: at 0.3, the intercept takes a twelfth of "
        "each step on an example of unit norm; at 1 it takes half, which costs much on sparse text.",
    )

    @property
    def _constant(self) -> float:
        """Return the constant feature; 0 for none."""
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _check_parameters(self) -> None:
        self._read_update()

    @abstractmethod
    def _read_update(self) -> Update:
        """Return the update; raise ValueError if its parameters conflict."""

    def _adjust(self, model: Any) -> None:
        model.set_update(self._read_update())


@declared
class ThresholdingLearner(MarginLearner):
    """Base of adaptive label thresholding: a loss with a learnt threshold, lowered by one of several kinds of steps."""

    steps: ClassVar[Mapping[str, float]]
    """Default eta of each kind of step of the learner, the best kind first."""

    eta: float | None = parameter(None, POSITIVE, NULL, text="Step size.", adjustable=True)
    step: str | None = parameter(None, Choice(()), NULL, text="Update rule.")
    passes: int | None = parameter(
        None,
        Number(integer=True, least=1, most=1000),
        NULL,
        python=(Number(integer=True, least=1, most=MAX_PASSES), NULL),
        text="Maximum number of passes of the gradient step over one example, the paper's M. The passes end earlier "
        "once the loss of the example is 0. Without `step`, it selects the gradient step. None means the number of "
        "labels with the gradient step.",
        adjustable=True,
    )

    _deltas: ClassVar[Mapping[str, float]] = MappingProxyType({})
    """Default delta of each kind of step; empty unless every weight has a separate metric."""

    def _read_fixed(self) -> tuple[object, ...]:
        return (*super()._read_fixed(), self._kind)  # `passes` may select the step

    @property
    def _kind(self) -> str:
        """Return the requested kind of step. The default is the paper's if passes are set, otherwise the best kind."""
        if self.step is not None:
            return self.step
        return GRADIENT if self._as_published else next(iter(self.steps))

    def _read_update(self) -> Update:
        kind = self._kind
        if self._as_published and kind != GRADIENT:
            raise ValueError(f"passes must be None with step={kind!r}, which has no passes")
        eta = float(self.steps[kind] if self.eta is None else self.eta)
        if kind != GRADIENT:
            return Update(IMPLICIT, eta, delta=self._read_delta(kind))
        return Update(MULTIPASS, eta, int(self.passes or 0), delta=self._read_delta(kind))

    def _read_delta(self, kind: str) -> float:
        if not self._deltas:
            return 0.0
        given: Any = getattr(self, "delta")  # noqa: B009  # only learners with deltas have this parameter
        return float(self._deltas[kind] if given is None else given)

    def _resolved(self) -> dict[str, Any]:
        kind, update = self._kind, self._read_update()
        return {
            **super()._resolved(),
            "step": kind,
            "eta": update.eta,
            **({"delta": update.delta} if self._deltas else {}),
            "passes": self.passes,
        }

    @property
    def _stacked(self) -> bool:
        return self._kind == STACKED

    @property
    def _as_published(self) -> bool:
        """True if passes are set, which changes the defaults of scaling and thresholds to those of the paper."""
        return self.passes is not None

    def _resolved_scaling(self) -> str:
        return "none" if self.scaling is None and self._as_published else super()._resolved_scaling()

    def _resolved_optimise(self) -> str:
        return "none" if self.optimise is None and self._as_published else super()._resolved_optimise()


@declared
class LinearThresholdingLearner(ThresholdingLearner):
    """Adaptive label thresholding with a linear model, alone or stacked with others."""

    def _make_model(self) -> LinearModel | Stack:
        update = self._read_update()
        by_feature = self._shrinks and update.delta == 0.0
        linear = LinearModel(update, self._constant, self.dtype, by_feature)
        if not self._stacked:
            return linear
        return Stack(linear, {"centroid": Centroid(self.dtype), "second": SecondOrder(self._constant)})


@declared
class AggressiveLearner(MarginLearner):
    """Passive-aggressive learner: every label is a separate binary problem, with the threshold 0."""

    C: float = parameter(
        1.0,
        POSITIVE,
        text="Aggressiveness: the price of the loss that remains after a step. It suits examples of unit norm.",
        adjustable=True,
    )
    variant: str = parameter(
        "PA-I",
        Choice(VARIANTS),
        text="Whether C is the price of that loss (PA-I) or of its square (PA-II).",
        adjustable=True,
    )

    def _read_update(self) -> Update:
        C = float(self.C)
        return (
            Update(PASSIVE_AGGRESSIVE, C)
            if self.variant == "PA-I"
            else Update(PASSIVE_AGGRESSIVE, MAX_STEP, slack=0.5 / C)
        )

    def _resolved_optimise(self) -> str:
        return "none" if self.optimise is None else self.optimise
