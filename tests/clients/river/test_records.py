"""Records with strings are read alike by the estimators in process and by a server: as the numbers they stand for."""

import copy
import pickle
from typing import Any

import pytest
from river import compose, preprocessing

from manylabel_clients import Client
from manylabel_clients.river import FALT, SALT, RemoteModel, feed
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
def test_a_record_is_learnt_as_the_numbers_that_it_stands_for(estimator: type[FALT]) -> None:
    encoder = RecordEncoder(TextSettings.from_json(TEXT))
    there, numbers = estimator(text=TEXT), estimator(text=TEXT)
    for x, y in ROWS:
        assert there.predict_proba_one(x) == numbers.predict_proba_one(encoder.encode(x))
        there.learn_one(x, y)
        numbers.learn_one(encoder.encode(x), y)
    assert pickle.dumps(there) == pickle.dumps(numbers)


def test_settings_are_a_parameter() -> None:
    model = FALT(text=TEXT)
    assert model.clone().text == TEXT
    assert FALT().text is None
    for x, y in ROWS:
        model.learn_one(x, y)
    again = copy.deepcopy(model)
    assert again.predict_one(RECORDS[0]) == model.predict_one(RECORDS[0])
    with pytest.raises(ValueError, match=r"^ngrams must be"):
        FALT(text={"ngrams": 9})


def test_a_pipeline_hands_records_on() -> None:
    pipeline = compose.Discard("secret") | FALT(text=TEXT)
    pipeline.learn_one({"title": "quick fox", "secret": "x"}, {"p": True})
    assert list(pipeline["FALT"]._encoder.features) == ["title=quick", "title=fox", "title=quick fox"]
    scaled = preprocessing.OneHotEncoder() | FALT()
    scaled.learn_one({"genre": "rock"}, {"p": True})


@pytest.mark.parametrize("limits", [None, {"features": {"most": 4_096, "policy": "hash"}}])
def test_a_server_reads_the_same(client: Client, name: str, limits: Any) -> None:
    local = FALT(text=TEXT)
    model = client.create_model(name, text=TEXT, limits=limits)
    there = RemoteModel(client, name)
    for x, y in ROWS:
        if limits is None:
            assert there.predict_one(x) == local.predict_one(x)
            assert there.predict_proba_one(x) == local.predict_proba_one(x)
        there.learn_one(x, y)
        local.learn_one(x, y)
    fed = client.create_model(f"{name[:50]}-fed", text=TEXT, limits=limits)
    assert feed(ROWS, fed).metrics == model.metrics()
    assert [one.scores for one in fed.predict_many(RECORDS)] == [one.scores for one in model.predict_many(RECORDS)]
    assert model.status().text == TextSettings.from_json(TEXT).to_json()


def test_a_retried_creation_finds_its_own_model(client: Client, name: str) -> None:
    client.create_model(name, text=TEXT)
    assert client.create_model(name, text=TEXT, exist_ok=True).status().text["ngrams"] == [1, 2]
