"""A missing value (absent, null, None or NaN) has the same bits on every path into a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from manylabel_clients import river
from manylabel_core import FALT
from manylabel_core.records import RecordEncoder
from manylabel_core.rows import as_rows, as_targets
from manylabel_service.api.translation.from_json import to_example, to_features
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.online.state.model import OnlineModel

D = 4
LABELS = ("p", "q")


def records(seed: int, n: int = 16) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Quantities with some zeros, a word, and missing values; the first record is complete."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(100, 10, n), rng.normal(0, 1, n), rng.normal(3, 1, n), rng.random(n) < 0.3])
    X[rng.random((n, D)) < 0.1] = 0.0
    X[rng.random((n, D)) < 0.2] = np.nan
    X[0] = [100, 0, 3, 1]
    Y = np.column_stack([rng.random(n) < 0.5, rng.random(n) < 0.2]).astype(np.int8)
    return X.astype(np.float32), Y


def named(row: NDArray[np.float32]) -> dict[str, float]:
    return {f"f{j}": value for j, value in enumerate(row.tolist()) if value == value}


def with_null(row: NDArray[np.float32]) -> dict[str, float | None]:
    return {f"f{j}": None if value != value else value for j, value in enumerate(row.tolist())}


def dense(row: NDArray[np.float32]) -> list[float | None]:
    return [*with_null(row).values()]


def by_index(row: NDArray[np.float32]) -> dict[str, list[Any]]:
    known = {j: value for j, value in enumerate(row.tolist()) if value == value}
    return {"indices": [*known], "values": [*known.values()]}


def by_index_with_null(row: NDArray[np.float32]) -> dict[str, list[Any]]:
    return {"indices": [*range(D)], "values": dense(row)}


def of_the_service(X: Any, Y: Any, form: Any, size: int, missing: str) -> Iterator[list[float]]:
    """Scores of each record before it is learnt; each entry, and the state after it, is written and read again."""
    names = {"features": [f"f{j}" for j in range(D)]} if form in (named, with_null) else {"features": D}
    spec = {"name": "m", "algorithm": "falt", "missing": missing, "labels": LABELS, **names}
    model = OnlineModel(ModelSpec.model_validate(spec))
    items = [{"x": form(x), "y": [LABELS[j] for j in np.flatnonzero(y)]} for x, y in zip(X, Y, strict=True)]
    for first in range(0, len(items), size):
        block = items[first : first + size]
        examples = tuple(to_example(json.loads(json.dumps(item)), (), 100, RecordEncoder()) for item in block)
        entry = LogEntry(str(first + 1), decode(encode(Update(examples, want_predictions=True))))
        before = [each.scores for each in model.predict([to_features({"x": block[0]["x"]}, (), 100, RecordEncoder())])]
        fold = ApplyBatch(model, [entry])
        while fold.step(3):
            pass
        scores = [(each[1:] - each[0]).tolist() for each in fold.outcomes[0].answer.scores]  # type: ignore[union-attr]
        assert [*before[0].values()] == scores[0], "a prediction is what learning shows"
        yield from scores
        model = OnlineModel.from_bytes(model.to_bytes())


def of_core(X: Any, Y: Any, size: int, missing: str) -> list[list[float]]:
    learner = FALT(missing=missing)
    learner.pipeline.grow(D, len(LABELS))
    scores: list[list[float]] = []
    for first in range(0, X.shape[0], size):
        part = slice(first, first + size)
        found = learner.pipeline.learn(as_rows(X[part])[0], as_targets(Y[part])).scores
        scores += (found[:, 1:] - found[:, :1]).tolist()
    return scores


def of_river(X: Any, Y: Any, row_of: Any, missing: str) -> list[list[float]]:
    model, scores = river.FALT(missing=missing), []
    model._encoder.labels = {label: j for j, label in enumerate(LABELS)}
    model._learner.pipeline.grow(0, len(LABELS))
    for x, y in zip(X, Y, strict=True):
        found = model._learner.pipeline.score(model._encoder.rows([row_of(x)]))[0]
        scores.append((found[1:] - found[0]).tolist())
        model.learn_one(row_of(x), dict(zip(LABELS, y.astype(bool).tolist(), strict=True)))
    return scores


@pytest.mark.parametrize("missing", ["mean", "zero"])
@settings(max_examples=settings.default.max_examples // 4)
@given(seed=st.integers(0, 10_000), size=st.sampled_from([1, 4, 16]))
def test_every_path_gives_the_same_bits(missing: str, seed: int, size: int) -> None:
    X, Y = records(seed)
    expected = of_core(X, Y, 1, missing)
    has = ~np.isnan(X)
    stored = sp.csr_array(sp.coo_array((X[has], np.nonzero(has)), shape=X.shape))
    assert of_core(X, Y, size, missing) == of_core(stored, Y, size, missing) == expected
    for form in (named, with_null, dense, by_index, by_index_with_null):
        assert list(of_the_service(X, Y, form, size, missing)) == expected, form
    for row_of in (named, with_null):
        assert of_river(X, Y, row_of, missing) == expected


def test_mean_and_zero_differ() -> None:
    X, Y = records(1)
    assert of_core(X, Y, 1, "mean") != of_core(X, Y, 1, "zero")
    assert of_core(X, Y, 1, "zero") == of_core(np.nan_to_num(X), Y, 1, "zero")
