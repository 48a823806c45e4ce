"""The Open Inference Protocol over plain HTTP: the same predictions as predict, in the protocol's own shapes."""

import json
import struct
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, ok, refused
from tests.support.cases import for_each

from manylabel_service.integrations.open_inference import schemas

X = [[0.5, -1.0, 2.0], [1.0, 0.25, 0.0], [0.0, 3.0, -0.5]]
Y = [["rock", "jazz"], ["jazz"], ["pop"]]
INFER = "/v2/models/dense/infer"
MATRICES = ("predictions", "scores", "probabilities")


@pytest.fixture(scope="module")
def models(client: TestClient) -> Iterator[TestClient]:
    """A client of a server with the models `dense`, of three columns, and `texts`, of records."""
    create(client, "dense", features=3, labels=["rock", "jazz", "pop"])
    create(client, "texts")
    create(client, "plain", params={"calibrate": False, "optimise": "none"})
    examples = [{"x": x, "y": y} for x, y in zip(X, Y, strict=True)] * 5
    texts = [{"x": text, "y": [text.split()[0]]} for text in ("fox runs", "{cat} sleeps", "fox [2]")] * 3
    records = [{"x": {"title": "a long title of a fox", "size": 3}, "y": ["fox"]}]
    for name, items in (("dense", examples), ("texts", texts + records), ("plain", examples)):
        client.post(f"/v1/models/{name}/update", json={"examples": items}).raise_for_status()
    yield client
    for name in ("dense", "texts", "plain"):
        client.delete(f"/v1/models/{name}")


def tensor(data: Any = X, datatype: str = "FP32", shape: Any = (3, 3), **more: Any) -> dict[str, Any]:
    return {"name": "x", "shape": list(shape), "datatype": datatype, "data": data, **more}


def infer(client: TestClient, *inputs: Any, path: str = INFER, **more: Any) -> dict[str, Any]:
    return dict(ok(client.post(path, json={"inputs": list(inputs), **more})))


def outputs(document: dict[str, Any]) -> dict[str, Any]:
    return {output["name"]: output for output in document["outputs"]}


def matrix(output: dict[str, Any]) -> Any:
    kind = {"FP32": np.float32, "BOOL": bool}[output["datatype"]]
    return np.array(output["data"], dtype=kind).reshape(output["shape"])


def predicted(client: TestClient, xs: list[Any], name: str = "dense") -> Any:
    body = {"examples": [{"x": x} for x in xs], "probabilities": True}
    return ok(client.post(f"/v1/models/{name}/predict", json=body))


def assert_same(found: dict[str, Any], due: Any) -> None:
    """Check that outputs are the predictions of predict."""
    assert [json.loads(each) for each in found["labels"]["data"]] == [each["labels"] for each in due["predictions"]]
    for name in MATRICES:
        columns = json.loads(found[name]["parameters"]["labels"])
        of = "probabilities" if name == "probabilities" else "scores"
        values = np.array([[each[of][label] for label in columns] for each in due["predictions"]])
        if name == "predictions":
            assert (matrix(found[name]) == (values > 0)).all()
        else:
            assert (matrix(found[name]) == values.astype(np.float32)).all()


def test_the_server_describes_itself(models: TestClient) -> None:
    facts = {"name": "manylabel", "version": version("manylabel"), "extensions": ["binary_tensor_data"]}
    for path, due in (
        ("/v2", facts),
        ("/v2/health/live", {"live": True}),
        ("/v2/health/ready", {"ready": True}),
        ("/v2/models/dense/ready", {"name": "dense", "ready": True}),
    ):
        assert ok(models.get(path)) == due


def test_a_model_describes_its_tensors(models: TestClient) -> None:
    answer = models.get("/v2/models/dense")
    columns = {"labels": '["rock","jazz","pop"]'}
    assert answer.json() == {
        "name": "dense",
        "platform": "manylabel_falt",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}],
        "outputs": [
            {"name": "labels", "datatype": "BYTES", "shape": [-1]},
            {"name": "predictions", "datatype": "BOOL", "shape": [-1, 3], "parameters": columns},
            {"name": "scores", "datatype": "FP32", "shape": [-1, 3], "parameters": columns},
            {"name": "probabilities", "datatype": "FP32", "shape": [-1, 3], "parameters": columns},
        ],
    }
    assert models.get("/v2/models/texts").json()["inputs"] == [{"name": "x", "datatype": "BYTES", "shape": [-1]}]
    assert [o["name"] for o in models.get("/v2/models/plain").json()["outputs"]] == ["labels", "predictions", "scores"]


