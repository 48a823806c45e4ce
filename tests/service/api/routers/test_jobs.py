"""Jobs over HTTP, on a server that runs none: submit, list, watch, cancel and retry."""

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import ok, refused
from tests.support.cases import for_each
from tests.support.server_process import ANSWER_SECONDS

from manylabel_service.jobs.spec.schemas import Job
from manylabel_service.jobs.spec.trainers import PARAMS

Serve = Callable[..., contextlib.AbstractContextManager[TestClient]]

CSV = "a,b,rock,jazz\n" + "".join(f"{i % 3},{i % 5},{i % 2},{(i + 1) % 2}\n" for i in range(20))
VIEWS = "".join(
    json.dumps({"x": {"views": {"text": [i % 3, 1], "sound": [i % 5, 2, 3]}}, "y": ["rock"] if i % 2 else ["jazz"]})
    + "\n"
    for i in range(20)
)
SPEC: dict[str, Any] = {"trainer": "m3l", "data": {"dataset": "songs"}, "model": "songs-m3l"}


def upload(client: TestClient, name: str = "songs", split: str = "&split=15") -> None:
    query = f"/v1/datasets?name={name}&format=csv&label_columns=2{split}"
    ok(client.post(query, content=CSV, headers={"Content-Type": "text/csv"}), 201)


@pytest.fixture(scope="module")
def idle(serve: Serve) -> Iterator[TestClient]:
    """A server that queues jobs and runs none, with the datasets songs and views, and an online model."""
    with serve(job_slots=0, max_queued_jobs=1000) as client:
        upload(client)
        headers = {"Content-Type": "application/x-ndjson"}
        ok(client.post("/v1/datasets?name=views&format=ndjson", content=VIEWS, headers=headers), 201)
        client.post("/v1/models", json={"name": "tags", "algorithm": "falt"}).raise_for_status()
        client.post("/v1/models/tags/update", json={"x": {"a": 1}, "y": ["rock"]}).raise_for_status()
        yield client


def submit(client: TestClient, **changes: Any) -> dict[str, Any]:
    return dict(ok(client.post("/v1/jobs", json={**SPEC, **changes}), 202))


WIDE = "".join(json.dumps({"x": [i, 1], "y": [f"t{i}", f"u{i}"]}) + "\n" for i in range(10))


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [
        ("wide", {}, "/data/dataset"),
        ("songs", {"data": {"dataset": "songs", "split": "all"}, "holdout": 0.95}, "/holdout"),
        ("few", {"search": {"kind": "grid", "folds": 2, "params": {"C": [1.0, 2.0]}}}, "/search/folds"),
    ],
)
def test_a_job_with_fewer_rows_than_labels_is_refused(
    idle: TestClient, name: str, changes: dict[str, Any], field: str
) -> None:
    headers = {"Content-Type": "application/x-ndjson"}
    content = {"wide": WIDE, "few": "".join(WIDE.splitlines(keepends=True)[:1]) + '{"x":[1,1],"y":[]}\n'}.get(name)
    if content is not None:
        ok(idle.post(f"/v1/datasets?name={name}&format=ndjson", content=content, headers=headers), 201)
    answer = idle.post("/v1/jobs", json={**SPEC, "data": {"dataset": name}, **changes})
    refused(answer, 422, "invalid_request", field)


# -- submitting ---------------------------------------------------------------------------------------


def test_a_job_is_queued_with_all_defaults(idle: TestClient) -> None:
    answer = idle.post("/v1/jobs", json={**SPEC, "params": {"C": 0.5}})
    assert answer.status_code == 202
    job = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
    assert (job["state"], job["params"]["C"], job["params"]["kernel"]) == ("queued", 0.5, "linear")
    assert (job["seed"], job["promote"], job["search"], job["result"], job["error"]) == (
        0,
        "if_better",
        None,
        None,
        None,
    )
    assert idle.get(answer.headers["location"]).json() == job


def test_the_newest_jobs_are_listed_first_and_by_state(idle: TestClient) -> None:
    first, second = (submit(idle)["id"] for _ in range(2))
    idle.delete(f"/v1/jobs/{first}").raise_for_status()
    listed = idle.get("/v1/jobs").json()
    assert [job["id"] for job in listed["jobs"]][:2] == [second, first]
    assert first in [job["id"] for job in idle.get("/v1/jobs?state=cancelled").json()["jobs"]]
    assert first not in [job["id"] for job in idle.get("/v1/jobs?state=queued").json()["jobs"]]
    assert [job["id"] for job in idle.get("/v1/jobs?limit=1").json()["jobs"]] == [second]


