"""Parameters of calls that multiply with something, and the requests that multiply most.

`PARAMETERS` lists each call with its parameters: path, query, and the fields of the body that are counts, lists,
objects or flags. Each has what it multiplies with, or NOTHING. `loads` has the requests that multiply most.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

NOTHING = ""
"""A parameter whose work is bounded by its own size, as `tests/bodies` tests in many shapes."""

N_LABELS = 9_900
N_FEATURES = 300_000
ENTRY_EXAMPLES = 9_000

LABELS = "labels"
EXAMPLES = "examples"
ENTRIES = "entries"
VERSION = {"name": NOTHING, "version": NOTHING}
NAME = {"name": NOTHING}
LABELS_OF_NAME = {"name": LABELS}

PARAMETERS: dict[str, dict[str, str]] = {
    "POST /v1/models/{name}/predict": {
        "name": LABELS,
        "examples": LABELS,
        "x": NOTHING,
        "views": NOTHING,
        "version": NOTHING,
        "keep": NOTHING,
        "at_least": NOTHING,
        "probabilities": LABELS,
        "top": EXAMPLES,
        "only": LABELS,
        "except": LABELS,
        "explain": "vectors",
    },
    "POST /v1/models/{name}/update": {"name": LABELS, "examples": LABELS, "x": NOTHING, "y": NOTHING},
    "POST /v1/models/{name}/predict-update": {
        "name": LABELS,
        "examples": LABELS,
        "x": NOTHING,
        "y": NOTHING,
        "probabilities": LABELS,
    },
    "GET /v1/models/{name}/predictions": {"name": LABELS, "order": LABELS, "limit": LABELS},
    "POST /v1/models/{name}/labels": {"name": NOTHING, "examples": NOTHING, "y": NOTHING},
    "GET /v1/models/{name}/labels": {
        "name": LABELS,
        "version": NOTHING,
        "sort": LABELS,
        "descending": NOTHING,
        "offset": NOTHING,
        "limit": LABELS,
    },
    "PATCH /v1/models/{name}/labels": {"name": NOTHING, "labels": "titles"},
    "POST /v1/models/{name}/stream": {
        "name": NOTHING,
        "from": NOTHING,
        "probabilities": LABELS,
        "answers": LABELS,
        "stop": NOTHING,
        "x": NOTHING,
        "y": NOTHING,
    },
    "POST /v2/models/{name}/infer": {"name": LABELS, "inputs": LABELS, "outputs": EXAMPLES, "parameters": NOTHING},
    "POST /v2/models/{name}/versions/{version}/infer": {
        "name": NOTHING,
        "version": NOTHING,
        "inputs": NOTHING,
        "outputs": NOTHING,
        "parameters": NOTHING,
    },
    "GET /v2": {},
    "GET /v2/health/live": {},
    "GET /v2/health/ready": {},
    "GET /v2/models/{name}": LABELS_OF_NAME,
    "GET /v2/models/{name}/versions/{version}": VERSION,
    "GET /v2/models/{name}/ready": LABELS_OF_NAME,
    "GET /v2/models/{name}/versions/{version}/ready": VERSION,
    "POST /v1/models": {
        "features": "titles",
        "follow": ENTRIES,
        "fork": ENTRIES,
        "groups": LABELS,
        "init_from": NOTHING,
        "labels": "titles",
        "limits": NOTHING,
        "params": NOTHING,
        "parents": LABELS,
        "promise": NOTHING,
        "sources": NOTHING,
        "text": NOTHING,
        "window": NOTHING,
    },
    "GET /v1/models": dict.fromkeys(("leader", "prefix", "sort", "after", "limit"), NOTHING),
    "DELETE /v1/models": {"prefix": NOTHING, "followers": NOTHING},
    "GET /v1/export": {"prefix": NOTHING},
    "GET /v1/models/{name}": LABELS_OF_NAME,
    "DELETE /v1/models/{name}": {"name": NOTHING, "followers": NOTHING},
    "PUT /v1/models/{name}": NAME,
    "GET /v1/models/{name}/metrics": {"name": LABELS, "version": NOTHING},
    "GET /v1/models/{name}/metrics/history": {"name": LABELS, "version": NOTHING},
    "GET /v1/models/{name}/metrics/reliability": {"name": LABELS, "label": NOTHING},
    "POST /v1/models/{name}/labels/rename": LABELS_OF_NAME,
    "POST /v1/models/{name}/labels/merge": LABELS_OF_NAME,
    "POST /v1/models/{name}/labels/retire": LABELS_OF_NAME,
    "POST /v1/models/{name}/labels/pause": LABELS_OF_NAME,
    "POST /v1/models/{name}/labels/resume": LABELS_OF_NAME,
    "PUT /v1/models/{name}/groups": {"name": NOTHING, "groups": LABELS, "parents": LABELS},
    "PUT /v1/models/{name}/promise": NAME,
    "GET /v1/models/{name}/snapshots": NAME,
    "POST /v1/models/{name}/snapshots": LABELS_OF_NAME,
    "GET /v1/models/{name}/snapshots/{position}": {"name": NOTHING, "position": NOTHING},
    "POST /v1/models/{name}/rollback": NAME,
    "POST /v1/models/{name}/correct": {"name": NOTHING, "index": NOTHING, "y": NOTHING},
    "POST /v1/models/{name}/health/dismiss": {"name": NOTHING},
    "POST /v1/models/{name}/health/dry-run": {"name": NOTHING, "last": NOTHING},
    "POST /v1/models/{name}/undo": NAME,
    "GET /v1/models/{name}/health": {"name": LABELS, "kind": NOTHING, "top": NOTHING},
    "GET /v1/models/{name}/doubts": {"name": NOTHING, "kind": NOTHING, "label": NOTHING, "top": NOTHING},
    "POST /v1/models/{name}/doubts": {"name": NOTHING, "last": NOTHING, "top": NOTHING},
    "GET /v1/models/{name}/log": {"name": NOTHING, "from": NOTHING, "to": NOTHING, "limit": EXAMPLES},
    "POST /v1/models/{name}/forget": {"name": NOTHING, "positions": ENTRIES, "refs": NOTHING},
    "GET /v1/models/{name}/forget": NAME,
    "GET /v1/models/{name}/forget/{id}": {"name": NOTHING, "id": NOTHING},
    "POST /v1/models/{name}/verify": {"name": ENTRIES},
    "GET /v1/models/{name}/versions": NAME,
    "POST /v1/models/{name}/promote": {"name": NOTHING, "force": NOTHING, "version": NOTHING},
    "GET /v1/models/{name}/versions/{version}": {**VERSION, "names": NOTHING},
    "DELETE /v1/models/{name}/versions/{version}": VERSION,
    "GET /v1/models/{name}/detail": {"name": NOTHING, "version": NOTHING},
    "POST /v1/datasets": {
        "name": NOTHING,
        "format": NOTHING,
        "label_columns": NOTHING,
        "tags": NOTHING,
        "separator": NOTHING,
        "ignore": NOTHING,
        "text": NOTHING,
        "number": NOTHING,
        "category": NOTHING,
        "names": NOTHING,
        "decimal": NOTHING,
        "missing": NOTHING,
        "empty": NOTHING,
        "encoding": NOTHING,
        "merge_alike": NOTHING,
        "weight": NOTHING,
        "zero_based": NOTHING,
        "split": NOTHING,
    },
    "GET /v1/datasets": {},
    "GET /v1/datasets/{name}": {"name": NOTHING, "details": NOTHING},
    "DELETE /v1/datasets/{name}": NAME,
    "POST /v1/jobs": {
        "data": NOTHING,
        "holdout": NOTHING,
        "params": NOTHING,
        "search": NOTHING,
        "seed": NOTHING,
    },
    "GET /v1/jobs": {"state": NOTHING, "limit": NOTHING},
    "GET /v1/jobs/{id}": {"id": NOTHING},
    "DELETE /v1/jobs/{id}": {"id": NOTHING},
    "GET /v1/jobs/{id}/log": {"id": NOTHING},
    "GET /v1/jobs/{id}/events": {"id": NOTHING},
    "POST /v1/jobs/{id}/retry": {"id": NOTHING},
    "GET /v1/trainers": {},
    "GET /v1/models/{name}/events": {"name": NOTHING, "kind": NOTHING},
    "GET /v1/label-studio/{name}/health": NAME,
    "POST /v1/label-studio/{name}/setup": NAME,
    "POST /v1/label-studio/{name}/predict": {"name": LABELS, "tasks": LABELS},
    "POST /v1/label-studio/{name}/webhook": {
        "name": NOTHING,
        "annotation": NOTHING,
        "project": NOTHING,
        "task": NOTHING,
    },
    "GET /v1/label-studio/{name}/versions": NAME,
    "GET /annif/v1/": {},
    "GET /annif/v1/projects": {},
    "GET /annif/v1/projects/{name}": LABELS_OF_NAME,
    "GET /annif/v1/vocabs": {},
    "POST /annif/v1/projects/{name}/suggest": {
        "name": LABELS,
        "limit": LABELS,
        "threshold": NOTHING,
        "language": NOTHING,
    },
    "POST /annif/v1/projects/{name}/suggest-batch": {
        "name": LABELS,
        "limit": "documents",
        "threshold": NOTHING,
        "language": NOTHING,
        "documents": LABELS,
    },
    "POST /annif/v1/projects/{name}/learn": {"name": LABELS},
    "GET /v1/keys": {},
    "POST /v1/keys": {"models": NOTHING, "rates": NOTHING, "scopes": NOTHING},
    "GET /v1/keys/{key_id}": {"key_id": NOTHING},
    "PATCH /v1/keys/{key_id}": {"key_id": NOTHING, "rates": NOTHING},
    "DELETE /v1/keys/{key_id}": {"key_id": NOTHING},
    "GET /v1/webhooks": {},
    "POST /v1/webhooks": {"events": NOTHING, "models": NOTHING},
    "GET /v1/webhooks/{id}": {"id": NOTHING},
    "DELETE /v1/webhooks/{id}": {"id": NOTHING},
    "POST /v1/webhooks/{id}/test": {"id": NOTHING},
    "POST /v1/webhooks/{id}/enable": {"id": NOTHING},
    "GET /livez": {},
    "GET /readyz": {},
    "GET /v1/replicas": {},
    "GET /metrics": {},
}
"""Factor of each parameter of each call, by which its work multiplies."""


Ask = Callable[..., tuple[int, bytes]]
"""Sends a request: method, path and perhaps a body; returns status and content."""


class Load(NamedTuple):
    """Request that multiplies parameters of a call.

    Attributes
    ----------
    call : method and path, as in OpenAPI.
    parameters : those that multiply in this request.
    what : short name, unique within the call.
    path : path with its query.
    content : body.
    ends : model to delete afterwards, or ""; it is created by the request.
    copied_bytes : bytes of a model that the request copies or creates, which other limits bound.
    done : returns whether the work that the request has begun is done; None if its response is the end.
    """

    call: str
    parameters: tuple[str, ...]
    what: str
    path: str
    content: bytes = b""
    media_type: str = "application/json"
    ends: str = ""
    copied_bytes: int = 0
    done: Callable[[Ask], bool] | None = None

    @property
    def method(self) -> str:
        return self.call.partition(" ")[0]


def described_parameters(description: dict[str, Any]) -> dict[str, set[str]]:
    """Return the calls of an OpenAPI description with the parameters to list."""
    schemas = description["components"]["schemas"]
    found = dict[str, set[str]]()
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            names = {each["name"] for each in operation.get("parameters", ()) if each["in"] != "header"}
            for content in operation.get("requestBody", {}).get("content", {}).values():
                names |= set(_counts(content["schema"], schemas))
            found[f"{method.upper()} {path}"] = names
    return found


def _counts(model: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    """Yield the fields of a body that are counts, lists, objects or flags."""
    for part in _parts(model, schemas):
        for name, field in part.get("properties", {}).items():
            kinds = {each.get("type") for each in _parts(field, schemas)}
            if kinds & {"array", "object", "integer", "boolean"}:
                yield name


def _parts(model: dict[str, Any], schemas: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "$ref" in model:
        model = schemas[model["$ref"].rpartition("/")[2]]
    for choice in (*model.get("anyOf", ()), *model.get("oneOf", ()), *model.get("allOf", ())):
        yield from _parts(choice, schemas)
    yield model


def label(number: int) -> str:
    """Return a name of a label of nearly the largest length."""
    return f"q{number:05d}" + "-label" * 41


def prepare(ask: Ask) -> None:
    """Create the models that the loads need."""

    def done(method: str, path: str, document: Any) -> None:
        status, text = ask(method, path, json.dumps(document).encode())
        assert status in (200, 201), (method, path, status, text[:500])

    done("POST", "/v1/models", {"name": "large", "algorithm": "falt"})
    for begin in range(0, N_LABELS, 900):
        numbers = range(begin, min(begin + 900, N_LABELS))
        details = {
            label(i): {"title": f"title {i} " + "w" * 470, "uri": f"http://a/{i:05d}/" + "u" * 1_940} for i in numbers
        }
        done("PATCH", "/v1/models/large/labels", {"labels": details})
    done("POST", "/v1/models/large/update", {"x": {"text": "a b c"}, "y": [label(1), label(2)]})

    ordinary = [f"label-{i:05d}" for i in range(N_LABELS)]
    for name in ("chain", "groups", "plain"):
        done("POST", "/v1/models", {"name": name, "algorithm": "falt", "labels": ordinary})
        done("POST", f"/v1/models/{name}/update", {"x": {"text": "a b"}, "y": []})
    done("PUT", "/v1/models/chain/groups", {"parents": _chain(ordinary)})
    done("PUT", "/v1/models/groups/groups", {"groups": _groups(ordinary)})
    done("POST", "/v1/models/plain/predict?keep=record", {"examples": [{"x": {f"f{i}": 1}} for i in range(90)]})

    done("POST", "/v1/models", {"name": "vectors", "algorithm": "falt"})
    vectors = {f"v{i}": {"f32": _vector(64)} for i in range(8)}
    labels = [f"l{i}" for i in range(1_000)]
    for _ in range(3):
        done("POST", "/v1/models/vectors/update", {"x": vectors, "y": labels})

    done("POST", "/v1/models", {"name": "logged", "algorithm": "falt"})
    names = {f"name-of-{i:03d}": 1 for i in range(38)}
    for entry in range(2):
        examples = [{"x": {**names, f"n{i % 100}": entry}, "y": [f"l{i % 9}"]} for i in range(4_500)]
        done("POST", "/v1/models/logged/update", {"examples": examples})
    examples = [{"x": {"a": 1}, "y": ["b"]} for _ in range(10_000)]
    done("POST", "/v1/models/logged/update", {"examples": examples})
    done("POST", "/v1/models", {"name": "free", "algorithm": "falt"})
    done("POST", "/v1/models", {"name": "wide", "algorithm": "falt", "features": _features()})
    done("POST", "/v1/models/wide/update", {"x": {"f000001": 1}, "y": ["a"]})


def _features() -> list[str]:
    return [f"f{i:06d}" for i in range(N_FEATURES)]


def _vector(n: int) -> str:
    import base64

    import numpy as np

    return base64.b64encode(np.linspace(-1, 1, n, dtype="<f4").tobytes()).decode()


def _chain(labels: list[str]) -> dict[str, str]:
    return dict(zip(labels[1:], labels, strict=False))


def _groups(labels: list[str]) -> list[dict[str, Any]]:
    whole = len(labels) // 10
    return [{"name": f"g{i}", "labels": labels[10 * i : 10 * i + 10], "choose": "at_most_one"} for i in range(whole)]


def earlier(position: str) -> str:
    """Return the position of the entry before the one at a position of the embedded store."""
    return str(int(position) - 1)


def _forgotten(ask: Ask) -> bool:
    receipts = json.loads(ask("GET", "/v1/models/logged/forget")[1])["receipts"]
    return bool(receipts[0]["status"] != "running")


def loads(position_of: Callable[[str], str]) -> Iterator[Load]:
    """Yield the requests that multiply most; `position_of` returns the position of a model."""

    def load(
        call: str, parameters: str, what: str, model: str, document: Any = None, query: str = "", **more: Any
    ) -> Load:
        path = call.partition(" ")[2].replace("{name}", model) + query
        content = b"" if document is None else json.dumps(document).encode()
        return Load(call, tuple(parameters.split()), what, path, content, **more)

    predict = "POST /v1/models/{name}/predict"
    many = [{"x": {"text": "a b"}} for _ in range(100)]
    prefixes = [f"{label(9_000 + i)[:200]}*" for i in range(1_000)]
    short = [f"q0{i:03d}*" for i in range(1_000)]
    for model in ("large", "plain", "chain", "groups"):
        yield load(
            predict, "name examples top", f"100 examples, all labels, {model}", model, {"examples": many, "top": 10**6}
        )
    yield load(predict, "name probabilities", "one, probabilities", "large", {"x": {"a": 1}, "probabilities": True})
    for model, n in (("large", 4), ("plain", 17), ("chain", 17), ("groups", 17)):
        body = {"examples": many[:n], "top": 10**6}
        yield load(predict, "name examples top", f"{n} examples, all labels, {model}", model, body)
    top = {"x": {"a": 1}, "probabilities": True, "top": 10**6}
    yield load(predict, "name probabilities top", "one, all probabilities", "large", top)
    half = {"examples": many[:50], "probabilities": True, "top": 10**6}
    for model in ("large", "groups"):
        yield load(predict, "examples probabilities top", f"50, all probabilities, {model}", model, half)
    yield load(predict, "except", "1,000 short prefixes", "large", {"x": {"a": 1}, "except": short})
    both = {"x": {"a": 1}, "only": prefixes, "except": prefixes}
    yield load(predict, "only except", "1,000 long prefixes, both", "large", both)
    yield load(
        predict,
        "only except examples",
        "1,000 long prefixes, 100 examples",
        "large",
        {"examples": many, "only": prefixes, "except": prefixes},
    )
    vector = {f"v{i}": {"f32": _vector(64)} for i in range(8)}
    yield load(
        predict, "explain examples", "100 of 8 vectors", "vectors", {"examples": [{"x": vector}] * 100, "explain": 100}
    )
    numbers = {"examples": [{"x": vector}] * 10, "explain": 10}
    yield load(predict, "explain", "10 of 8 vectors", "vectors", numbers)

    update = "POST /v1/models/{name}/update"
    yield load(
        update, "name examples", "100 examples", "large", {"examples": [{**each, "y": [label(3)]} for each in many]}
    )
    both_calls = "POST /v1/models/{name}/predict-update"
    learnt = [{**each, "y": [label(3)]} for each in many[:50]]
    yield load(
        both_calls, "name examples probabilities", "50 examples", "large", {"examples": learnt, "probabilities": True}
    )
    for order in ("newest", "uncertainty", "review"):
        yield load(
            "GET /v1/models/{name}/predictions", "name order limit", order, "plain", None, f"?order={order}&limit=35"
        )
    for sort in ("name", "frequency"):
        yield load("GET /v1/models/{name}/labels", "name sort limit", sort, "large", None, f"?sort={sort}&limit=1000")
    yield load("GET /v1/models/{name}/health", "name", "all kinds", "large", None, "?top=1000")
    titles = {
        label(i): {"title": " ".join(f"w{i}{j}" for j in range(80))[:490], "description": "w d " * 700}
        for i in range(1_000)
    }
    yield load("PATCH /v1/models/{name}/labels", "labels", "1,000 titles", "free", {"labels": titles})
    line = b'{"x":{"a":1},"y":[]}\n' * 50
    yield Load(
        "POST /v1/models/{name}/stream",
        ("probabilities", "answers"),
        "50 lines",
        "/v1/models/large/stream?probabilities=true&answers=all",
        line,
        "application/x-ndjson",
    )
    x = {"name": "x", "shape": [100], "datatype": "BYTES", "data": ["a b"] * 100}
    outputs = [{"name": each} for each in ("labels", "scores")]
    yield load(
        "POST /v2/models/{name}/infer",
        "name inputs outputs",
        "100 scores",
        "large",
        {"inputs": [x], "outputs": outputs},
    )
    one = {"name": "x", "shape": [1], "datatype": "BYTES", "data": ["a b"]}
    outputs = [{"name": each} for each in ("labels", "scores", "probabilities", "predictions")]
    yield load(
        "POST /v2/models/{name}/infer",
        "name outputs",
        "all outputs of one",
        "large",
        {"inputs": [one], "outputs": outputs},
    )
    for call in ("GET /v2/models/{name}", "GET /v2/models/{name}/ready", "GET /v1/models/{name}"):
        yield load(call, "name", "large", "large")
    for model in ("chain", "groups"):
        yield load("GET /v1/models/{name}", "name", model, model)

    create = "POST /v1/models"
    new = {"name": "new", "algorithm": "falt"}
    details = [{"name": f"l{i}", "title": " ".join(f"w{i}{j}" for j in range(80))[:490]} for i in range(4_000)]
    yield load(
        create,
        "features labels",
        "300,000 features, one title",
        "",
        {**new, "features": _features(), "labels": [{"name": "a", "title": "f000001"}]},
        ends="new",
        copied_bytes=2**25,
    )
    yield load(create, "labels", "4,000 described labels", "", {**new, "labels": details}, ends="new")
    ordinary = [f"label-{i:05d}" for i in range(N_LABELS)]
    yield load(create, "groups", "990 groups", "", {**new, "labels": ordinary, "groups": _groups(ordinary)}, ends="new")
    yield load(create, "parents", "chain", "", {**new, "labels": ordinary, "parents": _chain(ordinary)}, ends="new")
    fork = {"name": "new", "fork": {"model": "logged", "at": earlier(position_of("logged"))}}
    yield load(create, "fork", "of two large entries", "", fork, ends="new")
    fork = {"name": "new", "fork": {"model": "wide"}}
    yield load(create, "fork", "of 300,000 features", "", fork, ends="new", copied_bytes=3 * 2**26)
    yield load("POST /v1/models/{name}/verify", "name", "300,000 features", "wide", copied_bytes=3 * 2**26)
    follow = {**new, "follow": {"model": "logged", "from": "start"}}
    yield load(create, "follow", "of three large entries", "", follow, ends="new")

    for call in ("", "/history", "/reliability"):
        yield load("GET /v1/models/{name}/metrics" + call, "name", "large", "large")
    for model in ("chain", "groups"):
        for change in ("pause", "resume"):
            yield load(f"POST /v1/models/{{name}}/labels/{change}", "name", model, model, {"label": ordinary[5]})
    yield load("POST /v1/models/{name}/labels/rename", "name", "large", "large", {"label": label(9), "to": "renamed"})
    yield load("POST /v1/models/{name}/labels/merge", "name", "large", "large", {"label": label(8), "into": label(7)})
    yield load("POST /v1/models/{name}/labels/retire", "name", "large", "large", {"label": label(6)})
    groups = "PUT /v1/models/{name}/groups"
    yield load(groups, "parents", "chain", "plain", {"parents": _chain(ordinary)})
    yield load(groups, "parents", "star", "plain", {"parents": dict.fromkeys(ordinary[1:], ordinary[0])})
    yield load(groups, "groups", "990 groups", "plain", {"groups": _groups(ordinary)})
    yield load("POST /v1/models/{name}/snapshots", "name", "large", "large", copied_bytes=2**27)
    yield load("GET /v1/models/{name}/log", "limit", "large entries", "logged", None, "?limit=10000")
    position = position_of("logged")
    yield load(
        "GET /v1/models/{name}/log",
        "limit",
        "tiny examples",
        "logged",
        None,
        f"?limit=1&from={earlier(position)}",
    )
    yield load(
        "POST /v1/models/{name}/forget",
        "positions",
        "one position 1,000 times",
        "logged",
        {"positions": [position] * 1_000},
        done=_forgotten,
    )
    yield load("POST /v1/models/{name}/verify", "name", "large entries", "logged")
    annif = "POST /annif/v1/projects/{name}/suggest"
    form = {"media_type": "application/x-www-form-urlencoded"}
    yield Load(
        annif, ("name", "limit"), "limit of 10,000", "/annif/v1/projects/large/suggest?limit=10000", b"text=a", **form
    )
    yield Load(
        annif, ("name", "limit"), "limit of 100", "/annif/v1/projects/large/suggest?limit=100", b"text=a", **form
    )
    batch = "POST /annif/v1/projects/{name}/suggest-batch"
    documents = {"documents": [{"text": "a"}] * 32}
    for limit in (100, 1_000, 10_000):
        yield load(batch, "name limit documents", f"32 documents, {limit}", "large", documents, f"?limit={limit}")
    long = {"documents": [{"text": "word and more " * 7_000}] * 32}
    yield load(batch, "name documents", "32 long texts", "large", long)
    learn = [{"text": "a", "subjects": [{"uri": f"http://a/{i:05d}/" + "u" * 1_940} for i in range(20, 30)]}] * 30
    yield load("POST /annif/v1/projects/{name}/learn", "name", "30 documents", "large", learn)
    yield load("GET /annif/v1/projects/{name}", "name", "large", "large")
    choices = "".join(f'<Choice value="c{i}"/>' for i in range(5_000))
    config = f'<View><Text name="t" value="$t"/><Choices name="c" toName="t">{choices}</Choices></View>'
    tasks = {"tasks": [{"id": i, "data": {"t": "a b"}} for i in range(200)], "label_config": config}
    yield load("POST /v1/label-studio/{name}/predict", "name tasks", "200 tasks, 5,000 choices", "plain", tasks)
