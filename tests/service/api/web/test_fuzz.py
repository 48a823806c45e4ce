"""No body makes the server fail, and only good ones change a model."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.service.api.answers import create

FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

numbers = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.integers(-(2**70), 2**70), st.integers(-3, 20))
names = st.one_of(
    st.sampled_from(["a", "b", "x", "y", "indices", "values", "named", "[key]", "examples", "", "~/"]),
    st.text(max_size=8),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, names)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
features = st.one_of(
    st.lists(numbers, max_size=5),
    st.dictionaries(names, numbers, max_size=5),
    st.fixed_dictionaries({"indices": st.lists(numbers, max_size=4), "values": st.lists(numbers, max_size=4)}),
    anything,
)
labels = st.one_of(st.lists(names, max_size=4), st.dictionaries(names, st.booleans(), max_size=4), anything)
items = st.one_of(
    st.fixed_dictionaries({"x": features}, optional={"y": labels}),
    st.fixed_dictionaries({"x": features, "y": labels}),
    anything,
)
bodies = st.one_of(items, st.fixed_dictionaries({"examples": st.lists(items, max_size=3) | anything}))
specs = st.fixed_dictionaries(
    {"name": names | st.just("fuzz"), "algorithm": st.sampled_from(["falt", "salt", "kernel_falt"]) | scalars},
    optional={
        "params": st.dictionaries(st.sampled_from(["eta", "passes", "delta", "gamma", "budget"]), scalars) | anything,
        "features": anything,
        "labels": anything,
        "scaling": scalars,
        "window": scalars,
    },
)
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def fuzzed(client: TestClient) -> dict[str, str]:
    """Models of each algorithm and input kind."""
    addresses = {}
    for algorithm in ("falt", "salt", "kernel_falt"):
        for form, first in (("named", {"a": 1}), ("sparse", {"indices": [2], "values": [1]})):
            address = create(client, f"{algorithm}.{form}", algorithm=algorithm)
            client.post(f"{address}/update", json={"x": first, "y": ["p"]}).raise_for_status()
            addresses[f"{algorithm} {form}"] = address
    return addresses


def post(client: TestClient, path: str, body: Any) -> Any:
    answer = client.post(path, content=json.dumps(body).encode(), headers=JSON)
    assert answer.status_code != 500, answer.text
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.status_code in (400, 409, 413, 422, 507), answer.text
    return answer


@FUZZ
@given(body=bodies, which=st.integers(0, 5), operation=st.sampled_from(["predict", "update", "predict-update"]))
def test_any_body_is_learnt_or_refused(
    client: TestClient, fuzzed: dict[str, str], body: Any, which: int, operation: str
) -> None:
    address = list(fuzzed.values())[which]
    before = client.get(address).json()
    answer = post(client, f"{address}/{operation}", body)
    learnt = operation != "predict" and answer.status_code == 200
    after = client.get(address).json()
    if learnt:
        n = len(body["examples"]) if "examples" in body else 1
        assert after["updates"] == answer.json()["updates"] == before["updates"] + n
    else:
        assert after == before
    # The model still predicts.
    for x in ({"a": 1}, {"indices": [2], "values": [1]}):
        probe = post(client, f"{address}/predict", {"x": x})
        if probe.status_code == 200:
            assert all(score is not None for score in probe.json()["scores"].values())


@FUZZ
@given(raw=st.binary(max_size=60) | st.text(alphabet='{}[]":,0123456789.eE+-\\ truefalsn', max_size=60).map(str.encode))
def test_any_bytes_are_refused(client: TestClient, fuzzed: dict[str, str], raw: bytes) -> None:
    for path in ("/v1/models", f"{fuzzed['falt named']}/update"):
        answer = client.post(path, content=raw, headers=JSON)
        assert answer.status_code in (400, 422), answer.text


@FUZZ
@given(spec=specs)
def test_any_spec_is_created_or_refused(client: TestClient, spec: Any) -> None:
    answer = post(client, "/v1/models", spec)
    if answer.status_code == 201:
        address = answer.headers["location"]
        assert client.get(address).status_code == 200
        post(client, f"{address}/update", {"x": {"a": 1}, "y": ["p"]})
        client.delete(address).raise_for_status()


@FUZZ
@given(path=st.text(max_size=20), method=st.sampled_from(["GET", "POST", "DELETE", "PUT", "OPTIONS"]))
def test_any_path_is_answered(client: TestClient, path: str, method: str) -> None:
    for prefix in ("/", "/v1/models/"):
        answer = client.request(method, prefix + quote(path.encode("utf-8", "surrogatepass")))
        assert answer.status_code < 500, answer.text


lines = st.one_of(
    st.binary(max_size=30),
    st.text(max_size=20).map(str.encode),
    st.builds(lambda item: json.dumps(item).encode(), items),
    st.builds(lambda item, cut: json.dumps(item).encode()[:cut], items, st.integers(0, 40)),
)


@FUZZ
@given(body=st.lists(lines, max_size=6).map(b"\n".join), which=st.integers(0, 5), key=st.none() | st.just("s"))
def test_any_lines_are_learnt_or_refused_one_by_one(
    client: TestClient, fuzzed: dict[str, str], body: bytes, which: int, key: str | None
) -> None:
    address = list(fuzzed.values())[which]
    before = client.get(address).json()["updates"]
    headers = {"Content-Type": "application/x-ndjson", **({} if key is None else {"Idempotency-Key": key})}
    answer = client.post(f"{address}/stream", content=body, headers=headers)
    assert answer.status_code == 200
    answers = [json.loads(line) for line in answer.content.splitlines()]
    given = [number for number, line in enumerate(body.split(b"\n"), 1) if line and not line.isspace()]
    assert [one["line"] for one in answers] == given
    assert all(one["error"]["status"] in (400, 422, 507) for one in answers if "error" in one)
    learnt = sum("updates" in one for one in answers)
    assert client.get(address).json()["updates"] == before + learnt


tensors = st.fixed_dictionaries(
    {
        "name": st.just("x") | names,
        "shape": st.lists(st.integers(0, 3), max_size=3) | anything,
        "datatype": st.sampled_from(["FP32", "INT8", "BOOL", "BYTES"]) | names,
    },
    optional={
        "data": st.lists(numbers | names | st.booleans(), max_size=6) | st.lists(st.lists(numbers)) | anything,
        "parameters": st.dictionaries(st.sampled_from(["binary_data_size", "content_type"]), scalars) | anything,
    },
)
inferences = st.fixed_dictionaries(
    {"inputs": st.lists(tensors, max_size=2) | anything},
    optional={
        "id": scalars,
        "outputs": st.lists(st.fixed_dictionaries({"name": st.sampled_from(["labels", "scores"]) | names})) | anything,
        "parameters": st.dictionaries(st.sampled_from(["probabilities", "binary_data_output"]), scalars) | anything,
    },
)


@FUZZ
@given(body=inferences | anything, which=st.integers(0, 5), behind=st.binary(max_size=12), cut=st.integers(-3, 3))
def test_any_tensors_are_predicted_or_refused(
    client: TestClient, fuzzed: dict[str, str], body: Any, which: int, behind: bytes, cut: int
) -> None:
    address = list(fuzzed.values())[which].replace("/v1/", "/v2/")
    content = json.dumps(body).encode()
    headers = {"Inference-Header-Content-Length": str(len(content) + cut)} if behind or cut else {}
    answer = client.post(f"{address}/infer", content=content + behind, headers=headers)
    assert answer.status_code in (200, 400, 413, 422), answer.text
    if answer.status_code != 200:
        assert answer.json().keys() == {"error"}


labelled = st.one_of(
    st.fixed_dictionaries({"id": names | scalars, "y": labels}), st.fixed_dictionaries({"position": scalars}), anything
)


@FUZZ
@given(
    body=labelled | st.fixed_dictionaries({"examples": st.lists(labelled, max_size=3)}),
    call=st.sampled_from(["labels", "rollback"]),
)
def test_any_labels_and_rollbacks_are_refused(client: TestClient, fuzzed: dict[str, str], body: Any, call: str) -> None:
    address = fuzzed["falt named"]
    before = client.get(address).json()
    answer = client.post(f"{address}/{call}", content=json.dumps(body).encode(), headers=JSON)
    assert answer.status_code in (400, 404, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert client.get(address).json() == before


@FUZZ
@given(
    query=st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=30),
    call=st.sampled_from(["predict", "stream"]),
)
def test_any_query_string_is_used_or_refused(client: TestClient, fuzzed: dict[str, str], query: str, call: str) -> None:
    content, media_type = (
        (b'{"x": {"a": 1}}', "application/json") if call == "predict" else (b"", "application/x-ndjson")
    )
    address = f"{fuzzed['falt named']}/{call}?{quote(query, safe='=&%')}"
    answer = client.post(address, content=content, headers={"Content-Type": media_type})
    assert answer.status_code in (200, 422, 503), answer.text
