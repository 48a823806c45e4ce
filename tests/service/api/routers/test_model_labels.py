"""Labels of a model over HTTP: counts, orders and pages, changes, titles, and events of new labels."""

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, ok, refused
from tests.service.online.folds import named, new_model

from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.log_entries import Update
from manylabel_service.online.updates.events import events_of


def listed(client: TestClient, address: str, query: str = "") -> dict[str, Any]:
    return dict(ok(client.get(f"{address}/labels{query}")))


def names(client: TestClient, address: str, query: str) -> list[str]:
    return [one["label"] for one in listed(client, address, query)["labels"]]


def test_each_label_has_its_counts(client: TestClient) -> None:
    address = create(client, "labels-1", window=3)
    truths: list[Any] = [["p"], ["p", "q"], {"q": False}, [], ["q"], {"p": True}, ["p"]]
    counts = {period: {name: [0, 0, 0] for name in "pq"} for period in ("cumulative", "window")}
    for number, y in enumerate(truths):
        answered = client.post(f"{address}/predict-update", json={"x": {"a": 1}, "y": y}).json()["labels"]
        for name in "pq" if isinstance(y, list) else y:
            true = name in y if isinstance(y, list) else y[name]
            for period in ["cumulative", *(["window"] if number >= len(truths) - 3 else [])]:
                counts[period][name][0] += true and name in answered
                counts[period][name][1] += name in answered and not true
                counts[period][name][2] += true and name not in answered
    found = listed(client, address)
    assert (found["total"], found["updates"], found["position"]) == (2, 7, "7")
    p, q = found["labels"]
    assert (p["label"], p["examples"], p["frequency"], p["first_seen"], p["last_seen"]) == ("p", 4, 4 / 6, 1, 7)
    assert (q["label"], q["examples"], q["frequency"], q["first_seen"], q["last_seen"]) == ("q", 2, 2 / 6, 2, 5)
    for one in (p, q):
        for period, by_name in counts.items():
            tp, fp, fn = by_name[one["label"]]
            assert one[period] == {
                "precision": tp / (tp + fp) if tp + fp else None,
                "recall": tp / (tp + fn) if tp + fn else None,
                "f1": 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else None,
            }
        assert 0 < one["threshold"] < 1
        assert one["calibration"].keys() == {"slope", "intercept"}
        assert one["drift"] is None


def test_the_threshold_is_the_probability_from_which_it_is_predicted(client: TestClient) -> None:
    address = create(client, "labels-2")
    for n in range(60):
        client.post(f"{address}/update", json={"x": {"a": n % 7 - 3, "b": 1}, "y": ["p"] if n % 7 > 2 else ["q"]})
    thresholds = {one["label"]: one["threshold"] for one in listed(client, address)["labels"]}
    xs = [{"x": {"a": a / 10, "b": 1}} for a in range(-30, 31)]
    answer = client.post(f"{address}/predict", json={"examples": xs, "probabilities": True}).json()
    decided = {(p in one["labels"]) for one in answer["predictions"] for p in "pq"}
    assert decided == {True, False}
    for one in answer["predictions"]:
        for name, probability in one["probabilities"].items():
            if abs(probability - thresholds[name]) > 1e-9:
                assert (name in one["labels"]) == (probability > thresholds[name])


