"""Explanations over HTTP add up to the scores of the same answer, and name features as they came in."""

from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import new_model, ok

from manylabel_service.api.routers import learning
from manylabel_service.hosting.explanations import Explainer
from manylabel_service.online import replica

ARTICLES: list[Any] = [
    {"x": {"title": "cat and dog", "country": "FR", "size": 3.25, "home": True}, "y": ["pets"]},
    {"x": {"title": "old car", "country": "DE", "size": 900, "home": False}, "y": ["cars"]},
    {"x": {"title": "a cat in a car", "country": "FR", "size": None}, "y": ["pets", "cars"]},
    {"x": {"title": "tax law", "country": "DE", "size": 512.5}, "y": ["law"]},
] * 6


def check(prediction: Any, k: int) -> None:
    """Explanations are of the labels predicted, bounded, in order, and add up."""
    assert list(prediction["explanations"]) == prediction["labels"]
    for label, one in prediction["explanations"].items():
        parts = [part["contribution"] for part in (*one["for"], *one["against"])]
        size = sum(map(abs, parts)) + abs(one["rest"])
        assert sum(parts) + one["rest"] == pytest.approx(prediction["scores"][label], rel=1e-9, abs=1e-12 * size)
        for side, sign in (("for", 1), ("against", -1)):
            sizes = [sign * part["contribution"] for part in one[side]]
            assert len(sizes) <= k
            assert sizes == sorted(sizes, reverse=True)
            assert all(size > 0 for size in sizes)


def test_contributions_add_up_and_name_features(client: TestClient) -> None:
    address = new_model(client, text={"fields": ["title"]})
    assert ok(client.post(f"{address}/predict", json={**ARTICLES[0], "explain": 3}))["explanations"] == {}
    ok(client.post(f"{address}/update", json={"examples": ARTICLES}))
    answer = client.post(f"{address}/predict", json={"x": ARTICLES[0]["x"], "explain": 2})
    prediction = ok(answer)
    assert "pets" in prediction["labels"]
    check(prediction, 2)
    many = client.post(f"{address}/predict", json={"examples": ARTICLES[:4], "explain": 9, "probabilities": True})
    for item, one in zip(ARTICLES, ok(many)["predictions"], strict=False):
        check(one, 9)
        for explanation in one["explanations"].values():
            values = {part["feature"]: part["value"] for part in (*explanation["for"], *explanation["against"])}
            if "size" in values:
                assert values["size"] == item["x"]["size"]
            assert values.keys() <= {f"title={word}" for word in item["x"]["title"].split()} | {
                "size", "size=given", "home", "home=given", f"country={item['x']['country']}"
            }  # fmt: skip
    named = [part["feature"] for part in ok(many)["predictions"][0]["explanations"]["pets"]["for"]]
    assert "title=cat" in named
    plain = client.post(f"{address}/predict", json={"x": ARTICLES[0]["x"]})
    assert "explanations" not in ok(plain)
    assert client.post(f"{address}/predict", json={"x": ARTICLES[0]["x"], "explain": 0}).content == plain.content


@pytest.mark.parametrize("form", ["dense", "sparse", "hashed", "hashed-numbers", "declared"])
def test_contributions_name_features_as_they_were_sent(client: TestClient, form: str) -> None:
    specs: dict[str, Any] = {
        "hashed": {"limits": {"features": {"most": 3, "policy": "hash"}}},
        "hashed-numbers": {"limits": {"features": {"most": 4, "policy": "hash"}}},
        "declared": {"features": ["a", "b", "c"]},
    }
    xs: list[Any] = {
        "dense": [[0.1, 2.0, 0.0], [-0.1, 0.5, None]],
        "sparse": [{"indices": [7, 1000000], "values": [0.1, -2]}, {"indices": [5, 7], "values": [1, 0.25]}],
        "hashed": [{f"word{n}": n - 4.5 for n in range(9)}, {"word1": 1, "word3": 3}],
        "hashed-numbers": [{"indices": [0, 3, 99, 1234], "values": [1, 2, 3, 4]}, {"indices": [5], "values": [1]}],
        "declared": [{"a": 0.1, "c": 2}, {"b": 1}],
    }[form]
    address = new_model(client, **specs.get(form, {}), scaling="none")
    for _ in range(5):
        ok(client.post(f"{address}/update", json={"examples": [{"x": x, "y": [f"l{n}"]} for n, x in enumerate(xs)]}))
    answer = ok(client.post(f"{address}/predict", json={"examples": [{"x": x} for x in xs], "explain": 5}))
    explained = 0
    for x, prediction in zip(xs, answer["predictions"], strict=True):
        check(prediction, 5)
        given = dict(enumerate(x)) if isinstance(x, list) else x
        if "indices" in given:
            given = dict(zip(given["indices"], given["values"], strict=True))
        for one in prediction["explanations"].values():
            for part in (*one["for"], *one["against"]):
                assert given[part["feature"]] == part["value"]
                explained += 1
    assert explained


def test_kernel_models_explain_nothing(client: TestClient) -> None:
    address = new_model(client, algorithm="kernel_falt")
    ok(client.post(f"{address}/update", json={"x": [1.0, 2.0], "y": ["a"]}))
    refused = client.post(f"{address}/predict", json={"x": [1.0, 2.0], "explain": 3})
    assert refused.status_code == 422
    assert "/explain" in refused.json()["detail"]
    assert "linear" in refused.json()["detail"]


def test_the_contributions_of_a_response_are_limited(client: TestClient, monkeypatch: Any) -> None:
    address = new_model(client, scaling="none")
    x = {f"w{n}": 1 for n in range(20)}
    ok(client.post(f"{address}/update", json={"examples": [{"x": x, "y": ["a"]}] * 3}))
    monkeypatch.setattr(learning, "Explainer", lambda k, most: Explainer(k, most // 3_333))
    ok(client.post(f"{address}/predict", json={"x": x, "explain": 20}))
    refused = client.post(f"{address}/predict", json={"examples": [{"x": x}] * 2, "explain": 20})
    assert refused.status_code == 422
    assert "at most 30 contributions" in refused.json()["detail"]


def test_a_thread_explains_as_the_event_loop_does(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    address = new_model(client)
    examples = [{"x": {f"w{n}": 1, "all": 2}, "y": [f"l{n % 3}", "a"]} for n in range(9)]
    ok(client.post(f"{address}/update", json={"examples": examples}))
    body = {"examples": [{"x": each["x"]} for each in examples], "explain": 3, "probabilities": True}
    usual = ok(client.post(f"{address}/predict", json=body))
    monkeypatch.setattr(replica, "EXPLAINED_AT_ONCE", 0)
    assert ok(client.post(f"{address}/predict", json=body)) == usual
    assert usual["predictions"][0]["explanations"]


def test_a_label_counts_as_a_contribution(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    address = new_model(client, scaling="none")
    ok(client.post(f"{address}/update", json={"examples": [{"x": {"w": 1}, "y": ["a", "b", "c"]}] * 3}))
    for most, status in ((6, 200), (5, 422)):
        monkeypatch.setattr(learning, "Explainer", lambda k, _, most=most: Explainer(k, most))
        assert client.post(f"{address}/predict", json={"x": {"w": 1}, "explain": 1}).status_code == status
