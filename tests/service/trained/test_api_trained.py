"""Trained models over HTTP: predictions, versions, detail, pictures, and going on online from one."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.support.cases import for_each
from tests.support.compiling import closed

from manylabel_core import FALT
from manylabel_core.batch import M3L, MLRL
from manylabel_core.online.models.linear import sparse_table
from manylabel_service.api import schemas
from manylabel_service.api.routers.metrics import Metrics
from manylabel_service.api.routers.model_labels import LabelList
from manylabel_service.api.routers.versions import ModelDetail, Promoted, VersionList
from manylabel_service.hosting.kernels import NotCompiled
from manylabel_service.models.init_from import warm_start
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.settings import Settings
from manylabel_service.trained.artifact import Convergence, ModelArtifact
from manylabel_service.trained.publishing import publish
from manylabel_service.trained.version import Version

ONE, VIEWS = "/v1/models/m", "/v1/models/v"
OCTETS = "application/octet-stream"


def put(client: TestClient, name: str, contents: bytes, about: Any, promote: Any = "always") -> int:
    """Publish as a job of this server does."""
    app: Any = client.app
    portal: Any = client.portal
    registry = app.state.context.registry

    async def run() -> int:
        number = await publish(registry._store, Settings(), name, contents, about, promote=promote)
        registry.poll(name)
        return number

    number: int = portal.call(run)
    return number


@pytest.fixture
def served(client: TestClient, one: Any, two: Any, views: Any, meta_of: Any) -> Iterator[TestClient]:
    """A client of a server with `m`, which has two versions and serves the first, and `v`, which has views."""
    put(client, "m", one.contents, meta_of("job-1"))
    put(client, "m", two.contents, meta_of("job-2"), promote="never")
    put(client, "v", views.contents, meta_of("job-3", "lsa_mml"))
    yield client
    for address in (ONE, VIEWS):
        client.delete(address)


def scores(answer: Any) -> list[list[float]]:
    assert answer.status_code == 200, answer.text
    return [list(prediction["scores"].values()) for prediction in answer.json()["predictions"]]


class TestPredict:
    def test_the_scores_of_the_estimator_to_the_last_bit(self, served: TestClient, one: Any) -> None:
        rows = one.X.tolist()
        answer = served.post(f"{ONE}/predict", json={"examples": [{"x": row} for row in rows]})
        schemas.PredictBatchResponse.model_validate_json(answer.content, strict=True)
        assert scores(answer) == one.scores(one.X)
        single = served.post(f"{ONE}/predict", json={"x": rows[0], "y": ["ignored"], "weight": 2})
        schemas.PredictResponse.model_validate_json(single.content, strict=True)
        assert list(single.json()["scores"].items()) == list(
            zip(("rock", "jazz", "pop"), one.scores(one.X[:1])[0], strict=True)
        )
        found = set(one.estimator.threshold_.tolist())
        assert single.json()["threshold"] == (found.pop() if len(found) == 1 else 0)

    def test_views(self, served: TestClient, views: Any) -> None:
        text, image = views.X["text"][:3].toarray(), views.X["image"][:3]
        items = [
            {"views": {"text": {f"word{j}": v for j, v in enumerate(row) if v}, "image": seen}}
            for row, seen in zip(text.tolist(), image.tolist(), strict=True)
        ]
        due = views.scores({"text": views.X["text"][:3], "image": image})
        assert scores(served.post(f"{VIEWS}/predict", json={"examples": items})) == due
        assert scores(served.post(f"{VIEWS}/predict", json={"examples": [{"x": item} for item in items]})) == due
        alone = [{"views": {"image": seen}} for seen in image.tolist()]
        assert scores(served.post(f"{VIEWS}/predict", json={"examples": alone})) == views.scores({"image": image})

    @for_each(
        ("address", "item", "place"),
        [
            (ONE, {"x": [1, 2, 3]}, "/x"),
            (ONE, {"x": {"indices": [0, 4], "values": [1, 1]}}, "/x"),
            (ONE, {"x": {"indices": [0, 1], "values": [1]}}, "/x/values"),
            (ONE, {"x": {"a": "1"}}, "/x/a"),
            (ONE, {"x": [1, 2, float("nan"), 4]}, "/x/2"),
            (ONE, {"x": [1, 2, 1e999, 4]}, "/x/2"),
            (ONE, {"views": {"x": [1, 2, 3, 4]}}, "/views"),
            (ONE, {"x": [1, 2, 3, 4], "more": 1}, "/more"),
            (ONE, {}, ""),
            (ONE, {"x": [1, 2, 3, 4], "views": {}}, ""),
            (VIEWS, {"x": [1, 2, 3, 4]}, "/x"),
            (VIEWS, {"views": {}}, "/views"),
            (VIEWS, {"views": {"sound": [1]}}, "/views/sound"),
            (VIEWS, {"views": {"image": [1, 2, 3, 4, 5]}}, "/views/image"),
            (VIEWS, {"views": {"image": [1, 2, 3, "4"]}}, "/views/image/3"),
            (VIEWS, {"views": {"text": {"word1": True}}}, "/views/text/word1"),
            (VIEWS, {"views": {"image": "all"}}, "/views/image"),
            (VIEWS, {"views": [1]}, "/views"),
            (VIEWS, {"x": {"views": {}}}, "/x/views"),
            (VIEWS, {"x": {"views": {"image": [1]}}}, "/x/views/image"),
            (VIEWS, {"x": {"views": {"image": [1, "2", 3, 4, 5, 6]}}}, "/x/views/image/1"),
            (VIEWS, {"x": {"views": {"text": {"word1": "1"}}}}, "/x/views/text/word1"),
            (ONE, {"x": {"views": {"x": [1, 2, 3, 4]}}}, "/x/views"),
            (ONE, {"x": {"views": "1"}}, "/x/views"),
        ],
    )
    def test_bad_input(self, served: TestClient, refused: Any, address: str, item: Any, place: str) -> None:
        body = json.dumps(item)
        headers = {"Content-Type": "application/json"}
        refused(served.post(f"{address}/predict", content=body, headers=headers), 422, "invalid_request", place)
        good = {"views": {"image": [0] * 6}} if address == VIEWS else {"x": [0] * 4}
        batch = json.dumps({"examples": [good, item]})
        answer = served.post(f"{address}/predict", content=batch, headers=headers)
        refused(answer, 422, "invalid_request", f"/examples/1{place}")

    def test_a_version_without_probabilities_has_none(
        self, served: TestClient, make: Any, meta_of: Any, refused: Any
    ) -> None:
        put(served, "m", make(M3L(optimise="none", scaling="none")).contents, meta_of("job-4"))
        item = {"x": [1, 2, 3, 4]}
        for body in (item, {"examples": [item]}):
            problem = refused(
                served.post(f"{ONE}/predict", json={**body, "probabilities": True}),
                *(422, "invalid_request", "/probabilities"),
            )
            assert "this model has no probabilities" in problem["detail"]

    def test_calls_of_online_models_are_refused(self, served: TestClient, refused: Any) -> None:
        item = {"x": [1, 2, 3, 4], "y": ["rock"]}
        ndjson = {"Content-Type": "application/x-ndjson"}
        for answer in (
            served.post(f"{ONE}/update", json=item),
            served.post(f"{ONE}/predict-update", json=item),
            served.post(f"{ONE}/stream", content=b"", headers=ndjson),
            served.patch(f"{ONE}/labels", json={"labels": {"rock": {"title": "Rock"}}}),
            served.post(f"{ONE}/labels/rename", json={"label": "rock", "to": "jazz"}),
            served.post(f"{ONE}/labels/merge", json={"label": "rock", "into": "jazz"}),
            served.post(f"{ONE}/labels/retire", json={"label": "rock"}),
            served.get(f"{ONE}/snapshots"),
            served.post(f"{ONE}/snapshots"),
            served.get(f"{ONE}/snapshots/1"),
            served.post(f"{ONE}/rollback", json={"position": "1"}),
        ):
            told = refused(answer, 409, "model_is_trained")["detail"]
            assert "rollback" in str(answer.request.url) or "POST /v1/models/m/labels" in told

    def test_before_any_version_is_served(self, client: TestClient, refused: Any, one: Any, meta_of: Any) -> None:
        put(client, "new", one.contents, meta_of("job"), promote="never")
        for answer in (
            client.post("/v1/models/new/predict", json={"x": [1, 2, 3, 4]}),
            client.get("/v1/models/new/detail"),
        ):
            refused(answer, 409, "no_version_served")
        status = client.get("/v1/models/new")
        assert (status.json()["version"], status.json()["trainer"]) == (None, None)
        schemas.TrainedStatus.model_validate_json(status.content, strict=True)
        promoted = client.post("/v1/models/new/promote", json={"version": 1})
        assert (promoted.status_code, promoted.json()["previous"]) == (200, None)
        found = client.post("/v1/models/new/predict", json={"examples": [{"x": one.X[0].tolist()}]})
        assert scores(found) == one.scores(one.X[:1])
        client.delete("/v1/models/new").raise_for_status()


class TestVersions:
    def test_a_model_among_others(self, served: TestClient, create: Callable[..., str]) -> None:
        online = create(served, "online")
        status = served.get(ONE)
        schemas.TrainedStatus.model_validate_json(status.content, strict=True)
        due = {"name": "m", "algorithm": "trained", "trainer": "m3l", "version": 1, "versions": 2, "labels": 3}
        assert due.items() <= status.json().items()
        listed = served.get("/v1/models")
        schemas.ModelList.model_validate_json(listed.content, strict=True)
        assert [model["name"] for model in listed.json()["models"]] == ["m", "online", "v"]
        assert 'manylabel_model_version{model="m"} 1.0' in served.get("/metrics").text
        assert served.get("/readyz").json()["failed"] == []
        served.delete(online)

    def test_listed_promoted_and_back(self, served: TestClient, one: Any, two: Any) -> None:
        listed = served.get(f"{ONE}/versions")
        VersionList.model_validate_json(listed.content, strict=True)
        newest, oldest = listed.json()["versions"]
        assert (newest["version"], newest["served"], oldest["served"]) == (2, False, True)
        assert (oldest["job"], oldest["created"], oldest["rows"]) == ("job-1", "2023-11-14T22:13:20.000Z", 60)
        x = one.X[:1].tolist()[0]
        for number, previous, version in ((2, 1, two), (1, 2, one)):
            answer = served.post(f"{ONE}/promote", json={"version": number})
            Promoted.model_validate_json(answer.content, strict=True)
            assert (answer.json()["model"], answer.json()["previous"]) == ("m", previous)
            position = answer.json()["position"]
            found = served.post(f"{ONE}/predict?at_least={position}", json={"examples": [{"x": x}]})
            assert scores(found) == version.scores(one.X[:1])
            assert found.json()["position"] == position

    def test_a_version_with_another_scaling_is_promoted_only_by_force(
        self, served: TestClient, make: Any, meta_of: Any, refused: Any
    ) -> None:
        number = put(served, "m", make(M3L(scaling="auto")).contents, meta_of("job-3"), promote="never")
        listed = served.get(f"{ONE}/versions").json()["versions"]
        assert [(each["scaling"], each["converged"], each["gap"], each["not_promoted_because"]) for each in listed] == [
            ("auto", True, None, None),
            ("none", True, None, None),
            ("none", True, None, None),
        ]
        detail = refused(served.post(f"{ONE}/promote", json={"version": number}), 409, "version_differs")["detail"]
        assert 'its scaling is auto, not none; send "force": true' in detail
        answer = served.post(f"{ONE}/promote", json={"version": number, "force": True})
        assert (answer.status_code, answer.json()["previous"]) == (200, 1)
        assert served.get(ONE).json()["converged"] is True

    def test_downloaded(self, served: TestClient, one: Any) -> None:
        answer = served.get(f"{ONE}/versions/1")
        assert (answer.status_code, answer.headers["content-type"]) == (200, OCTETS)
        assert M3L.from_bytes(answer.content).decision_function(one.X).tolist() == one.scores(one.X)

    def test_deleted(self, served: TestClient, refused: Any) -> None:
        refused(served.delete(f"{ONE}/versions/1"), 409, "version_served")
        assert served.delete(f"{ONE}/versions/2").status_code == 204
        for answer in (
            served.delete(f"{ONE}/versions/2"),
            served.get(f"{ONE}/versions/2"),
            served.post(f"{ONE}/promote", json={"version": 2}),
            served.get(f"{ONE}/detail?version=2"),
            served.delete(f"{ONE}/versions/0"),
            served.get(f"{ONE}/versions/-1"),
            served.get(f"{ONE}/versions/{10**20}"),
            served.get(f"{ONE}/versions/one"),
        ):
            refused(answer, 404, "version_not_found")

    @for_each(
        ("body", "place"),
        [
            ({}, "/version"),
            ({"version": "1"}, "/version"),
            ({"version": 0}, "/version"),
            ({"version": 1.5}, "/version"),
            ({"version": 1, "at": 2}, "/at"),
        ],
    )
    def test_bad_promotions(self, served: TestClient, refused: Any, body: Any, place: str) -> None:
        refused(served.post(f"{ONE}/promote", json=body), 422, "invalid_request", place)
        assert served.get(ONE).json()["version"] == 1

    def test_online_models_have_no_versions(self, client: TestClient, model: str, refused: Any) -> None:
        for answer in (
            client.get(f"{model}/versions"),
            client.get(f"{model}/versions/1"),
            client.delete(f"{model}/versions/1"),
            client.post(f"{model}/promote", json={"version": 1}),
            client.get(f"{model}/detail"),
        ):
            refused(answer, 409, "model_is_online")

    def test_an_unknown_model_is_not_found(self, client: TestClient, refused: Any) -> None:
        refused(client.get("/v1/models/nobody/versions"), 404, "model_not_found")
        refused(client.post("/v1/models/nobody/promote", json={"version": 1}), 404, "model_not_found")

    def test_trained_models_are_not_created_by_hand(self, client: TestClient, refused: Any) -> None:
        answer = client.post("/v1/models", json={"name": "m", "algorithm": "trained"})
        assert refused(answer, 422, "invalid_request", "/algorithm")["detail"].endswith(
            "or 'kernel_passive_aggressive'"
        )

    def test_a_deleted_model_leaves_its_name(self, served: TestClient, create: Callable[..., str]) -> None:
        assert served.delete(ONE).status_code == 204
        assert served.get(f"{ONE}/versions").status_code == 404
        create(served, "m")
        assert served.get(ONE).json()["algorithm"] == "falt"


NAMES = ("日本", "$x^2$", "--><script>", "a" * 200, "line\nbreak", "\u202eback")
"""Labels that a reader of JSON may stumble over."""


@pytest.fixture(scope="module")
def coupled() -> Any:
    """A version with all there is to see, and with names of all kinds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    Y = (X @ rng.normal(size=(4, len(NAMES))) > 0).astype(int)
    model = MLRL(lam=1e-2, tol=0.1, scaling="none").fit(X, Y)
    label_scores = {name: {"f1": 0.5, "precision": 0.25, "recall": 1.0, "support": 2.0} for name in NAMES}
    trace = Convergence([1, 2, 3], [float("inf"), 3.0, 2.5], [float("inf"), 0.1, 0.01], [0.1, 0.2, 0.3])
    return model, ModelArtifact(model.to_bytes(), NAMES, {"x": 4}, label_scores, trace).to_bytes()


