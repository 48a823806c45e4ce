"""Records with strings are learnt alike by the estimators in process and by a server."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from river import compose
from tests.support.optional_numbers import Stream

from manylabel_clients import Client
from manylabel_clients.river import FALT, SALT, KernelFALT, RemoteModel
from manylabel_core.records import RecordEncoder, TextSettings

TEXT = {"fields": ["title"], "ngrams": 2}
RECORDS: list[Any] = [
    {"title": "The quick fox", "section": "games", "size": 12.5, "free": True, "tags": ["a", "b"], "none": None},
    {"title": "A slow train, a slow train", "author": {"name": "Kim", "age": 40}, "free": False},
    "a bare text",
    {"size": 3, "free": True},
    {"section": "words " * 50, "title": "café"},
]
LABELS = [{"p": True, "q": False}, {"q": True}, {"p": False, "r": True}, {}, {"p": True, "r": False}]
ROWS = list(zip(RECORDS, LABELS, strict=True))


@pytest.mark.parametrize("estimator", [FALT, SALT])
def test_a_record_is_learnt_as_its_features(estimator: type[FALT]) -> None:
    encoder = RecordEncoder(TextSettings.from_json(TEXT))
    there, numbers = estimator(text=TEXT), estimator(text=TEXT)
    for x, y in ROWS:
        assert there.predict_proba_one(x) == numbers.predict_proba_one(encoder.encode(x))
        there.learn_one(x, y)
        numbers.learn_one(encoder.encode(x), y)
    assert pickle.dumps(there) == pickle.dumps(numbers)


OPTIONAL: list[Any] = [
    {"size": 3, "free": True},
    {"size": 4, "price": 8.5},
    {"size": 4, "section": "games", "price": 9},
    {"size": 0, "section": "games"},
    "a bare text",
    {"size": 2, "price": 0, "new": 1},
    {"price": "given", "size": 5},
    {"price": 1, "price=given": 2, "size": 5},
    {f"n{i}": i for i in range(250)},
    {"size": 1, "n7": 7, "section": "games"},
    {f"m{i}": i for i in range(9)},
    {"size": 1, "n7": 7, "section": "games"},
]


def test_a_record_has_the_features_of_its_optional_numbers() -> None:
    encoder, stream, seen = RecordEncoder(), Stream(), list[int]()
    model, plain = FALT(), FALT()
    for i, x in enumerate(OPTIONAL):
        features = encoder.encode(x)
        for z in map(encoder.encode, OPTIONAL):
            assert model.predict_proba_one(z) == plain.predict_proba_one(without_fields(stream.predicted(z)))
        learnt = stream.learnt(features)
        seen.append(len(learnt) - len(features))
        y = {"p": i % 2 == 0, "q": i % 3 == 0}
        model.learn_one(x, y)
        plain.learn_one(without_fields(learnt), y)
        assert list(model._encoder.features) == [name for (name,) in plain._encoder.features]
        model = copy.deepcopy(model) if i % 2 else pickle.loads(pickle.dumps(model))  # noqa: S301 - bytes of our own
    assert seen == [0, 0, 1, 0, 0, 3, 1, 1, 250, 2, 0, 0]


def without_fields(features: dict[str, float]) -> dict[tuple[str], float]:
    """Features under keys that are not strings, so that none is a number field."""
    return {(name,): value for name, value in features.items()}


def test_numbers_alone_have_no_more_features() -> None:
    model = FALT()
    for x in ({"a": 1.0}, {"b": 2.0}, {"a": 1.0, "b": 3.0}, {7: 1.0, "a": 2.0}):
        model.learn_one(x, {"p": True})
    assert list(model._encoder.features) == ["a", "b", 7]


def test_an_explanation_names_the_features_of_optional_numbers() -> None:
    model = FALT(scaling="none", optimise="none")
    for i in range(20):
        model.learn_one({"section": "games"} | ({"price": 3.0} if i % 2 else {}), {"p": i % 2 == 1})
    parts = model.explain_one({"section": "games", "price": 3.0})["p"].for_
    assert {part.feature: part.value for part in parts}["price=given"] == 1.0


def test_text_settings_are_a_parameter() -> None:
    model = FALT(text=TEXT)
    assert model.clone().text == TEXT
    assert FALT().text is None
    for x, y in ROWS:
        model.learn_one(x, y)
    again = copy.deepcopy(model)
    assert again.predict_one(RECORDS[0]) == model.predict_one(RECORDS[0])
    with pytest.raises(ValueError, match=r"^ngrams must be"):
        FALT(text={"ngrams": 9})


def test_a_pipeline_passes_records_on() -> None:
    pipeline = compose.Discard("secret") | FALT(text=TEXT)
    pipeline.learn_one({"title": "quick fox", "secret": "x"}, {"p": True})
    assert list(pipeline["FALT"]._encoder.features) == ["title=quick", "title=fox", "title=quick fox"]


def test_a_server_predicts_and_explains_records_alike(client: Client, name: str) -> None:
    model = FALT(text=TEXT)
    assert model.explain_one({"title": "fox"}) == {}
    client.create_model(name, algorithm="falt", text=TEXT)
    there = RemoteModel(client, name)
    for x, y in ROWS * 4:
        model.learn_one(x, y)
        there.learn_one(x, y)
    explained = 0
    for x in RECORDS:
        assert there.predict_one(x) == model.predict_one(x)
        assert there.predict_proba_one(x) == model.predict_proba_one(x)
        found = model.explain_one(x, k=3)
        assert list(found) == [label for label, predicted in model.predict_one(x).items() if predicted]
        remote = there.explain_one(x, k=3)
        assert remote.keys() == found.keys()
        for label, one in found.items():
            assert one.rest == remote[label].rest
            for part, other in zip(one.for_ + one.against, remote[label].for_ + remote[label].against, strict=True):
                assert (part.feature, part.contribution) == (other.feature, other.contribution)
                assert part.value == pytest.approx(other.value, rel=1e-6)  # a server keeps float32
        for one in found.values():
            assert len(one.for_) <= 3 >= len(one.against)
            explained += len(one.for_)
    assert explained
    with pytest.raises(ValueError, match="k must be"):
        model.explain_one(RECORDS[0], k=0)
    with pytest.raises(ValueError, match="linear"):
        KernelFALT().explain_one({"a": 1.0})


def test_an_explanation_has_keys_and_values_as_given() -> None:
    model = FALT(scaling="none", optimise="none")
    for _ in range(5):
        model.learn_one({("a", 1): 0.1, 7: True, "b": None}, {0: True, 1: False})
    explanation = model.explain_one({("a", 1): 0.1, 7: True, "new": 3.0})[0]
    assert {part.feature: part.value for part in explanation.for_} == {("a", 1): 0.1, 7: 1.0}
    assert explanation.against == []


@pytest.mark.parametrize("level", [100.0, 20.0, 5.0])
def test_a_number_that_some_records_have_is_a_quantity_whatever_its_level(level: float) -> None:
    rng, right = np.random.default_rng(0), list[bool]()
    model = FALT()
    for n in range(2_500):
        deviation = float(rng.normal())
        x: dict[str, Any] = {
            "kind": str(rng.integers(3)),
            "words": [f"w{word}" for word in set(rng.zipf(1.5, 8) % 300)],
        }
        if rng.random() < 0.45:
            x["price"] = level + 5.0 * deviation
        y = {"dear": "price" in x and deviation > 0.0, "priced": "price" in x}
        if n >= 1_500 and "price" in x:
            right.append(model.predict_one(x) == y)
        model.learn_one(x, y)
    assert np.mean(right) > 0.9
