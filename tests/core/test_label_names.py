"""Lists of names in place of an indicator matrix: the error says what makes one of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.cases import for_each

from manylabel_core.batch import M3L
from manylabel_core.online import FALT

X = np.eye(3)


@for_each("learn", [M3L().fit, FALT().partial_fit])
@for_each(
    "names",
    [
        [["a", "b"], ["a"], []],
        [["a"], ["b"], ["c"]],
        [[], ["b"], ["c"]],
        [{"a"}, {"b"}, {"a", "b"}],
        [("a", "b"), ("a", "c"), ("b", "c")],
        ["a", "b", "c"],
        np.array([["a"], ["b"], ["c"]]),
        np.array([["a"], ["b", "c"], []], dtype=object),
    ],
)
def test_lists_of_names_are_refused_with_advice(learn: Callable[..., Any], names: Any) -> None:
    with pytest.raises(ValueError, match="MultiLabelBinarizer"):
        learn(X, names)


@for_each("learn", [M3L().fit, FALT().partial_fit])
@for_each("wrong", [[[1, 2], [0], [1]], [1, 0, 1], [[0.5], [0], [1]], [None, None, None]])
def test_invalid_labels_are_not_called_names(learn: Callable[..., Any], wrong: Any) -> None:
    with pytest.raises(ValueError, match="Y") as refused:
        learn(X, wrong)
    assert "MultiLabelBinarizer" not in str(refused.value)
