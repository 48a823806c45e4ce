"""RemoteModel on a real server: the same contract, and the same numbers, as the estimators in process."""

import copy
import gc
import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest
from river import datasets, evaluate, metrics
from tests.support.cases import for_each

from manylabel_clients import Client, NotFound
from manylabel_clients.river import KernelFALT, RemoteModel
from manylabel_clients.river.encoding import named_values


def through_pickle(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - bytes of our own


def changing_stream(n: int) -> list[Any]:
    """Rows whose features and labels come and go, some labels unknown, some rows empty."""
    rng = random.Random(5)
    rows = []
    for i in range(n):
        features = rng.sample(range(2 + i // 3), min(2 + i // 3, 4))
        labels = rng.sample(range(1 + i // 9), min(1 + i // 9, 4))
        x = {f"f{j}": rng.choice([0.0, rng.gauss(0, 1), 3, True]) for j in features}
        rows.append((x, {f"l{j}": rng.random() < 0.5 for j in labels}))
    return [*rows, ({}, {}), ({"f1": 1e-30}, {"l0": False}), ({"f2": 1e15}, {"l1": True})]


def test_predictions_are_those_of_the_estimator_in_process(client: Client, name: str) -> None:
    params = {"eta": 0.5, "gamma": 2.0, "passes": 3}
    local = KernelFALT(**params, scaling="unit")
    client.create_model(name, algorithm="kernel_falt", params=params, scaling="unit")
    there = RemoteModel(client, name)
    assert there.predict_one({"f0": 1.0}) == {}
    for x, y in [*changing_stream(60), *datasets.Yeast().take(20)]:
        assert there.predict_one(x) == local.predict_one(x)
        assert there.predict_proba_one(x) == local.predict_proba_one(x)
        threshold, *scores = local._learner.pipeline.score(local._encoder.rows([x]))[0].tolist()
        prediction = there.model.predict(named_values(x))
        assert prediction.threshold == threshold
        assert list(prediction.scores.values()) == [score - threshold for score in scores]
        there.learn_one(x, y)
        local.learn_one(x, y)
    assert list(there.predict_one({})) == list(local._encoder.labels)
    assert there.model.status().updates == 83


@pytest.mark.parametrize("duplicate", [RemoteModel.clone, copy.copy, copy.deepcopy, through_pickle])
def test_a_copy_is_another_handle_of_the_same_model(
    client: Client, name: str, duplicate: Callable[[RemoteModel], RemoteModel]
) -> None:
    tags = client.create_model(name)
    servers = [client.base_url] if duplicate is through_pickle else [client.base_url, client]
    for server in servers:
        model = RemoteModel(server, name)
        other = duplicate(model)
        assert other is not model
        assert (other.server, other.name) == (server, name)
        before = tags.status().updates
        other.learn_one({"a": 1.0}, {"rock": True, "pop": False})
        assert tags.status().updates == before + 1
        assert model.predict_one({"a": 1.0}) == {"rock": True, "pop": False}
    assert model.clone({"name": "other"}).name == "other"


def test_a_handle_of_a_client_cannot_be_pickled(client: Client) -> None:
    with pytest.raises(TypeError, match="pass the server's address instead"):
        pickle.dumps(RemoteModel(client, "tags"))


def test_a_handle_closes_only_its_own_client(client: Client, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client.create_model(name)
    closed = []
    close = Client.close
    monkeypatch.setattr(Client, "close", lambda self: (closed.append(self._connections), close(self)))
    model = RemoteModel(client.base_url, name)
    model.learn_one({"a": 1}, {"rock": True})
    own = model.model._connections
    del model
    gc.collect()
    assert closed == [own]
    model = RemoteModel(client, name)
    model.learn_one({"a": 1}, {"rock": True})
    del model
    gc.collect()
    assert closed == [own]


@for_each(
    ("x", "y", "message"),
    [
        ({1: 1.0}, {"rock": True}, "feature 1: the name must be a string"),
        ({"a": 1.0}, {1: True}, "label 1: the name must be a string"),
        ({"a": float("nan")}, {"rock": True}, "feature 'a' is nan"),
        ({"a": 1.0}, ["rock"], "y must be a dict"),
    ],
)
def test_an_invalid_example_is_not_sent(client: Client, name: str, x: Any, y: Any, message: str) -> None:
    tags = client.create_model(name, exist_ok=True)
    with pytest.raises((TypeError, ValueError), match=message):
        RemoteModel(client, name).learn_one(x, y)
    assert tags.status().updates == 0


def test_an_unknown_model_is_an_error(client: Client) -> None:
    with pytest.raises(NotFound):
        RemoteModel(client, "nobody").predict_one({"a": 1.0})


def test_river_shows_the_memory_on_the_server(client: Client, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    tags = client.create_model(name)
    model, metric = RemoteModel(client, name), metrics.multioutput.MicroAverage(metrics.F1())
    evaluate.progressive_val_score(datasets.Yeast().take(5), model, metric, print_every=5, show_memory=True)
    assert model._raw_memory_usage == tags.status().bytes > 0
    assert model._memory_usage in capsys.readouterr().out
