"""Versions of trained models by the Open Inference Protocol: served or not, loaded on request, and evicted."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.service.trained.test_api_trained import put
from tests.support.cases import for_each

from manylabel_service.hosting.examples import Features
from manylabel_service.integrations.open_inference import schemas
from manylabel_service.trained.active_version import MAX_OTHER_VERSIONS

M, V = "/v2/models/m", "/v2/models/v"


@pytest.fixture
def served(client: TestClient, one: Any, two: Any, views: Any, curved: Any, meta_of: Any) -> Iterator[TestClient]:
    """A client of a server with `m`, which serves the first of two versions, `v`, with views, and `c`, of numbers."""
    put(client, "m", one.contents, meta_of("job-1"))
    put(client, "m", two.contents, meta_of("job-2"), promote="never")
    put(client, "v", views.contents, meta_of("job-3", "lsa_mml"))
    put(client, "c", curved.contents, meta_of("job-4", "mlrl"))
    yield client
    for name in "mvc":
        client.delete(f"/v1/models/{name}")


def tensor(X: Any, name: str = "x") -> dict[str, Any]:
    return {"name": name, "shape": list(X.shape), "datatype": "FP32", "data": X.ravel().tolist()}


def scores(client: TestClient, path: str, *inputs: Any) -> tuple[str, list[Any]]:
    """The version that answered, and its scores."""
    answer = client.post(f"{path}/infer", json={"inputs": inputs, "outputs": [{"name": "scores"}]})
    assert answer.status_code == 200, answer.text
    schemas.InferResponse.model_validate_json(answer.content, strict=True)
    document = answer.json()
    (output,) = document["outputs"]
    return document["model_version"], np.array(output["data"]).reshape(output["shape"]).tolist()


def due(version: Any, X: Any) -> list[Any]:
    rounded: list[Any] = np.array(version.scores(X)).astype(np.float32).tolist()
    return rounded


def test_each_version_answers_for_itself(served: TestClient, one: Any, two: Any) -> None:
    assert scores(served, M, tensor(one.X)) == ("1", due(one, one.X))
    assert scores(served, f"{M}/versions/1", tensor(one.X)) == ("1", due(one, one.X))
    for _ in range(2):
        assert scores(served, f"{M}/versions/2", tensor(one.X)) == ("2", due(two, one.X))
    served.post("/v1/models/m/promote", json={"version": 2, "force": True}).raise_for_status()
    assert scores(served, M, tensor(one.X)) == ("2", due(two, one.X))
    assert scores(served, f"{M}/versions/1", tensor(one.X)) == ("1", due(one, one.X))


def test_a_deleted_version_is_not_found(served: TestClient, one: Any) -> None:
    scores(served, f"{M}/versions/2", tensor(one.X))
    served.delete("/v1/models/m/versions/2").raise_for_status()
    for method, path in (("POST", "/infer"), ("GET", ""), ("GET", "/ready")):
        body = {"inputs": [tensor(one.X)]} if method == "POST" else None
        answer = served.request(method, f"{M}/versions/2{path}", json=body)
        assert (answer.status_code, answer.json().keys()) == (404, {"error"})


def test_metadata_of_a_version(served: TestClient) -> None:
    for path in (M, f"{M}/versions/2"):
        answer = served.get(path)
        schemas.ModelMetadata.model_validate_json(answer.content, strict=True)
        found = answer.json()
        assert (found["name"], found["versions"], found["platform"]) == ("m", ["1", "2"], "manylabel_m3l")
        assert found["inputs"] == [{"name": "x", "datatype": "BYTES", "shape": [-1]}]  # its features have names
        assert found["outputs"][1]["parameters"] == {"labels": '["rock","jazz","pop"]'}
        assert served.get(f"{path}/ready").json() == {"name": "m", "ready": True}
    numbers = served.get("/v2/models/c").json()
    assert numbers["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]


def test_each_view_has_an_input(served: TestClient, views: Any) -> None:
    text, image = views.X["text"][:5].toarray(), views.X["image"][:5]
    whole = [tensor(image, "image"), tensor(text, "text")]
    assert scores(served, V, *whole)[1] == due(views, {"text": views.X["text"][:5], "image": image})
    assert scores(served, V, tensor(image, "image"))[1] == due(views, {"image": image})
    strings = {"name": "x", "shape": [1], "datatype": "BYTES", "data": ['{"views": {"image": [0, 0, 0, 0, 0, 1]}}']}
    assert scores(served, V, strings)[1] == due(views, {"image": np.array([[0, 0, 0, 0, 0, 1]], dtype=np.float32)})


@for_each(
    ("inputs", "message"),
    [
        ([("sound", (2, 6))], "/inputs/0/name must be one of text, image"),
        ([("x", (2, 6))], "this model has the views"),
        ([("image", (2, 5))], "must have 6 numbers"),
        ([("image", (2, 6)), ("text", (3, 8))], "/inputs/1/shape must have 2 examples"),
    ],
)
def test_inputs_that_do_not_fit_the_views_are_refused(served: TestClient, inputs: Any, message: str) -> None:
    body = {"inputs": [tensor(np.zeros(shape), name) for name, shape in inputs]}
    answer = served.post(f"{V}/infer", json=body)
    assert (answer.status_code, message in answer.json()["error"]) == (422, True), answer.text


def test_a_model_that_serves_no_version_is_not_ready(client: TestClient, one: Any, meta_of: Any) -> None:
    put(client, "idle", one.contents, meta_of("job-9"), promote="never")
    for path in ("", "/ready"):
        answer = client.get(f"/v2/models/idle{path}")
        assert (answer.status_code, answer.json().keys()) == (409, {"error"})
    assert client.get("/v2/models/idle/versions/1/ready").status_code == 200
    assert scores(client, "/v2/models/idle/versions/1", tensor(one.X)) == ("1", due(one, one.X))
    client.delete("/v1/models/idle")


async def test_few_other_versions_stay_in_memory(lone_fleet: Any, one: Any, two: Any) -> None:
    registry = await lone_fleet.start()
    for number in range(MAX_OTHER_VERSIONS + 2):
        await lone_fleet.publish(registry, one if number % 2 else two, promote="never" if number else "always")
    model = await registry.get("m")
    await model.sync()
    small = model.nbytes
    xs = [Features(None, None, row) for row in one.X[:3]]
    sizes = []
    for number in range(2, MAX_OTHER_VERSIONS + 3):
        assert await registry._eviction.resident_bytes() == model.nbytes
        predicted = await model.predict(xs, version=number)
        assert predicted.version == number
        sizes.append(model.nbytes)
    assert small < sizes[0] < sizes[-1]
    assert sizes[-1] - small <= MAX_OTHER_VERSIONS * max(sizes[0] - small, sizes[1] - sizes[0])
    assert await registry._eviction.resident_bytes() == model.nbytes
    await model.retire(MAX_OTHER_VERSIONS + 2)
    assert await registry._eviction.resident_bytes() == model.nbytes < sizes[-1]
    await model.promote(MAX_OTHER_VERSIONS + 1)
    assert len(model._others._loaded) == MAX_OTHER_VERSIONS - 2  # served now, or deleted
