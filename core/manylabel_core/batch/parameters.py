"""Parameters of the trainers, without the estimators, which load scikit-learn and numba."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from manylabel_core.batch.decisions.thresholds import MEASURES
from manylabel_core.checks import is_finite
from manylabel_core.parameters import FLAG, NULL, Choice, Matrix, Number, Other, again, declared, parameter

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manylabel_core.mercer import KernelFunction
    from manylabel_core.priors import Prior

POSITIVE = Number(above=0, most=1e12)
NOT_NEGATIVE = Number(least=0, most=1e12)
FINITE = Number(least=-1e6, most=1e6)
TOLERANCE = Number(least=1e-10, below=1)
ITERATIONS = Number(integer=True, least=1, most=1_000_000)
ROUNDS = Number(integer=True, least=1, most=10_000)
COUNT = Number(integer=True, least=1, most=10_000)
ANY_COUNT = Number(integer=True, least=1, most=2**20)

ABOVE_0 = Number(above=0)
"""Range of penalties in Python, without the upper bound of the server."""


MAX_SHARE = 400
"""Maximum rank of PrML if it is a share of the labels: time grows with the rank."""


@declared
class SharedParameters:
    """Parameters of all trainers."""

    tol: float = parameter(
        1e-3, TOLERANCE, python=(Number(above=0, below=1),), text="The fit stops at this relative duality gap."
    )
    max_iter: int = parameter(10_000, ITERATIONS, text="Maximum number of sweeps of the solver.")
    scaling: str = parameter(
        "auto",
        Choice(("auto", "standard", "max_abs", "none")),
        text="Feature scaling, fitted to the training rows and applied to them and to rows to predict. 'none': no "
        "scaling. 'auto': the scaling of the online learners (quantities as deviations from their mean, other features "
        "by their usual size and rarity, rows to unit length). With 'auto', a NaN or a value that a sparse matrix does "
        "not store is missing, and a missing quantity gets its mean. 'standard': deviations from the mean, which makes "
        "sparse rows dense. 'max_abs': division by the largest absolute value, which keeps zeros.",
    )
    warm_start: bool = parameter(
        False,
        python=(FLAG,),
        text="Whether the dual variables are kept, so that another `fit` with Y of the same shape continues from them.",
    )
    n_threads: int = parameter(1, python=(Number(integer=True, least=1, most=1024),), text="Number of threads.")
    random_state: Any = parameter(
        0,
        python=(Other("an integer, a RandomState or None", lambda value: True),),
        text="Random seed of the order in which the solver visits the variables, and of samples of examples.",
    )
    optimise: str = parameter(
        "micro_f1",
        Choice((*MEASURES, "none")),
        text="Metric that decision thresholds optimise: one threshold for all labels, or one for each, as validation "
        "selects, on scores of rows that were not learnt. With 'none', a label is predicted if its score is above 0.",
    )
    calibrate: bool | None = parameter(
        None,
        FLAG,
        NULL,
        text="Calibration: predictions have probabilities, fitted to the scores of those rows. None means: if "
        "thresholds are tuned.",
    )
    folds: int = parameter(
        3,
        Number(integer=True, least=2, most=100),
        text="Number of further fits for thresholds and probabilities; each leaves out a part of the rows. With fewer "
        "than 2 rows a fold there are neither.",
    )


@declared
class KernelParameters(SharedParameters):
    """Parameters of trainers with a kernel."""

    kernel: str | KernelFunction = parameter(
        "linear",
        Choice(("linear", "rbf", "poly")),
        python=(
            Choice(("linear", "rbf", "poly", "precomputed")),
            Other("a function of two matrices that returns their kernel values", callable),
        ),
        text="Kernel function. 'linear' learns weights of features without a Gram matrix, even if rows are sparse. "
        "With 'precomputed', X is the Gram matrix of the examples.",
    )
    gamma: float | str = parameter(
        "scale",
        POSITIVE,
        Choice(("scale", "mean_distance")),
        python=(ABOVE_0, Choice(("scale", "mean_distance"))),
        text="Coefficient of 'rbf', exp(-gamma |u - v|^2), and of 'poly', (gamma u.v + coef0)^degree. 'scale' is 1 / "
        "(features * variance); 'mean_distance' is 1 / (2 w^2) with w the mean distance of two examples (of a sample "
        "beyond 10,000), the width in the paper of MLRL.",
    )
    degree: int = parameter(3, Number(integer=True, least=1, most=100), text="Degree of 'poly'.")
    coef0: float = parameter(0.0, FINITE, python=(Other("a finite number", is_finite),), text="Constant of 'poly'.")


@declared
class CachedParameters(KernelParameters):
    """Parameters of trainers that store a Gram matrix."""

    cache_mb: float = parameter(
        2000.0,
        python=(ABOVE_0,),
        text="Maximum size in MB of a Gram matrix that is stored; rows of a larger one are computed when they are "
        "needed. It is stored in single precision as long as rounding is a small part of the requested gap, which is "
        "measured.",
    )


@declared
class M3LParameters(CachedParameters):
    """Parameters of M3L."""

    leading = ("C", "R", "kernel", "gamma", "degree", "coef0", "fit_intercept")

    C: float = parameter(
        1.0,
        POSITIVE,
        python=(ABOVE_0,),
        text="Price of a unit of hinge loss. The paper's hinge is twice the usual one, so with R = I each label's "
        "machine is scikit-learn's `SVC` or `LinearSVC(loss='hinge')` with C_svm = 2 C.",
    )
    R: ArrayLike | Prior | None = parameter(
        None,
        Choice(("label_correlation",)),
        Matrix(FINITE),
        NULL,
        python=(Other("a matrix, a Prior or None", lambda value: not isinstance(value, str)),),
        text="Prior on the labels: None for independent labels, or a symmetric positive definite matrix of labels "
        "times labels, in their order in the data, as `manylabel_core.priors` makes them. Training by name also takes "
        "'label_correlation', which is found in the labels of the fit. `t * R` with C is the same as R with `t * C`: a "
        "mean diagonal near 1 keeps C's meaning.",
    )
    fit_intercept: bool = parameter(
        True,
        FLAG,
        text="Intercept: a constant feature 1 is added, or 1 to the kernel. By design the intercept is regularised and "
        "coupled by R like every weight; a free one could undo what R says.",
    )


@declared
class RelationParameters(KernelParameters):
    """Parameters of MLRL and SSMLRL."""

    gamma: float | str = again(KernelParameters, "gamma", "mean_distance")
    tol: float = again(
        SharedParameters,
        "tol",
        1e-3,
        description="The fit stops at this relative duality gap of the whole problem; or when for some rounds hardly "
        "anything (0.2 tol, relatively) can be gained from other covariances nearby. With many labels the second comes "
        "first: the bound closes later than the objective settles. `duality_gap_` has what is proven.",
    )
    max_iter: int = again(
        SharedParameters,
        "max_iter",
        200,
        kinds=(ROUNDS,),
        description="Maximum number of rounds of weights and label covariance.",
    )


@declared
class MLRLParameters(RelationParameters, CachedParameters):
    """Parameters of MLRL."""

    leading = ("lam", "kernel", "gamma", "degree", "coef0")

    lam: float = parameter(
        1e-4,
        POSITIVE,
        python=(ABOVE_0,),
        text="Regularisation, the paper's lambda. The loss is a mean over examples, so that what suits falls with the "
        "number of rows, from 0.1/n to 1/n on the paper's datasets. The paper's grid of 0.01 to 100 fits a loss that "
        "is a sum: divide it by n.",
    )


@declared
class SSMLRLParameters(RelationParameters):
    """Parameters of SSMLRL."""

    lam1: float = parameter(1e-4, POSITIVE, python=(ABOVE_0,), text="Regularisation, the same as lam of MLRL.")
    lam2: float = parameter(
        1e-6,
        POSITIVE,
        python=(ABOVE_0,),
        text="Price of the scores of unlabelled examples, a sum over them: what suits falls with their number.",
    )


@declared
class PrivilegedParameters(SharedParameters):
    """Parameters of PrML and PrBR."""

    gamma2: float = parameter(
        1.0,
        POSITIVE,
        python=(ABOVE_0,),
        text="Price of the weights that work on the labels: the larger, the less slack the labels explain.",
    )
    C: float | None = parameter(
        None,
        POSITIVE,
        NULL,
        python=(ABOVE_0, NULL),
        text="Price of a unit of slack that the other labels explain. None means 3 rho, at which they are mostly idle.",
    )
    rho: float = parameter(
        0.1,
        POSITIVE,
        python=(ABOVE_0,),
        text="Price of half the square of the slack that the labels do not explain; they are idle where no row misses "
        "its margin by more than C / rho. Search it, the lower the longer the rows (0.1 to 1 for rows of unit length).",
    )
    fit_intercept: bool = parameter(True, FLAG, text="Intercept of each label, next to its weights.")
    intercept_scaling: float = parameter(
        3.16, POSITIVE, python=(ABOVE_0,), text="Scale of the intercepts, B: the larger, the less they cost."
    )
    tol: float = again(
        SharedParameters, "tol", 1e-2, description="The fit, of PrML each round, stops at this relative duality gap."
    )
    max_iter: int = again(
        SharedParameters,
        "max_iter",
        1000,
        description="Maximum number of passes of the solver in a fit, over all rounds.",
    )
    warm_start: bool = again(
        SharedParameters,
        "warm_start",
        False,
        description="Whether the dual variables are kept, so that another `fit` continues from them, with as many "
        "examples, label sets, labels and (for PrML) features. On the same data and parameters, a fit that was stopped "
        "ends bit for bit where it would have ended, even after `to_bytes` and `from_bytes`; one that had ended stays "
        "as it is, and with more `rounds` continues with these.",
    )


@declared
class PrBRParameters(PrivilegedParameters):
    """Parameters of PrBR."""


@declared
class PrMLParameters(PrivilegedParameters):
    """Parameters of PrML."""

    rank: int | float = parameter(
        0.9,
        COUNT,
        Number(above=0, most=1),
        python=(ANY_COUNT, Number(above=0, most=1)),
        text="Rank of the weights, the rows of D: a number, or a share of the number of labels, as in the paper "
        f"(rounded up, and at most {MAX_SHARE}). Never more than labels or features. With a full rank, the cost of D "
        "and W is sqrt(gamma1) times the nuclear norm of Z.",
    )
    gamma1: float = parameter(
        1.0, POSITIVE, python=(ABOVE_0,), text="Price of the weights that join the shared ones to labels."
    )
    rounds: int = parameter(
        1,
        ROUNDS,
        text="Number of rounds. A round splits the weights into shared ones and those of labels, D and W, and solves "
        "for D. Each lowers the objective (up to `tol`), and the rank as well; predictions are mostly best after one "
        "or two.",
    )


@declared
class LSAMMLParameters(SharedParameters):
    """Parameters of LSA-MML."""

    n_components: int | None = parameter(
        None,
        COUNT,
        NULL,
        python=(Number(integer=True, least=1, most=2**31 - 1), NULL),
        text="Size of the representation, the columns of P, at most the number of rows and of all features. None means "
        "200, or what is allowed. Columns beyond the rank of the views start at random.",
    )
    r: float = parameter(
        2.0,
        Number(above=1, most=1e6),
        python=(Number(above=1),),
        text="Evenness of the weights of views: the larger, the more alike they are.",
    )
    beta: float = parameter(
        0.1,
        POSITIVE,
        python=(ABOVE_0,),
        text="Weight of the labels; at 1 they weigh as much as one view. The larger, the more the bases know of the "
        "labels of the rows that they were learnt from, which misleads the second fit of their weights.",
    )
    gamma: float = parameter(
        0.01,
        NOT_NEGATIVE,
        python=(Number(least=0),),
        text="Weight of the alignment of bases. The sum runs over ordered pairs of views, and HSIC(B, B') = "
        "tr(B'B C B''B' C) / (n_components - 1)^2 with C = I - 11'/n_components, as in the paper's Eq. (6); its update "
        "rules drop the denominator. Between two orthonormal bases it is 1 / (n_components - 1).",
    )
    ridge: float = parameter(
        0.5, POSITIVE, python=(ABOVE_0,), text="Price of the representation; rows of a view have a mean |x|^2 of 1."
    )
    kernel: str = parameter(
        "linear",
        Choice(("linear", "rbf")),
        text="Kernel of the views. With 'rbf', every view is mapped after scaling, so that inner products are nearly "
        "those of exp(-|u - v|^2 / (2 w^2)): k(x, landmarks) times the inverse root of the landmarks' Gram matrix. "
        "Landmarks are drawn from the rows that have the view, and w is the median of their distances.",
    )
    n_landmarks: int = parameter(
        200, COUNT, text="Maximum number of landmarks of a view, with the kernel 'rbf'; at most its rows."
    )
    tol: float = again(
        SharedParameters,
        "tol",
        1e-4,
        description="The fit stops when an iteration lowers the objective by this share or less.",
    )
    max_iter: int = again(
        SharedParameters,
        "max_iter",
        200,
        kinds=(ROUNDS,),
        description="Maximum number of iterations of a fit.",
    )
    warm_start: bool = again(
        SharedParameters,
        "warm_start",
        False,
        description="Whether what the alternation needs to continue is kept (`joint_coef_`), so that another `fit` "
        "with views, labels and n_components of the same shape continues. On the same data and parameters, a fit that "
        "was stopped ends bit for bit where it would have ended, even after `to_bytes` and `from_bytes`.",
    )
