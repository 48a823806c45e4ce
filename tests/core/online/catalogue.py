"""Every online learner with each of its steps and strategies: to test a new one is a line here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from manylabel_core import FALT, SALT, KernelFALT, KernelPassiveAggressive, KernelSALT, PassiveAggressive
from manylabel_core.online.learner import OnlineLearner

Make = Callable[..., OnlineLearner]

LINEAR: dict[str, Make] = {
    **{f"falt-{step}": partial(FALT, step=step) for step in FALT.steps},
    "falt-passes": partial(FALT, passes=3),
    **{f"salt-{step}": partial(SALT, step=step) for step in SALT.steps},
    "salt-one-pass": partial(SALT, passes=1),
    "salt-passes": partial(SALT, passes=5),
    "passive-aggressive-1": partial(PassiveAggressive, variant="PA-I"),
    "passive-aggressive-2": partial(PassiveAggressive, variant="PA-II"),
}
"""Learners with a weight for each feature and label."""

EXPANSIONS: dict[str, Make] = {
    **{f"kernel-falt-{step}": partial(KernelFALT, step=step, gamma=0.2) for step in KernelFALT.steps},
    "kernel-falt-linear": partial(KernelFALT, kernel="linear", passes=2),
    "kernel-falt-poly": partial(KernelFALT, kernel="poly", gamma=0.2),
    "kernel-passive-aggressive": partial(KernelPassiveAggressive, gamma=0.2),
    "kernel-falt-project": partial(KernelFALT, strategy="project", budget=5, gamma=0.2),
    "kernel-falt-project-poly": partial(KernelFALT, strategy="project", budget=3, kernel="poly", gamma=0.2),
    "kernel-passive-aggressive-project": partial(KernelPassiveAggressive, strategy="project", budget=1, gamma=0.2),
}
"""Learners with support vectors."""

FEATURES: dict[str, Make] = {
    f"{name}-nystroem": partial(make, strategy="nystroem", budget=4, gamma=0.2)
    for name, make in (
        ("kernel-falt", KernelFALT),
        ("kernel-salt", KernelSALT),
        ("kernel-salt-passes", partial(KernelSALT, passes=2)),
        ("kernel-passive-aggressive", KernelPassiveAggressive),
    )
}
"""Learners that are linear in features of a kernel."""

LEARNERS = {**LINEAR, **EXPANSIONS, **FEATURES}


def configured(make: Make, **wanted: Any) -> OnlineLearner:
    """A learner with those of the wanted parameters that it has."""
    possible = make().get_params()
    return make(**{name: value for name, value in wanted.items() if name in possible})


def again(model: OnlineLearner, **changes: Any) -> OnlineLearner:
    """A new learner with the same parameters."""
    return type(model)(**{**model.get_params(), **changes})
