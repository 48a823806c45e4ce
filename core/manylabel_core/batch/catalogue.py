"""Catalogue of the trainers by name, with the data they need and their public parameters.

A server checks what it is requested against this table, and a command its options; neither loads an estimator for that.
A further trainer is one more entry here, its estimator a class of `manylabel_core.batch`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np

MAX_MATRIX_ROWS = 1000
"""Largest matrix that may be given as a parameter."""


@dataclass(frozen=True, slots=True)
class Number:
    """Bounds of a finite number or an integer; `above` and `below` are exclusive."""

    integer: bool = False
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words is allowed."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flag:
    """True and False are allowed."""


@dataclass(frozen=True, slots=True)
class Null:
    """None is allowed; the parameter's description explains it."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A list of rows of numbers is allowed, with at most `most_rows` rows and columns."""

    entries: Number
    most_rows: int = MAX_MATRIX_ROWS


Kind = Number | Choice | Flag | Null | Matrix


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a trainer: default, description, and the kinds of values that are allowed."""

    name: str
    default: Any
    kinds: tuple[Kind, ...]
    description: str


@dataclass(frozen=True, slots=True)
class Trainer:
    """Trainer: it fits a model to a dataset.

    Attributes
    ----------
    name : str
    estimator : str
        Its class in `manylabel_core.batch`. It takes the parameters and `random_state`, `n_threads` and `warm_start`,
        and has `fit(X, Y, ..., label_names=, progress=)`, `decision_function(X)`, `to_bytes()`, `from_bytes(data)`.
    title : str
        One sentence says what the trainer is.
    parameters : tuple of Parameter
    views : bool
        True if it needs a dataset of several views; others learn from one.
    unlabelled : bool
        True if it learns from rows without labels too.
    weights : bool
        True if it takes weights of rows, ``fit(..., sample_weight=)``.
    passes : int
        An iteration of its fit goes over the rows about so often; how often there are checkpoints goes by it.
    exact : bool
        True if its fit loses nothing when it continues, so that any iteration may be the last before a checkpoint.
    search : mapping of str to tuple
        The values of parameters that are worth a try, for a search that names none.
    rbf_search : mapping of str to tuple
        Those of further parameters, where the kernel is "rbf".
    """

    name: str
    estimator: str
    title: str
    parameters: tuple[Parameter, ...]
    views: bool = False
    unlabelled: bool = False
    weights: bool = True
    passes: int = 1
    exact: bool = False
    search: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    rbf_search: Mapping[str, tuple[float | str, ...]] = field(default_factory=dict)

    def searched(self, params: Mapping[str, Any]) -> dict[str, list[float | str]]:
        """Return the default values of a search, given the other parameters of a fit.

        A parameter of `rbf_search` that is not at its default is not searched.
        """
        found: dict[str, list[float | str]] = {name: list(values) for name, values in self.search.items()}
        if params.get("kernel") == "rbf":
            defaults = {each.name: each.default for each in self.parameters}
            found |= {name: list(values) for name, values in self.rbf_search.items() if params[name] == defaults[name]}
        return found

    def estimator_class(self) -> Any:
        """Load the class of the estimator."""
        return getattr(import_module("manylabel_core.batch"), self.estimator)


def arguments(params: Mapping[str, Any], Y: Any) -> dict[str, Any]:
    """Return the arguments of an estimator for parameters in JSON form.

    Parameters
    ----------
    params : mapping
        A null `rho` is infinite; `R` is a list of rows, or "label_correlation", which is found in Y.
    Y : CSR array of shape (n_samples, n_labels)
        The labels that are learnt.
    """
    from manylabel_core.priors import label_correlation  # loads scikit-learn, which only a fit needs

    found = dict(params)
    R = found.get("R")
    if isinstance(R, str) and R == "label_correlation":
        found["R"] = label_correlation(Y)
    elif isinstance(R, list):
        found["R"] = np.array(R, dtype=np.float64)
    if "rho" in found and found["rho"] is None:
        found["rho"] = float("inf")
    return found


SMALL_PRICES = (1e-5, 1e-4, 1e-3, 1e-2)
"""Values of MLRL's regularisation, whose loss is a mean: 0.1/n to 1/n for some hundreds to ten thousands of rows."""
MISSES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Values of PrML's slack: from unscaled sparse rows, over dense ones, to sparse rows of unit length."""

POSITIVE = Number(above=0, most=1e12)
NOT_NEGATIVE = Number(least=0, most=1e12)
FINITE = Number(least=-1e6, most=1e6)
TOLERANCE = Number(least=1e-10, below=1)
ITERATIONS = Number(integer=True, least=1, most=1_000_000)
ROUNDS = Number(integer=True, least=1, most=10_000)

