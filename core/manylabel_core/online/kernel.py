"""Kernel learners: the parameters of a kernel, and its models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, ClassVar

from manylabel_core._mercer import KERNELS
from manylabel_core.checks import check_count
from manylabel_core.online.margin import POSITIVE, MarginLearner
from manylabel_core.online.models.expansion.merge import Merge
from manylabel_core.online.models.expansion.model import Expansion
from manylabel_core.online.models.expansion.project import Project
from manylabel_core.online.models.expansion.strategy import Strategy
from manylabel_core.online.models.features.fourier import RandomFeatures
from manylabel_core.online.models.features.model import FeatureMap, FeatureModel
from manylabel_core.online.models.features.nystroem import Landmarks
from manylabel_core.online.models.linear.centroid import Centroid
from manylabel_core.online.models.linear.model import LinearModel
from manylabel_core.online.models.points import KernelSettings
from manylabel_core.online.models.stack.model import Stack
from manylabel_core.parameters import NULL, Choice, Number, Other, again, declared, parameter

MAX_BUDGETS = {"merge": 2**31 - 1, "project": 4096, "rff": 16384, "nystroem": 4096}
"""Maximum budget of each strategy: the memory of "project" and "nystroem" is proportional to its square."""

RBF_ALONE = ("merge", "rff")
"""Strategies for the RBF kernel only."""

WHOLE = Other("an integer", lambda value: isinstance(value, Integral) and not isinstance(value, bool))
"""Budgets, whose upper bound depends on the strategy."""

GAMMA, STACKED_GAMMA = 1.0, 3.0
"""Default coefficients of a single kernel, and of a kernel that complements linear experts."""

EXPANSIONS: Mapping[str, Callable[[KernelSettings, int], Strategy]] = {"merge": Merge, "project": Project}
FEATURES: Mapping[str, Callable[[KernelSettings, int], FeatureMap]] = {"rff": RandomFeatures, "nystroem": Landmarks}


@declared
class KernelLearner(MarginLearner):
    """Base of learners in the feature space of a kernel.

    Its update moves the weights only along the example, by coefficients computed from the example's scores and K(x, x)
    (see `run_update`). If each weight has a metric, the model must be linear in features of the kernel.
    """

    strategies: ClassVar[tuple[str, ...]] = ("project", "merge", "rff", "nystroem")
    """Names of the budget strategies, best first by benchmark."""

    _expands = True
    """Whether a model without a budget exists."""

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
        Number(integer=True, least=1, most=1_000_000),
        NULL,
        python=(WHOLE, NULL),
        text="Maximum number of support vectors, or number of features for 'rff' and 'nystroem'; then memory and time "
        "do not grow with the stream. At most 4,096 for 'project' and 'nystroem', which keep its square in memory, and "
        "16,384, even, for 'rff'. None keeps all examples with a loss.",
    )
    strategy: str | None = parameter(
        None,
        Choice(("project", "merge", "rff", "nystroem")),
        NULL,
        text="Budget strategy, described in the notes of `KernelFALT`; needs a budget: project a vector onto the "
        "others, merge it with another, or use a linear model on kernel features ('rff', 'nystroem'). None means "
        "'project'.",
    )
    seed: int = parameter(
        0,
        Number(integer=True, least=0, most=2**53 - 1),
        python=(Number(integer=True, least=0, most=2**63 - 1),),
        text="Random seed of the frequencies of 'rff'.",
    )
    fit_intercept: bool = again(MarginLearner, "fit_intercept", False)

    @property
    def n_support_(self) -> int:
        """Return the number of support vectors."""
        model: Any = self.pipeline.model
        return int((model.first if self._stacked else model).n_support)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        strategy = self._resolved_strategy()
        if self.budget is None:
            if self.strategy is not None or not self._expands:
                raise ValueError(f"budget must be set with strategy={strategy!r}")
        elif check_count("budget", self.budget, MAX_BUDGETS[strategy]) % 2 and strategy == "rff":
            raise ValueError(f"budget must be even with strategy='rff', not {self.budget}")

    def _resolved_strategy(self) -> str:
        """Return the requested strategy, or the best one for the kernel."""
        allowed = [name for name in self.strategies if self.kernel == "rbf" or name not in RBF_ALONE]
        if self.strategy is None:
            return allowed[0]
        if self.strategy not in allowed:
            raise ValueError(f"strategy must be one of {', '.join(map(repr, allowed))} with kernel={self.kernel!r}")
        return self.strategy

    def _resolved_gamma(self) -> float:
        """Return the requested coefficient, or the default, which avoids narrow kernels because they need more vectors
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
        constant, average = float(self.intercept_scaling), bool(self.average)
        adaptive = LinearModel(update, constant, average, self.dtype, by_feature=update.delta == 0.0)
        return Stack(kernel, {"adaptive": adaptive, "centroid": Centroid(self.dtype)})

    def _make_kernel_model(self) -> Expansion | FeatureModel:
        """Return an empty model in the feature space of the kernel."""
        update, strategy = self._read_update(), self._resolved_strategy()
        gamma = float(self._resolved_gamma())
        shape = KERNELS[self.kernel], gamma, float(self.coef0), int(self.degree)
        budget = None if self.budget is None else int(self.budget)
        average = bool(self.average)
        settings = KernelSettings(shape, self._constant, budget, int(self.seed), average, self.dtype)
        if budget is None:
            return Expansion(update, settings, Strategy())
        if strategy in EXPANSIONS:
            return Expansion(update, settings, EXPANSIONS[strategy](settings, budget))
        linear = LinearModel(update, self._constant, average, self.dtype, can_be_sparse=False)
        return FeatureModel(FEATURES[strategy](settings, budget), linear)