class TestDetail:
    def test_as_json(self, served: TestClient, coupled: Any, meta_of: Any) -> None:
        model, contents = coupled
        put(served, "m", contents, meta_of("coupled", "mlrl"), promote="never")
        answer = served.get(f"{ONE}/detail?version=3")
        ModelDetail.model_validate_json(answer.content, strict=True)
        detail = answer.json()
        assert (detail["version"], detail["trainer"], detail["params"]) == (3, "mlrl", {"C": 1.0})
        assert detail["label_correlation"] == {"labels": list(NAMES), "values": model.label_correlation_.tolist()}
        assert detail["convergence"]["objective"] == [None, 3.0, 2.5]
        assert detail["label_scores"]["日本"] == {"f1": 0.5, "precision": 0.25, "recall": 1.0, "support": 2.0}
        assert detail["view_weights"] is None
        assert detail["label_decisions"] == {
            label: {"threshold": threshold, "calibration": {"slope": slope, "intercept": intercept}}
            for label, threshold, slope, intercept in zip(
                NAMES, model.threshold_.tolist(), *model.curves_.tolist(), strict=True
            )
        }
        assert served.get(f"{ONE}/detail").json()["version"] == 1

    def test_weights_of_views(self, served: TestClient, views: Any) -> None:
        answer = served.get(f"{VIEWS}/detail")
        ModelDetail.model_validate_json(answer.content, strict=True)
        weights = dict(zip(views.estimator.view_names_, views.estimator.view_weights_.tolist(), strict=True))
        assert answer.json()["view_weights"] == weights
        assert set(weights) == {"text", "image"}
        assert (answer.json()["label_correlation"], answer.json()["label_scores"]) == (None, None)

    def test_the_most_correlated_of_many_labels_are_shown(self, monkeypatch: pytest.MonkeyPatch, coupled: Any) -> None:
        from manylabel_service.trained import detail as detail_module

        model, _ = coupled
        monkeypatch.setattr(detail_module, "MAX_CORRELATED", 2)
        found = detail_module._correlation(model, NAMES)
        assert found is not None
        apart = np.abs(model.label_correlation_) - np.eye(len(NAMES))
        assert found.labels == [NAMES[i] for i in np.unravel_index(apart.argmax(), apart.shape)]
        assert abs(found.values[0, 1]) == apart.max()

    def test_bad_parameters(self, served: TestClient, refused: Any) -> None:
        for query in ("version=0", "version=x", "versions=1", "version=1&version=1"):
            place = query.split("=")[0]
            refused(served.get(f"{ONE}/detail?{query}"), 422, "invalid_request", place)