_SCALING = Parameter(
    "scaling",
    "auto",
    (Choice(("auto", "standard", "max_abs", "none")),),
    "Features are scaled by the rows that are learnt from, and so are those of every prediction: auto is what the"
    " online learners do, standard takes deviations from the mean, max_abs divides by the largest absolute value and"
    " keeps zeros, none leaves features as they are.",
)
"""Default scaling of training by name. The default of the estimators is no scaling."""
_KERNEL = (
    Parameter(
        "kernel",
        "linear",
        (Choice(("linear", "rbf", "poly")),),
        "The kernel function is one of these; linear works on weights of features, without a Gram matrix.",
    ),
    Parameter(
        "gamma",
        "scale",
        (POSITIVE, Choice(("scale", "mean_distance"))),
        "This is gamma of rbf, exp(-gamma |u - v|^2), and of poly, (gamma u.v + coef0)^degree. It is a number, or taken"
        " from the data: scale is 1 / (features * variance), mean_distance 1 / (2 w^2) with w the mean distance of two"
        " examples.",
    ),
    Parameter("degree", 3, (Number(integer=True, least=1, most=100),), "This is the degree of poly."),
    Parameter("coef0", 0.0, (FINITE,), "This is the constant of poly."),
)
_RELATIONS = (_KERNEL[0], replace(_KERNEL[1], default="mean_distance"), *_KERNEL[2:])
_RELATIONS_END = (
    Parameter(
        "tol",
        1e-3,
        (TOLERANCE,),
        "The fit stops at this relative duality gap, or when hardly any gain can be hoped for.",
    ),
    Parameter("max_iter", 200, (ROUNDS,), "A fit makes at most this many rounds of weights and label covariance."),
)
_DECISIONS = (
    Parameter(
        "optimise",
        "micro_f1",
        (Choice(("micro_f1", "macro_f1", "hamming", "none")),),
        "The thresholds of labels are chosen for this measure, one for all or one for each as validation says, on"
        " scores of rows that were not learnt; with none, a label is predicted where its score is above 0.",
    ),
    Parameter(
        "calibrate",
        None,
        (Flag(), Null()),
        "If true, predictions have probabilities; null: where thresholds are chosen.",
    ),
    Parameter(
        "folds",
        3,
        (Number(integer=True, least=2, most=100),),
        "Number of further fits for thresholds and probabilities; each holds out a part of the rows.",
    ),
)
_GAP = Parameter("tol", 1e-3, (TOLERANCE,), "The fit stops at this relative duality gap.")
_SWEEPS = Parameter("max_iter", 10_000, (ITERATIONS,), "The solver makes at most this many sweeps.")
_PRIVILEGED = (
    Parameter(
        "gamma2",
        1.0,
        (POSITIVE,),
        "This is the price of the weights that work on the labels: the larger, the less they explain.",
    ),
    Parameter(
        "C",
        None,
        (POSITIVE, Null()),
        "This is the price of a unit of slack that the labels are to explain. Null is 3 rho, at which they are mostly"
        " idle, and 0.3 where rho is infinite.",
    ),
    Parameter(
        "rho",
        0.1,
        (POSITIVE, Null()),
        "This is the price of the slack that the labels do not explain; they are idle where no row misses its margin by"
        " more than C / rho. Null is infinite: there is no such slack.",
    ),
    Parameter(
        "loss",
        "squared_hinge",
        (Choice(("squared_hinge", "hinge")),),
        "This is what that slack costs: rho times half its square, or rho times itself. With hinge, scores of different"
        " labels compare badly.",
    ),
    Parameter("fit_intercept", True, (Flag(),), "If true, each label has an intercept beside its weights."),
    Parameter(
        "intercept_scaling", 3.16, (POSITIVE,), "This is the scale of the intercepts: the larger, the less they cost."
    ),
    Parameter(
        "privileged",
        "all",
        (Choice(("all",)), Number(integer=True, least=1, most=10_000)),
        "These labels are privileged information about a label: all others, or as many as are nearest to it.",
    ),
)

