"""What all kernel learners share: the kernel's parameters, and the model that they stand for."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core._mercer import KERNELS
from manylabel_core.checks import check_choice, check_count, check_flag, shown
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.models.expansion.merge import Merge
from manylabel_core.online.models.expansion.model import DropSmallest, Expansion, KeepAll, Strategy
from manylabel_core.online.models.expansion.project import Project
from manylabel_core.online.models.features.fourier import RandomFeatures
from manylabel_core.online.models.features.model import FeatureMap, FeatureModel
from manylabel_core.online.models.features.nystroem import Landmarks
from manylabel_core.online.models.linear.model import LinearLearner
from manylabel_core.online.models.model import KernelModel, KernelSettings
from manylabel_core.online.parameters import check_not_negative, check_positive
from manylabel_core.rows import Rows, Targets

MAX_BUDGET = 2**31 - 1
MAX_DEGREE = 10

MOST = {"drop": MAX_BUDGET, "merge": MAX_BUDGET, "project": 4096, "rff": 16384, "nystroem": 4096}
"""The strategies, and the largest budget of each: "project" and "nystroem" keep its square in memory."""

RBF_ALONE = ("merge", "rff")
"""Strategies for the RBF kernel only: a mixture of two vectors, and a spectrum, are those of this kernel."""


EXPANSIONS: dict[str, Callable[[KernelSettings, int], Strategy]] = {
    "drop": DropSmallest,
    "merge": Merge,
    "project": Project,
}
FEATURES: dict[str, Callable[[KernelSettings, int], FeatureMap]] = {"rff": RandomFeatures, "nystroem": Landmarks}


class KernelLearner(OnlineLearner):
    """A learner in the feature space of a kernel; a subclass says by `_read_step` what a round is.

    A round must move the weights along its example alone, by coefficients that depend on the example's scores and
    K(x, x) (see `run_round`).
    """

    kernel: str
    gamma: float
    coef0: float
    degree: int
    budget: int | None
    strategy: str | None
    seed: int

    _fixed: tuple[str, ...] = (
        "kernel",
        "gamma",
        "coef0",
        "degree",
        "budget",
        "strategy",
        "seed",
        *OnlineLearner._fixed,
    )
    _strategies: tuple[str, ...] = ("project", "merge", "drop", "rff", "nystroem")
    """Those that the learner has, the best first, by measurement."""

    _expands = True
    """Whether there is a model without a budget."""

    _strategy: str
    _shape: tuple[int, float, float, int]
    _content: KernelModel

    def _linear(self) -> LinearLearner:
        """The learner of the same rounds that is linear in given features, which it does not scale."""
        raise NotImplementedError

    @property
    def n_support_(self) -> int:
        """Number of support vectors."""
        self._settle()
        return self._content.n_support

    def _check_parameters(self) -> None:
        kind = KERNELS[check_choice("kernel", self.kernel, KERNELS)]
        gamma, coef0 = check_positive("gamma", self.gamma), check_not_negative("coef0", self.coef0)
        self._shape = (kind, gamma, coef0, check_count("degree", self.degree, MAX_DEGREE))
        check_flag("average", self.average)
        self._check_budget()
        if self.budget is not None and self._strategy in FEATURES:
            linear = self._linear()
            linear._check()
            if self._settled is not None and isinstance(self._content, FeatureModel):
                self._content.follow(linear)

    def _check_budget(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, Integral) or not 0 <= int(self.seed) < 2**63:
            raise ValueError(f"seed must be an integer from 0 to 2^63 - 1, not {shown(self.seed)}")
        allowed = [name for name in self._strategies if self.kernel == "rbf" or name not in RBF_ALONE]
        if self.strategy is not None and check_choice("strategy", self.strategy, self._strategies) not in allowed:
            raise ValueError(f"strategy must be one of {', '.join(map(repr, allowed))} with kernel={self.kernel!r}")
        self._strategy = allowed[0] if self.strategy is None else self.strategy
        if self.budget is None:
            if self.strategy is not None or not self._expands:
                raise ValueError(f"budget must be given with strategy={self._strategy!r}")
            return
        check_count("budget", self.budget, MOST[self._strategy])
        if self._strategy == "rff" and self.budget % 2:
            raise ValueError(f"budget must be even with strategy='rff', not {self.budget}")

    def _create(self) -> None:
        budget = None if self.budget is None else int(self.budget)
        given = self._shape, self._constant, budget, int(self.seed), bool(self.average), self.dtype
        settings = KernelSettings(*given)
        if budget is None:
            self._content = Expansion(settings, KeepAll())
        elif self._strategy in EXPANSIONS:
            self._content = Expansion(settings, EXPANSIONS[self._strategy](settings, budget))
        else:
            self._content = FeatureModel(FEATURES[self._strategy](settings, budget), self._linear())

    def _enlarge(self, n_features: int, n_labels: int) -> None:
        self._content.enlarge(n_features, n_labels)

    def _learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        self._content.learn(rows, targets, self._step, self._n_features, scores)

    def _score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        self._content.score(rows, self._n_features, scores)

    def _chosen(self) -> dict[str, Any]:
        return {**super()._chosen(), "strategy": None if self.budget is None else self._strategy}

    def _quicken(self, label: int | None) -> None:
        self._content.quicken(label)

    def _restart(self, label: int) -> None:
        self._content.restart(label)

    def _model(self) -> dict[str, NDArray[Any]]:
        return self._content.arrays(self._n_features, self._n_labels)

    def _model_bytes(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        return self._content.nbytes_after(n_features, n_labels, n_samples, n_values)

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        return self._content.restore(arrays)