class TestNumbers:
    @for_each("data", [X, np.ravel(X).tolist()], ids=["nested", "flat"])
    @for_each("datatype", ["FP16", "FP32", "FP64"])
    def test_all_outputs_are_those_of_predict(self, models: TestClient, data: Any, datatype: str) -> None:
        found = infer(models, tensor(data, datatype), id="42")
        due = predicted(models, X)
        assert (found["model_name"], found["id"], found.get("model_version")) == ("dense", "42", None)
        assert found["parameters"] == {"position": due["position"]}
        assert [output["name"] for output in found["outputs"]] == ["labels", *MATRICES]
        assert_same(outputs(found), due)

    @for_each("datatype", ["INT8", "INT64", "UINT8", "UINT64", "BOOL"])
    def test_integers_and_booleans_are_read(self, models: TestClient, datatype: str) -> None:
        data = [[True, False, True]] if datatype == "BOOL" else [[1, 0, 100]]
        found = infer(models, tensor(data, datatype, [1, 3]))
        assert_same(outputs(found), predicted(models, [[float(x) for x in data[0]]]))

    def test_null_is_a_missing_value(self, models: TestClient) -> None:
        null = {"id": None, "outputs": None, "parameters": None}
        found = infer(models, tensor([None, 1.0, 2.0], shape=[1, 3], parameters=None), **null)
        assert_same(outputs(found), predicted(models, [[None, 1.0, 2.0]]))

    def test_only_requested_outputs_are_returned(self, models: TestClient) -> None:
        asked = [{"name": "scores"}, {"name": "labels"}]
        assert list(outputs(infer(models, tensor(), outputs=asked))) == ["scores", "labels"]
        more = infer(models, tensor(), outputs=asked, parameters={"probabilities": True})
        assert list(outputs(more)) == ["scores", "labels", "probabilities"]
        less = infer(models, tensor(), parameters={"probabilities": False, "of_some_client": "x"})
        assert list(outputs(less)) == ["labels", "predictions", "scores"]

    def test_a_large_batch_is_predicted(self, models: TestClient) -> None:
        rows = np.random.default_rng(0).normal(size=(3000, 3)).round(3)
        found = infer(models, tensor(rows.ravel().tolist(), "FP64", rows.shape))
        assert_same(outputs(found), predicted(models, rows.tolist()))

    def test_a_new_model_has_no_columns(self, models: TestClient) -> None:
        create(models, "blank")
        found = outputs(infer(models, tensor(['{"a": 1}'], "BYTES", [1]), path="/v2/models/blank/infer"))
        assert found["labels"]["data"] == ["[]"]
        assert (found["scores"]["shape"], found["scores"]["data"]) == ([1, 0], [])
        models.delete("/v1/models/blank")

    @pytest.mark.parametrize("change", ["retire", "pause"])
    def test_retired_and_paused_labels_have_no_column(self, models: TestClient, change: str) -> None:
        address = create(models, "fewer", labels=["a", "b", "c"])
        models.post(f"{address}/labels/{change}", json={"label": "b"}).raise_for_status()
        found = outputs(infer(models, tensor(["{}"], "BYTES", [1]), path="/v2/models/fewer/infer"))
        assert found["scores"]["parameters"] == {"labels": '["a","c"]'}
        assert models.get("/v2/models/fewer").json()["outputs"][1]["shape"] == [-1, 2]
        models.delete(address)


class TestStrings:
    PATH = "/v2/models/texts/infer"

    def same(self, client: TestClient, strings: list[str], xs: list[Any], shape: Any = None, **more: Any) -> None:
        found = infer(client, tensor(strings, "BYTES", shape or [len(strings)], **more), path=self.PATH)
        assert_same(outputs(found), predicted(client, xs, "texts"))

    def test_strings_are_texts_or_json(self, models: TestClient) -> None:
        record, sparse = {"title": "fox", "size": 2}, {"a": 1.5}
        numbered = {"indices": [2, 0], "values": [1.0, 0.5]}
        found = infer(models, tensor([json.dumps(numbered)], "BYTES", [1]))
        assert_same(outputs(found), predicted(models, [numbered]))
        strings = ["a fox runs", "[2] cats", json.dumps(record), "  " + json.dumps(sparse)]
        self.same(models, strings, ["a fox runs", "[2] cats", record, sparse])
        self.same(models, strings, ["a fox runs", "[2] cats", record, sparse], [4, 1])

    def test_a_parameter_sets_the_type_of_strings(self, models: TestClient) -> None:
        strings = ["{cat} sleeps", '{"a": 1}']
        self.same(models, strings, strings, parameters={"content_type": "str"})
        self.same(models, ['"a fox"', '{"a": 1}'], ["a fox", {"a": 1}], parameters={"content_type": "json"})


