"""Kinds of fields over HTTP: refused or listed, and never locked by one mistake; optional numbers."""

from typing import Any

from starlette.testclient import TestClient
from tests.service.api.answers import new_model, ok, taught_by_every_call
from tests.support.cases import for_each


def update(client: TestClient, address: str, *xs: Any) -> Any:
    examples = [{"x": x, "y": ["p"] if i % 2 else ["q"]} for i, x in enumerate(xs)]
    return client.post(f"{address}/update", json={"examples": examples})


def fields(client: TestClient, address: str) -> dict[str, Any]:
    return {field["name"]: field for field in ok(client.get(address))["fields"]}


@for_each(
    ("before", "x", "kind"),
    [
        ([{"k": "a", "age": 42}] * 12, {"k": "a", "age": [42]}, "a number"),
        ([{"k": "a", "age": "42"}] * 12, {"k": "a", "age": [42]}, "a string"),
        ([{"k": "a", "age": {"of": 42}}] * 12, {"k": "a", "age": {"of": [42]}}, "a number"),
        ([{"age": 42}] * 12, {"age": {"f32": "AAAoQg=="}}, "a number"),
    ],
)
def test_a_vector_in_a_field_of_another_kind_is_refused_and_changes_nothing(
    client: TestClient, before: list[Any], x: Any, kind: str
) -> None:
    address = new_model(client)
    ok(update(client, address, *before))
    status = client.get(address).json()
    for path, body, prefix in (
        ("predict", {"x": x}, ""),
        ("update", {"x": x, "y": ["p"]}, ""),
        ("update", {"examples": [{"x": before[0], "y": ["p"]}, {"x": x, "y": ["p"]}]}, "/examples/1"),
    ):
        response = client.post(f"{address}/{path}", json=body)
        assert response.status_code == 422, response.text
        (error,) = response.json()["errors"]
        name = next(name for name in ("age.of", "age") if name in fields(client, address))
        assert error["pointer"] == f"{prefix}/x/{name}"
        assert error["detail"].startswith(f"must be {kind}, as in the examples before")
    assert client.get(address).json() == status
    ok(update(client, address, before[0]))


def test_the_status_lists_fields_and_a_list_of_models_does_not(client: TestClient) -> None:
    address = new_model(client, text={"fields": ["title"]})
    xs = [{"title": "Black cat", "age": str(i), "home": i % 2 == 0, "size": i} for i in range(30)]
    ok(update(client, address, *xs))
    status = ok(client.get(address))
    assert status["n_fields"] == 4
    found = {field["name"]: field for field in status["fields"]}
    assert [(name, field["kind"]) for name, field in found.items()] == [
        ("title", "text"),
        ("age", "category"),
        ("home", "flag"),
        ("size", "number"),
    ]
    assert found["title"]["examples"] == ["black", "cat"]
    assert (found["age"]["share"], found["age"]["count"], found["age"]["examples"]) == (1.0, 30, ["0", "1", "2"])
    assert found["age"]["warnings"][0].startswith("30 values that are all numbers: send numbers if")
    (listed,) = [m for m in client.get("/v1/models").json()["models"] if m["name"] == status["name"]]
    assert status == {**listed, "fields": status["fields"], "n_fields": 4}


def test_every_call_learns_optional_numbers_alike(client: TestClient) -> None:
    items = [{"x": {"k": "ab"[i % 2], **({"price": i} if i % 3 else {})}, "y": ["pq"[i % 2]]} for i in range(20)]
    addresses = taught_by_every_call(client, items)
    first, *others = (
        ok(client.post(f"{address}/predict", json={"x": {"k": "a", "price": 4}}))["scores"] for address in addresses
    )
    assert others == [first] * (len(addresses) - 1)
    features = {ok(client.get(address))["features"] for address in addresses}
    assert features == {4}, "k=a, k=b, price and price=given"


def test_an_explanation_has_the_optional_number(client: TestClient) -> None:
    address = new_model(client)
    for i in range(60):
        record = {"k": "a", **({"price": 1 + i % 7} if i % 2 else {})}
        ok(client.post(f"{address}/update", json={"x": record, "y": ["with"] if i % 2 else ["without"]}))
    answer = ok(client.post(f"{address}/predict", json={"x": {"k": "a", "price": 3}, "explain": 5}))
    assert "with" in answer["labels"]
    assert any(part["feature"] == "price=given" for part in answer["explanations"]["with"]["for"])
