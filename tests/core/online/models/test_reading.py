"""Reading a kernel model changes nothing, and takes no memory for features that no example has."""

from typing import Any

import numpy as np
import pytest
from tests.support.cases import for_each

from manylabel_core import KernelFALT
from manylabel_core.online.models import points
from manylabel_core.online.models.points import scratch

STRATEGIES: dict[str, dict[str, Any]] = {name: {"strategy": name, "budget": 10} for name in ("project", "nystroem")} | {
    "all": {"budget": None}
}


def learnt(**params: Any) -> tuple[KernelFALT, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(40, 6)), rng.random((40, 3)) < 0.5
    return KernelFALT(kernel="rbf", gamma=0.5, **params).partial_fit(X, Y.astype(int)), X


def allocated(root: object) -> dict[str, tuple[int, ...]]:
    """Shapes of all arrays that an object leads to."""
    found: dict[str, tuple[int, ...]] = {}
    to_do = [("", root)]
    while to_do:
        path, at = to_do.pop()
        if isinstance(at, np.ndarray):
            found[path] = at.shape
        elif type(at).__module__.startswith("manylabel_core"):
            slots = [name for cls in type(at).__mro__ for name in getattr(cls, "__slots__", ())]
            values = {name: getattr(at, name) for name in slots if hasattr(at, name)} | getattr(at, "__dict__", {})
            to_do += [(f"{path}.{name}", value) for name, value in values.items()]
    return found


@pytest.mark.parametrize("name", STRATEGIES)
def test_predictions_allocate_nothing(name: str) -> None:
    model, X = learnt(**STRATEGIES[name])
    expected, state = model.decision_function(X), model.state()
    again = KernelFALT(kernel="rbf", gamma=0.5, **STRATEGIES[name])
    again.restore(state)
    before = allocated(again)
    np.testing.assert_array_equal(again.decision_function(X), expected)
    for array, kept in zip(again.state().values(), state.values(), strict=True):
        np.testing.assert_array_equal(array, kept)
    assert allocated(again) == before


@for_each("name", STRATEGIES)
def test_scratch_is_left_as_zeros(name: str) -> None:
    model, X = learnt(**STRATEGIES[name])
    model.decision_function(X)
    assert not scratch(6)[0].any()


def test_scratch_of_any_size_begins_with_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "MAX_KEPT", 100)
    for n_features in (3, 50, 7, 0, 100, 101, 99, 1000, 51):
        work = scratch(n_features)
        assert work.shape == (2, n_features)
        assert work.flags.c_contiguous
        assert not work[0].any()
        work[1] = np.nan