class TestBinary:
    def ask(self, client: TestClient, head: Any, binary: bytes, path: str = INFER) -> Any:
        written = json.dumps(head).encode()
        headers = {"Inference-Header-Content-Length": str(len(written)), "Content-Type": "application/octet-stream"}
        return client.post(path, content=written + binary, headers=headers)

    def described(self, datatype: str, shape: Any, size: int) -> dict[str, Any]:
        return {"name": "x", "shape": list(shape), "datatype": datatype, "parameters": {"binary_data_size": size}}

    def read(self, answer: Any) -> dict[str, Any]:
        """Return the outputs, with data instead of bytes."""
        assert answer.status_code == 200, answer.text
        begin = int(answer.headers["inference-header-content-length"])
        document = json.loads(answer.content[:begin])
        schemas.InferResponse.model_validate(document, strict=True)
        for output in document["outputs"]:
            if "data" in output:
                continue
            end = begin + output["parameters"]["binary_data_size"]
            part, begin = answer.content[begin:end], end
            if output["datatype"] == "BYTES":
                output["data"] = list(self.strings(part))
            else:
                kind = {"FP32": "<f4", "BOOL": "?"}[output["datatype"]]
                output["data"] = np.frombuffer(part, kind).tolist()
        assert begin == len(answer.content)
        return outputs(document)

    def strings(self, part: bytes) -> Iterator[str]:
        while part:
            (size,) = struct.unpack_from("<I", part)
            yield part[4 : 4 + size].decode()
            part = part[4 + size :]

    @for_each("kind", [("FP16", "<f2"), ("FP32", "<f4"), ("FP64", "<f8"), ("INT32", "<i4")])
    def test_binary_numbers_are_read_and_written(self, models: TestClient, kind: Any) -> None:
        datatype, code = kind
        binary = np.array(X).astype(code).tobytes()
        head = {"inputs": [self.described(datatype, [3, 3], len(binary))], "parameters": {"binary_data_output": True}}
        rows = np.array(X).astype(code).astype(float).tolist()
        assert_same(self.read(self.ask(models, head, binary)), predicted(models, rows))

    def test_nan_is_a_missing_value(self, models: TestClient) -> None:
        binary = struct.pack("<3f", float("nan"), 1.0, 2.0)
        found = self.ask(models, {"inputs": [self.described("FP32", [1, 3], 12)]}, binary).json()
        assert_same(outputs(found), predicted(models, [[None, 1.0, 2.0]]))

    def test_binary_strings_are_read_and_written(self, models: TestClient) -> None:
        binary = b"".join(struct.pack("<I", len(text)) + text for text in (b"fox runs", b'{"size": 3}'))
        wanted = [{"name": "labels", "parameters": {"binary_data": True}}, *({"name": name} for name in MATRICES)]
        head = {"inputs": [self.described("BYTES", [2], len(binary))], "outputs": wanted}
        answer = self.ask(models, head, binary, "/v2/models/texts/infer")
        assert_same(self.read(answer), predicted(models, ["fox runs", {"size": 3}], "texts"))

    @for_each(
        ("datatype", "shape", "size", "binary"),
        [
            ("FP32", [3, 3], 36, b"\0" * 35),
            ("FP32", [3, 3], 35, b"\0" * 35),
            ("FP32", [3, 3], 36, b"\0" * 37),
            ("FP32", [3, 3], -1, b""),
            ("FP32", [3, 3], "36", b"\0" * 36),
            ("FP32", [10_000, 2**20], 4, b"\0" * 4),
            ("FP32", [1, 1], 4, struct.pack("<f", float("inf"))),
            ("FP64", [1, 1], 8, struct.pack("<d", 1e16)),
            ("BYTES", [1], 3, b"\0\0\0"),
            ("BYTES", [1], 8, b"\xff\xff\xff\xff\0\0\0\0"),
            ("BYTES", [1], 10, b"\1\0\0\0a\1\0\0\0b"),
            ("BYTES", [2], 5, b"\1\0\0\0a"),
            ("BYTES", [1], 5, b"\1\0\0\0\xff"),
        ],
    )
    def test_bad_binary_data_are_refused(
        self, models: TestClient, datatype: str, shape: Any, size: Any, binary: bytes
    ) -> None:
        answer = self.ask(models, {"inputs": [self.described(datatype, shape, size)]}, binary)
        assert answer.status_code == 422, answer.text
        assert answer.json().keys() == {"error"}

    def test_binary_data_without_the_header_are_told_the_header(self, models: TestClient) -> None:
        binary = struct.pack("<3f", 1.0, 2.0, 3.0)
        body = json.dumps({"inputs": [self.described("FP32", [1, 3], 12)]}).encode() + binary
        answer = models.post(INFER, content=body, headers={"Content-Type": "application/octet-stream"})
        assert answer.status_code == 400
        assert "the header Inference-Header-Content-Length must have" in answer.json()["error"]

    @for_each("length", ["99999", "-1", "1e3", "0"])
    def test_a_wrong_length_of_the_json_is_refused(self, models: TestClient, length: str) -> None:
        answer = models.post(INFER, content=b'{"inputs": []}', headers={"Inference-Header-Content-Length": length})
        assert (answer.status_code, answer.json().keys()) == (400, {"error"})