class TestInitFrom:
    @pytest.fixture
    def begin(self, served: TestClient) -> Iterator[Callable[..., Any]]:
        def create(**spec: Any) -> Any:
            spec = {"name": "on", "algorithm": "falt", "init_from": {"model": "m", "version": 2}, **spec}
            return served.post("/v1/models", json=spec)

        yield create
        served.delete("/v1/models/on")

    def test_the_online_model_predicts_as_the_version_and_learns_on(
        self, served: TestClient, begin: Any, two: Any
    ) -> None:
        answer = begin(params={"eta": 0.1})
        assert (answer.status_code, answer.headers["location"]) == (201, "/v1/models/on")
        schemas.ModelStatus.model_validate_json(answer.content, strict=True)
        assert (answer.json()["updates"], answer.json()["features"], answer.json()["labels"]) == (0, 4, 3)
        due = FALT.from_linear(two.estimator, eta=0.1)
        items = [{"x": dict(zip("abcd", row, strict=True))} for row in two.X.tolist()]
        found = served.post("/v1/models/on/predict", json={"examples": items})
        assert scores(found) == due.decision_function(two.X).tolist()
        assert scores(found) == [pytest.approx(row, rel=1e-5, abs=1e-6) for row in two.scores(two.X)]
        learnt = served.post("/v1/models/on/update", json={**items[0], "y": ["rock", "new"]})
        assert learnt.json()["updates"] == 1
        due.partial_fit(two.X[:1], [[1, 0, 0, 1]])
        found = served.post("/v1/models/on/predict", json={"examples": items})
        assert scores(found) == due.decision_function(two.X).tolist()
        assert served.get("/v1/models/on").json()["labels"] == 4

    def test_without_a_number_it_begins_with_the_served_version(self, served: TestClient, begin: Any, one: Any) -> None:
        assert begin(init_from={"model": "m"}).status_code == 201
        x = dict(zip("abcd", one.X[0].tolist(), strict=True))
        found = served.post("/v1/models/on/predict", json={"examples": [{"x": x}]})
        assert scores(found) == FALT.from_linear(one.estimator).decision_function(one.X[:1]).tolist()

    def test_numbered_columns(self, served: TestClient, begin: Any, make: Any, meta_of: Any) -> None:
        numbered = make(M3L(scaling="none"), features=4)
        put(served, "m", numbered.contents, meta_of("numbered"))
        for features in (None, 4):
            assert begin(init_from={"model": "m"}, features=features).status_code == 201
            found = served.post("/v1/models/on/predict", json={"examples": [{"x": numbered.X[0].tolist()}]})
            assert scores(found) == FALT.from_linear(numbered.estimator).decision_function(numbered.X[:1]).tolist()
            sparse = {"x": {"indices": [4], "values": [1.0]}, "y": ["rock"]}
            assert served.post("/v1/models/on/update", json=sparse).status_code == (200 if features is None else 422)
            served.delete("/v1/models/on")

    def test_declared_as_in_the_version(self, served: TestClient, begin: Any, two: Any) -> None:
        assert begin(features=["a", "b", "c", "d"], labels=["rock", "jazz", "pop"]).status_code == 201
        found = served.post("/v1/models/on/predict", json={"examples": [{"x": two.X[0].tolist()}]})
        assert scores(found) == FALT.from_linear(two.estimator).decision_function(two.X[:1]).tolist()

    @for_each(
        ("spec", "place"),
        [
            ({"algorithm": "salt"}, "/algorithm"),
            ({"algorithm": "kernel_falt"}, "/algorithm"),
            ({"scaling": "minmax"}, "/scaling"),
            ({"params": {"fit_intercept": False}}, "/params/fit_intercept"),
            ({"features": ["a", "b", "d", "c"]}, "/features"),
            ({"features": 4}, "/features"),
            ({"labels": ["rock", "jazz"]}, "/labels"),
            ({"limits": {"features": {"most": 9, "policy": "hash"}}}, "/limits/features/policy"),
            ({"limits": {"features": {"most": 3, "policy": "ignore"}}}, "/limits/features/most"),
            ({"limits": {"labels": {"most": 2, "policy": "reject"}}}, "/limits/labels/most"),
            ({"init_from": {"model": "v"}}, "/init_from"),
            ({"init_from": {}}, "/init_from/model"),
            ({"init_from": {"model": "m", "version": 0}}, "/init_from/version"),
            ({"init_from": {"model": "m", "job": 1}}, "/init_from/job"),
            ({"init_from": "m"}, "/init_from"),
        ],
    )
    def test_a_spec_that_does_not_fit_the_version_is_refused(
        self, served: TestClient, begin: Any, refused: Any, spec: Any, place: str
    ) -> None:
        refused(begin(**spec), 422, "invalid_request", place)
        assert served.get("/v1/models/on").status_code == 404

    def test_a_version_with_a_kernel_is_refused(
        self, served: TestClient, begin: Any, refused: Any, curved: Any, meta_of: Any
    ) -> None:
        put(served, "m", curved.contents, meta_of("curved"))
        problem = refused(begin(init_from={"model": "m"}), 422, "invalid_request", "/init_from")
        assert "rbf" in problem["detail"]

    def test_an_unknown_source_is_refused(self, served: TestClient, begin: Any, refused: Any, create: Any) -> None:
        refused(begin(init_from={"model": "nobody"}), 404, "model_not_found")
        refused(begin(init_from={"model": "m", "version": 9}), 404, "version_not_found")
        online = create(served, "online")
        refused(begin(init_from={"model": "online"}), 409, "model_is_online")
        served.delete(online)

    @pytest.mark.parametrize("policy", ["reject", "ignore"])
    def test_the_online_model_may_have_limits(self, served: TestClient, begin: Any, two: Any, policy: str) -> None:
        limits = {"features": {"most": 4, "policy": policy}, "labels": {"most": 3, "policy": policy}}
        created = begin(limits=limits)
        assert created.status_code == 201, created.text
        assert created.json()["limits"] == limits
        item = {"x": dict(zip("abcde", [*two.X[0].tolist(), 1.0], strict=True)), "y": ["rock", "new"]}
        learnt = served.post("/v1/models/on/update", json=item)
        assert learnt.status_code == (200 if policy == "ignore" else 422)
        ignored = 1 if policy == "ignore" else 0
        assert served.get("/v1/models/on").json()["ignored"] == {"features": ignored, "labels": ignored}

    def test_limits_of_the_server_apply(self, serve: Any, two: Any, meta_of: Any, refused: Any) -> None:
        with serve(max_labels=2) as client:
            put(client, "m", two.contents, meta_of())
            begun = {"name": "on", "algorithm": "falt", "init_from": {"model": "m"}}
            refused(client.post("/v1/models", json=begun), 507, "limit_exceeded")


