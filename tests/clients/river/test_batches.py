"""Mini-batches and weights give the bits of row by row, for data frames of any kind, in process and on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from river import compose, datasets, preprocessing
from tests.support.cases import for_each
from tests.support.lanes import in_rest
from tests.support.lazy import lazy

from manylabel_clients import Client, Invalid, river
from manylabel_clients.river import FALT, SALT, RemoteModel, feed
from manylabel_core import online

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = lazy("pandas")

ESTIMATORS = [getattr(river, name) for name in online.__all__]
PARAMS: dict[str, dict[str, Any]] = {"KernelSALT": {"budget": 8}}
WEIGHTS = [1.0, 0.5, 30.0, 1.0] * 6


class Frames(NamedTuple):
    numbers: pd.DataFrame
    records: pd.DataFrame
    labels: pd.DataFrame


@pytest.fixture(scope="module")
@in_rest
def frames() -> Frames:
    """Examples as data frames of pandas."""
    generator = np.random.default_rng(4)
    numbers = pd.DataFrame(generator.normal(size=(24, 3)), columns=["a", "b", "c"])
    numbers["flag"] = generator.random(24) < 0.5
    numbers["count"] = generator.integers(0, 9, 24)
    numbers.loc[3:5, "b"] = np.nan
    numbers.index = pd.Index(range(100, 124))
    records = pd.DataFrame(
        {
            "title": ["The quick fox", "slow trains", None, "a fox in a train"] * 6,
            "country": ["FR", "DE", "FR", None] * 6,
            "size": [1.5, np.nan, 3.0, 4.0] * 6,
            "tags": [["x", "y"], [], None, ["y"]] * 6,
        }
    )
    labels = pd.DataFrame({"p": [True, False, True, None] * 6, "q": [1, 0, np.nan, 1] * 6, 7: [False, True] * 12})
    return Frames(numbers, records, labels)


def rows(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows as river's dicts, without missing values."""
    return [
        {name: value for name, value in row.items() if not (value is None or value != value)}
        for row in frame.to_dict("records")
    ]


def facts(model: Any) -> Any:
    """State of a model, without reserved memory, which depends on how rows are grouped."""
    arrays = {name: array.tobytes() for name, array in model._learner.state().items()}
    return arrays, list(model._encoder.features), list(model._encoder.labels), model.drift_detected


@for_each("weighted", [False, True])
@for_each("kind", ["numbers", "records"])
@for_each("estimator", ESTIMATORS)
def test_many_rows_are_learnt_as_row_by_row(frames: Frames, estimator: Any, kind: str, weighted: bool) -> None:
    X: pd.DataFrame = getattr(frames, kind)
    weights = pd.Series(WEIGHTS) if weighted else None
    settings = {**PARAMS.get(estimator.__name__, {}), "text": {"fields": ["title"]}, "drift": "adwin"}
    single, many = estimator(**settings), estimator(**settings)
    for first, last in ((0, 10), (10, 10), (10, 24)):
        part = slice(first, last)
        many.learn_many(X.iloc[part], frames.labels.iloc[part], w=None if weights is None else weights[part])
    for at, (x, y) in enumerate(zip(rows(X), rows(frames.labels), strict=True)):
        single.learn_one(x, y, w=1.0 if weights is None else WEIGHTS[at])
    assert facts(single) == facts(many)
    predicted, likely = many.predict_many(X), many.predict_proba_many(X)
    assert predicted.index.equals(X.index)
    assert list(predicted.columns) == list(likely.columns) == ["p", "q", 7]
    assert predicted.to_dict("records") == [dict(single.predict_one(x)) for x in rows(X)]
    assert likely.to_dict("records") == [
        {label: p[True] for label, p in single.predict_proba_one(x).items()} for x in rows(X)
    ]


def test_before_the_first_label_there_are_no_columns(frames: Frames) -> None:
    assert FALT().predict_many(frames.numbers).shape == (24, 0)
    assert FALT().predict_many(frames.numbers).index.equals(frames.numbers.index)
    with pytest.raises(NotImplementedError):
        FALT(calibrate=False, optimise="none").predict_proba_many(frames.numbers)


def test_a_pipeline_learns_data_frames(frames: Frames) -> None:
    """River's steps select and scale data frames, then the model learns them."""
    many = compose.Select("a", "c") | preprocessing.StandardScaler() | FALT()
    for first in (0, 12):
        many.learn_many(frames.numbers.iloc[first : first + 12], frames.labels.iloc[first : first + 12])
    assert many.predict_many(frames.numbers).shape == (24, 3)


def test_a_frame_with_an_error_is_not_learnt_at_all(frames: Frames) -> None:
    model, untouched = FALT(), FALT()
    for one in (model, untouched):
        one.learn_many(frames.numbers[:2], frames.labels[:2])
    bad = frames.numbers.copy()
    bad.loc[123, "a"] = np.inf
    for X, y, w, error in (
        (bad, frames.labels, None, "finite"),
        (frames.numbers, frames.labels[:3], None, "must have 24 rows"),
        (frames.numbers, frames.labels, [1.0], "w must"),
        (frames.numbers, frames.labels, [0.0] * 24, "w"),
        (frames.numbers.to_numpy(), frames.labels, None, "data frame"),
        (frames.numbers, frames.labels["p"], None, "data frame"),
        (frames.numbers, pd.DataFrame({"p": [2] * 24}), None, "True or False"),
    ):
        with pytest.raises((TypeError, ValueError), match=error):
            model.learn_many(X, y, w)
    assert facts(model) == facts(untouched)


@for_each("wrong", [0, -1, 1001, float("nan"), "2", None])
def test_an_invalid_weight_is_refused(wrong: Any) -> None:
    model = SALT()
    with pytest.raises(ValueError, match="w"):
        model.learn_one({"a": 1.0}, {"p": True}, w=wrong)
    assert model.predict_one({"a": 1.0}) == {}


def test_a_server_learns_many_rows_alike(client: Client, name: str, frames: Frames) -> None:
    client.create_model(name, text={"fields": ["title"]})
    there, here = RemoteModel(client, name), FALT(text={"fields": ["title"]})
    y = frames.labels.rename(columns={7: "r"})
    there.learn_many(frames.records[:20], y[:20], w=WEIGHTS[:20])
    here.learn_many(frames.records[:20], y[:20], w=WEIGHTS[:20])
    for x, truth in zip(rows(frames.records[20:]), rows(y[20:]), strict=True):
        there.learn_one(x, truth, w=2.5)
        here.learn_one(x, truth, w=2.5)
    X = frames.records
    pd.testing.assert_frame_equal(there.predict_many(X)[["p", "q", "r"]], here.predict_many(X))
    pd.testing.assert_frame_equal(
        there.predict_proba_many(X)[["p", "q", "r"]], here.predict_proba_many(X), check_exact=True
    )
    with pytest.raises(Invalid, match="/weight"):
        there.learn_one({"size": 1.0}, {"p": True}, w=0.0)
    with pytest.raises(ValueError, match="must have 24 numbers"):
        there.learn_many(frames.records, y, w=[1.0])


def test_a_feed_takes_weights(client: Client, name: str) -> None:
    stream = [(x, y, 0.5 + n % 3) for n, (x, y) in enumerate(datasets.Yeast().take(30))]
    fed, here = client.create_model(name), FALT()
    feed(stream, fed)
    for x, y, w in stream:
        here.learn_one(x, y, w)
    likely = fed.predict(stream[0][0], probabilities=True).probabilities
    assert likely == {label: p[True] for label, p in here.predict_proba_one(stream[0][0]).items()}