WRONG: list[tuple[Any, int, str]] = [
    ([], 422, "the body must be an object"),
    ({}, 422, "/inputs is missing"),
    ({"inputs": []}, 422, "/inputs must have at least 1 element"),
    ({"inputs": [tensor(shape=[3, 4])]}, 422, "/inputs/0/data/0 must be a list of 4 elements"),
    ({"inputs": [tensor(shape=[4, 3])]}, 422, "/inputs/0/data must have 4 rows"),
    ({"inputs": [tensor([1, 2], shape=[3, 3])]}, 422, "/inputs/0/data must have 9 elements"),
    ({"inputs": [tensor(shape=[3])]}, 422, "/inputs/0/shape must be [n, d]"),
    ({"inputs": [tensor([], shape=[0, 3])]}, 422, "/inputs/0/shape must have at least one example"),
    ({"inputs": [tensor(shape=[-1, 3])]}, 422, "/inputs/0/shape/0 must be >= 0"),
    ({"inputs": [tensor(datatype="FP8")]}, 422, "/inputs/0/datatype must be 'BOOL', 'UINT8'"),
    ({"inputs": [tensor([1, 2, "3"], shape=[1, 3])]}, 422, "/inputs/0/data/2 must be a number"),
    ({"inputs": [tensor([[1, 2, 3], [4, 5, True]], shape=[2, 3])]}, 422, "/inputs/0/data/1/2 must be a number"),
    ({"inputs": [tensor([1, 2, 300], "UINT8", [1, 3])]}, 422, "/inputs/0/data/2 must be <= 255"),
    ({"inputs": [tensor([1, 2, 1.5], "INT8", [1, 3])]}, 422, "/inputs/0/data/2 must be an integer"),
    ({"inputs": [tensor([1, 2, 1e16], shape=[1, 3])]}, 422, "/inputs/0/data/2 must be <="),
    ({"inputs": [tensor([1, 2, 3, 4], shape=[1, 4])]}, 422, "/inputs/0/data/0/x must have 3 numbers"),
    ({"inputs": [tensor(["{", "{}"], "BYTES", [2])]}, 422, "/inputs/0/data/0 must be JSON"),
    ({"inputs": [tensor(['{"a": 1, "a": 2}'], "BYTES", [1])]}, 422, "/inputs/0/data/0 must be JSON"),
    ({"inputs": [tensor([1], "BYTES", [1])]}, 422, "/inputs/0/data/0 must be a string"),
    ({"inputs": [tensor(["{}"], "BYTES", [1, 2])]}, 422, "/inputs/0/shape must be [n] or [n, 1]"),
    ({"inputs": [tensor(), tensor()]}, 422, "/inputs must not repeat a name"),
    ({"inputs": [{**tensor(), "name": "image"}]}, 422, "this model has no views"),
    ({"inputs": [{**tensor(), "data": None}]}, 422, "/inputs/0 must have either data"),
    ({"inputs": [tensor()], "outputs": [{"name": "weights"}]}, 422, "/outputs/0/name must be"),
    ({"inputs": [tensor()], "parameters": {"probabilities": 1}}, 422, "/parameters/probabilities must be true or"),
    ({"inputs": [tensor()], "id": 42}, 422, "/id must be a string"),
]