class TestServedMetrics:
    """Its answers are kept, and measured by the labels that come later."""

    @staticmethod
    def keep(client: TestClient, address: str, items: list[Any]) -> list[Any]:
        answer = client.post(f"{address}/predict?keep=true", json={"examples": items})
        schemas.PredictBatchResponse.model_validate_json(answer.content, strict=True)
        assert answer.json()["expires"]
        predictions: list[Any] = answer.json()["predictions"]
        return predictions

    def test_measures_are_of_the_version_that_answered(
        self, served: TestClient, one: Any, refused: Callable[..., Any]
    ) -> None:
        items = [{"x": row} for row in one.X[:20].tolist()]
        by_one = self.keep(served, ONE, items)
        empty = served.get(f"{ONE}/metrics").json()
        assert (empty["version"], empty["updates"], empty["cumulative"]["micro_f1"]) == (1, 0, None)
        assert served.get(f"{ONE}/labels").json()["total"] == 3
        served.post(f"{ONE}/promote", json={"version": 2})
        by_two = self.keep(served, ONE, items)
        right = [{"id": each["id"], "y": each["labels"]} for each in by_one]
        body = {"examples": right}
        labelled = served.post(f"{ONE}/labels", json=body, headers={"Idempotency-Key": "k"})
        schemas.UpdateResponse.model_validate_json(labelled.content, strict=True)
        assert labelled.json()["updates"] == 20
        again = served.post(f"{ONE}/labels", json=body, headers={"Idempotency-Key": "k"})
        assert (again.json(), again.headers["idempotent-replayed"]) == (labelled.json(), "true")
        refused(served.post(f"{ONE}/labels", json=right[0]), 409, "prediction_labelled", "/id")
        wrong = [name for name in ("rock", "jazz", "pop") if name not in by_two[0]["labels"]]
        for name in ("rock", "jazz", "pop"):
            part = {"id": by_two[0]["id"], "y": {name: name in wrong}}
            assert served.post(f"{ONE}/labels", json=part).status_code == 200
        first, second = (served.get(f"{ONE}/metrics?version={version}").json() for version in (1, 2))
        assert served.get(f"{ONE}/metrics").json() == second
        Metrics.model_validate(first)
        assert (first["version"], first["updates"], first["cumulative"]["micro_f1"]) == (1, 20, 1.0)
        assert (second["updates"], second["cumulative"]["examples"], second["cumulative"]["micro_f1"]) == (3, 1, 0.0)
        assert second["drift"] == {"alarms": 0, "last": None, "labels": {}}
        past = served.get(f"{ONE}/metrics/history?version=1").json()
        assert (past["version"], past["examples"]) == (1, list(range(1, 21)))
        assert past["window"]["micro_f1"][-1] == first["window"]["micro_f1"]
        listed = served.get(f"{ONE}/labels?version=1&sort=name&descending=false").json()
        LabelList.model_validate(listed)
        counts = [sum(name in each["labels"] for each in by_one) for name in ("jazz", "pop", "rock")]
        assert [label["label"] for label in listed["labels"]] == ["jazz", "pop", "rock"]
        assert [label["examples"] for label in listed["labels"]] == counts
        assert (listed["version"], listed["updates"], listed["labels"][0]["calibration"]) == (1, 20, None)
        assert listed["labels"][0]["drift"] == {"alarms": 0, "last": None}
        scraped = served.get("/metrics").text
        assert 'manylabel_score{measure="micro_f1",model="m",window="cumulative"} 0.0' in scraped
        assert served.delete(f"{ONE}/versions/1").status_code == 204
        assert served.get(f"{ONE}/metrics?version=1").json() == first, "a version goes, its measures do not"
        refused(served.get(f"{ONE}/metrics?version=3"), 404, "version_not_found")
        predicted = served.post(f"{ONE}/predict", json={"examples": items}).json()["predictions"]
        assert [each["scores"] for each in predicted] == [each["scores"] for each in by_two], "nothing is learnt"

    def test_with_views(self, served: TestClient, views: Any) -> None:
        items = [{"views": {"image": seen}} for seen in views.X["image"][:3].tolist()]
        kept = self.keep(served, VIEWS, items)
        truths = [{"id": each["id"], "y": [*each["labels"], "unheard of"]} for each in kept]
        assert served.post(f"{VIEWS}/labels", json={"examples": truths}).json()["updates"] == 3
        found = served.get(f"{VIEWS}/metrics").json()["cumulative"]
        hits = sum(len(each["labels"]) for each in kept)
        assert found["micro_f1"] == 2 * hits / (2 * hits + 3)
        assert served.get(f"{VIEWS}/labels").json()["total"] == 4

    def test_refused_requests(self, serve: Any, one: Any, meta_of: Any, refused: Callable[..., Any]) -> None:
        item = {"x": [1, 2, 3, 4]}
        with serve(max_stored_predictions=1, max_labels=4) as client:
            put(client, "m", one.contents, meta_of())
            client.post("/v1/models", json={"name": "on", "algorithm": "falt"})
            for call in ("metrics", "labels"):
                refused(client.get(f"/v1/models/on/{call}?version=1"), 409, "model_is_online")
                refused(client.get(f"{ONE}/{call}?version=0"), 422, "invalid_request", "version")
            id = client.post(f"{ONE}/predict?keep=true", json=item).json()["id"]
            refused(client.post(f"{ONE}/predict?keep=true", json=item), 429, "predictions_full")
            none = {"id": "01KAHZY4T00000000000000000", "y": []}
            refused(client.post(f"{ONE}/labels", json=none), 410, "prediction_expired", "/id")
            for n in range(2):
                truth = {"id": id, "y": {f"typo {n}": True}}
                assert client.post(f"{ONE}/labels", json=truth).status_code == (200 if n == 0 else 507)
            put(client, "idle", one.contents, meta_of("job-i"), promote="never")
            for call in ("metrics", "labels"):
                refused(client.get(f"/v1/models/idle/{call}"), 409, "no_version_served")


