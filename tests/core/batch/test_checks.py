"""scikit-learn's own checks of estimators.

It has few for estimators that learn label sets only: most of its classifier checks hand over class numbers, as
a vector or in one column. Those are what fails here, and all that may.
"""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from manylabel_core.batch import M3L, MLRL, SSMLRL, PrBR, PrML

NUMBERS = "hands over class numbers (1 and 2, or more) where Y must be an indicator matrix"
VECTOR = "hands over a vector of classes where Y must be an indicator matrix"
EXCEPTIONS = {
    "check_estimators_dtypes": NUMBERS,
    "check_classifier_data_not_an_array": NUMBERS,
    "check_fit2d_1feature": NUMBERS,
    "check_classifiers_one_label": VECTOR,
    "check_classifiers_classes": VECTOR,
    "check_classifiers_train": VECTOR,
    "check_sample_weights_not_overwritten": NUMBERS,
    "check_sample_weights_not_an_array": NUMBERS,
    "check_sample_weights_pandas_series": NUMBERS,
    "check_sample_weights_shape": NUMBERS,
    "check_sample_weight_equivalence_on_dense_data": NUMBERS,
    "check_sample_weight_equivalence_on_sparse_data": NUMBERS,
    "check_classifiers_one_label_sample_weights": VECTOR,
    "check_classifier_not_supporting_multiclass": "wants a message about binary classification only",
}
PRECOMPUTED = {
    "check_positive_only_tag_during_fit": "hands over a square matrix that is no Gram matrix",
    "check_dont_overwrite_parameters": NUMBERS,
    "check_f_contiguous_array_estimator": NUMBERS,
    "check_methods_sample_order_invariance": NUMBERS,
    "check_methods_subset_invariance": NUMBERS,
    "check_fit2d_1sample": NUMBERS,
    "check_fit2d_predict1d": NUMBERS,
    "check_dict_unchanged": NUMBERS,
}
TWO_CLASSES = "wants the probabilities of two classes from a single label"
PROBABILITIES = {
    "check_estimator_sparse_array": TWO_CLASSES,
    "check_estimator_sparse_matrix": TWO_CLASSES,
    "check_classifier_multioutput": TWO_CLASSES,
    "check_decision_proba_consistency": TWO_CLASSES,
}


def exceptions(estimator) -> dict[str, str]:
    more = PRECOMPUTED if estimator.kernel == "precomputed" else {}
    return EXCEPTIONS | more | (PROBABILITIES if hasattr(estimator, "predict_proba") else {})


pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),  # random labels, features up to 100
]


def checks(*estimators, data_frames=None):
    """Parametrise a test by each estimator with each of its checks; or those with, or without, pandas."""
    pairs = [pair for estimator in estimators for pair in estimator_checks_generator(estimator)]
    if data_frames is not None:
        pairs = [pair for pair in pairs if ("pandas" in pair[1].func.__name__) == data_frames]
    return pytest.mark.parametrize(
        ("estimator", "check"), pairs, ids=[f"{estimator}-{check.func.__name__}" for estimator, check in pairs]
    )


def hold(estimator, check):
    """Run a check, which must fail where it is an exception.

    `pytest.mark.xfail` would format the traceback of each failure, which takes longer than the checks.
    """
    if check.func.__name__ in exceptions(estimator):
        with pytest.raises(Exception):  # noqa: B017, PT011  any: the checks are not ours
            check(estimator)
    else:
        check(estimator)


# No model fits random labels, so more iterations would only take longer.
ESTIMATORS = [
    M3L(scaling="none", max_iter=50),
    M3L(scaling="none", optimise="none", kernel="precomputed", max_iter=50),
    MLRL(scaling="none", optimise="none", kernel="rbf", max_iter=3),
    SSMLRL(scaling="none", optimise="none", max_iter=3),
    PrML(scaling="none", optimise="none"),
    PrBR(scaling="none", optimise="none"),
]


@checks(*ESTIMATORS, data_frames=False)
def test_scikit_learn(estimator, check):
    hold(estimator, check)


@pytest.mark.usefixtures("dev_extra")
@checks(*ESTIMATORS, data_frames=True)
def test_scikit_learn_with_pandas(estimator, check):
    hold(estimator, check)


@pytest.mark.long
@checks(
    M3L(optimise="none", scaling="none"),
    M3L(optimise="none", kernel="rbf", scaling="none"),
    MLRL(optimise="none", scaling="none"),
)
def test_scikit_learn_and_more_parameters(estimator, check):
    hold(estimator, check)
