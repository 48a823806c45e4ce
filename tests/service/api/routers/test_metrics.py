"""/metrics counts requests, predictions and updates, with a limited number of series."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from tests.service.api.answers import create
from tests.support.waiting import eventually

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def client(serve: Callable[..., TestClient]) -> Iterator[TestClient]:
    """A client of a new application."""
    with serve() as client:
        yield client


def scrape(client: TestClient) -> Series:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def test_bad_requests_about_an_absent_model_add_no_series(client: TestClient) -> None:
    app: Any = client.app
    for path, methods in app.openapi()["paths"].items():
        for method in methods if "{name}" in path and not path.endswith("/events") else ():
            kind = "application/x-ndjson" if path.endswith("/stream") else "application/json"
            sent = {} if method in ("get", "delete") else {"content": b"{", "headers": {"Content-Type": kind}}
            client.request(method, path.replace("{name}", "absent").replace("{version}", "1"), **sent)
    assert "absent" not in app.state.context.telemetry.models


def test_only_the_first_models_have_series_of_their_own(serve: Callable[..., TestClient]) -> None:
    with serve(metrics_models=2) as client:
        for name in "abcd":
            update(client, create(client, name))
        update(client, "/v1/models/d")
        series = scrape(client)
        counted = {model: value(series, "manylabel_updates_total", model=model) for model in ("a", "b", "_others")}
        assert counted == {"a": 1, "b": 1, "_others": 3}
        assert models_in(series) == {"a", "b", "_others"}
        assert value(series, "manylabel_model_labels", model="_others") is None
        assert value(series, "manylabel_resident_models") == 4
        assert sum(("model", "a") in labels for _, labels in series) <= 120
        client.delete("/v1/models/a").raise_for_status()
        scrape(client)
        update(client, "/v1/models/c")
        assert models_in(scrape(client)) == {"b", "c", "_others"}, "a deleted model makes room"


def test_a_scrape_reaches_only_models_with_series(
    serve: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(metrics_models=2) as client:
        for name in "abcd":
            update(client, create(client, name))
        scrape(client)
        registry, reached = client.app.state.context.registry, set[str]()  # type: ignore[attr-defined]
        resident = registry.resident

        def noted(*names: Any) -> list[Any]:
            found: list[Any] = resident(*names)
            reached.update(model.name for model in found)
            return found

        monkeypatch.setattr(registry, "resident", noted)
        assert value(scrape(client), "manylabel_resident_models") == 4
        assert reached == {"a", "b"}


def update(client: TestClient, address: str) -> None:
    client.post(f"{address}/update", json={"x": {"f": 1}, "y": ["l"]}).raise_for_status()


def models_in(series: Series) -> set[str]:
    return {value for _, labels in series for name, value in labels if name == "model"}


def value(series: Series, name: str, **labels: str) -> float | None:
    return series.get((name, frozenset(labels.items())))


def test_predictions_and_updates_are_counted_by_model(client: TestClient) -> None:
    item = {"x": {"word=cat": 1}, "y": ["pets", "animals"]}
    for name, n in (("a", 2), ("b", 3)):
        address = create(client, name)
        client.post(f"{address}/update", json={"examples": [item] * n})
        client.post(f"{address}/predict-update", json=item)
        client.post(f"{address}/predict", json={"examples": [item] * 5 * n})
    for _ in range(2):
        client.post("/v1/models/a/update", json=item, headers={"Idempotency-Key": "k"})
    client.post("/v1/models/a/update", json={"x": {"word=cat": [{}]}, "y": []})
    client.post("/v1/models/a/update", content=b"{", headers={"Content-Type": "application/json"})
    client.post("/v1/models/nobody/update", json=item)

    create(client, "new")
    series = scrape(client)
    assert value(series, "manylabel_score", model="new", measure="micro_f1", window="window") is None
    assert value(series, "manylabel_score", model="new", measure="examples", window="window") == 0

    assert value(series, "manylabel_updates_total", model="a") == 4, "a replayed update has taught nothing"
    assert value(series, "manylabel_updates_total", model="b") == 4
    assert value(series, "manylabel_predictions_total", model="a") == 10
    assert value(series, "manylabel_predictions_total", model="b") == 15
    for reason in ("invalid_request", "malformed_json"):
        assert value(series, "manylabel_updates_rejected_total", model="a", reason=reason) == 1
    assert not [labels for _, labels in series if ("model", "nobody") in labels]
    assert value(series, "manylabel_predict_duration_seconds_count") == 2
    assert value(series, "manylabel_predict_duration_seconds_bucket", le="5e-05") is not None
    assert value(series, "manylabel_update_duration_seconds_count") == 6
    assert value(series, "manylabel_model_labels", model="a") == 2
    assert value(series, "manylabel_model_features", model="a") == 1
    assert value(series, "manylabel_model_bytes", model="a") == client.get("/v1/models/a").json()["bytes"]
    assert value(series, "manylabel_queue_depth", model="a") == 0
    age = value(series, "manylabel_snapshot_age_seconds", model="a")
    assert age is not None
    assert 0 <= age < 600
    measures = client.get("/v1/models/a/metrics").json()
    for window in ("cumulative", "window"):
        score = value(series, "manylabel_score", model="a", measure="micro_f1", window=window)
        assert score == measures[window]["micro_f1"]
        baseline = value(series, "manylabel_baseline_score", model="a", measure="micro_f1", window=window)
        assert baseline == measures[window]["baseline"]["micro_f1"] > 0
    versions = [dict(labels)["version"] for name, labels in series if name == "manylabel_build_info"]
    assert versions == [client.get("/openapi.json").json()["info"]["version"]]


def test_metrics_have_no_names_of_features_and_labels(client: TestClient) -> None:
    address = create(client, "a")
    client.post(f"{address}/predict-update", json={"x": {"word=cat": 1}, "y": ["pets"]})
    text = client.get("/metrics").text
    assert "pets" not in text
    assert "word" not in text


def test_a_deleted_model_has_no_series(client: TestClient) -> None:
    item = {"x": {"a": 1}, "y": ["p"]}
    for name in ("a", "ab"):
        address = create(client, name)
        client.post(f"{address}/update", json=item)
        client.post(f"{address}/predict", json=item)
        client.post(f"{address}/update", json={})
    client.delete("/v1/models/a")
    text = client.get("/metrics").text
    assert 'model="a"' not in text
    assert 'model="ab"' in text

    create(client, "a")
    client.post("/v1/models/a/update", json=item)
    assert value(scrape(client), "manylabel_updates_total", model="a") == 1


def test_counters_survive_eviction_but_not_deletion(serve: Callable[..., Any]) -> None:
    item = {"x": {"a": 1}, "y": ["p"]}
    with serve(evict_idle_seconds=0.01) as client:
        create(client, "b")
        client.post(f"{create(client, 'a')}/update", json=item)
        client.post("/v1/models/b/update", json=item)
        eventually(lambda: not any(model["loaded"] for model in client.get("/v1/models").json()["models"]))
        series = scrape(client)
        assert value(series, "manylabel_updates_total", model="a") == 1
        assert value(series, "manylabel_model_labels", model="a") is None
        client.post("/v1/models/a/update", json=item)
        assert value(scrape(client), "manylabel_updates_total", model="a") == 2
        client.delete("/v1/models/a")
        assert value(scrape(client), "manylabel_updates_total", model="a") is None
        assert value(scrape(client), "manylabel_updates_total", model="b") == 1


def test_the_delay_of_labels_is_counted(client: TestClient) -> None:
    address = create(client, "a")
    kept = client.post(f"{address}/predict?keep=true", json={"x": {"a": 1}}).json()
    truth = {"id": kept["id"], "y": ["p"]}
    for _ in range(2):
        client.post(f"{address}/labels", json=truth, headers={"Idempotency-Key": "k"}).raise_for_status()
    assert client.post(f"{address}/labels", json=truth).status_code == 409
    series = scrape(client)
    assert value(series, "manylabel_label_delay_seconds_count") == 1
    assert value(series, "manylabel_label_delay_seconds_bucket", le="60.0") == 1
    assert 0 <= (value(series, "manylabel_label_delay_seconds_sum") or 0) < 60


def test_requests_are_counted_by_route(client: TestClient) -> None:
    for name in ("a", "b"):
        client.get(create(client, name))
    client.get("/v1/models/nobody")
    for path in ("/secret/1", "/secret/2", "/v1/models/a/b/c"):
        client.get(path)
    client.request("FETCH", "/v1/models/a")
    client.request("CATCH", "/secret/3")

    series = scrape(client)

    counted = {
        (labels["method"], labels["handler"], labels["status"]): count
        for name, labels_, count in ((name, labels, count) for (name, labels), count in series.items())
        if name == "http_requests_total" and (labels := dict(labels_))
    }
    assert counted[("GET", "/v1/models/{name}", "200")] == 2
    assert counted[("GET", "/v1/models/{name}", "404")] == 1
    assert counted[("POST", "/v1/models", "201")] == 2
    assert counted[("GET", "none", "404")] == 3
    assert counted[("other", "/v1/models/{name}", "405")] == 1
    assert counted[("other", "none", "404")] == 1
    duration = value(series, "http_request_duration_seconds_count", handler="/v1/models/{name}", method="GET")
    assert duration == 3
    assert "secret" not in client.get("/metrics").text


def test_rejections_are_counted_by_code(client: TestClient) -> None:
    address = create(client, "a")
    for _ in range(2):
        client.get("/v1/models/nobody")
    client.head("/v1/models/nobody")
    client.post(f"{address}/update", content=b"{", headers={"Content-Type": "application/json"})
    client.post(f"{address}/update", json={"x": {"a": 1}, "y": ["p"]}).raise_for_status()
    client.get("/livez", headers={"Host": "evil.example.org"})
    client.get("/v1/jobs?state=nonsense")
    series = scrape(client)
    counted = {dict(labels)["reason"]: count for (name, labels), count in series.items() if "rejections" in name}
    assert counted == {"model_not_found": 3, "malformed_json": 1, "host_not_allowed": 1, "invalid_request": 1}


def test_requests_in_progress_are_counted(client: TestClient) -> None:
    assert value(scrape(client), "http_requests_inprogress") == 1, "the scrape itself"
    for path in ("/v1/models/nobody", "/nowhere"):
        client.get(path)
    assert value(scrape(client), "http_requests_inprogress") == 1, "one that failed has ended"
    address = create(client, "a")
    context = client.app.state.context  # type: ignore[attr-defined]

    def lines() -> Iterator[bytes]:
        eventually(lambda: context.telemetry.in_progress == 1)  # the stream is the only request in progress
        yield b'{"x": {"a": 1}, "y": ["p"]}\n'

    client.post(f"{address}/stream", content=lines(), headers={"Content-Type": "application/x-ndjson"})
    assert context.telemetry.in_progress == 0


def test_the_status_of_the_server_is_shown(client: TestClient) -> None:
    create(client, "a")
    series = scrape(client)
    assert value(series, "manylabel_log_lag_entries", model="a") == 0
    assert value(series, "manylabel_ready") == 1
    assert value(series, "manylabel_storage_gone_seconds") == 0
    assert value(series, "manylabel_jobs", state="failed") == 0, "states without jobs are there too"
    assert any(name == "python_info" for name, _ in series)


def test_the_bytes_of_stored_predictions_are_shown(client: TestClient) -> None:
    create(client, "keeping")
    assert value(scrape(client), "manylabel_kept_prediction_bytes", model="keeping") == 0
    sizes = []
    for _ in range(2):
        client.post("/v1/models/keeping/predict?keep=true", json={"x": {"a": 1}}).raise_for_status()
        sizes.append(value(scrape(client), "manylabel_kept_prediction_bytes", model="keeping"))
    assert sizes[0] is not None
    assert sizes == [sizes[0], 2 * sizes[0]]
    assert sizes[0] > 0
