"""Responses to predict, update and predict-update."""

from starlette.testclient import TestClient
from tests.service.api.answers import create, ok, state_of

DENSE = [0.5, 0.0, -2.0]
SPARSE = {"indices": [2, 0], "values": [-2, 0.5]}


def test_an_update_is_learnt_before_its_response(client: TestClient, model: str) -> None:
    item = {"x": {"word=cat": 1}, "y": ["pets"]}
    first = ok(client.post(f"{model}/update", json=item))
    assert first["updates"] == 1

    predicted = ok(client.post(f"{model}/predict", json={"x": {"word=cat": 1}}))
    assert predicted["labels"] == ["pets"]
    assert predicted["scores"]["pets"] > 0
    assert predicted["position"] == first["position"]


def test_predict_ignores_labels_and_learns_nothing(client: TestClient, model: str) -> None:
    client.post(f"{model}/update", json={"x": {"a": 1}, "y": ["p"]})
    state = state_of(client, model)
    for y in (["new"], {"new": True}, None, 3, [1]):
        with_y = client.post(f"{model}/predict", json={"x": {"a": 1, "new": 2}, "y": y}).json()
        assert with_y == client.post(f"{model}/predict", json={"x": {"a": 1, "new": 2}}).json()
    assert state_of(client, model) == state


def test_a_batch_of_one_gets_the_response_of_a_batch(client: TestClient, model: str) -> None:
    body = {"examples": [{"x": {"a": 1}, "y": ["p"]}]}
    ok(client.post(f"{model}/update", json=body))
    for call in ("predict", "predict-update"):
        (prediction,) = ok(client.post(f"{model}/{call}", json=body))["predictions"]
        assert prediction["labels"] == ["p"]


def test_dense_and_sparse_features_are_the_same_example(client: TestClient) -> None:
    addresses = [create(client, form, features=3) for form in ("dense", "sparse")]
    for address, x in zip(addresses, (DENSE, SPARSE), strict=True):
        for y in (["p"], ["q"], {"p": False}):
            client.post(f"{address}/update", json={"x": x, "y": y}).raise_for_status()
    predictions = [client.post(f"{each}/predict", json={"x": x}).json() for each in addresses for x in (DENSE, SPARSE)]
    assert all(prediction == predictions[0] for prediction in predictions)
