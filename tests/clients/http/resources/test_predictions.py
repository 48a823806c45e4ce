"""Probabilities, explanations and drift, through the client and the command."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.clients.http.fake_server import FakeServer, ok, unsent

from manylabel_clients import Alarms, Client, Drift, Explanation, FeaturePart, Prediction
from manylabel_clients.command.output.models import label_texts
from manylabel_clients.http.resources.models import ModelCalls
from manylabel_clients.http.responses import BySeen, GroupMeasures, Measures, Metrics
from manylabel_clients.http.transport.json_body import from_json
from manylabel_clients.http.transport.retry import Retry

ANSWER = {"labels": ["a"], "scores": {"a": 0.5}, "threshold": 0.1, "position": "7", "updates": 1}
LIKELY = {**ANSWER, "probabilities": {"a": 0.75}}


def calls() -> Any:
    return unsent(ModelCalls, "m", retry=Retry(attempts=1))


def test_probabilities_are_requested_beside_the_example() -> None:
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


def test_a_stream_requests_probabilities_by_a_query_parameter() -> None:
    for wanted, query in ((False, "from=1"), (True, "from=1&probabilities=true")):
        stream = calls().stream([({"f": 1}, ["a"])], probabilities=wanted)
        fake = FakeServer(ok({"line": 1, **LIKELY}))
        (answer,) = fake(stream.next())
        assert fake.pieces == [(query, 1)]
        assert answer.prediction is not None
        assert answer.prediction.probabilities == {"a": 0.75}


def test_drift_is_read_from_json() -> None:
    measures = dict.fromkeys(Measures.__dataclass_fields__, 0) | {
        "baseline": dict.fromkeys(Measures.__dataclass_fields__, None)
    }
    groups = dict.fromkeys(BySeen.__dataclass_fields__, dict.fromkeys(GroupMeasures.__dataclass_fields__, 0.0))
    answer = {"cumulative": measures, "window": {**measures, "size": 5}, "by_seen": groups}
    assert from_json(Metrics, answer).drift is None
    drift = {"alarms": 2, "last": 9, "labels": {"a": {"alarms": 1, "last": 7, "more": 1}}, "more": 2}
    assert from_json(Metrics, {**answer, "drift": drift}).drift == Drift(
        alarms=2, last=9, labels={"a": Alarms(alarms=1, last=7)}
    )


def test_labels_are_printed_with_their_probabilities() -> None:
    prediction = Prediction(labels=["a", "b"], scores={"a": 1.0, "c": -1.0, "b": 0.5}, threshold=0.0, position="1")
    assert label_texts(prediction) == ["a", "b"]
    likely = replace(prediction, probabilities={"a": 0.756, "c": 0.1, "b": 0.5})
    assert label_texts(likely) == ["a (0.76)", "b (0.50)"]


TOLD = {
    "for": [{"feature": "word=cat", "value": 1.0, "contribution": 0.75}],
    "against": [{"feature": 3, "value": 2.0, "contribution": -0.5}],
    "rest": 0.25,
}
EXPLAINED = {**ANSWER, "explanations": {"a": TOLD}}
READ = Explanation(
    for_=[FeaturePart(feature="word=cat", value=1.0, contribution=0.75)],
    against=[FeaturePart(feature=3, value=2.0, contribution=-0.5)],
    rest=0.25,
)


def test_explanations_are_requested_beside_the_example() -> None:
    one = FakeServer(ok(EXPLAINED), ok(EXPLAINED))
    assert one(calls().predict({"f": 1}, explain=3)).explanations == {"a": READ}
    one(calls().predict({"f": 1}, probabilities=True, explain=3))
    assert one.bodies == [{"x": {"f": 1}, "explain": 3}, {"x": {"f": 1}, "probabilities": True, "explain": 3}]
    many = FakeServer(*[ok({"predictions": [EXPLAINED] * 2, **EXPLAINED})] * 2)
    found = many(calls().predict_many([{"f": 1}] * 4, batch_size=2, explain=2))
    assert [each.explanations for each in found] == [{"a": READ}] * 4
    assert [body["explain"] for body in many.bodies] == [2, 2]


def test_the_command_prints_explanations(client: Client, name: str, manylabel: Callable[..., Any]) -> None:
    model = client.create_model(name, text={"fields": ["title"]})
    model.update_many([({"title": "a black cat"}, ["pets"]), ({"title": "a black car"}, ["cars"])] * 9)
    pets = (model.predict({"title": "the cat"}, explain=2).explanations or {})["pets"]
    record = json.dumps({"x": {"title": "the cat"}})
    shown = manylabel("predict", name, record, "--explain", "2").checked()
    lines = shown.out.splitlines()
    assert max(map(len, lines)) <= 80
    facts = [line.split() for line in lines]
    assert ["pets", "value", "contribution"] in facts
    assert ["title=cat", "1", f"{pets.for_[0].contribution:+.4f}"] in facts
    assert ["the", "rest", f"{pets.rest:+.4f}"] in facts
    document = json.loads(manylabel("predict", name, record, "--explain", "2", "--json").out)
    assert document["explanations"]["pets"]["for"][0]["feature"] == "title=cat"