@for_each("value", [{"x-tenant": "a"}, [["x-tenant", "a"]], None, 3, {"deep": {"deeper": [1]}}])
def test_unknown_parameters_of_any_form_are_ignored(models: TestClient, value: Any) -> None:
    sent = {"inputs": [{**tensor(), "parameters": {"headers": value}}], "parameters": {"headers": value}}
    assert (
        models.post(INFER, json=sent).json()["outputs"]
        == models.post(INFER, json={"inputs": [tensor()]}).json()["outputs"]
    )


class TestErrors:
    @for_each(("body", "status", "message"), WRONG)
    def test_a_bad_body_is_refused(self, models: TestClient, body: Any, status: int, message: str) -> None:
        answer = models.post(INFER, json=body)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json"), answer.text
        assert message in answer.json()["error"]

    def test_a_model_without_probabilities_refuses_to_return_them(self, models: TestClient) -> None:
        path = "/v2/models/plain/infer"
        assert list(outputs(infer(models, tensor(), path=path))) == ["labels", "predictions", "scores"]
        for asked in ({"outputs": [{"name": "probabilities"}]}, {"parameters": {"probabilities": True}}):
            answer = models.post(path, json={"inputs": [tensor()], **asked})
            assert (answer.status_code, "probabilities" in answer.json()["error"]) == (422, True)

    @for_each(
        ("method", "path", "status"),
        [
            ("GET", "/v2/models/nobody", 404),
            ("GET", "/v2/models/nobody/ready", 404),
            ("POST", "/v2/models/nobody/infer", 404),
            ("GET", "/v2/models/dense/versions/1", 409),
            ("GET", "/v2/models/dense/versions/x/ready", 404),
            ("GET", "/v2/nothing/here", 404),
            ("GET", "/v2/models/dense/infer", 405),
        ],
    )
    def test_a_wrong_address_gets_an_error_of_the_protocol(
        self, models: TestClient, method: str, path: str, status: int
    ) -> None:
        answer = models.request(method, path, json={"inputs": [tensor()]} if method == "POST" else None)
        assert (answer.status_code, answer.json().keys()) == (status, {"error"})

    def test_other_paths_get_problem_documents(self, models: TestClient) -> None:
        refused(models.get("/v2x"), 404, "not_found")

    def test_the_limits_of_predict_hold(self, serve: Any) -> None:
        bounds = {"max_body_bytes": 400, "max_batch_examples": 3, "max_response_scores": 8, "max_features": 4}
        with serve(**bounds) as client:
            create(client, "m", labels=["a", "b"])

            def status(shape: Any, **more: Any) -> int:
                body = {"inputs": [tensor([0] * (shape[0] * shape[1]), "FP32", shape)], **more}
                code: int = client.post("/v2/models/m/infer", json=body).status_code
                return code

            labels = {"outputs": [{"name": "labels"}]}
            assert status([1, 4]) == 200
            assert status([1, 5]) == 422
            assert status([2, 4], **labels) == 200
            assert status([2, 4]) == 413  # three matrices
            assert status([4, 1], **labels) == 413
            assert client.post("/v2/models/m/infer", content=b" " * 401).json().keys() == {"error"}
            assert client.post("/v2/models/m/infer", content=b" " * 401).status_code == 413

    def test_a_server_that_stops_is_not_ready(self, serve: Any) -> None:
        with serve() as client:
            client.app.state.context.registry.ready = False
            answer = client.get("/v2/health/ready")
            assert (answer.status_code, answer.json().keys()) == (503, {"error"})
            assert client.get("/v2/health/live").status_code == 200


def test_predictions_are_counted(models: TestClient) -> None:
    def counted() -> float:
        lines = models.get("/metrics").text.splitlines()
        found = [line for line in lines if line.startswith('manylabel_predictions_total{model="dense"}')]
        return float(found[0].rpartition(" ")[2])

    infer(models, tensor())
    before = counted()
    infer(models, tensor())
    assert counted() == before + 3
