"""Kernel learners: the parameters of a kernel, and its models."""

from __future__ import annotations

from typing import Any, ClassVar

from manylabel_core._mercer import KERNELS
from manylabel_core.online.margin import POSITIVE, MarginLearner
from manylabel_core.online.models.expansion.model import Expansion
from manylabel_core.online.models.expansion.project import Project
from manylabel_core.online.models.expansion.strategy import Strategy
from manylabel_core.online.models.features.model import FeatureModel
from manylabel_core.online.models.features.nystroem import Landmarks
from manylabel_core.online.models.linear.centroid import Centroid
from manylabel_core.online.models.linear.model import LinearModel
from manylabel_core.online.models.points import KernelSettings
from manylabel_core.online.models.stack.model import Stack
from manylabel_core.parameters import NULL, Choice, Number, again, declared, parameter

BUDGET = Number(integer=True, least=1, most=4096)
"""Budgets: the memory of both strategies is proportional to the square of the budget."""

GAMMA, STACKED_GAMMA = 1.0, 3.0
"""Default coefficients of a single kernel, and of a kernel that complements linear experts."""


@declared
class KernelLearner(MarginLearner):
    """Base of learners in the feature space of a kernel.

    Its update moves the weights only along the example, by coefficients computed from the example's scores and K(x, x)
    (see `run_update`). If each weight has a metric, the model must be linear in features of the kernel.
    """

    strategies: ClassVar[tuple[str, ...]] = ("project", "nystroem")
    """Names of the budget strategies, best first by benchmark."""

    kernel: str = parameter(
        "rbf",
        Choice(("rbf", "linear", "poly")),
        text="Kernel function: exp(-gamma |u - v|^2), u.v, or (gamma u.v + coef0)^degree.",
    )
    gamma: float | None = parameter(
        None,
        POSITIVE,
        NULL,
        text="Coefficient of the kernel; 1 / (2 s2) for an RBF kernel of the paper's width s2. None means a number "
        "that suits examples of unit norm, because a stream has no statistics when it starts: 1, or 3 for an RBF "
        "kernel without a budget that is stacked with linear experts.",
    )
    coef0: float = parameter(1.0, Number(least=0, most=2.0**20), text="Constant of the kernel 'poly'.")
    degree: int = parameter(2, Number(integer=True, least=1, most=10), text="Degree of the kernel 'poly'.")
    budget: int | None = parameter(
        None,
        BUDGET,
        NULL,
        text="Maximum number of support vectors, or number of features for 'nystroem'; then memory and time do not "
        "grow with the stream. At most 4,096, because its square is kept in memory. None keeps all examples with a "
        "loss.",
    )
    strategy: str | None = parameter(
        None,
        Choice(strategies),
        NULL,
        text="Budget strategy, described in the notes of `KernelFALT`; needs a budget: project a vector onto the "
        "others, or use a linear model on kernel features ('nystroem'). None means 'project'.",
    )
    fit_intercept: bool = again(MarginLearner, "fit_intercept", False)

    @property
    def n_support_(self) -> int:
        """Return the number of support vectors."""
        model: Any = self.pipeline.model
        return int((model.first if self._stacked else model).n_support)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.budget is None and self.strategy is not None:
            raise ValueError(f"budget must be set with strategy={self.strategy!r}")

    def _resolved_strategy(self) -> str:
        """Return the requested strategy, or the best one."""
        return self.strategies[0] if self.strategy is None else self.strategy

    def _resolved_gamma(self) -> float:
        """Return the requested coefficient, or the default. The default avoids narrow kernels, which need more vectors
        than a budget allows.
        """
        if self.gamma is not None:
            return self.gamma
        return STACKED_GAMMA if self._stacked and self.kernel == "rbf" and self.budget is None else GAMMA

    def _resolved(self) -> dict[str, Any]:
        strategy = None if self.budget is None else self._resolved_strategy()
        return {**super()._resolved(), "gamma": self._resolved_gamma(), "strategy": strategy}

    def _make_model(self) -> Expansion | FeatureModel | Stack:
        update, kernel = self._read_update(), self._make_kernel_model()
        if not self._stacked:
            return kernel
        adaptive = LinearModel(update, float(self.intercept_scaling), self.dtype, by_feature=update.delta == 0.0)
        return Stack(kernel, {"adaptive": adaptive, "centroid": Centroid(self.dtype)})

    def _make_kernel_model(self) -> Expansion | FeatureModel:
        """Return an empty model in the feature space of the kernel."""
        update, strategy = self._read_update(), self._resolved_strategy()
        gamma = float(self._resolved_gamma())
        shape = KERNELS[self.kernel], gamma, float(self.coef0), int(self.degree)
        budget = None if self.budget is None else int(self.budget)
        settings = KernelSettings(shape, self._constant, budget, self.dtype)
        if budget is None:
            return Expansion(update, settings, Strategy())
        if strategy == "project":
            return Expansion(update, settings, Project(settings, budget))
        linear = LinearModel(update, self._constant, self.dtype, can_be_sparse=False)
        return FeatureModel(Landmarks(settings, budget), linear)
