"""What FALT, SALT and their kernel versions share: how the step of a round is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.parameters import (
    COIN,
    DEFAULT_PASSES,
    GRADIENT,
    PAIRED,
    check_passes,
    check_positive,
    check_without_sizes,
    chosen_step,
)
from manylabel_core.online.updates._update import BY_COIN, BY_GRADIENT, EXACTLY

_KINDS = {GRADIENT: BY_GRADIENT, COIN: BY_COIN}


class ThresholdingLearner(OnlineLearner):
    """A learner of the adaptive label thresholding family: a loss with a learnt threshold, and a step to lower it."""

    eta: float | None
    passes: int | float | None
    step: str | None

    _etas: Mapping[str, float]
    """The kinds of steps that the learner has, the best first, and the eta that suits each; a coin has no other."""

    _fixed: tuple[str, ...] = ("step", *OnlineLearner._fixed)
    _kind: str

    @property
    def _paired(self) -> bool:
        return self._kind == PAIRED

    def _read_step(self) -> tuple[float, int, float, int]:
        self._kind = chosen_step(self.step, self.passes, self._etas)
        passes = check_passes(DEFAULT_PASSES if self.passes is None else self.passes)
        eta = self._etas[self._kind] if self.eta is None else self.eta
        if self._kind == COIN:
            check_without_sizes(COIN, eta=self.eta)
        return (check_positive("eta", eta), *passes, _KINDS.get(self._kind, EXACTLY))

    def _chosen(self) -> dict[str, Any]:
        passes = DEFAULT_PASSES if self.passes is None else self.passes
        return {
            **super()._chosen(),
            "step": self._kind,
            "eta": None if self._kind == COIN else self._step[0],
            "passes": passes if self._kind == GRADIENT else None,
        }

    def _chosen_scaling(self) -> str:
        """As asked for; where passes are given, features as they are, as the paper takes them."""
        return "none" if self.scaling is None and self.passes is not None else super()._chosen_scaling()

    def _chosen_optimise(self) -> str:
        """As asked for; where passes are given, the learnt threshold alone, as in the paper."""
        return "none" if self.optimise is None and self.passes is not None else super()._chosen_optimise()
