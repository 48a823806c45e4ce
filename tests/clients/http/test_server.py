"""The client against a real server: calls, results and errors."""

from typing import Any

import numpy as np
import pytest

from manylabel_clients import (
    Client,
    Conflict,
    Invalid,
    NotFound,
)


def test_every_call(client: Client, name: str) -> None:
    model = client.create_model(
        name, algorithm="kernel_falt", params={"gamma": 2.0}, features=3, labels=["a", "b"], window=5
    )
    first = model.update([1, 0, 0], ["a"])
    assert (first.updates, first.replayed) == (1, False)
    assert model.update_many([([0, 1, 0], ["b"])] * 6, batch_size=4).updates == 7
    before, receipt = model.predict_update([0, 1, 0], ["b"])
    assert before.labels == ["b"]
    assert receipt.updates == 8
    befores, receipt = model.predict_update_many([([1, 0, 0], ["a"])] * 3, batch_size=2)
    assert len(befores) == 3
    assert receipt.updates == 11
    prediction = model.predict([1, 0, 0])
    assert prediction.labels == ["a"]
    assert prediction.scores["a"] > 0 > prediction.scores["b"]
    assert prediction.position == receipt.position
    assert model.predict_many([[1, 0, 0], [0, 1, 0]], batch_size=1)[1].labels == ["b"]
    status = model.status()
    assert (status.name, status.algorithm, status.params["gamma"]) == (name, "kernel_falt", 2.0)
    assert (status.updates, status.labels, status.features) == (11, 2, 3)
    assert status.metrics == model.metrics()
    assert (status.metrics.cumulative.examples, status.metrics.window.examples) == (11, 5)
    past = model.metrics_history()
    assert (past.stride, past.examples, past.updates) == (1, list(range(1, 12)), 11)
    assert (past.window.size, past.window.examples[-2:]) == (5, [5, 5])
    assert past.cumulative.micro_f1[-1] == status.metrics.cumulative.micro_f1
    assert past.window.baseline.macro_f1[-1] == status.metrics.window.baseline.macro_f1
    with pytest.raises(Conflict):
        model.metrics_history(version=1)
    found = model.reliability()
    assert (len(found.bins), found.bins[-1].from_, found.bins[-1].to) == (20, 0.95, 1.0)
    assert (found.updates, found.position) == (11, receipt.position)
    told = sum(label.examples / label.frequency for label in model.labels().labels)
    assert sum(each.count for each in found.bins) == pytest.approx(told)
    # A label is counted only if its relevant examples weigh at least ten.
    assert {each.count for label in ("a", "b") for each in model.reliability(label).bins} == {0}
    with pytest.raises(NotFound):
        model.reliability("none")
    assert status in client.models()
    (replica,) = client.replicas().replicas
    assert (replica.this, replica.role, replica.ready, replica.withheld) == (True, "server", True, {})
    assert replica.models[name] == status.position
    model.delete()
    with pytest.raises(NotFound):
        model.status()


def test_models_have_the_settings_of_a_template(client: Client, name: str) -> None:
    template = client.create_model(name, labels=[{"name": "a", "title": "First"}])
    alike = client.create_model_like(f"{name[:50]}-like", template.name)
    assert alike.labels().labels[0].title == "First"
    with pytest.raises(Conflict):
        client.create_model_like(alike.name, template.name)
    assert client.create_model_like(alike.name, template.name, exist_ok=True).name == alike.name
    assert {each.name for each in client.models(name[:48])} == {template.name, alike.name}
    template.predict({"f": 1})
    alike.predict({"f": 1})
    assert all(each.name.startswith(name[:48]) for each in client.models(name[:48], sort="used"))
    for model in (template, alike):
        model.delete()


