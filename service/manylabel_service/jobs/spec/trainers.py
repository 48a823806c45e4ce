"""What can train: for each trainer its parameters, with their bounds, and the estimator of core behind it.

A further trainer is one more call of `register`. Nothing here loads an estimator: a server only checks orders, and
the process that trains loads the one that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

Positive = Annotated[float, Field(strict=True, gt=0, le=1e12, allow_inf_nan=False)]
Finite = Annotated[float, Field(strict=True, ge=-1e6, le=1e6, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(strict=True, ge=0, le=1e12, allow_inf_nan=False)]
Tolerance = Annotated[float, Field(strict=True, ge=1e-10, lt=1, allow_inf_nan=False)]
Iterations = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Rounds = Annotated[int, Field(strict=True, ge=1, le=10_000)]
Matrix = Annotated[list[Annotated[list[Finite], Field(min_length=1, max_length=1000)]], Field(max_length=1000)]


class Params(BaseModel):
    """Parameters of a trainer."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    def arguments(self, Y: Any) -> dict[str, Any]:
        """What the estimator gets, for training labels Y: a CSR array of shape (n_samples, n_labels)."""
        return self.model_dump()


class KernelParams(Params):
    """Parameters of a trainer that works on weights of features, or on a kernel of examples."""

    kernel: Literal["linear", "rbf", "poly"] = "linear"
    """Kernel function; linear works on weights of features, without a Gram matrix."""
    gamma: Positive | Literal["scale", "mean_distance"] = "scale"
    """Of rbf, exp(-gamma |u - v|^2), and poly, (gamma u.v + coef0)^degree: a number, or taken from the data: scale is
    1 / (features * variance), mean_distance 1 / (2 w^2) with w the mean distance of two examples."""
    degree: Annotated[int, Field(strict=True, ge=1, le=100)] = 3
    """Degree of poly."""
    coef0: Finite = 0.0
    """Constant of poly."""


class M3LParams(KernelParams):
    """M3L: max-margin learning of all labels at once, coupled by what is known about their relations."""

    C: Positive = 1.0
    """Price of a unit of hinge loss."""
    R: Literal["label_correlation"] | Matrix | None = None
    """What is known about the labels: null for nothing, label_correlation for how they go together in the rows that are
    learnt from, or a positive definite matrix of labels times labels, in their order in the data."""
    fit_intercept: StrictBool = True
    """Whether a constant feature is added."""
    tol: Tolerance = 1e-3
    """Stop at this relative duality gap."""
    max_iter: Iterations = 10_000
    """Most sweeps of the solver."""

    def arguments(self, Y: Any) -> dict[str, Any]:
        import numpy as np

        from manylabel_core.priors import label_correlation

        known = label_correlation(Y) if isinstance(self.R, str) else self.R and np.array(self.R, dtype=np.float64)
        return {**self.model_dump(), "R": known}


class MLRLParams(KernelParams):
    """MLRL: support vector machines that learn the relations between their labels."""

    lam: Positive = 1e-4
    """Regularisation; what suits falls with the number of rows, from 0.1/n to 1/n."""
    gamma: Positive | Literal["scale", "mean_distance"] = "mean_distance"
    """As of m3l."""
    tol: Tolerance = 1e-3
    """Stop at this relative duality gap, or when hardly any gain can be hoped for."""
    max_iter: Rounds = 200
    """Most rounds of weights and label covariance."""


class SSMLRLParams(KernelParams):
    """SSMLRL: MLRL that learns the relations between labels from unlabelled examples as well."""

    lam1: Positive = 1e-4
    """Regularisation, as lam of mlrl."""
    lam2: Positive = 1e-6
    """Price of the scores of unlabelled examples; what suits falls with their number."""
    gamma: Positive | Literal["scale", "mean_distance"] = "mean_distance"
    """As of m3l."""
    tol: Tolerance = 1e-3
    """As of mlrl."""
    max_iter: Rounds = 200
    """As of mlrl."""


class PrivilegedParams(Params):
    """Parameters of a trainer to which the other labels of an example are privileged information."""

    gamma2: Positive = 30.0
    """Price of the weights that work on the labels: the larger, the less they explain."""
    C: Positive = 0.03
    """Price of a unit of loss that the labels are to explain."""
    rho: Positive | None = 0.05
    """Price of a unit of loss that they do not; at most C makes them idle. Null for infinite: there is no such loss."""
    privileged: Literal["all"] | Annotated[int, Field(strict=True, ge=1, le=10_000)] = "all"
    """Labels that are privileged information about a label: all others, or so many that are nearest to it."""
    literal: StrictBool = False
    """Whether the labels get no constant beside them, as the paper prints it; often there is no solution then."""

    def arguments(self, Y: Any) -> dict[str, Any]:
        return {**self.model_dump(), "rho": float("inf") if self.rho is None else self.rho}


