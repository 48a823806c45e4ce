"""Distance of the defaults from the best setting of a grid, for each stream.

The grids have the scaling "auto" and, for linear learners, "unit"; powers of 2 of the step size around the default for
every kind of step; SALT's delta; intercepts of 0.3 and 1; the kernel's gamma; C and the variant of the
passive-aggressive learner; and the default with `optimise` none or macro_f1.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.metrics import macro_f1, micro_f1
from manylabel_core.rows import as_rows, as_targets

Setting = dict[str, Any]
AIM = 0.02
"""Maximum distance of a default from the best setting."""

_SCALES = tuple({"scaling": scaling, "intercept_scaling": c} for scaling, c in product(("auto", "unit"), (0.3, 1.0)))
_OPTIMISED = tuple({"optimise": measure} for measure in ("none", "macro_f1"))


def _powers(middle: float, below: int, above: int) -> Iterator[float]:
    return (middle * 2.0**k for k in range(-below, above + 1))


def _falt() -> Iterator[Setting]:
    for step, below, above in (("stacked", 3, 4), ("adaptive", 3, 5), ("implicit", 3, 4)):
        for eta, scale in product(_powers(0.4, below, above), _SCALES):
            yield {"step": step, "eta": eta, **scale}
    for eta, scale in product(_powers(0.25, 2, 3), _SCALES):
        yield {"step": "gradient", "optimise": "none", "eta": eta, **scale}


def _salt() -> Iterator[Setting]:
    for step in ("stacked", "implicit"):
        for eta, delta, scale in product(_powers(1.0, 3, 3), _powers(2.0, 3, 2), _SCALES):
            yield {"step": step, "eta": eta, "delta": delta, **scale}


def _kernel() -> Iterator[Setting]:
    for gamma, eta in product(_powers(1.0, 2, 2), _powers(0.4, 2, 3)):
        yield {"gamma": gamma, "eta": eta}


def _passive_aggressive() -> Iterator[Setting]:
    for variant, C, scale in product(("PA-I", "PA-II"), _powers(1.0, 7, 3), _SCALES):
        yield {"variant": variant, "C": C, **scale}


GRIDS: dict[str, Callable[[], Iterator[Setting]]] = {
    "FALT": _falt,
    "SALT": _salt,
    "KernelFALT": _kernel,
    "KernelSALT": _kernel,
    "PassiveAggressive": _passive_aggressive,
}


def search(learners: dict[str, Callable[..., Any]], X: Any, Y: NDArray[np.int8]) -> None:
    """Print the default, the best setting and the distance for each learner."""
    rows, n_features = as_rows(X)
    targets = as_targets(Y)
    for name, make in learners.items():

        def reached(setting: Setting, make: Callable[..., Any] = make) -> tuple[float, float]:
            model = make(**setting)
            model.pipeline.grow(n_features, Y.shape[1])
            scores = model.pipeline.learn(rows, targets).scores
            predicted = (scores[:, 1:] > scores[:, :1]).astype(np.int8)
            return micro_f1(Y, predicted), macro_f1(Y, predicted)

        found = [(reached(setting), setting) for setting in ({}, *_OPTIMISED, *GRIDS[name]())]
        default, (best, setting) = found[0][0], max(found, key=lambda each: each[0][0])
        text = ", ".join(f"{key}={value}" for key, value in setting.items()) or "the default"
        behind = best[0] - default[0]
        print(
            f"  {name:18} default {default[0]:.3f}/{default[1]:.3f}, best of {len(found)} {best[0]:.3f}/{best[1]:.3f}, "
            f"behind {behind:.3f}{'' if behind <= AIM else ' MISSED'}: {text}",
            flush=True,
        )