def test_stored_predictions_are_labelled_later(client: Client, name: str) -> None:
    model = client.create_model(name)
    kept = model.predict({"f": 1}, keep=True)
    assert kept.id
    assert kept.expires
    assert (kept.expires[-1], kept.stale_seconds) == ("Z", None)
    assert model.predict({"f": 1}).id is None
    receipt = model.label(kept.id, ["a"])
    assert receipt.updates == 1
    assert model.predict({"f": 1}, at_least=receipt.position).labels == ["a"]
    with pytest.raises(Conflict, match="already has labels"):
        model.label(kept.id, ["a"])
    many = model.predict_many([{"f": i} for i in range(5)], batch_size=2, keep=True)
    assert model.label_many([(one.id or "", {"b": True}) for one in many], batch_size=3).updates == 6
    with pytest.raises(NotFound) as caught:
        model.label_many([("unknown", [])])
    assert [error.pointer for error in caught.value.errors] == ["/examples/0/id"]
    with pytest.raises(Invalid) as refused:
        model.predict({"f": 1}, at_least="x")
    assert refused.value.errors[0].parameter == "at_least"
    with pytest.raises(ValueError, match="at least one"):
        model.label_many([])
    with pytest.raises(TypeError, match=r"^/id must be a string"):
        model.label(3, [])  # type: ignore[arg-type]


def test_a_stream_yields_a_result_for_each_line(client: Client, name: str) -> None:
    model = client.create_model(name)
    examples: list[Any] = [({f"w{i % 3}": 1.0}, [f"t{i % 3}"]) for i in range(20)]
    examples[7] = ([1.0, 2.0], ["t"])
    answers = list(model.stream(iter(examples), key="s", batch_size=6))
    assert [one.line for one in answers] == list(range(1, 21))
    assert [one.line for one in answers if one.error is not None] == [8]
    assert answers[7].error is not None
    assert answers[7].error.errors[0].pointer == "/x"
    assert answers[-1].updates == 19
    assert answers[-1].prediction is not None
    assert answers[-1].prediction.labels == ["t1"]
    again = list(model.stream(examples[10:], key="s", first=11, batch_size=4))
    assert all(one.replayed for one in again)
    assert model.status().updates == 19


def test_snapshots_are_taken_downloaded_and_rolled_back_to(client: Client, name: str) -> None:
    model = client.create_model(name)
    model.update({"f": 1}, ["a"])
    snapshot = model.take_snapshot()
    assert model.snapshots() == [snapshot]
    model.update({"f": 1}, ["b"])
    back = model.rollback(snapshot.position, key="back")
    assert (back.rolled_back_to, back.updates, back.replayed) == (snapshot.position, 1, False)
    assert model.rollback(snapshot.position, key="back").replayed
    data = model.download_snapshot(snapshot.position)
    assert len(data) == snapshot.bytes
    copy = client.upload_model(f"{name[:50]}-copy", data)
    scores, rolled_back = copy.predict({"f": 1}).scores, model.predict({"f": 1}).scores
    assert rolled_back.pop("b") != rolled_back["a"], "its name stays, what was learnt of it goes"
    assert rolled_back == scores
    with pytest.raises(Conflict):
        client.upload_model(copy.name, data)
    with pytest.raises(Invalid, match="snapshot"):
        client.upload_model(f"{name[:50]}-bad", data[:-1])
    with pytest.raises(NotFound):
        model.download_snapshot("999999")
    with pytest.raises(NotFound):
        model.rollback("999999")
    copy.delete()


def test_events_are_resumed_after_a_position(client: Client, name: str) -> None:
    model = client.create_model(name)
    model.update({"f": 1}, ["a"])
    events = model.events()
    first = next(events)
    assert (first.kind, first.data["updates"]) == ("metrics", 1)
    receipt = model.update_many([({"f": 1}, ["a"])] * 3)
    learnt = next(event for event in events if event.kind == "update")
    assert (learnt.position, learnt.data["examples"]) == (receipt.position, 3)
    events.close()  # type: ignore[attr-defined]
    missed = model.update({"f": 1}, ["a"])
    resumed = model.events(after=learnt.position)
    assert next(event for event in resumed if event.kind == "update").position == missed.position
    only = model.events(after=learnt.position, kinds=["update"])
    assert next(only).position == missed.position
    model.delete()
    with pytest.raises(NotFound):
        list(resumed)


def test_a_call_larger_than_a_request_is_split(client: Client, name: str) -> None:
    """The call has ten megabytes; the server accepts four in one request."""
    model = client.create_model(name, features=2_000)
    X = np.random.default_rng(0).normal(size=(300, 2_000))
    assert model.update_many([(x, ["a"]) for x in X]).updates == 300
    assert len(model.predict_many(X)) == 300