@for_each("query", ["state=done", "limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "other=1"])
def test_bad_parameters_of_the_list_are_refused(idle: TestClient, query: str) -> None:
    refused(idle.get(f"/v1/jobs?{query}"), 422, "invalid_request", query.partition("=")[0])


def test_every_trainer_is_described_with_its_defaults(idle: TestClient) -> None:
    answer = idle.get("/v1/trainers").json()
    assert {one["name"] for one in answer["trainers"]} == PARAMS.keys()
    assert PARAMS.keys() >= {"m3l", "mlrl", "ssmlrl", "prml", "prbr", "lsa_mml"}
    for one in answer["trainers"]:
        assert one["title"]
        assert one["needs"]
        assert one["params"]["additionalProperties"] is False
        assert one["weights"] == (one["name"] != "lsa_mml")
        data = {"dataset": "views" if "views" in one["needs"] else "songs"}
        job = submit(idle, trainer=one["name"], data=data)
        for name, schema in one["params"]["properties"].items():
            assert schema["description"], f"{one['name']}: {name}"
            assert job["params"][name] == schema["default"]
        searching = submit(idle, trainer=one["name"], data=data, search={"kind": "grid"})
        assert searching["search"]["params"] == one["search"]
        assert {*one["search"], *one["rbf_search"]} <= one["params"]["properties"].keys()


def test_weights_are_refused_for_a_trainer_that_cannot_use_them(idle: TestClient) -> None:
    lines = "".join(json.dumps({**json.loads(line), "weight": 2}) + "\n" for line in VIEWS.splitlines())
    headers = {"Content-Type": "application/x-ndjson"}
    assert idle.post("/v1/datasets?name=heavy&format=ndjson", content=lines, headers=headers).status_code == 201
    job = {**SPEC, "trainer": "lsa_mml", "data": {"dataset": "heavy"}}
    problem = refused(idle.post("/v1/jobs", json=job), 422, "invalid_request", "/data/dataset")
    assert problem["errors"][0]["detail"] == (
        "must have no weights, because lsa_mml does not support weights: choose another dataset, or one of m3l, mlrl, "
        "ssmlrl, prml, prbr"
    )
    submit(idle, data={"dataset": "heavy"})
    submit(idle, trainer="lsa_mml", data={"dataset": "views"}, holdout={"dataset": "heavy"})


def test_the_parameters_of_every_trainer_are_in_the_description(idle: TestClient) -> None:
    schemas = idle.get("/openapi.json").json()["components"]["schemas"]
    named = {one["$ref"].rsplit("/", 1)[1] for one in schemas["JobSpec"]["properties"]["params"]["anyOf"]}
    assert named == {params.__name__ for params in PARAMS.values()}
    assert named <= schemas.keys()


def test_the_example_of_the_description_is_a_job(idle: TestClient) -> None:
    body = idle.get("/openapi.json").json()["paths"]["/v1/jobs"]["post"]["requestBody"]
    example = body["content"]["application/json"]["example"]
    upload(idle, example["data"]["dataset"])
    assert idle.post("/v1/jobs", json=example).status_code == 202


# -- bad input ----------------------------------------------------------------------------------------

GRID = {"kind": "grid", "params": {"C": [0.1, 1]}}
RANDOM = {"kind": "random", "trials": 3, "params": {"C": {"low": 0.1, "high": 1}}}


@for_each(
    ("changes", "pointer", "detail"),
    [
        ({"trainer": "svm"}, "/trainer", "must be one of .*m3l.*mlrl"),
        ({"params": {"c": 1}}, "/params/c", "is unknown; known fields are .*C.*tol"),
        ({"params": {"C": 0}}, "/params/C", "must be > 0"),
        ({"params": {"R": [[1.0, 0.0], [1.0]]}}, "/params/R", "one for each label"),
        ({"params": []}, "/params", "must be an object"),
        ({"seed": -1}, "/seed", "must be >= 0"),
        ({"data": {"dataset": "none"}}, None, "none"),
        ({"data": {"dataset": "songs", "split": "half"}}, "/data/split", "must be one of train, test, all"),
        ({"data": {"dataset": "songs", "last": 3}}, "/data/last", "known fields are dataset, split, unlabelled"),
        ({"data": {"stream": "tags"}}, "/data/last", "is missing"),
        ({"data": {}}, "/data/dataset", "is missing"),
        ({"data": "songs"}, "/data", "must be an object$"),
        ({"data": {"stream": "nobody", "last": 5}}, None, "nobody"),
        ({"holdout": 1.0}, "/holdout", "must be < 1"),
        ({"holdout": 1e-6}, "/holdout", "must leave rows for training and for evaluation"),
        ({"holdout": {"dataset": "songs", "split": "x"}}, "/holdout/split", "must be one of"),
        ({"holdout": {"dataset": "views"}}, "/holdout/dataset", "must have the views x; views has "),
        ({"search": {**GRID, "measure": "accuracy"}}, "/search/measure", "must be 'micro_f1'"),
        ({"search": {**GRID, "kind": "bayes"}}, "/search", "one of 'grid', 'random'"),
        ({"search": {"params": {"C": [1]}}}, "/search", "must have 'kind'"),
        ({"search": {**GRID, "params": {"C": [1, -1]}}}, "/search/params/C/1", "must be greater than 0"),
        ({"search": {**GRID, "folds": 1}}, "/search/folds", "must be >= 2"),
        ({"search": {**GRID, "trials": 3}}, "/search/trials", "is unknown; known fields are folds"),
        ({"search": {**RANDOM, "trials": 0}}, "/search/trials", "must be >= 1"),
        ({"search": {**RANDOM, "params": {"C": {"low": 1}}}}, "/search/params/C/high", "is missing"),
        ({"model": "Songs!"}, "/model", "must have 1 to 64 lower-case letters"),
        ({"model": "tags"}, None, "learns online"),
        ({"promote": True}, "/promote", "must be 'if_better', 'always' or 'never'"),
        ({"promoted": True}, "/promoted", "is unknown; known fields are trainer, params, data"),
        ({"trainer": "lsa_mml"}, "/data/dataset", "must have several views for lsa_mml"),
        ({"trainer": "lsa_mml", "data": {"stream": "tags", "last": 5}}, "/data/stream", "several views"),
    ],
    ids=json.dumps,
)
def test_a_bad_job_is_refused_at_its_place(
    idle: TestClient, changes: dict[str, Any], pointer: str | None, detail: str
) -> None:
    before = idle.get("/v1/jobs?limit=1000").json()
    answer = idle.post("/v1/jobs", json={**SPEC, **changes})
    problem = answer.json()
    assert re.search(detail, problem["detail"]), problem["detail"]
    assert answer.headers["content-type"] == "application/problem+json"
    if pointer is None:
        assert (answer.status_code, problem["errors"]) in [(404, []), (409, [])]
    else:
        assert answer.status_code == 422
        assert pointer in [one["pointer"] for one in problem["errors"]]
        assert all(one["pointer"].startswith(pointer[:14]) for one in problem["errors"]), "nothing else is wrong"
    assert idle.get("/v1/jobs?limit=1000").json() == before


def test_a_body_that_is_no_job_is_refused(idle: TestClient) -> None:
    refused(idle.post("/v1/jobs", content=b"{"), 415, "unsupported_media_type")
    headers = {"Content-Type": "application/json"}
    refused(idle.post("/v1/jobs", content=b"{", headers=headers), 400, "malformed_json")
    refused(idle.post("/v1/jobs", json=[]), 422, "invalid_request", "")
    refused(idle.post("/v1/jobs", json={}), 422, "invalid_request", "/trainer", "/data", "/model")


# -- retries -----------------------------------------------------------------------


def test_a_retry_with_its_key_is_the_same_job(idle: TestClient) -> None:
    key = {"Idempotency-Key": "job-1"}
    first, again = (idle.post("/v1/jobs", json=SPEC, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert first.headers["location"] == again.headers["location"]
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    other = idle.post("/v1/jobs", json={**SPEC, "seed": 1}, headers=key)
    refused(other, 422, "idempotency_key_reused")
    refused(
        idle.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "a b"}), 422, "invalid_request", "Idempotency-Key"
    )
    assert submit(idle)["id"] != submit(idle)["id"], "without a key, each is one"


def test_concurrent_retries_are_one_job(idle: TestClient) -> None:
    def send(_: int) -> Any:
        return idle.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": "at-once"})

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(8)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1


def test_jobs_and_their_keys_survive_a_restart(serve: Serve, tmp_path: Path) -> None:
    key = {"Idempotency-Key": "over"}
    with serve(tmp_path / "data", job_slots=0) as client:
        upload(client)
        job = client.post("/v1/jobs", json=SPEC, headers=key).json()
    with serve(tmp_path / "data", job_slots=0) as client:
        assert client.get("/v1/jobs").json() == {"jobs": [job]}
        again = client.post("/v1/jobs", json=SPEC, headers=key)
        assert (again.json(), again.headers["idempotent-replayed"]) == (job, "true")


def test_the_number_of_queued_jobs_is_limited(serve: Serve) -> None:
    with serve(job_slots=0, max_queued_jobs=1) as client:
        upload(client)
        job = submit(client)
        answer = client.post("/v1/jobs", json=SPEC)
        refused(answer, 429, "jobs_full")
        assert int(answer.headers["retry-after"]) >= 1
        client.delete(f"/v1/jobs/{job['id']}").raise_for_status()
        submit(client)
        refused(client.post(f"/v1/jobs/{job['id']}/retry"), 429, "jobs_full")


# -- one job ------------------------------------------------------------------------------------------


def test_a_cancelled_job_can_be_retried(idle: TestClient) -> None:
    address = f"/v1/jobs/{submit(idle)['id']}"
    refused(idle.post(f"{address}/retry"), 409, "job_not_retryable")
    cancelled = idle.delete(address)
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    assert cancelled.json()["ended"] is not None
    refused(idle.delete(address), 409, "job_ended")
    again = idle.post(f"{address}/retry")
    assert (again.status_code, again.json()["state"], again.json()["ended"]) == (202, "queued", None)
    assert idle.get(address).json() == again.json()


def test_a_dataset_that_a_job_needs_cannot_be_deleted(idle: TestClient) -> None:
    upload(idle, "needed")
    upload(idle, "held")
    job = submit(idle, data={"dataset": "needed"}, holdout={"dataset": "held"})
    for name in ("needed", "held"):
        refused(idle.delete(f"/v1/datasets/{name}"), 409, "dataset_in_use")
    idle.delete(f"/v1/jobs/{job['id']}").raise_for_status()
    for name in ("needed", "held"):
        assert idle.delete(f"/v1/datasets/{name}").status_code == 204
    refused(idle.post(f"/v1/jobs/{job['id']}/retry"), 404, "dataset_not_found")
    assert idle.get(f"/v1/jobs/{job['id']}").json()["state"] == "cancelled"


@for_each("id", ["nobody", "0" * 26, "..", "%20", "a" * 300])
def test_an_unknown_job_is_not_found(idle: TestClient, id: str) -> None:
    for method, path in (("GET", ""), ("GET", "/log"), ("GET", "/events"), ("DELETE", ""), ("POST", "/retry")):
        answer = idle.request(method, f"/v1/jobs/{id}{path}")
        assert answer.status_code in (404, 405), answer.text
        if id != "..":
            assert answer.json()["code"] == "job_not_found"


# -- watching -----------------------------------------------------------------------------------------


def events_of(text: str) -> list[dict[str, str]]:
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]


def test_the_events_of_a_job_end_with_it(idle: TestClient) -> None:
    job = submit(idle)
    address = f"/v1/jobs/{job['id']}"
    texts: list[str] = []
    watching = threading.Thread(target=lambda: texts.append(idle.get(f"{address}/events").text))
    watching.start()
    idle.delete(address).raise_for_status()
    watching.join(120)
    assert not watching.is_alive()
    states = [event for event in events_of(texts[0]) if event["event"] == "state"]
    assert json.loads(states[-1]["data"])["state"] == "cancelled"
    Job.model_validate_json(states[-1]["data"], strict=True)
    assert [int(event["id"]) for event in states] == sorted(int(event["id"]) for event in states)

    lines = idle.get(f"{address}/log").json()
    assert [json.loads(event["data"]) for event in events_of(texts[0]) if event["event"] == "log"] == lines["lines"]
    resumed = idle.get(f"{address}/events", headers={"Last-Event-ID": states[-1]["id"]})
    assert resumed.headers["content-type"].startswith("text/event-stream")
    assert {event["event"] for event in events_of(resumed.text)} == {"state"}, "what was read before comes no more"


@for_each("id", ["", "x", "-1", "1.5", "9" * 19])
def test_a_wrong_last_event_id_is_refused(idle: TestClient, id: str) -> None:
    answer = idle.get(f"/v1/jobs/{submit(idle)['id']}/events", headers={"Last-Event-ID": id})
    refused(answer, 422, "invalid_request", "Last-Event-ID")


def test_a_server_stops_while_a_job_is_watched(server_process: Callable[..., Any]) -> None:
    server = server_process("--job-slots", "0").start()
    with httpx2.Client(base_url=server.url, trust_env=False, timeout=ANSWER_SECONDS) as client:
        query = "/v1/datasets?name=songs&format=csv&label_columns=2"
        client.post(query, content=CSV, headers={"Content-Type": "text/csv"}).raise_for_status()
        job = client.post("/v1/jobs", json=SPEC).json()
        with client.stream("GET", f"/v1/jobs/{job['id']}/events") as answer:
            lines = answer.iter_lines()
            assert any(line == "event: state" for line in lines)
            assert server.stop() == 0
            assert "event: state" not in list(lines), "it ends, and the job has not"
    assert "Traceback" not in server.log_tail()
