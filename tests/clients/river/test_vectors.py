"""Vectors in river's dicts: lists and arrays, learnt one by one and as frames, explained and refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.support.lazy import lazy

from manylabel_clients.river import FALT, SALT, KernelFALT

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = lazy("pandas")


def frames(pairs: list[tuple[dict[Any, Any], dict[Any, bool]]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    return pd.DataFrame([x for x, _ in pairs], dtype=object), pd.DataFrame([y for _, y in pairs])


def stream(n: int = 40) -> list[tuple[dict[Any, Any], dict[Any, bool]]]:
    rng = np.random.default_rng(0)
    pairs = []
    for i in range(n):
        vector = rng.standard_normal(4) + (i % 2)
        x: dict[Any, Any] = {"size": i % 3, "kind": "ab"[i % 2]}
        if i > 4:
            x["embedding"] = vector if i % 3 else vector.tolist()
        if i > 9:
            x["other"] = {"f32": "AACAPwAAAEA="}
        pairs.append((x, {"odd": bool(i % 2), "rare": i % 7 == 0}))
    return pairs


@pytest.mark.usefixtures("dev_extra")
@pytest.mark.parametrize("make", [FALT, SALT, KernelFALT])
def test_a_frame_is_learnt_as_row_by_row(make: Any) -> None:
    one, many = make(), make()
    pairs = stream()
    for x, y in pairs:
        one.learn_one(x, y)
    many.learn_many(*frames(pairs))
    state, other = one._learner.state(), many._learner.state()
    assert state.keys() == other.keys()
    assert all(state[name].tobytes() == other[name].tobytes() for name in state)
    assert one._learner.pipeline.vectors == (4, 2)


def test_an_explanation_names_the_field_of_a_vector() -> None:
    model = FALT()
    pairs = stream(400)
    for x, y in pairs:
        model.learn_one(x, y)
    explanation = model.explain_one(pairs[-1][0], k=9)["odd"]
    parts = {part.feature: part for part in (*explanation.for_, *explanation.against)}
    assert parts["embedding"].value is None
    assert parts["embedding"].contribution != 0.0


@pytest.mark.usefixtures("dev_extra")
@pytest.mark.parametrize("vector", [[1.0, 2.0], np.ones(5), [1.0, np.nan, 1.0, 1.0], np.ones((2, 2))])
def test_a_vector_that_does_not_fit_is_refused_and_nothing_is_learnt(vector: Any) -> None:
    model = FALT()
    pairs = stream()
    model.learn_many(*frames(pairs))
    before = model._learner.state()
    bad = {"embedding": vector}
    for call in (
        lambda: model.learn_one(bad, {"odd": True}),
        lambda: model.predict_one(bad),
        lambda: model.learn_many(*frames([(x, {"odd": True}) for x in (pairs[0][0], {"new": [1.0]}, bad)])),
    ):
        with pytest.raises(ValueError, match="embedding"):
            call()
    assert all(before[name].tobytes() == array.tobytes() for name, array in model._learner.state().items())
