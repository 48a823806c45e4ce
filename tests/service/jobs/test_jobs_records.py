"""Jobs on datasets of records: a version reads records as its dataset did."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

WORDS = ["war at sea", "love in spring", "a war of words", "spring tide", "sea of love", "7 wars"]
TEXT = {"fields": ["title"], "chars": 3, "min_length": 1}
LINES = {"Content-Type": "application/x-ndjson"}
TRAINED = "/v1/models/trained"


def record(i: int) -> dict[str, Any]:
    title = WORDS[i % len(WORDS)]
    tags = [label for label in ("war", "love", "sea") if label in title] or ["none"]
    return {"title": title, "country": "FJ"[i % 2], "n": i % 7, "free": i % 3 == 0, "tags": tags}


pytestmark = pytest.mark.usefixtures("programs")  # datasets are read, and jobs fitted, by processes of their own

RECORDS = [record(i) for i in range(60)]


def add(client: TestClient, name: str, records: list[dict[str, Any]], text: Any = None) -> None:
    data = "\n".join(map(json.dumps, records))
    given = {} if text is None else {"text": json.dumps(text)}
    query = {"name": name, "format": "ndjson", "tags": "tags", **given}
    answer = client.post("/v1/datasets", params=query, content=data, headers=LINES)
    assert answer.status_code == 201, answer.text


def train(client: TestClient, data: Any, **more: Any) -> dict[str, Any]:
    order = {"trainer": "m3l", "data": data, "model": "trained", "params": {"optimise": "none"}, **more}
    answer = client.post("/v1/jobs", json=order)
    assert answer.status_code == 202, answer.text
    client.get(f"{answer.headers['location']}/events")  # ends when the job does
    job: dict[str, Any] = client.get(answer.headers["location"]).json()
    return job


def scores(client: TestClient, x: Any, address: str = TRAINED) -> dict[str, float]:
    answer = client.post(f"{address}/predict", json={"x": x})
    assert answer.status_code == 200, answer.text
    found: dict[str, float] = answer.json()["scores"]
    return found


def test_a_model_has_the_titles_of_the_labels_of_its_dataset(serve: Callable[..., Any], tmp_path: Path) -> None:
    def titles(client: TestClient, model: str, query: str = "") -> dict[str, list[str | None]]:
        listed = client.get(f"/v1/models/{model}/labels{query}").json()["labels"]
        return {one["label"]: [one["title"], one["uri"]] for one in listed}

    details = {"war": {"title": "War and peace", "uri": "http://x/war"}, "sea": {"description": "Oceans"}}
    with serve(tmp_path / "data") as client:
        post: Callable[..., Any] = client.post
        parts = {"file": "\n".join(map(json.dumps, RECORDS)).encode(), "label_details": json.dumps(details).encode()}
        post("/v1/datasets?name=books&format=ndjson&tags=tags", files=parts).raise_for_status()
        add(client, "plain", RECORDS, TEXT)
        assert train(client, {"dataset": "books"}, promote="always")["state"] == "succeeded"
        due: dict[str, list[str | None]] = {label: [None, None] for label in ("love", "sea", "none")}
        due["war"] = ["War and peace", "http://x/war"]
        assert titles(client, "trained") == titles(client, "trained", "?version=1") == due
        spec = {"name": "begun", "algorithm": "falt", "init_from": {"model": "trained"}}
        post("/v1/models", json=spec).raise_for_status()
        assert titles(client, "begun") == due
    with serve(tmp_path / "data") as client:
        assert titles(client, "trained") == titles(client, "begun") == due
        assert train(client, {"dataset": "plain"}, promote="always")["state"] == "succeeded"
        assert set(map(tuple, titles(client, "trained").values())) == {(None, None)}


def test_a_version_reads_records_as_its_dataset_did(
    serve: Callable[..., Any], refused: Callable[..., Any], tmp_path: Path
) -> None:
    known = {"title": "war at sea", "country": "F", "n": 3, "free": True}
    with serve(tmp_path / "data", max_record_characters=1_000) as client:
        add(client, "books", RECORDS, TEXT)
        assert train(client, {"dataset": "books"}, promote="always")["state"] == "succeeded"
        found = scores(client, known)
        assert max(found, key=lambda name: found[name]) in ("war", "sea")
        assert scores(client, {**known, "colour": "unheard of", "more": {"a": 1}, "title": "War at  SEA!"}) == found
        assert scores(client, {"title": "unheard of"}) != scores(client, {"title": "war"}) != scores(client, {})
        batch = client.post(f"{TRAINED}/predict", json={"examples": [{"x": known}, {"x": "a text"}, {"x": {"n": 3}}]})
        told = [one["scores"] for one in batch.json()["predictions"]]
        assert told == [found, scores(client, "a text"), scores(client, {"n": 3})]
        why = client.post(f"{TRAINED}/predict", json={"x": known, "explain": 2}).json()
        for label, explained in why["explanations"].items():
            parts = [one["contribution"] for side in ("for", "against") for one in explained[side]]
            assert sum(parts) + explained["rest"] == pytest.approx(why["scores"][label])
            assert explained["for"][0]["feature"].startswith("title=")
        assert client.get(TRAINED).json()["text"] == client.get("/v1/datasets/books").json()["text"]
        for x, place in (
            ({"title": "x", "tags": [[1]]}, "/x/tags/0"),
            ({"title": "x" * 1_001}, "/x"),
            ({"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {}}}}}}}}}, "/x/a/b/c/d/e/f/g/h"),
        ):
            body, headers = json.dumps({"examples": [{"x": known}, {"x": x}]}), {"Content-Type": "application/json"}
            answer = client.post(f"{TRAINED}/predict", content=body, headers=headers)
            refused(answer, 422, "invalid_request", f"/examples/1{place}")
        refused(client.post(f"{TRAINED}/predict", json={"x": known, "views": {}}), 422, "invalid_request", "")

        long = json.dumps({"title": "x" * 1_001, "tags": []})
        answer = client.post("/v1/datasets?name=long&format=ndjson&tags=tags", content=long, headers=LINES)
        assert "at most 1,000 characters" in refused(answer, 422, "invalid_dataset")["detail"], "as of every record"

        # An online model starts from the version, and reads records in the same way.
        begun = client.post(
            "/v1/models", json={"name": "begun", "algorithm": "falt", "init_from": {"model": "trained"}}
        )
        assert begun.status_code == 201, begun.text
        assert client.get("/v1/models/begun").json()["text"]["chars"] == [3, 3]
        expected = scores(client, known)
        assert scores(client, known, "/v1/models/begun") == pytest.approx(expected, rel=1e-6)
        spec = {"name": "wrong", "algorithm": "falt", "init_from": {"model": "trained"}, "text": {"fields": ["title"]}}
        refused(client.post("/v1/models", json=spec), 422, "invalid_request", "/text")
    with serve(tmp_path / "data") as client:
        assert scores(client, known) == expected
