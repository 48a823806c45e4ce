"""Catalogue of the trainers by name, with the data they need and their public parameters.

Servers and commands validate options by this table, without loading an estimator. A new trainer needs an entry here, a
class of parameters in `manylabel_core.batch.parameters`, and an estimator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from manylabel_core.batch import parameters as declarations
from manylabel_core.parameters import Parameter, parameters


@dataclass(frozen=True, slots=True)
class Trainer:
    """A trainer, which fits a model to a dataset."""

    name: str  # also its module in `manylabel_core.batch`
    estimator: str  # its class
    title: str  # one sentence
    parameters: tuple[Parameter, ...]
    views: bool = False  # whether it needs a dataset with several views; other trainers learn from one view
    unlabelled: bool = False  # whether it also learns from unlabelled rows
    weights: bool = True  # whether it accepts sample weights
    passes: int = 1  # approximate passes over the rows per iteration; they determine the number of checkpoints
    exact: bool = False  # whether a fit can resume after any iteration without loss
    search: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # values that a search tries by default
    # values of other parameters, tried with the kernel "rbf"
    rbf_search: Mapping[str, tuple[float | str, ...]] = field(default_factory=dict)

    def searched(self, params: Mapping[str, Any]) -> dict[str, list[float | str]]:
        """Return the default values of a search, given the other parameters of a fit.

        A parameter of `rbf_search` is searched only if it has its default value.
        """
        found: dict[str, list[float | str]] = {name: list(values) for name, values in self.search.items()}
        if params.get("kernel") == "rbf":
            defaults = {each.name: each.default for each in self.parameters}
            found |= {name: list(values) for name, values in self.rbf_search.items() if params[name] == defaults[name]}
        return found

    def estimator_class(self) -> Any:
        """Load the class of the estimator."""
        return getattr(import_module(f"manylabel_core.batch.{self.name}"), self.estimator)


def arguments(params: Mapping[str, Any], Y: Any) -> dict[str, Any]:
    """Convert parameters in JSON form to arguments of an estimator, for labels Y, (n_samples, n_labels).

    `R` is a list of rows, or "label_correlation", which is computed from Y.
    """
    from manylabel_core.priors import label_correlation  # the import loads scikit-learn, which only a fit needs

    found = dict(params)
    R = found.get("R")
    if isinstance(R, str) and R == "label_correlation":
        found["R"] = label_correlation(Y)
    elif isinstance(R, list):
        found["R"] = np.array(R, dtype=np.float64)
    return found


SMALL_PRICES = (1e-5, 1e-4, 1e-3, 1e-2)
"""Regularisation that a search tries for MLRL. Its loss is a mean, so these are 0.1/n to 1/n for n from hundreds to
tens of thousands of rows."""
MISSES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Slack that a search tries for PrML: for unscaled sparse rows, dense rows, and sparse rows of unit norm."""


def _trainer(name: str, estimator: str, title: str, declaring: type, **more: Any) -> Trainer:
    """Return a trainer with the parameters of a class."""
    return Trainer(name, estimator, title, tuple(each for each in parameters(declaring) if each.kinds), **more)


_ALL = (
    _trainer(
        "m3l",
        "M3L",
        "M3L: max-margin learning of all labels at once, coupled by what is known about their relations.",
        declarations.M3LParameters,
        search={"C": (0.01, 0.1, 0.3, 1.0, 10.0)},
        rbf_search={"gamma": ("scale", 2.0)},  # with the default scaling, "scale" is about 1
    ),
    _trainer(
        "mlrl",
        "MLRL",
        "MLRL: support vector machines that learn the relations between their labels.",
        declarations.MLRLParameters,
        passes=30,
        search={"lam": SMALL_PRICES},
    ),
    _trainer(
        "ssmlrl",
        "SSMLRL",
        "SSMLRL: MLRL that learns the relations between labels from unlabelled examples as well.",
        declarations.SSMLRLParameters,
        unlabelled=True,
        passes=30,
        search={"lam1": SMALL_PRICES},
    ),
    _trainer(
        "prml",
        "PrML",
        "PrML: labels as privileged information, and weights of low rank that all labels share.",
        declarations.PrMLParameters,
        exact=True,
        search={"rho": MISSES},
    ),
    _trainer(
        "prbr",
        "PrBR",
        "PrBR: labels as privileged information, separate weights for each label.",
        declarations.PrBRParameters,
        exact=True,
        search={"rho": MISSES},
    ),
    _trainer(
        "lsa_mml",
        "LSAMML",
        "LSA-MML: a common representation of examples that are seen in several views.",
        declarations.LSAMMLParameters,
        views=True,
        unlabelled=True,
        weights=False,
        exact=True,
        search={"beta": (0.01, 0.1, 1.0)},
    ),
)

TRAINERS: Mapping[str, Trainer] = {trainer.name: trainer for trainer in _ALL}
"""All trainers, by name."""