class TestExplanations:
    def test_they_add_up_to_the_scores(self, client: TestClient, make: Any, meta_of: Any) -> None:
        made = make(M3L(kernel="linear", scaling="auto"), sparse=True)
        put(client, "m", made.contents, meta_of("job-1"))
        xs = [dict(zip("abcd", row, strict=True)) for row in made.X[:6].tolist()]
        answer = client.post(f"{ONE}/predict", json={"examples": [{"x": x} for x in xs], "explain": 2})
        schemas.PredictBatchResponse.model_validate_json(answer.content, strict=True)
        explained = 0
        for x, prediction in zip(xs, answer.json()["predictions"], strict=True):
            assert list(prediction["explanations"]) == prediction["labels"]
            for label, one in prediction["explanations"].items():
                parts = [*one["for"], *one["against"]]
                total = sum(part["contribution"] for part in parts) + one["rest"]
                assert total == pytest.approx(prediction["scores"][label], rel=1e-9, abs=1e-9)
                assert all(abs(x[part["feature"]] - part["value"]) < 1e-6 for part in parts)
                explained += len(parts)
        assert explained
        client.delete(ONE)

    def test_only_linear_models_have_them(self, served: TestClient, curved: Any, meta_of: Any) -> None:
        put(served, "m", curved.contents, meta_of("job-4", "mlrl"))
        bodies = {ONE: {"x": [1, 0, 0, 0]}, VIEWS: {"views": {"image": [1, 0, 0, 0, 0, 0]}}}
        for address, body in bodies.items():
            refused = served.post(f"{address}/predict", json={**body, "explain": 3})
            assert refused.status_code == 422
            assert refused.json()["errors"][0]["pointer"] == "/explain"


