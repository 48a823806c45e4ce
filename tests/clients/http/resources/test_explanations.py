"""Explanations through the client and the command."""

import json
from collections.abc import Callable
from typing import Any

from tests.clients.http.fake_server import FakeServer, ok, unsent

from manylabel_clients import Client, Explanation, FeaturePart
from manylabel_clients.http.resources.models import ModelCalls
from manylabel_clients.http.transport.retry import Retry

TOLD = {
    "for": [{"feature": "word=cat", "value": 1.0, "contribution": 0.75}],
    "against": [{"feature": 3, "value": 2.0, "contribution": -0.5}],
    "rest": 0.25,
}
ANSWER = {"labels": ["a"], "scores": {"a": 0.5}, "threshold": 0.1, "position": "7", "explanations": {"a": TOLD}}
READ = Explanation(
    for_=[FeaturePart(feature="word=cat", value=1.0, contribution=0.75)],
    against=[FeaturePart(feature=3, value=2.0, contribution=-0.5)],
    rest=0.25,
)


def test_explanations_are_requested_beside_the_example() -> None:
    calls = unsent(ModelCalls, "m", retry=Retry(attempts=1))
    one = FakeServer(ok(ANSWER), ok(ANSWER))
    assert one(calls.predict({"f": 1}, explain=3)).explanations == {"a": READ}
    one(calls.predict({"f": 1}, probabilities=True, explain=3))
    assert one.bodies == [{"x": {"f": 1}, "explain": 3}, {"x": {"f": 1}, "probabilities": True, "explain": 3}]
    many = FakeServer(*[ok({"predictions": [ANSWER] * 2, **ANSWER})] * 2)
    found = many(calls.predict_many([{"f": 1}] * 4, batch_size=2, explain=2))
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
