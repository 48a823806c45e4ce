"""The OpenAPI description has every operation, body, response and problem."""

import json
import re
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.access.calls import CALLS
from tests.service.api.test_idempotency_keys import CHANGES

from manylabel_service.api import schemas
from manylabel_service.api.web.problems import MEDIA_TYPE, STATUS_AND_TITLE

WITHOUT_BODY = {
    ("post", "/v1/jobs/{id}/retry"),
    ("post", "/v1/webhooks/{id}/test"),
    ("post", "/v1/webhooks/{id}/enable"),
    ("post", "/v1/models/{name}/verify"),
    ("post", "/v1/models/{name}/snapshots"),
}


@pytest.fixture(scope="module")
def document(client: TestClient) -> dict[str, Any]:
    described: dict[str, Any] = client.get("/openapi.json").json()
    return described


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(m, path): op for path, ops in document["paths"].items() for m, op in ops.items()}


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    described = operations(document)
    assert described.keys() == CALLS.keys()
    for (method, path), operation in described.items():
        assert operation["summary"]
        assert operation["description"]
        assert {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"} == set(
            re.findall(r"{(\w+)}", path)
        )
        with_body = method in ("post", "put", "patch") and (method, path) not in WITHOUT_BODY
        assert ("requestBody" in operation) == with_body
        for parameter in operation.get("parameters", []):
            assert parameter["in"] == "path" or (parameter["description"] and parameter["schema"])


def test_names_of_operations_suit_generated_clients(document: dict[str, Any]) -> None:
    """The names become functions in generated clients, so each is unique and says what is done to what."""
    named = {operation["operationId"]: key for key, operation in operations(document).items()}
    assert len(named) == len(CALLS)
    assert [name for name in named if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)] == []
    assert named["predict"] == ("post", "/v1/models/{name}/predict")
    assert named["create_model"] == ("post", "/v1/models")
    assert named["label_predictions"] == ("post", "/v1/models/{name}/labels")


def test_every_operation_lists_its_problems(document: dict[str, Any]) -> None:
    for key, operation in operations(document).items():
        errors = {int(s): answer for s, answer in operation["responses"].items() if int(s) >= 400}
        of_keys = {401, 403, 429} if operation["security"] else set()
        assert errors.keys() == CALLS[key].problems | of_keys | {400, 408, 431, 500, 503}, key
        for status, answer in errors.items():
            codes = re.findall(r"`(\w+)`", answer["description"])
            assert codes, (key, status)
            assert {STATUS_AND_TITLE[code][0] for code in codes} == {status}
            form = (
                ("application/json", "InferenceError") if key[1].startswith("/v2") else (MEDIA_TYPE, "ProblemDocument")
            )
            assert answer["content"] == {form[0]: {"schema": {"$ref": f"#/components/schemas/{form[1]}"}}}


def test_every_reference_has_a_target(document: dict[str, Any]) -> None:
    found = set(re.findall(r"'\$ref': '#/components/schemas/(\w+)'", str(document)))
    assert found <= document["components"]["schemas"].keys()
    assert "#/$defs" not in str(document)
    assert "ValidationError" not in str(document)


def test_idempotency_keys_are_described(document: dict[str, Any]) -> None:
    with_key = {
        path
        for (_, path), operation in operations(document).items()
        if any(p["name"] == "Idempotency-Key" for p in operation.get("parameters", []))
    }
    calls = {call for _, call, _ in CHANGES} | {"stream", "promote"}
    others = {"/v1/jobs", "/annif/v1/projects/{name}/learn"}
    assert with_key == {f"/v1/models/{{name}}/{call}" for call in calls} | others


def test_the_examples_work(client: TestClient, document: dict[str, Any]) -> None:
    assert client.post("/v1/models", json=example(document, "/v1/models")).status_code == 201
    for operation in ("update", "predict", "predict-update"):
        body = example(document, f"/v1/models/{{name}}/{operation}")
        assert client.post(f"/v1/models/tags/{operation}", json=body).status_code == 200
    stream = document["paths"]["/v1/models/{name}/stream"]["post"]["requestBody"]["content"]
    ((media_type, content),) = stream.items()
    answer = client.post("/v1/models/tags/stream", content=content["example"], headers={"Content-Type": media_type})
    assert [json.loads(line)["updates"] for line in answer.text.splitlines()] == [3, 4]
    kept = client.post("/v1/models/tags/predict?keep=true", json=example(document, "/v1/models/{name}/predict")).json()
    label = {**example(document, "/v1/models/{name}/labels"), "id": kept["id"]}
    assert client.post("/v1/models/tags/labels", json=label).status_code == 200
    position = client.post("/v1/models/tags/snapshots").json()["position"]
    back = {**example(document, "/v1/models/{name}/rollback"), "position": position}
    assert client.post("/v1/models/tags/rollback", json=back).status_code == 200
    client.delete("/v1/models/tags").raise_for_status()


def example(document: dict[str, Any], path: str) -> Any:
    return document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]


def test_bodies_are_described_as_they_are_parsed(document: dict[str, Any]) -> None:
    described = document["components"]["schemas"]
    forms = described["UpdateItem"]["properties"]["x"]["anyOf"]
    assert [form.get("type", form.get("$ref", "")[-14:]) for form in forms] == [
        "array",
        "SparseFeatures",
        "object",
        "object",
        "string",
    ]
    assert [form["type"] for form in described["UpdateItem"]["properties"]["y"]["anyOf"]] == ["array", "object"]
    assert described["UpdateItem"]["required"] == ["x", "y"]
    assert described["PredictItem"]["required"] == ["x"]
    assert described["ModelRequest"]["required"] == ["name", "algorithm"]
    predicting = (schemas.PredictRequest, schemas.PredictBatch)
    for asking in (*predicting, schemas.PredictUpdateRequest, schemas.PredictUpdateBatch):
        assert described[asking.__name__]["properties"]["probabilities"]["type"] == "boolean"
    for never in (schemas.UpdateItem, schemas.UpdateBatch, schemas.PredictItem, schemas.LabelBatch):
        assert "probabilities" not in described[never.__name__]["properties"]
    for model in (schemas.ModelRequest, schemas.UpdateItem, schemas.UpdateBatch, schemas.SparseFeatures):
        assert described[model.__name__]["additionalProperties"] is False


def test_calls_are_relative_to_the_description(client: TestClient) -> None:
    assert client.get("/openapi.json").json()["servers"] == [{"url": "."}]


def test_the_docs_page_needs_no_other_server(client: TestClient) -> None:
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "SwaggerUIBundle" in page.text
    loaded = set(re.findall(r"""(?:src|href|url)\s*[=:]\s*["']([^"']+)""", page.text))
    assert "openapi.json" in loaded
    assert {address.rpartition(".")[2] for address in loaded} == {"json", "js", "css", "png"}
    for address in loaded:
        assert not address.startswith("/"), "a proxy may have removed a prefix"
        assert client.get(f"/{address}").status_code == 200
    assert not re.search(r"https?://", page.text)
    assert '"validatorUrl": null' in page.text
    for sheet in (address for address in loaded if address.endswith(".css")):
        assert not re.search(r"@import|url\((?!['\"]?data:)", client.get(f"/{sheet}").text)
