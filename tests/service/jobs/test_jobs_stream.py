"""Jobs that learn from the stream of an online model, over HTTP."""

import numpy as np
import pytest
from tests.service.jobs.conftest import songs

from manylabel_core.batch import M3L

pytestmark = pytest.mark.usefixtures("programs")  # a job is fitted by a process of its own


def test_a_model_is_trained_on_the_latest_examples_of_a_stream(serve, create):
    data = songs(60)
    items = [
        {"x": row, "y": [name for name, on in zip(data.label_names, labels, strict=True) if on]}
        for row, labels in zip(data.X.tolist(), data.Y.toarray(), strict=True)
    ]
    with serve() as client:
        address = create(client, "online", features=5, labels=list(data.label_names))
        for part in (items[:25], items[25:]):
            assert client.post(f"{address}/update", json={"examples": part}).status_code == 200
        order = {"trainer": "m3l", "data": {"stream": "online", "last": 40}, "model": "batch", "promote": "always"}
        order["search"] = {"kind": "grid", "params": {"C": [1e-9, 2.0]}, "folds": 2, "measure": "macro_auc"}
        answer = client.post("/v1/jobs", json=order)
        assert answer.status_code == 202, answer.text
        client.get(f"{answer.headers['location']}/events")  # ends when the job does
        [job] = client.get("/v1/jobs").json()["jobs"]
        assert job["state"] == "succeeded", job["error"]
        assert (job["result"]["rows"], job["result"]["held_out"]) == (40, None)
        trials = job["result"]["trials"]
        assert [trial["params"]["C"] for trial in trials] == [1e-9, 2.0]
        C = max(trials, key=lambda trial: trial["score"])["params"]["C"]
        assert job["result"]["params"]["C"] == C
        assert job["progress"]["trials"] == {"done": 2, "total": 2}
        expected = M3L(C=C, scaling="auto").fit(data.X[20:], data.Y[20:])
        told = client.post("/v1/models/batch/predict", json={"examples": items[:5]}).json()["predictions"]
        scores = [[each["scores"][name] for name in data.label_names] for each in told]
        assert np.array_equal(np.array(scores), expected.decision_function(data.X[:5]))
        log = client.get(f"{answer.headers['location']}/log").json()["lines"]
        text = "40 of 40 asked; 60 were learnt"
        assert any(line["text"] == f"took examples from the stream of model online: {text}" for line in log)
        assert job["sampled"] == {
            "asked": 40,
            "rows": 40,
            "learnt": 60,
            "partial": 0,
            "rolled_back": 0,
            "position": "2",
            "text": text,
        }
        assert 'manylabel_jobs{state="succeeded"} 1.0' in client.get("/metrics").text


def test_a_job_reports_its_rows_and_fails_with_too_few(serve, create):
    items = [{"x": [float(i % 7), float(i % 3)], "y": ["a"] if i % 7 > 3 else ["b"]} for i in range(201)]
    order = {"trainer": "m3l", "data": {"stream": "online", "last": 10_000}, "model": "batch", "promote": "always"}
    text = "56 of 10,000 asked; 201 were learnt, older ones are no longer in the log"

    def done(client, **data):
        answer = client.post("/v1/jobs", json={**order, "data": {**order["data"], **data}})
        assert answer.status_code == 202, answer.text
        client.get(f"{answer.headers['location']}/events")  # ends when the job does
        job = client.get(answer.headers["location"]).json()
        return job, [line["text"] for line in client.get(f"{answer.headers['location']}/log").json()["lines"]]

    with serve(history_bytes=0, snapshot_retention_count=2) as client:
        address = create(client, "online")
        for part in (items[:100], items[100:145], items[145:]):
            assert client.post(f"{address}/update", json={"examples": part}).status_code == 200
            assert client.post(f"{address}/snapshots").status_code == 201
        job, log = done(client)
        assert (job["state"], job["error"]["code"], job["sampled"]) == ("failed", "too_few_examples", None)
        assert job["error"]["detail"] == f"{text}; the job needs 201: request fewer, or lower the minimum"
        assert any(text in line for line in log)
        job, _ = done(client, minimum=57)
        assert job["error"]["detail"] == f"{text}; the job needs 57: request fewer, or lower the minimum"
        job, log = done(client, minimum=56)
        assert (job["state"], job["result"]["rows"], job["sampled"]["text"]) == ("succeeded", 56, text)
        assert (job["sampled"]["asked"], job["sampled"]["rows"], job["sampled"]["learnt"]) == (10_000, 56, 201)
        assert any(text in line for line in log)
        [version] = client.get("/v1/models/batch/versions").json()["versions"]
        assert version["sampled"] == job["sampled"]
        wrong = client.post("/v1/jobs", json={**order, "data": {"stream": "online", "last": 5, "minimum": 6}})
        assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/data")


def test_a_job_on_a_stream_without_rows_fails_with_the_reason(serve, create):
    order = {"trainer": "m3l", "data": {"stream": "online", "last": 10}, "model": "batch"}
    with serve() as client:
        address = create(client, "online", labels=["a", "b"])

        def failure():
            answer = client.post("/v1/jobs", json=order)
            client.get(f"{answer.headers['location']}/events")  # ends when the job does
            return client.get(answer.headers["location"]).json()["error"]

        untaught = failure()
        client.post(f"{address}/update", json={"x": [1.0, 2.0], "y": {"a": True}}).raise_for_status()
        partial = failure()
    assert untaught["code"] == partial["code"] == "stream_unavailable"
    assert "history_bytes" not in untaught["detail"]
    assert "history_bytes" not in partial["detail"], "there is nothing else that the log could have kept"
    assert "partial" in partial["detail"]


def test_a_job_gets_examples_from_before_the_retained_snapshots(serve, create):
    items = [{"x": [float(i % 7), float(i % 3)], "y": ["a"] if i % 7 > 3 else ["b"]} for i in range(201)]
    with serve() as client:
        address = create(client, "online")
        for start in range(0, 201, 20):
            client.post(f"{address}/update", json={"examples": items[start : start + 20]}).raise_for_status()
            client.post(f"{address}/snapshots").raise_for_status()
        order = {"trainer": "m3l", "data": {"stream": "online", "last": 10_000}, "model": "batch", "promote": "always"}
        answer = client.post("/v1/jobs", json=order)
        client.get(f"{answer.headers['location']}/events")
        job = client.get(answer.headers["location"]).json()
        assert (job["state"], job["result"]["rows"]) == ("succeeded", 201), job["error"]
        assert job["sampled"]["text"] == "201 of 10,000 asked; 201 were learnt"
