"""What the passive-aggressive learners share: their parameters and the step of a round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.checks import check_choice
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.parameters import check_positive
from manylabel_core.online.updates._passive_aggressive import MOST
from manylabel_core.online.updates._update import PASSIVE_AGGRESSIVE

VARIANTS = ("PA-I", "PA-II")
"""Slack that costs C times its amount, and C times its square."""


class AggressiveLearner(OnlineLearner):
    """Binary relevance by passive-aggressive steps; the threshold is 0 for ever."""

    C: float
    variant: str

    def _read_step(self) -> tuple[float, int, float, int]:
        C = check_positive("C", self.C)
        if check_choice("variant", self.variant, VARIANTS) == "PA-I":
            return C, 0, 0.0, PASSIVE_AGGRESSIVE
        return MOST, 0, 0.5 / C, PASSIVE_AGGRESSIVE

    def _chosen_optimise(self) -> str:
        """As asked for; else as published."""
        return "none" if self.optimise is None else self.optimise


def check_threshold(arrays: Mapping[str, NDArray[Any]], *names: str) -> None:
    """Raise ValueError if the first column, the threshold's, of one of these arrays is not 0, where there are such."""
    for name in names:
        if name in arrays and np.any(arrays[name][:, :1]):
            raise ValueError(f"state must hold {name} with a first column of 0: the threshold never moves")