class PrMLParams(PrivilegedParams):
    """PrML: labels as privileged information, and weights of low rank that all labels share."""

    rank: (
        Annotated[int, Field(strict=True, ge=1, le=10_000)]
        | Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)]
    ) = 0.9
    """Of the weights: a number, or a share of the number of labels."""
    gamma1: Positive = 1.0
    """Price of the weights that join the shared ones to labels."""
    tol: Tolerance = 1e-2
    """Stop when a round lowers the objective by at most this share."""
    max_iter: Rounds = 30
    """Most rounds."""


class PrBRParams(PrivilegedParams):
    """PrBR: labels as privileged information, each label with weights of its own."""

    tol: Tolerance = 1e-2
    """Stop at this relative duality gap."""
    max_iter: Iterations = 1000
    """Most sweeps of the solver."""


class LSAMMLParams(Params):
    """LSA-MML: a common representation of examples that are seen in several views."""

    n_components: Annotated[int, Field(strict=True, ge=1, le=10_000)] | None = None
    """Size of the representation, below the features of the narrowest view; null takes 20, or what is allowed."""
    r: Annotated[float, Field(strict=True, gt=1, le=1e6, allow_inf_nan=False)] = 2.0
    """The larger, the more alike are the weights of views."""
    beta: Positive = 1.0
    """Weight of the labels; at 1 they weigh as much as one view."""
    gamma: NotNegative = 0.01
    """Weight of the alignment of views."""
    ridge: Positive = 0.5
    """Price of the representation."""
    label_ridge: Positive = 1.0
    """Price of the weights of labels."""
    view_floor: NotNegative = 1.0
    """Added to the error of each view where their weights are found, so that no easy view gets all the weight."""
    centre: StrictBool = True
    """Whether the mean of every feature is taken away."""
    refit: StrictBool = True
    """Whether the weights of labels are fitted again to representations found from views alone."""
    threshold: Literal["f1", "errors", "prevalence", "half"] = "f1"
    """How the threshold of a label is fitted: to its highest F1, the fewest errors, its frequency, or 0.5."""
    limit_components: StrictBool = True
    """Whether n_components is limited by the narrowest view."""
    tol: Tolerance = 1e-4
    """Stop when an iteration lowers the objective by at most this share."""
    max_iter: Rounds = 200
    """Most iterations."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """Something that makes a model from a data set.

    Attributes
    ----------
    name : as clients call it.
    params : its parameters; the docstring of the class says what the trainer is.
    estimator : where the estimator is, as ``"package.module:Class"``. It is made with `Params.arguments`,
        `random_state`, `n_threads` and `warm_start`, and has `fit(X, Y, ..., label_names=, progress=)`,
        `decision_function(X)`, `to_bytes()` and `from_bytes(data)`.
    views : whether it needs a data set of several views; others learn from one.
    unlabelled : whether it learns from rows without labels too.
    passes : over the rows in an iteration of its fit, roughly; how often there are checkpoints goes by it.
    exact : whether its fit loses nothing when it goes on, so that any iteration may be the last before a checkpoint.
    """

    name: str
    params: type[Params]
    estimator: str
    views: bool = False
    unlabelled: bool = False
    passes: int = 1
    exact: bool = False

    @property
    def title(self) -> str:
        """What it is, in a sentence."""
        return (self.params.__doc__ or "").split("\n")[0]

    @property
    def needs(self) -> str:
        """What data it needs, in a sentence."""
        views = "a data set with several views" if self.views else "labelled rows of one view"
        return f"{views}; rows in data.unlabelled are learnt from too" if self.unlabelled else views

    def complete(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters with the defaults of those that are missing.

        Raises
        ------
        pydantic.ValidationError
            If one is unknown or not allowed.
        """
        return self.params.model_validate(dict(params)).model_dump()

    def estimator_class(self) -> Any:
        """The class of the estimator; loads it."""
        module, name = self.estimator.split(":")
        return getattr(import_module(module), name)


TRAINERS: dict[str, Trainer] = {}
"""All trainers, by name."""


def register(trainer: Trainer) -> None:
    """Add a trainer.

    Raises
    ------
    ValueError
        If there is one of that name.
    """
    if trainer.name in TRAINERS:
        raise ValueError(f"there is a trainer named {trainer.name!r} already")
    TRAINERS[trainer.name] = trainer


register(Trainer("m3l", M3LParams, "manylabel_core.batch:M3L"))
register(Trainer("mlrl", MLRLParams, "manylabel_core.batch:MLRL", passes=30))
register(Trainer("ssmlrl", SSMLRLParams, "manylabel_core.batch:SSMLRL", unlabelled=True, passes=30))
register(Trainer("prml", PrMLParams, "manylabel_core.batch:PrML", passes=100, exact=True))
register(Trainer("prbr", PrBRParams, "manylabel_core.batch:PrBR", exact=True))
register(Trainer("lsa_mml", LSAMMLParams, "manylabel_core.batch:LSAMML", views=True, unlabelled=True, exact=True))
