"""Data frames: their columns are known by name."""

from typing import Any

import numpy as np
import pytest
from tests.support.cases import for_each

from manylabel_core.frames import as_array
from manylabel_core.online.falt import FALT
from manylabel_core.online.kernel_salt import KernelSALT
from manylabel_core.online.learner import OnlineLearner

pd = pytest.importorskip("pandas", reason="only the extra dev has it")
pytestmark = pytest.mark.usefixtures("dev_extra")

RNG = np.random.default_rng(5)
X = RNG.normal(size=(60, 3)).astype(np.float32)
Y = np.column_stack([X[:, 0] > 0, X[:, 1] > 0, X[:, 2] > 0.5]).astype(np.int64)
NAMES, LABELS = ["height", "weight", "age"], ["tall", "heavy", "old"]
FRAME, TRUTH = pd.DataFrame(X, columns=NAMES), pd.DataFrame(Y, columns=LABELS)


@for_each("learner", [FALT(), KernelSALT(budget=20)])
def test_columns_in_another_order_are_put_in_order(learner: OnlineLearner) -> None:
    expected = type(learner)(**learner.get_params()).partial_fit(X, Y)
    learner.partial_fit(FRAME[:30], TRUTH[:30])
    learner.partial_fit(FRAME[["age", "height", "weight"]][30:], TRUTH[["old", "tall", "heavy"]][30:])
    assert learner.predict_proba(FRAME[NAMES[::-1]]).tobytes() == expected.predict_proba(X).tobytes()
    assert learner.feature_names_in_.tolist() == NAMES
    assert learner.label_names_.tolist() == LABELS
    assert learner.predict_proba(X).tobytes() == expected.predict_proba(X).tobytes(), "arrays are known by position"


def test_new_columns_may_stand_anywhere() -> None:
    learner = FALT().partial_fit(FRAME[["height", "weight"]][:30], TRUTH[["tall"]][:30])
    learner.partial_fit(FRAME[["age", "weight", "height"]][30:], TRUTH[["heavy", "tall"]][30:])
    expected = FALT().partial_fit(X[:30, :2], Y[:30, :1]).partial_fit(X[30:], Y[30:, :2])
    assert learner.predict_proba(FRAME).tobytes() == expected.predict_proba(X).tobytes()
    assert learner.feature_names_in_.tolist() == NAMES


class Table:
    """Stand-in for a table of Arrow, of which `columns` are the columns themselves."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.column_names = list(frame.columns)
        self.columns = [frame[name].array for name in self.column_names]

    def select(self, names: list[str]) -> "Table":
        return Table(self._frame[names])

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self._frame.to_numpy()


def test_tables_of_arrow_are_put_in_order_too() -> None:
    expected = FALT().partial_fit(X, Y)
    learner = FALT().partial_fit(Table(FRAME), Table(TRUTH))
    assert learner.predict_proba(Table(FRAME[NAMES[::-1]])).tobytes() == expected.predict_proba(X).tobytes()


@for_each(
    ("frame", "message"),
    [
        (FRAME[["height"]].assign(years=1.0), "X must have the columns seen before; it lacks 'weight' and 1 more"),
        (FRAME[["height", "age"]], "X must have the columns seen before; it lacks 'weight'"),
        (FRAME.set_axis(["height", "weight", "height"], axis=1), "two columns have the name 'height'"),
        (FRAME.set_axis(["height", "weight", 3], axis=1), "names of columns must be strings, not 3"),
        (FRAME.set_axis([("size", name) for name in NAMES], axis=1), r"not \('size', 'height'\): join its levels"),
    ],
)  # fmt: skip
def test_other_columns_are_refused_and_nothing_is_learnt(frame: Any, message: str) -> None:
    learner = FALT().partial_fit(FRAME, TRUTH)
    before = learner.predict_proba(X).tobytes()
    with pytest.raises(ValueError, match=message):
        learner.partial_fit(frame, TRUTH)
    with pytest.raises(ValueError, match=message):
        learner.predict(frame)
    assert learner.predict_proba(X).tobytes() == before
    assert learner.feature_names_in_.tolist() == NAMES


def test_a_wider_array_after_a_data_frame_is_refused() -> None:
    learner = FALT().partial_fit(FRAME, TRUTH)
    with pytest.raises(ValueError, match="X must be a data frame to have more than the 3 columns seen before"):
        learner.partial_fit(np.ones((60, 4)), TRUTH)


def test_arrays_and_numbered_columns_have_no_names() -> None:
    learner = FALT().partial_fit(pd.DataFrame(X), Y)
    assert not hasattr(learner, "feature_names_in_")
    assert not hasattr(learner, "label_names_")


def test_a_restored_learner_has_no_names() -> None:
    learner = FALT().partial_fit(FRAME, TRUTH)
    learner.restore(FALT().partial_fit(X, Y).state())
    assert not hasattr(learner, "feature_names_in_")


def test_missing_cells_of_nullable_types_are_nan() -> None:
    frame = pd.DataFrame({
        "whole": pd.array([1, None, 3], dtype="Int64"),
        "real": pd.array([0.5, 1.5, None], dtype="Float64"),
        "flag": pd.array([True, None, False], dtype="boolean"),
        "object": np.array([1, None, 2.5], dtype=object),
    })  # fmt: skip
    nan = np.nan
    expected = [[1.0, 0.5, 1.0, 1.0], [nan, 1.5, nan, nan], [3.0, nan, 0.0, 2.5]]
    np.testing.assert_array_equal(as_array(frame, "X"), np.array(expected))
    labels = [[1], [0], [1]]
    learner = FALT().partial_fit(frame, labels)
    assert (
        learner.predict_proba(frame).tobytes() == FALT().partial_fit(expected, labels).predict_proba(expected).tobytes()
    )


def test_a_column_of_strings_is_named() -> None:
    frame = pd.DataFrame({"size": [1.0, 2.0], "colour": ["red", "blue"]})
    with pytest.raises(ValueError, match="column 'colour' of X must contain numbers"):
        FALT().partial_fit(frame, [[1], [0]])