_M3L = Trainer(
    "m3l",
    "M3L",
    "M3L: max-margin learning of all labels at once, coupled by what is known about their relations.",
    (
        _SCALING,
        *_KERNEL,
        Parameter("C", 1.0, (POSITIVE,), "This is the price of a unit of hinge loss."),
        Parameter(
            "R",
            None,
            (Choice(("label_correlation",)), Matrix(FINITE), Null()),
            "This says what is known about the labels: null for nothing, label_correlation for how they go together in"
            " the rows that are learnt from, or a positive definite matrix of labels times labels, in their order in"
            " the data.",
        ),
        Parameter("fit_intercept", True, (Flag(),), "If true, a constant feature is added."),
        _GAP,
        _SWEEPS,
        *_DECISIONS,
    ),
    search={"C": (0.01, 0.1, 0.3, 1.0, 10.0)},
    rbf_search={"gamma": ("scale", 2.0)},  # with the default scaling, "scale" is about 1
)
_MLRL = Trainer(
    "mlrl",
    "MLRL",
    "MLRL: support vector machines that learn the relations between their labels.",
    (
        _SCALING,
        *_RELATIONS,
        Parameter(
            "lam",
            1e-4,
            (POSITIVE,),
            "This weighs the regularisation; what suits falls with the number of rows, from 0.1/n to 1/n.",
        ),
        *_RELATIONS_END,
        *_DECISIONS,
    ),
    passes=30,
    search={"lam": SMALL_PRICES},
)
_SSMLRL = Trainer(
    "ssmlrl",
    "SSMLRL",
    "SSMLRL: MLRL that learns the relations between labels from unlabelled examples as well.",
    (
        _SCALING,
        *_RELATIONS,
        Parameter("lam1", 1e-4, (POSITIVE,), "This weighs the regularisation, as lam of mlrl."),
        Parameter(
            "lam2",
            1e-6,
            (POSITIVE,),
            "This is the price of the scores of unlabelled examples; what suits falls with their number.",
        ),
        *_RELATIONS_END,
        *_DECISIONS,
    ),
    unlabelled=True,
    passes=30,
    search={"lam1": SMALL_PRICES},
)
_PRML = Trainer(
    "prml",
    "PrML",
    "PrML: labels as privileged information, and weights of low rank that all labels share.",
    (
        _SCALING,
        *_PRIVILEGED,
        Parameter(
            "rank",
            0.9,
            (Number(integer=True, least=1, most=10_000), Number(above=0, most=1)),
            "This is the rank of the weights: a number, or a share of the number of labels, which is 400 at most.",
        ),
        Parameter("gamma1", 1.0, (POSITIVE,), "This is the price of the weights that join the shared ones to labels."),
        Parameter(
            "rounds",
            1,
            (ROUNDS,),
            "Number of rounds, which split the weights into shared ones and those of labels, then solve.",
        ),
        replace(_GAP, default=1e-2, description="Each round is solved to this relative duality gap."),
        replace(_SWEEPS, default=1000),
        *_DECISIONS,
    ),
    exact=True,
    search={"rho": MISSES},
)
_PRBR = Trainer(
    "prbr",
    "PrBR",
    "PrBR: labels as privileged information, each label with separate weights.",
    (_SCALING, *_PRIVILEGED, replace(_GAP, default=1e-2), replace(_SWEEPS, default=1000), *_DECISIONS),
    exact=True,
    search={"rho": MISSES},
)
_LSA_MML = Trainer(
    "lsa_mml",
    "LSAMML",
    "LSA-MML: a common representation of examples that are seen in several views.",
    (
        _SCALING,
        Parameter(
            "n_components",
            None,
            (Number(integer=True, least=1, most=10_000), Null()),
            "This is the size of the representation, at most the number of rows and of all features; null takes 200,"
            " or what is allowed.",
        ),
        Parameter("r", 2.0, (Number(above=1, most=1e6),), "The larger it is, the more alike are the weights of views."),
        Parameter("beta", 0.1, (POSITIVE,), "This is the weight of the labels; at 1 they weigh as much as one view."),
        Parameter("gamma", 0.01, (NOT_NEGATIVE,), "This is the weight of the alignment of views."),
        Parameter("ridge", 0.5, (POSITIVE,), "This is the price of the representation."),
        Parameter("label_ridge", 1.0, (POSITIVE,), "This is the price of the weights of labels."),
        Parameter(
            "view_weights",
            "labels",
            (Choice(("labels", "equal")),),
            "Views that predict the labels of held-out rows weigh more (with 50 labelled rows that have all views, or"
            " more), or equal.",
        ),
        Parameter("centre", True, (Flag(),), "If true, the mean of every feature is taken away."),
        Parameter(
            "refit",
            True,
            (Flag(),),
            "If true, the weights of labels are fitted again to representations found from views alone, with a penalty"
            " chosen by leave-one-out.",
        ),
        Parameter(
            "threshold",
            "f1",
            (Choice(("f1", "errors", "prevalence", "half")),),
            "The threshold of a label is fitted to its highest F1, the fewest errors or its frequency, or is 0.5.",
        ),
        Parameter(
            "kernel",
            "linear",
            (Choice(("linear", "rbf")),),
            "With rbf, each view is mapped by landmarks among its rows; their median distance is the width.",
        ),
        Parameter(
            "n_landmarks",
            200,
            (Number(integer=True, least=1, most=10_000),),
            "Maximum number of landmarks of a view, with the kernel rbf.",
        ),
        Parameter(
            "tol", 1e-4, (TOLERANCE,), "The fit stops when an iteration lowers the objective by this share or less."
        ),
        Parameter("max_iter", 200, (ROUNDS,), "A fit makes at most this many iterations."),
        *_DECISIONS,
    ),
    views=True,
    unlabelled=True,
    weights=False,
    exact=True,
    search={"beta": (0.01, 0.1, 1.0)},
)

TRAINERS: Mapping[str, Trainer] = {trainer.name: trainer for trainer in (_M3L, _MLRL, _SSMLRL, _PRML, _PRBR, _LSA_MML)}
"""All trainers, by name."""