def test_orders_and_pages(client: TestClient) -> None:
    address = create(client, "labels-3", params={"calibrate": False})
    for y in (["c"], ["b", "c"], ["a", "c"], {"d": False}):
        client.post(f"{address}/update", json={"x": {"f": 1}, "y": y}).raise_for_status()
    assert names(client, address, "") == ["c", "b", "a", "d"]
    assert names(client, address, "?sort=name&descending=false") == ["a", "b", "c", "d"]
    assert names(client, address, "?sort=name") == ["d", "c", "b", "a"]
    assert names(client, address, "?sort=first_seen") == ["a", "b", "c", "d"], "the newest first, the unseen last"
    assert names(client, address, "?sort=first_seen&descending=false") == ["c", "b", "a", "d"]
    assert names(client, address, "?sort=name&descending=false&offset=1&limit=2") == ["b", "c"]
    assert names(client, address, "?offset=9") == []
    unseen = listed(client, address)["labels"][-1]
    assert (unseen["examples"], unseen["frequency"], unseen["first_seen"]) == (0, 0, None)
    assert (unseen["threshold"], unseen["calibration"], unseen["cumulative"]["recall"]) == (None, None, None)
    for query, place in (
        ("sort=size", "sort"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("offset=-1", "offset"),
        ("descending=yes", "descending"),
        ("page=2", "page"),
        ("limit=1&limit=1", "limit"),
    ):
        refused(client.get(f"{address}/labels?{query}"), 422, "invalid_request", place)


def test_declared_labels_and_labels_after_a_rollback_have_no_examples(client: TestClient) -> None:
    address = create(client, "labels-4", labels=["p", "q"])
    assert [one["examples"] for one in listed(client, address)["labels"]] == [0, 0]
    address = create(client, "labels-5")
    client.post(f"{address}/snapshots").raise_for_status()
    client.post(f"{address}/update", json={"x": {"a": 1}, "y": ["p"]}).raise_for_status()
    client.post(f"{address}/rollback", json={"position": "0"}).raise_for_status()
    (one,) = listed(client, address)["labels"]
    assert (one["label"], one["examples"], one["frequency"], one["last_seen"]) == ("p", 0, None, None)


def test_a_label_is_renamed_and_retired(client: TestClient) -> None:
    address = create(client, "relabelled")
    for _ in range(5):
        client.post(f"{address}/update", json={"x": {"a": 1}, "y": ["petz", "cars"]}).raise_for_status()
    kept = client.post(f"{address}/predict?keep=true", json={"x": {"a": 1}}).json()["id"]
    body = {"label": "petz", "to": "pets"}
    ok(client.post(f"{address}/labels/rename", json=body))
    refused(client.post(f"{address}/labels/rename", json=body), 404, "label_not_found")
    refused(client.post(f"{address}/labels/rename", json={"label": "cars", "to": "pets"}), 409, "label_exists")
    for to in ("", "é" * 200, None):
        wrong = client.post(f"{address}/labels/rename", json={"label": "cars", "to": to})
        refused(wrong, 422, "invalid_request", "/to")
    client.post(f"{address}/labels/retire", json={"label": "cars"}).raise_for_status()
    refused(client.post(f"{address}/labels/retire", json={"label": "cars"}), 404, "label_not_found")
    assert client.post(f"{address}/predict", json={"x": {"a": 1}}).json()["labels"] == ["pets"]
    update = client.post(f"{address}/update", json={"x": {"a": 1}, "y": ["pets", "cars"]})
    refused(update, 422, "invalid_request", "/y/1")
    late = {"examples": [{"id": kept, "y": {"cars": True}}]}
    refused(client.post(f"{address}/labels", json=late), 422, "invalid_request", "/examples/0/y/cars")
    found = [(one["label"], one["retired"], one["old_names"]) for one in listed(client, address)["labels"]]
    assert sorted(found) == [("cars", True, []), ("pets", False, ["petz"])]


def test_a_label_is_paused_and_resumed(client: TestClient) -> None:
    x, body = {"x": {"a": 1}}, {"label": "cars"}
    address = create(client, "paused")
    for _ in range(5):
        client.post(f"{address}/update", json={**x, "y": ["pets", "cars"]}).raise_for_status()
    ok(client.post(f"{address}/labels/pause", json=body))
    refused(client.post(f"{address}/labels/pause", json={"label": "z"}), 404, "label_not_found")
    refused(client.post(f"{address}/labels/resume", json={}), 422, "invalid_request", "/label")
    assert client.post(f"{address}/predict", json=x).json()["labels"] == ["pets"]
    assert {one["label"]: one["paused"] for one in listed(client, address)["labels"]} == {"cars": True, "pets": False}
    client.post(f"{address}/labels/resume", json=body).raise_for_status()
    assert client.post(f"{address}/predict", json=x).json()["labels"] == ["pets", "cars"]


def test_labels_are_merged(client: TestClient) -> None:
    address = create(client, "merged")
    for y in (["petz"], ["pets"], ["pets", "cars"]):
        client.post(f"{address}/update", json={"x": {"a": 1}, "y": y}).raise_for_status()
    refused(client.post(f"{address}/labels/merge", json={"label": "petz", "into": "dogs"}), 404, "label_not_found")
    refused(client.post(f"{address}/labels/merge", json={"label": "petz", "into": "petz"}), 409, "label_exists")
    refused(client.post(f"{address}/labels/merge", json={"label": "petz"}), 422, "invalid_request", "/into")
    ok(client.post(f"{address}/labels/merge", json={"label": "petz", "into": "pets"}))
    contradiction = {"x": {"a": 1}, "y": {"petz": True, "pets": False}}
    refused(client.post(f"{address}/update", json=contradiction), 422, "invalid_request", "/y/pets")
    client.post(f"{address}/update", json={"x": {"a": 1}, "y": ["petz", "cars"]}).raise_for_status()
    found = [(one["label"], one["examples"], one["old_names"]) for one in listed(client, address)["labels"]]
    assert sorted(found) == [("cars", 2, []), ("pets", 3, ["petz"]), ("petz", 1, [])]


@pytest.mark.parametrize("declared", [False, True])
def test_a_new_label_is_an_event(declared: bool) -> None:
    log = [
        LogEntry(str(at), Update(tuple(Example(named(a=1), Labels.all_of(y)) for y in ys)))
        for at, ys in enumerate(([["p"], ["q", "p"]], [["q"], ["r"]]), 1)
    ]
    batch = ApplyBatch(new_model(**({"labels": ["p", "q", "r"]} if declared else {})), log)
    while batch.step(3):
        pass
    events = [event for outcome in batch.outcomes for event in events_of(outcome)]
    found = [(event.kind, event.position, event.data.get("label")) for event in events]
    updates = [("update", "1", None), ("update", "2", None)]
    if declared:
        assert found == updates
    else:
        assert found == [("label", "1", "p"), ("label", "1", "q"), updates[0], ("label", "2", "r"), updates[1]]


def test_labels_get_titles_descriptions_and_uris(client: TestClient) -> None:
    address = create(client, "described")
    client.post(f"{address}/update", json={"x": {"a": 1}, "y": ["pets"]}).raise_for_status()
    body = {"labels": {"pets": {"title": "Pets", "uri": "http://x/pets"}, "cars": {"description": "Motor cars"}}}
    ok(client.patch(f"{address}/labels", json=body))
    client.patch(f"{address}/labels", json={"labels": {"pets": {"uri": None}}}).raise_for_status()

    def details() -> dict[str, list[str | None]]:
        fields = ("title", "description", "uri")
        return {one["label"]: [one[field] for field in fields] for one in listed(client, address)["labels"]}

    due = {"pets": ["Pets", None, None], "cars": [None, "Motor cars", None]}
    assert details() == due
    assert client.post(f"{address}/predict", json={"x": {"a": 1}}).json()["scores"].keys() == {"pets", "cars"}
    many = {str(n): {"title": "x"} for n in range(1_001)}
    for labels, place in (
        ({}, "/labels"),
        (["pets"], "/labels"),
        (many, "/labels"),
        ({"pets": None}, "/labels/pets"),
        ({"pets": {"titel": "x"}}, "/labels/pets/titel"),
        ({"pets": {"title": ""}}, "/labels/pets/title"),
        ({"pets": {"title": "x" * 501}}, "/labels/pets/title"),
        ({"pets": {"description": "x" * 4_001}}, "/labels/pets/description"),
        ({"pets": {"uri": 1}}, "/labels/pets/uri"),
        ({"é" * 200: {"title": "x"}}, "/labels/" + "é" * 200),
    ):
        refused(client.patch(f"{address}/labels", json={"labels": labels}), 422, "invalid_request", place)
    client.post(f"{address}/labels/rename", json={"label": "cars", "to": "autos"}).raise_for_status()
    client.post(f"{address}/labels/retire", json={"label": "pets"}).raise_for_status()
    refused(client.patch(f"{address}/labels", json={"labels": {"pets": {}}}), 404, "label_not_found")
    refused(client.patch(f"{address}/labels", json={"labels": {"cars": {}}}), 409, "label_exists")
    assert details() == {"pets": due["pets"], "autos": due["cars"]}


def test_labels_can_be_described_when_a_model_is_created(client: TestClient) -> None:
    labels = ["p", {"name": "q", "title": "Quails", "uri": "http://x/q"}]
    address = create(client, "born-described", labels=labels)
    found = {one["label"]: (one["title"], one["uri"]) for one in listed(client, address)["labels"]}
    assert found == {"p": (None, None), "q": ("Quails", "http://x/q")}
    refused(client.patch(f"{address}/labels", json={"labels": {"z": {}}}), 422, "invalid_request", "/labels/z")
    client.patch(f"{address}/labels", json={"labels": {"p": {"title": "Pigeons"}}}).raise_for_status()
    for wrong, place in (
        (["p", {"name": "p"}], "/labels"),
        ([{"title": "x"}], "/labels/0/name"),
        (["p", {"name": "q", "title": ""}], "/labels/1/title"),
        ([{"name": "q", "titel": "x"}], "/labels/0/titel"),
        ([1], "/labels/0"),
        ([], "/labels"),
    ):
        answer = client.post("/v1/models", json={"name": "wrong", "algorithm": "falt", "labels": wrong})
        refused(answer, 422, "invalid_request", place)


def test_a_description_cannot_exceed_the_limits_of_the_server(serve: Callable[..., Any]) -> None:
    with serve(max_labels=2) as small:
        address = create(small, "m")
        small.patch(f"{address}/labels", json={"labels": {"p": {"title": "P"}}}).raise_for_status()
        for labels in ({"q": {}, "r": {}}, {"p": {"title": "Pigeons"}, "q": {}, "r": {}}):
            refused(small.patch(f"{address}/labels", json={"labels": labels}), 507, "limit_exceeded")
        assert [(one["label"], one["title"]) for one in listed(small, address)["labels"]] == [("p", "P")]
    long = {"description": "x" * 4_000, "uri": "x" * 2_000}
    with serve(max_model_bytes=60_000) as small:
        address = create(small, "m")
        small.patch(f"{address}/labels", json={"labels": {"p": long}}).raise_for_status()
        refused(
            small.patch(f"{address}/labels", json={"labels": dict.fromkeys("abcdefghij", long)}), 507, "limit_exceeded"
        )
