"""From what an online model has learnt to a version of another, over HTTP."""

import numpy as np
from tests.service.jobs.conftest import songs

from manylabel_core.batch import M3L


def test_a_model_is_trained_on_the_latest_examples_of_a_stream(serve, create):
    data = songs(60)
    items = [
        {"x": row, "y": [name for name, on in zip(data.label_names, labels, strict=True) if on]}
        for row, labels in zip(data.X.tolist(), data.Y.toarray(), strict=True)
    ]
    with serve(job_niceness=0) as client:
        address = create(client, "online", features=5, labels=list(data.label_names))
        for part in (items[:25], items[25:]):
            assert client.post(f"{address}/update", json={"examples": part}).status_code == 200
        order = {"trainer": "m3l", "data": {"stream": "online", "last": 40}, "model": "batch"}
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
        expected = M3L(C=C).fit(data.X[20:], data.Y[20:])
        told = client.post("/v1/models/batch/predict", json={"examples": items[:5]}).json()["predictions"]
        scores = [[each["scores"][name] for name in data.label_names] for each in told]
        assert np.array_equal(np.array(scores), expected.decision_function(data.X[:5]))
        log = client.get(f"{answer.headers['location']}/log").json()["lines"]
        assert any(line["text"] == "took 40 examples from the stream of model online" for line in log)
        assert 'manylabel_jobs{state="succeeded"} 1.0' in client.get("/metrics").text