def test_a_request_may_name_a_version(client: TestClient, one: Any, two: Any, meta_of: Any, refused: Any) -> None:
    put(client, "named", one.contents, meta_of("job-1"))
    put(client, "named", two.contents, meta_of("job-2"), promote="never")
    body = {"examples": [{"x": row.tolist()} for row in one.X]}

    def scores(query: str) -> list[list[float]]:
        answer = client.post(f"/v1/models/named/predict{query}", json=body).raise_for_status().json()
        return [list(each["scores"].values()) for each in answer["predictions"]]

    assert scores("") == scores("?version=1") == np.asarray(one.scores(one.X)).tolist()
    assert scores("?version=2") == np.asarray(two.scores(one.X)).tolist()
    refused(client.post("/v1/models/named/predict?version=3", json=body), 404, "version_not_found")
    refused(client.post("/v1/models/named/predict?version=x", json=body), 422, "invalid_request", "version")
    client.post("/v1/models", json={"name": "online", "algorithm": "falt"}).raise_for_status()
    refused(client.post("/v1/models/online/predict?version=1", json=body), 409, "model_is_online")
    for name in ("named", "online"):
        client.delete(f"/v1/models/{name}")


def test_a_model_that_begins_with_a_large_table_waits_for_its_functions(
    one: Any, meta_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparse_table, "MIN_SPARSE_BLOCKS", 1)
    monkeypatch.setattr(sparse_table, "DENSE_BYTES", 0)
    monkeypatch.setattr(FALT, "from_linear", lambda *_, **__: pytest.fail("functions are compiled"))
    spec = ModelSpec.model_validate({"name": "on", "algorithm": "falt"})
    version = Version(1, "1", len(one.contents), meta_of("job-1"))
    with closed("sparse"), pytest.raises(NotCompiled, match="large tables"):
        warm_start(spec, "m", version, one.contents, leaves_scaling=True)
