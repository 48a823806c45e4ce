"""A key sees only the models, datasets and jobs that it is for."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tests.service.access.keyed import Keyed
from tests.service.api.answers import refused
from tests.support.cases import for_each

CSV = "a,b,y\n1,2,1\n2,1,0\n3,3,1\n4,1,0\n"


class Both(NamedTuple):
    """An application with two of each thing, and a key for those whose names begin with ``mine``."""

    keyed: Keyed
    key: str
    jobs: dict[str, str]

    def call(self, method: str, path: str, **options: Any) -> Any:
        return self.keyed.call(method, path, self.key, **options)


@pytest.fixture(scope="module")
def both(keyed: Keyed) -> Iterator[Both]:
    jobs = {}
    for whose in ("mine", "theirs"):
        for name in (f"{whose}-1", f"{whose}-online"):
            assert keyed.call("post", "/v1/models", json={"name": name, "algorithm": "falt"}).status_code == 201
            keyed.call("post", f"/v1/models/{name}/update", json={"x": [1], "y": ["a"]})
        query = f"name={whose}-data&format=csv&label_columns=1"
        uploaded = keyed.client.post(
            f"/v1/datasets?{query}", content=CSV, headers={"api-key": keyed.admin, "Content-Type": "text/csv"}
        )
        assert uploaded.status_code == 201, uploaded.text
        job = keyed.call("post", "/v1/jobs", json=order(f"{whose}-trained", f"{whose}-data"))
        assert job.status_code == 202, job.text
        jobs[whose] = job.json()["id"]
    yield Both(keyed, keyed.make(models=["mine*"])["key"], jobs)
    for id in jobs.values():
        keyed.call("delete", f"/v1/jobs/{id}")


def order(model: str, dataset: str, **fields: Any) -> dict[str, Any]:
    return {"trainer": "m3l", "model": model, "data": {"dataset": dataset}, **fields}


def test_lists_have_what_the_key_is_for(both: Both) -> None:
    models = [model["name"] for model in both.call("get", "/v1/models").json()["models"]]
    assert {"mine-1", "mine-online"} <= set(models)
    assert all(name.startswith("mine") for name in models)
    assert [data["name"] for data in both.call("get", "/v1/datasets").json()["datasets"]] == ["mine-data"]
    assert [job["id"] for job in both.call("get", "/v1/jobs").json()["jobs"]] == [both.jobs["mine"]]
    assert len(both.keyed.call("get", "/v1/jobs").json()["jobs"]) == 2


def test_metrics_have_the_models_that_the_key_is_for(both: Both) -> None:
    text = both.call("get", "/metrics").text
    assert 'manylabel_model_bytes{model="mine-1"}' in text
    assert "http_requests_total" in text
    assert "theirs" not in text
    assert "theirs" in both.keyed.call("get", "/metrics").text


def test_readiness_has_details_for_readers(both: Both) -> None:
    assert both.call("get", "/readyz").json() == {"ready": True, "failed": []}
    assert both.keyed.client.get("/readyz").json() == {"ready": True}
    assert both.keyed.call("get", "/readyz", both.keyed.keys["predict"]).json() == {"ready": True}


def test_jobs_for_other_models_are_neither_shown_nor_changed(both: Both) -> None:
    path = f"/v1/jobs/{both.jobs['theirs']}"
    reads, writes = (
        [("get", f"{path}{part}") for part in ("", "/log", "/events")],
        [("delete", path), ("post", f"{path}/retry")],
    )
    for method, call in (*reads, *writes):
        answer = both.call(method, call)
        refused(answer, 403, "model_not_allowed")
        assert "theirs-trained" not in answer.text
    for part in ("", "/log"):
        assert both.call("get", f"/v1/jobs/{both.jobs['mine']}{part}").status_code == 200


def test_a_job_is_retried_only_by_a_key_for_all_that_it_names(both: Both) -> None:
    job = both.keyed.call("post", "/v1/jobs", json=order("mine-trained", "theirs-data")).json()["id"]
    assert both.keyed.call("delete", f"/v1/jobs/{job}").status_code == 200
    refused(both.call("post", f"/v1/jobs/{job}/retry"), 403, "model_not_allowed")
    assert both.keyed.call("post", f"/v1/jobs/{job}/retry").status_code == 202
    assert both.keyed.call("delete", f"/v1/jobs/{job}").status_code == 200


@for_each(
    "body",
    [
        order("theirs-x", "mine-data"),
        order("mine-x", "theirs-data"),
        order("mine-x", "mine-data", data={"dataset": "mine-data", "unlabelled": {"dataset": "theirs-data"}}),
        order("mine-x", "mine-data", holdout={"dataset": "theirs-data"}),
        order("mine-x", "mine-data", data={"stream": "theirs-online", "last": 10}),
    ],
)
def test_a_job_names_only_what_the_key_is_for(both: Both, body: dict[str, Any]) -> None:
    refused(both.call("post", "/v1/jobs", json=body), 403, "model_not_allowed")


def test_models_and_datasets_are_created_only_where_the_key_is_for(both: Both) -> None:
    make = {"name": "theirs-new", "algorithm": "falt"}
    refused(both.call("post", "/v1/models", json=make), 403, "model_not_allowed")
    begin = {"name": "mine-new", "algorithm": "falt", "init_from": {"model": "theirs-trained"}}
    refused(both.call("post", "/v1/models", json=begin), 403, "model_not_allowed")
    upload = both.call("post", "/v1/datasets?name=theirs-new&format=csv&label_columns=1", content=CSV)
    refused(upload, 403, "model_not_allowed")


def test_pages_of_models_have_what_the_key_is_for(both: Both) -> None:
    for query in ("", "sort=used&"):
        names, after = list[str](), ""
        while True:
            page = both.call("get", f"/v1/models?{query}limit=1&{after}").json()
            names += [model["name"] for model in page["models"]]
            if "next" not in page:
                break
            after = f"after={page['next']}"
        assert {"mine-1", "mine-online"} <= set(names)
        assert all(name.startswith("mine") for name in names)
        assert len(names) == len(set(names))
    assert both.call("get", "/v1/models?prefix=theirs").json()["models"] == []


def test_a_key_deletes_and_exports_only_prefixes_that_it_is_for(keyed: Keyed) -> None:
    key = keyed.make(models=["own-*"])["key"]
    for name in ("own-1", "own-2", "own"):
        assert keyed.call("post", "/v1/models", json={"name": name, "algorithm": "falt"}).status_code == 201
    for prefix in ("own", "o", "other-"):
        refused(keyed.call("delete", f"/v1/models?prefix={prefix}", key), 403, "model_not_allowed")
        refused(keyed.call("get", f"/v1/export?prefix={prefix}", key), 403, "model_not_allowed")
    assert keyed.call("get", "/v1/export?prefix=own-", key).status_code == 200
    assert keyed.call("delete", "/v1/models?prefix=own-", key).json() == {"deleted": ["own-1", "own-2"]}
    assert keyed.call("get", "/v1/models/own").status_code == 200
