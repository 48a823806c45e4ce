"""Bad input gets a 4xx that names the place, and changes nothing."""

import json
from typing import Any, NamedTuple

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, refused, state_of
from tests.support.cases import for_each

LONE_SURROGATE = b'{"x": {"a\\ud800": 1}, "y": []}'
GOOD = b'{"x": {"a": 1, "b": 2}, "y": ["p"]}'


class Bad(NamedTuple):
    """A body, and the status, code and places of its refusal."""

    body: bytes
    status: int
    code: str
    places: tuple[str, ...] = ()


def invalid(body: Any, *places: str) -> Bad:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Bad(raw, 422, "invalid_request", places)


def malformed(body: bytes) -> Bad:
    return Bad(body, 400, "malformed_json")


def with_x(x: str, *places: str) -> Bad:
    return invalid(f'{{"x": {x}, "y": ["p"]}}'.encode(), *places)


def with_y(y: str, *places: str) -> Bad:
    return invalid(f'{{"x": {{"a": 1}}, "y": {y}}}'.encode(), *places)


MALFORMED = {
    "empty": malformed(b""),
    "cut off": malformed(GOOD[:-1]),
    "two values": malformed(GOOD + b"{}"),
    "not UTF-8": malformed(b'{"x": {"\xff": 1}, "y": []}'),
    "lone surrogate": malformed(LONE_SURROGATE),
    "two byte order marks": malformed(b"\xef\xbb\xbf" * 2 + GOOD),
    "UTF-16": malformed(GOOD.decode().encode("utf-16")),
    "trailing comma": malformed(b'{"x": [1,], "y": []}'),
    "repeated field": malformed(b'{"x": {"a": 1}, "y": ["t"], "y": []}'),
    "repeated name": malformed(b'{"x": {"a": 1, "a": 2}, "y": ["t"]}'),
    "repeated name that is escaped": malformed(b'{"x": {"a": 1, "\\u0061": 2}, "y": ["t"]}'),
    "too deep": malformed(b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "endless number": malformed(b'{"x": [1' + b"0" * 100_000 + b'], "y": []}'),
}

ENVELOPES = {
    "a list": invalid([1], ""),
    "a number": invalid(3, ""),
    "null": invalid(None, ""),
    "nothing in it": invalid({"y": []}, "/x"),
    "x is null": invalid({"x": None, "y": []}, "/x"),
    "x is a number": invalid({"x": 3, "y": []}, "/x"),
    "x is true": invalid({"x": True, "y": []}, "/x"),
    "unknown key": invalid({"x": {"a": 1}, "y": [], "note": 2}, "/note"),
    "views": invalid({"views": {"text": [1]}, "y": []}, "/x", "/views"),
    "probabilities is a string": invalid({"x": {"a": 1}, "y": [], "probabilities": "true"}, "/probabilities"),
    "explain is negative": invalid({"x": {"a": 1}, "y": [], "explain": -1}, "/explain"),
    "explain above the limit": invalid({"x": {"a": 1}, "y": [], "explain": 101}, "/explain"),
    "explain is a fraction": invalid({"x": {"a": 1}, "y": [], "explain": 1.5}, "/explain"),
    "explain is a boolean": invalid({"x": {"a": 1}, "y": [], "explain": True}, "/explain"),
    "explain is a string": invalid({"x": {"a": 1}, "y": [], "explain": "3"}, "/explain"),
    "explain is null": invalid({"x": {"a": 1}, "y": [], "explain": None}, "/explain"),
    "probabilities is a number": invalid({"x": {"a": 1}, "y": [], "probabilities": 1}, "/probabilities"),
    "batch with probabilities of one": invalid(
        {"examples": [{"x": {"a": 1}, "y": [], "probabilities": True}]}, "/examples/0/probabilities"
    ),
    "empty batch": invalid({"examples": []}, "/examples"),
    "batch of null": invalid({"examples": None}, "/examples"),
    "batch of an object": invalid({"examples": {"x": [1]}}, "/examples"),
    "batch beside an item": invalid({"examples": [{"x": {"a": 1}, "y": []}], "x": {"a": 1}}, "/x"),
    "batch with a null": invalid({"examples": [{"x": {"a": 1}, "y": []}, None]}, "/examples/1"),
    "ninety unknown keys": invalid(
        {"x": {"a": 1}, "y": [], **dict.fromkeys((f"f{n}" for n in range(90)), 1)}, *(f"/f{n}" for n in range(10))
    ),
    "thousands of unknown keys": invalid({"x": {"a": 1}, "y": [], **dict.fromkeys(map(str, range(3000)))}, ""),
}

FEATURES = {
    "dense NaN": with_x("[1, NaN]", "/x/1"),
    "dense infinity": with_x("[1, 2, -Infinity]", "/x/2"),
    "dense 1e999": with_x("[1e999]", "/x/0"),
    "dense string": with_x('["1"]', "/x/0"),
    "dense boolean": with_x("[true]", "/x/0"),
    "dense null within": with_x("[[null]]", "/x/0"),
    "dense nested": with_x("[[1]]", "/x/0"),
    "dense too big": with_x("[1e300]", "/x/0"),
    "dense integer beyond floats": with_x(f"[{10**400}]", "/x/0"),
    "sparse NaN": with_x('{"indices": [1, 5], "values": [1, NaN]}', "/x/values/1"),
    "sparse infinity": with_x('{"indices": [1, 5], "values": [Infinity, 1]}', "/x/values/0"),
    "sparse 1e999": with_x('{"indices": [1], "values": [-1e999]}', "/x/values/0"),
    "sparse too big": with_x('{"indices": [1], "values": [-1e16]}', "/x/values/0"),
    "negative index": with_x('{"indices": [1, 2, 3, -1], "values": [1, 1, 1, 1]}', "/x/indices/3"),
    "repeated index": with_x('{"indices": [4, 1, 2, 1], "values": [1, 2, 3, 4]}', "/x/indices/3"),
    "index is a fraction": with_x('{"indices": [0.5], "values": [1]}', "/x/indices/0"),
    "index is a whole float": with_x('{"indices": [1.0], "values": [1]}', "/x/indices/0"),
    "index is a string": with_x('{"indices": ["1"], "values": [1]}', "/x/indices/0"),
    "index is a boolean": with_x('{"indices": [true], "values": [1]}', "/x/indices/0"),
    "index is infinite": with_x('{"indices": [Infinity], "values": [1]}', "/x/indices/0"),
    "index beyond the limit": with_x('{"indices": [7, 16777216], "values": [1, 1]}', "/x/indices/1"),
    "index beyond integers": with_x(f'{{"indices": [{2**70}], "values": [1]}}', "/x/indices/0"),
    "fewer values": with_x('{"indices": [1, 2], "values": [1]}', "/x/values"),
    "more values": with_x('{"indices": [1], "values": [1, 2]}', "/x/values"),
    "no values": with_x('{"indices": [1]}', "/x/values"),
    "no indices": with_x('{"values": [1]}', "/x/indices"),
    "sparse with a name": with_x('{"indices": [1], "values": [1], "a": 1}', "/x/a"),
    "values is null": with_x('{"indices": [1], "values": null}', "/x/values"),
    "named NaN": with_x('{"word=cat": NaN}', "/x/word=cat"),
    "named infinity": with_x('{"a": 1, "b": Infinity}', "/x/b"),
    "named 1e999": with_x('{"a": 1e999}', "/x/a"),
    "named too big": with_x('{"a": -1e16}', "/x/a"),
    "named list": with_x('{"a": [[1]]}', "/x/a/0"),
    "name to be escaped": with_x('{"a/b~c": 1e16}', "/x/a~1b~0c"),
    "name like a form": with_x('{"named": 1e16}', "/x/named"),
    "name like the form of a record": with_x('{"record": [[1]]}', "/x/record/0"),
    "record with a number too big": with_x('{"a": "b", "c": 1e16}', "/x/c"),
    "record with a mixed list": with_x('{"a": ["b", 1]}', "/x/a/1"),
    "record with nested names to be escaped": with_x('{"a/b": {"c~": [true]}}', "/x/a~1b/c~0/0"),
    "record with a repeated name": with_x('{"a.b": "x", "a": {"b": "y"}}', "/x/a/b"),
    "record too deep": with_x('{"a": ' * 8 + "{}" + "}" * 8, "/x" + "/a" * 8),
    "text too long": with_x(f'"{"xy " * 33_334}"', "/x"),
    "empty name": with_x('{"": 1}', "/x/"),
    "long name": with_x(f'{{"{"a" * 257}": 1}}', f"/x/{'a' * 257}"),
    "name long in bytes": with_x(f'{{"b": 1, "{"é" * 129}": 1}}', f"/x/{'é' * 129}"),
}

LABELS = {
    "no y": invalid({"x": {"a": 1}}, "/y"),
    "y is null": with_y("null", "/y"),
    "y is a string": with_y('"pets"', "/y"),
    "a number as a label": with_y('["p", 3]', "/y/1"),
    "a null as a label": with_y("[null]", "/y/0"),
    "a list as a label": with_y('["p", ["q"]]', "/y/1"),
    "repeated label": with_y('["p", "q", "r", "q"]', "/y/3"),
    "empty label": with_y('[""]', "/y/0"),
    "long label": with_y(f'["{"a" * 257}"]', "/y/0"),
    "label long in bytes": with_y(f'["p", "{"é" * 129}"]', "/y/1"),
    "partial with a number": with_y('{"p": 1}', "/y/p"),
    "partial with a string": with_y('{"p": true, "q": "true"}', "/y/q"),
    "partial with a null": with_y('{"p/q": null}', "/y/p~1q"),
    "partial with a long label": with_y(f'{{"{"é" * 129}": true}}', f"/y/{'é' * 129}"),
}

FACTS = {
    "unknown source": invalid({"x": {"a": 1}, "y": [], "source": "robot"}, "/source"),
    "empty source": invalid({"x": {"a": 1}, "y": [], "source": ""}, "/source"),
    "source is a number": invalid({"x": {"a": 1}, "y": [], "source": 1}, "/source"),
    "ref is a number": invalid({"x": {"a": 1}, "y": [], "ref": 7}, "/ref"),
    "ref is a list": invalid({"x": {"a": 1}, "y": [], "ref": ["a"]}, "/ref"),
    "empty ref": invalid({"x": {"a": 1}, "y": [], "ref": ""}, "/ref"),
    "long ref": invalid({"x": {"a": 1}, "y": [], "ref": "x" * 129}, "/ref"),
    "ref long in bytes": invalid({"x": {"a": 1}, "y": [], "ref": "é" * 65}, "/ref"),
    "weight is zero": invalid({"x": {"a": 1}, "y": [], "weight": 0}, "/weight"),
    "negative weight": invalid({"x": {"a": 1}, "y": [], "weight": -1.5}, "/weight"),
    "weight above the limit": invalid({"x": {"a": 1}, "y": [], "weight": 1000.01}, "/weight"),
    "weight is a string": invalid({"x": {"a": 1}, "y": [], "weight": "2"}, "/weight"),
    "weight is a boolean": invalid({"x": {"a": 1}, "y": [], "weight": True}, "/weight"),
    "weight is null": invalid({"x": {"a": 1}, "y": [], "weight": None}, "/weight"),
    "weight is a list": invalid({"x": {"a": 1}, "y": [], "weight": [1]}, "/weight"),
    "weight NaN": invalid(b'{"x": {"a": 1}, "y": [], "weight": NaN}', "/weight"),
    "weight 1e999": invalid(b'{"x": {"a": 1}, "y": [], "weight": 1e999}', "/weight"),
}

RECORDS = {
    "text without y": invalid({"x": "text"}, "/y"),
    "record with a number as a label": invalid({"x": {"a": "b"}, "y": [1]}, "/y/0"),
    "record with a repeated label": invalid({"x": {"a": "b"}, "y": ["p", "p"]}, "/y/1"),
    "record with an unknown key": invalid({"x": {"a": "b"}, "y": [], "z": 1}, "/z"),
    "record with a weight of zero": invalid({"x": {"a": "b"}, "y": [], "weight": 0}, "/weight"),
    "record with a source that is null": invalid({"x": {"a": "b"}, "y": [], "source": None}, "/source"),
}

MISFITS = {
    "numbers for a model of names": with_x("[1, 2]", "/x"),
    "columns for a model of names": with_x('{"indices": [1], "values": [1]}', "/x"),
}

BATCHES = {
    f"batch with one: {name}": invalid(
        b'{"examples": [' + GOOD + b"," + bad.body + b"," + GOOD + b"]}",
        *(f"/examples/1{place}" for place in bad.places),
    )
    for name, bad in {**FEATURES, **LABELS, **FACTS, **RECORDS, **MISFITS}.items()
}

EVERYWHERE = {**MALFORMED, **ENVELOPES, **FEATURES, **MISFITS}
WITH_LABELS = {**EVERYWHERE, **LABELS, **FACTS, **RECORDS, **BATCHES}
JSON = {"Content-Type": "application/json"}


OPERATIONS = ("update", "predict-update")
NAMES = list(WITH_LABELS)


def keyed(name: str) -> dict[str, str]:
    """Return headers with an idempotency key for a bad input."""
    return {**JSON, "Idempotency-Key": f"after-{NAMES.index(name)}"}


@pytest.fixture(scope="module")
def trained(client: TestClient) -> str:
    """A model of named features that has learnt something. Shared: bad input does not change it."""
    address = create(client, "trained")
    client.post(f"{address}/update", content=GOOD, headers=JSON).raise_for_status()
    return address


def test_a_list_of_examples_is_told_the_form_of_a_batch(client: TestClient) -> None:
    address = create(client, "listed")
    for call in ("update", "predict", "predict-update", "labels"):
        answer = client.post(f"{address}/{call}", json=[{"x": {"a": 1}, "y": []}])
        assert (
            'must be an object; a batch is {"examples": [...]}' in refused(answer, 422, "invalid_request", "")["detail"]
        )


def test_an_update_with_bad_input_changes_nothing(client: TestClient, trained: str) -> None:
    status, state = client.get(trained).json(), state_of(client, trained)

    @for_each(("name", "bad"), WITH_LABELS.items(), ids=WITH_LABELS.keys())
    def changes_nothing(name: str, bad: Bad) -> None:
        for operation in OPERATIONS:
            answer = client.post(f"{trained}/{operation}", content=bad.body, headers=keyed(name))
            refused(answer, bad.status, bad.code, *bad.places)
        assert client.get(trained).json() == status
        assert state_of(client, trained) == state

    changes_nothing()
    for number, name in enumerate(WITH_LABELS):
        good = client.post(f"{trained}/{OPERATIONS[number % 2]}", content=GOOD, headers=keyed(name))
        assert good.status_code == 200, "the key of a refused request is free"
        assert good.json()["updates"] == status["updates"] + 1 + number


@for_each("bad", EVERYWHERE.values(), ids=EVERYWHERE.keys())
def test_a_prediction_of_bad_input_is_refused(client: TestClient, trained: str, bad: Bad) -> None:
    answer = client.post(f"{trained}/predict", content=bad.body, headers=JSON)

    refused(answer, bad.status, bad.code, *bad.places)


AS_A_LINE = {name: bad for name, bad in WITH_LABELS.items() if name not in ("empty", *BATCHES) and "batch" not in name}


@for_each("bad", AS_A_LINE.values(), ids=AS_A_LINE.keys())
def test_a_bad_line_of_a_stream_is_refused_alone(client: TestClient, trained: str, bad: Bad) -> None:
    before = client.get(trained).json()["updates"]
    headers = {"Content-Type": "application/x-ndjson"}

    (alone,) = client.post(f"{trained}/stream", content=bad.body, headers=headers).text.splitlines()
    error = json.loads(alone)["error"]
    assert (error["status"], error["code"], error["instance"]) == (bad.status, bad.code, f"{trained}/stream")
    assert [place["pointer"] for place in error["errors"]] == list(bad.places)
    assert client.get(trained).json()["updates"] == before

    body = b"\n".join([GOOD, bad.body, GOOD])
    answers = [
        json.loads(line) for line in client.post(f"{trained}/stream", content=body, headers=headers).iter_lines()
    ]
    assert [one["line"] for one in answers] == [1, 2, 3]
    assert [one.get("updates") for one in answers] == [before + 1, None, before + 2]


@for_each("key", ["", " ", "a b", "a" * 256, "\x7f", "é"])
def test_a_bad_idempotency_key_is_refused(client: TestClient, trained: str, key: str) -> None:
    position = client.get(trained).json()["position"]

    answer = client.post(f"{trained}/update", content=GOOD, headers=[*JSON.items(), ("Idempotency-Key", key.encode())])

    refused(answer, 422, "invalid_request", "Idempotency-Key")
    assert client.get(trained).json()["position"] == position


def test_two_idempotency_keys_are_refused(client: TestClient, trained: str) -> None:
    keys = [("Idempotency-Key", "a"), ("Idempotency-Key", "a")]
    answer = client.post(f"{trained}/update", content=GOOD, headers=[*JSON.items(), *keys])
    refused(answer, 422, "invalid_request", "Idempotency-Key")


@pytest.mark.parametrize("operation", ["predict", "update", "predict-update"])
def test_the_content_must_be_json(client: TestClient, trained: str, operation: str) -> None:
    for headers in (
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "text/json"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json; charset=utf-16"},
        {**JSON, "Content-Encoding": "br"},
    ):
        answer = client.post(f"{trained}/{operation}", content=GOOD, headers=headers)
        refused(answer, 415, "unsupported_media_type")
    for accepted in (
        "application/json; charset=utf-8",
        'application/json; charset="UTF-8"',
        "Application/JSON",
        "application/vnd.example+json",
    ):
        answer = client.post(f"{trained}/{operation}", content=GOOD, headers={"Content-Type": accepted})
        assert answer.status_code == 200, answer.text


def test_a_declared_set_of_labels_and_features_is_closed(client: TestClient) -> None:
    closed = create(client, "closed", labels=["p", "q"], features=["a", "b"])
    unknown_label = {"x": {"a": 1}, "y": ["p", "z"]}
    batch = {"examples": [{"x": {"a": 1}, "y": {"q": True}}, {"x": {"a": 1, "c/d": 1}, "y": []}]}

    refused(client.post(f"{closed}/update", json=unknown_label), 422, "invalid_request", "/y/1")
    refused(client.post(f"{closed}/update", json=batch), 422, "invalid_request", "/examples/1/x/c~1d")
    assert client.get(closed).json()["updates"] == 0


ITEM = "x, y, weight, source, ref"
SPEC = {"name": "b", "algorithm": "falt"}


@for_each(
    ("path", "body", "place", "allowed"),
    [
        ("/v1/models", {**SPEC, "params": {"size": 1}}, "/params/size", "eta, "),
        ("/v1/models", {**SPEC, "nonsense": 1}, "/nonsense", "name, "),
        ("/v1/models", {**SPEC, "text": {"field": ["a"]}}, "/text/field", "fields, "),
        ("{model}/predict", {"x": {"a": 1}, "keep": True}, "/keep", "?keep="),
        ("{model}/predict", {"x": {"a": 1}, "at_least": "1"}, "/at_least", "?at_least="),
        ("{model}/predict", {"x": {"a": 1}, "probability": True}, "/probability", f"{ITEM}, probabilities, "),
        ("{model}/predict", {"x": {"a": "b"}, "probability": True}, "/probability", f"{ITEM}, probabilities, "),
        ("{model}/predict", {"examples": [{"x": {}, "id": 1}]}, "/examples/0/id", ITEM),
        ("{model}/predict", {"examples": [{"x": {}}], "id": 1}, "/id", "examples, probabilities, "),
        ("{model}/predict", {"x": {"indices": [], "values": [], "size": 9}}, "/x/size", "indices, values"),
        ("{model}/predict", {"x": 5}, "/x", "indices and values, an object of names"),
        ("{model}/update", {"x": {"a": 1}, "y": [], "weight": 2_000}, "/weight", "<= 1000"),
        ("{model}/update", {"x": {"a": 1}, "y": [], "source": "robot"}, "/source", "machine"),
        ("{model}/update", {"examples": [3]}, "/examples/0", ITEM),
        ("{model}/update", {"x": {"a": 1}, "y": [], "labels": ["b"]}, "/labels", ITEM),
        ("{model}/predict-update", {"x": {}, "y": [], "z": 1}, "/z", f"{ITEM}, probabilities"),
        ("{model}/labels", {"id": "0" * 26, "y": [], "labels": ["b"]}, "/labels", "id, y, weight"),
        ("{model}/rollback", {"to": "1"}, "/to", "position, time"),
        ("{model}/labels/retire", {"label": "b", "name": "b"}, "/name", "label"),
        ("{model}/labels/pause", {"label": "b", "for": 1}, "/for", "label"),
        ("/v1/keys", {"name": "b", "scopes": ["read"], "model": "b"}, "/model", "name, scopes"),
    ],
)
def test_an_error_names_the_allowed_fields(
    client: Any, model: str, path: str, body: Any, place: str, allowed: str
) -> None:
    told = refused(client.post(path.format(model=model), json=body), 422, "invalid_request", place)
    assert allowed in told["errors"][0]["detail"]
