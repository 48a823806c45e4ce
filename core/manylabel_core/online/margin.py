"""Learners of margins: base of adaptive label thresholding and the passive-aggressive baselines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from manylabel_core.checks import check_choice, check_flag
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.models.linear.centroid import Centroid
from manylabel_core.online.models.linear.model import LinearModel
from manylabel_core.online.models.stack.model import Stack
from manylabel_core.online.parameters import (
    DEFAULT_PASSES_PER_LABEL,
    GRADIENT,
    STACKED,
    Documentation,
    check_passes,
    check_positive,
    resolve_step,
)
from manylabel_core.online.updates._passive_aggressive import MAX_STEP
from manylabel_core.online.updates._update import IMPLICIT, MULTIPASS, PASSIVE_AGGRESSIVE, Update

VARIANTS = ("PA-I", "PA-II")
"""Slack that costs C times its amount, and C times its square."""


class MarginLearner(OnlineLearner):
    """Base of learners that move their weights along each example by an update computed from its scores.

    A subclass says which update; its model may be linear, an expansion, or linear in features of a kernel.
    """

    average: bool
    fit_intercept: bool
    intercept_scaling: float

    _fixed = ("average", "fit_intercept", "intercept_scaling", *OnlineLearner._fixed)

    _documentation: ClassVar[Documentation] = {
        "average": (
            "bool",
            "Predict with the mean of the weights (of a sum over support vectors: of the coefficients) after each "
            "example since the label appeared, those without a loss included, instead of the present ones. Learning "
            "goes by the present ones. It takes as much memory again as the weights.",
        ),
        "fit_intercept": ("bool", "Add a constant feature (after scaling)."),
        "intercept_scaling": (
            "float",
            "The constant, in (0, 2^20]. Set it by the norm of the examples: at 0.3, the intercept takes a twelfth of "
            "each step on an example of unit norm; at 1 it takes half, which costs much on sparse text.",
        ),
    }

    @property
    def _constant(self) -> float:
        """Return the constant feature; 0 for none."""
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _check_parameters(self) -> None:
        self._read_update()
        check_positive("intercept_scaling", self.intercept_scaling)
        check_flag("fit_intercept", self.fit_intercept)
        check_flag("average", self.average)

    @abstractmethod
    def _read_update(self) -> Update:
        """Check the parameters of an update, and return it."""

    def _adjust(self, model: Any) -> None:
        model.set_update(self._read_update())


class ThresholdingLearner(MarginLearner):
    """A learner of adaptive label thresholding lowers a loss with a learnt threshold, by the step that was chosen."""

    steps: ClassVar[Mapping[str, float]]
    """The kinds of steps that the learner has, the best first, and the eta that suits each."""

    eta: float | None
    passes: int | None
    passes_per_label: float | None
    step: str | None

    _deltas: ClassVar[Mapping[str, float]] = MappingProxyType({})
    """By the kind of step the delta that suits it, where every weight has a separate metric."""

    _fixed = ("step", *MarginLearner._fixed)

    _documentation: ClassVar[Documentation] = {
        "passes": (
            "int",
            "The paper's M, for the gradient step: most passes over one example, 1 to 100,000. They end earlier once "
            "the loss of the example is 0.",
        ),
        "passes_per_label": (
            "float",
            "M as a multiple of the number of labels, in (0, 100], instead of `passes`. None is 1 with the gradient "
            "step where no `passes` are given.",
        ),
        "scaling": (
            '{"auto", "none", "unit"}',
            f'{OnlineLearner._documentation["scaling"][1]} None is "auto", or "none" where passes are given.',
        ),
        "optimise": (
            '{"none", "micro_f1", "macro_f1", "hamming"}',
            f"{OnlineLearner._documentation['optimise'][1]} None is "
            '"micro_f1", or "none" where passes are given or `calibrate` is False.',
        ),
    }

    def _read_fixed(self) -> tuple[object, ...]:
        return (*super()._read_fixed(), self._kind)  # `passes` may select the step

    @property
    def _kind(self) -> str:
        return resolve_step(self.step, self.passes, self.passes_per_label, self.steps)

    def _read_update(self) -> Update:
        kind = self._kind
        passes, passes_per_label = check_passes(self.passes, self.passes_per_label)
        eta = check_positive("eta", self.steps[kind] if self.eta is None else self.eta)
        if kind == GRADIENT:
            return Update(MULTIPASS, eta, passes, passes_per_label, delta=self._read_delta(kind))
        return Update(IMPLICIT, eta, delta=self._read_delta(kind))

    def _read_delta(self, kind: str) -> float:
        if not self._deltas:
            return 0.0
        given: Any = getattr(self, "delta")  # noqa: B009  # only learners with deltas have this parameter
        return check_positive("delta", self._deltas[kind] if given is None else given)

    def _resolved(self) -> dict[str, Any]:
        kind, update = self._kind, self._read_update()
        multiple = DEFAULT_PASSES_PER_LABEL if self.passes is None else None
        return {
            **super()._resolved(),
            "step": kind,
            "eta": update.eta,
            **({"delta": update.delta} if self._deltas else {}),
            "passes": self.passes,
            "passes_per_label": (self.passes_per_label or multiple) if kind == GRADIENT else None,
        }

    @property
    def _stacked(self) -> bool:
        return self._kind == STACKED

    @property
    def _as_published(self) -> bool:
        """True if passes are given, which changes the defaults of scaling and thresholds to those of the paper."""
        return self.passes is not None or self.passes_per_label is not None

    def _resolved_scaling(self) -> str:
        return "none" if self.scaling is None and self._as_published else super()._resolved_scaling()

    def _resolved_optimise(self) -> str:
        return "none" if self.optimise is None and self._as_published else super()._resolved_optimise()


class LinearThresholdingLearner(ThresholdingLearner):
    """Adaptive label thresholding with a linear model, alone or stacked with centroids."""

    def _make_model(self) -> LinearModel | Stack:
        update = self._read_update()
        by_feature = self._shrinks and update.delta == 0.0
        linear = LinearModel(update, self._constant, self.average, self.dtype, by_feature)
        return Stack(linear, {"centroid": Centroid(self.dtype)}) if self._stacked else linear


class AggressiveLearner(MarginLearner):
    """Passive-aggressive learner: every label is a separate binary problem, with the threshold 0."""

    C: float
    variant: str

    _documentation: ClassVar[Documentation] = {
        "C": (
            "float",
            "Aggressiveness, in (0, 2^20]: the price of the loss that is left after a step. It suits examples of unit "
            "norm.",
        ),
        "variant": ('{"PA-I", "PA-II"}', "Whether C is the price of that loss or of its square."),
        "scaling": (
            '{"auto", "none", "unit"}',
            f'{OnlineLearner._documentation["scaling"][1]} None is "auto".',
        ),
        "optimise": (
            '{"none", "micro_f1", "macro_f1", "hamming"}',
            f'{OnlineLearner._documentation["optimise"][1]} None is "none".',
        ),
        "on_drift": (
            '{"restart"}',
            'What an alarm does before the next example is learnt; needs `drift`. "restart": the label is forgotten '
            'and learnt from scratch. None: nothing. "raise" is for learners whose steps shrink, and is refused here.',
        ),
    }

    def _read_update(self) -> Update:
        C = check_positive("C", self.C)
        if check_choice("variant", self.variant, VARIANTS) == "PA-I":
            return Update(PASSIVE_AGGRESSIVE, C)
        return Update(PASSIVE_AGGRESSIVE, MAX_STEP, slack=0.5 / C)

    def _resolved_optimise(self) -> str:
        return "none" if self.optimise is None else self.optimise
