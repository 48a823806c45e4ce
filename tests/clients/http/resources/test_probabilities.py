"""Probabilities and drift in the client: requests and results."""

from dataclasses import replace
from typing import Any

from tests.clients.http.fake_server import FakeServer, ok, unsent

from manylabel_clients import Alarms, Drift, Prediction
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
