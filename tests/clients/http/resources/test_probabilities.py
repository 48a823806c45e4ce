"""Probabilities and drift through the clients: what is asked, and what comes back."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.clients.http.fake_server import FakeServer, ok

from manylabel_clients import Alarms, AsyncClient, Client, Drift, Invalid, Prediction
from manylabel_clients.command.output.models import label_texts
from manylabel_clients.http.resources.metrics import BySeen, GroupMeasures, Measures, Metrics
from manylabel_clients.http.resources.model_status import ModelStatus
from manylabel_clients.http.resources.models import ModelRequests
from manylabel_clients.http.resources.records import from_json
from manylabel_clients.http.transport.retry import Retry

ANSWER = {"labels": ["a"], "scores": {"a": 0.5}, "threshold": 0.1, "position": "7", "updates": 1, "durability": "log"}
LIKELY = {**ANSWER, "probabilities": {"a": 0.75}}
ROWS = [({"f": n % 2, "g": 1}, ["a"] if n % 2 else ["b"]) for n in range(20)]


def calls() -> ModelRequests:
    return ModelRequests("m", Retry(attempts=1))


def test_it_is_asked_beside_the_example_and_only_if_wanted() -> None:
    for wanted, answer in ((False, ANSWER), (True, LIKELY)):
        one = FakeServer(ok(answer), ok(answer))
        found = one(calls().predict({"f": 1}, probabilities=wanted))
        before, _ = one(calls().predict_update({"f": 1}, ["a"], key="k", probabilities=wanted))
        assert found.probabilities == before.probabilities == ({"a": 0.75} if wanted else None)
        asked = {"probabilities": True} if wanted else {}
        assert one.bodies == [{"x": {"f": 1}, **asked}, {"x": {"f": 1}, "y": ["a"], **asked}]

        many = FakeServer(*[ok({"predictions": [answer] * 2, **answer})] * 4)
        many(calls().predict_many([{"f": 1}] * 4, batch_size=2, probabilities=wanted))
        many(calls().predict_update_many([({"f": 1}, ["a"])] * 4, batch_size=2, key="k", probabilities=wanted))
        assert [body.keys() for body in many.bodies] == [{"examples", *asked}] * 4


def test_a_stream_asks_in_its_address() -> None:
    for wanted, query in ((False, "from=1"), (True, "from=1&probabilities=true")):
        stream = calls().stream([({"f": 1}, ["a"])], probabilities=wanted)
        fake = FakeServer(ok({"line": 1, **LIKELY}))
        (answer,) = fake(stream.next())
        assert fake.pieces == [(query, 1)]
        assert answer.prediction is not None
        assert answer.prediction.probabilities == {"a": 0.75}


def test_drift_from_its_json() -> None:
    measures = dict.fromkeys(Measures.__dataclass_fields__, 0) | {
        "baseline": dict.fromkeys(Measures.__dataclass_fields__, None)
    }
    groups = dict.fromkeys(BySeen.__dataclass_fields__, dict.fromkeys(GroupMeasures.__dataclass_fields__, 0.0))
    answer = {"cumulative": measures, "window": {**measures, "size": 5}, "by_seen": groups}
    assert from_json(Metrics, answer).drift is None
    drift = {"alarms": 2, "last": 9, "labels": {"a": {"alarms": 1, "last": 7, "more": 1}}, "more": 2}
    assert from_json(Metrics, {**answer, "drift": drift}).drift == Drift(2, 9, {"a": Alarms(1, 7)})


def test_a_line_of_the_command_says_how_likely_its_labels_are() -> None:
    prediction = Prediction(["a", "b"], {"a": 1.0, "c": -1.0, "b": 0.5}, 0.0, "1")
    assert label_texts(prediction) == ["a", "b"]
    likely = Prediction(["a", "b"], {}, 0.0, "1", probabilities={"a": 0.756, "c": 0.1, "b": 0.5})
    assert label_texts(likely) == ["a (0.76)", "b (0.50)"]


def test_probabilities(client: Client, name: str) -> None:
    model = client.create_model(name)
    model.predict_update_many(ROWS, probabilities=True)
    x = {"f": 1, "g": 1}
    plain, asked = (model.predict(x, probabilities=wanted) for wanted in (False, True))
    assert plain.probabilities is None
    assert asked.probabilities is not None
    assert asked.probabilities.keys() == asked.scores.keys()
    assert 0 <= asked.probabilities["b"] < 0.5 < asked.probabilities["a"] <= 1
    many = model.predict_many([x] * 3, batch_size=2, probabilities=True)
    assert [one.probabilities for one in many] == [asked.probabilities] * 3
    before, _ = model.predict_update(x, ["a"], probabilities=True)
    assert before.probabilities == asked.probabilities
    now = model.predict(x, probabilities=True).probabilities
    first, second = model.stream([(x, ["a"])] * 2, batch_size=1, probabilities=True)
    assert first.prediction is not None
    assert second.prediction is not None
    assert first.prediction.probabilities == now
    assert second.prediction.probabilities not in (None, now)
    assert all(answer.prediction and answer.prediction.probabilities is None for answer in model.stream(ROWS[:1]))


def test_of_the_asynchronous_client(server: Any, name: str) -> None:
    async def ask() -> list[Prediction | None]:
        async with AsyncClient(server.url) as client:
            model = await client.create_model(name)
            found = [(await model.predict_update_many(ROWS, probabilities=True))[0][-1]]
            found += [(await model.predict_update({"f": 1}, ["a"], probabilities=True))[0]]
            found += [await model.predict({"f": 1}, probabilities=True)]
            found += await model.predict_many([{"f": 1}], probabilities=True)
            return [*found, *[one.prediction async for one in model.stream(ROWS[:1], probabilities=True)]]

    assert [one.probabilities.keys() for one in asyncio.run(ask()) if one and one.probabilities] == [{"b", "a"}] * 5


def test_of_a_model_that_has_none(client: Client, name: str) -> None:
    model = client.create_model(name, params={"calibrate": False})
    model.update({"f": 1}, ["a"])
    attempts: list[Callable[[], object]] = [
        lambda: model.predict({"f": 1}, probabilities=True),
        lambda: model.predict_update({"f": 1}, ["a"], probabilities=True),
        lambda: list(model.stream([({"f": 1}, ["a"])], probabilities=True)),
    ]
    for attempt in attempts:
        with pytest.raises(Invalid, match="no probabilities"):
            attempt()
    assert model.status().updates == 1


def test_drift(client: Client, name: str) -> None:
    """One label, decided by a feature until the middle of the stream, by chance from there on."""
    model = client.create_model(name, params={"drift": "adwin"})
    assert model.metrics().drift == Drift(0, None, {})
    events = model.events()
    next(events)  # it watches
    signal, chance = np.random.default_rng(0).random((2, 600)) < 0.5
    truth = np.where(np.arange(600) < 300, signal, chance)
    for start in range(0, 600, 100):
        rows = range(start, start + 100)
        model.update_many([({"f": int(signal[n]), "g": 1}, ["a"] if truth[n] else []) for n in rows])
    drift = model.metrics().drift
    assert drift is not None
    assert drift.labels["a"].alarms >= 1
    assert 300 < (drift.labels["a"].last or 0) <= 600
    status = model.status()
    assert isinstance(status, ModelStatus)
    assert status.metrics.drift == drift
    alarm = next(event for event in events if event.kind == "drift")
    assert alarm.data["label"] in (None, "a")
    assert 300 < alarm.data["updates"] <= 600
    following = next(event for event in model.events(after=alarm.position) if event.kind == "update")
    assert following.position == alarm.data["position"]
    model.delete()
