"""Annif's REST interface, as its public client annif-client and its backend `http` use it."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.lazy import lazy
from tests.support.server_process import ServerProcess

from manylabel_service.integrations.annif import schemas
from manylabel_service.integrations.annif.translation import read_form

annif_client = lazy("annif_client")
requests = lazy("requests")

FOX, DOG = "http://example.org/fox", "http://example.org/dog"
DOCUMENTS = [
    {"text": "the quick brown fox", "subjects": [{"uri": FOX, "label": "Foxes"}]},
    {"text": "a lazy dog sleeps", "subjects": [{"uri": DOG}, {"uri": "sleep"}]},
]
TITLES = {"fox": {"title": "Foxes", "uri": FOX}, "dog": {"uri": DOG}}


@pytest.fixture(scope="module")
def server(module_server_process: Callable[..., ServerProcess]) -> Iterator[ServerProcess]:
    with module_server_process() as server:
        yield server.start()


@pytest.fixture(scope="module")
def http(server: ServerProcess) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, timeout=120) as http:
        yield http


@pytest.fixture
def project(http: httpx2.Client) -> Iterator[str]:
    http.post("/v1/models", json={"name": "animals", "algorithm": "falt"}).raise_for_status()
    http.patch("/v1/models/animals/labels", json={"labels": TITLES}).raise_for_status()
    yield "animals"
    http.delete("/v1/models/animals").raise_for_status()


@pytest.fixture
def annif(server: ServerProcess) -> Any:
    return annif_client.AnnifClient(f"{server.url}/annif/v1/")


def test_the_annif_client_teaches_and_gets_suggestions(annif: Any, project: str, http: httpx2.Client) -> None:
    assert annif.api_info["title"] == "Annif REST API of ManyLabel"
    assert annif.get_project(project)["is_trained"] is False
    for _ in range(5):
        answer = annif.learn(project, DOCUMENTS)
        assert (answer.status_code, answer.content) == (204, b"")
    status = http.get("/v1/models/animals").json()
    assert (answer.headers["Position"], status["updates"]) == (status["position"], 10)
    found = annif.get_project(project)
    schemas.AnnifProject.model_validate(found, strict=True)
    assert found["is_trained"] is True
    assert found["vocab"] == {"vocab_id": "animals", "languages": ["und"], "size": 3, "loaded": True}
    assert annif.projects == [found]
    assert http.get("/annif/v1/vocabs").json() == {"vocabs": [found["vocab"]]}

    results = annif.suggest(project, "a quick fox")
    schemas.AnnifSuggestions.model_validate({"results": results}, strict=True)
    by_name = {"fox": (FOX, "Foxes"), "dog": (DOG, "dog"), "sleep": ("sleep", "sleep")}
    predicted = http.post("/v1/models/animals/predict", json={"x": "a quick fox", "probabilities": True}).json()
    likely = sorted(predicted["probabilities"].items(), key=lambda pair: -pair[1])
    assert [(r["uri"], r["label"], r["notation"], r["score"]) for r in results] == [
        (*by_name[name], None, score) for name, score in likely
    ]
    assert results[0]["uri"] == FOX
    assert annif.suggest(project, "a quick fox", limit=1) == results[:1]
    assert annif.suggest(project, "a quick fox", threshold=results[1]["score"]) == results[:2]
    assert annif.suggest(project, "a quick fox", limit=0) == []

    documents = [{"text": "a quick fox", "document_id": "one"}, {"text": "a dog"}]
    batch = annif.suggest_batch(project, documents, limit=2)
    assert batch[0] == {"document_id": "one", "results": results[:2]}
    assert (batch[1]["document_id"], batch[1]["results"][0]["uri"]) == (None, DOG)


def test_an_empty_text_has_no_suggestions(annif: Any, project: str, http: httpx2.Client) -> None:
    annif.learn(project, DOCUMENTS)
    assert annif.suggest(project, "a fox")
    assert annif.suggest(project, " \n") == []
    sent = {"documents": [{"text": ""}, {"text": "a fox"}, {"text": "", "metadata": {"shelf": "b"}}]}
    found = http.post(f"/annif/v1/projects/{project}/suggest-batch", json=sent).json()
    assert [bool(each["results"]) for each in found] == [False, True, True]


def test_the_limit_may_be_in_the_address(server: ServerProcess, annif: Any, project: str) -> None:
    """The backend `http` of Annif sends the text and the name of its project, and nothing else."""
    annif.learn(project, DOCUMENTS * 3)
    url = f"{server.url}/annif/v1/projects/{project}/suggest"
    found = [requests.post(url + limit, data={"text": "fox", "project": "x"}) for limit in ("?limit=2", "?limit=1")]
    assert [len(each.json()["results"]) for each in found] == [2, 1]


def test_the_text_is_the_only_text_field_and_metadata_are_fields(annif: Any, http: httpx2.Client) -> None:
    spec = {"name": "books", "algorithm": "falt", "text": {"fields": ["abstract"]}}
    http.post("/v1/models", json=spec).raise_for_status()
    for text in ("a fox", "a dog"):
        subjects = [{"uri": text[2:]}]
        annif.learn("books", [{"text": text, "metadata": {"shelf": "A"}, "subjects": subjects}] * 3)
    record = {"abstract": "a fox", "shelf": "B"}
    due = http.post("/v1/models/books/predict", json={"x": record, "probabilities": True}).json()["probabilities"]
    (found,) = annif.suggest_batch("books", [{"text": "a fox", "metadata": {"shelf": "B"}}])
    form = {"text": "a fox", "metadata_shelf": "B"}
    assert http.post("/annif/v1/projects/books/suggest", data=form).json() == {"results": found["results"]}
    assert {each["uri"]: each["score"] for each in found["results"]} == due
    wrong = http.post("/annif/v1/projects/books/suggest", data={"text": "a", "metadata_abstract": "b"})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (400, "/metadata/abstract")
    http.delete("/v1/models/books").raise_for_status()


def test_subjects_keep_their_label_when_it_is_renamed(annif: Any, project: str, http: httpx2.Client) -> None:
    annif.learn(project, DOCUMENTS)
    http.post("/v1/models/animals/labels/rename", json={"label": "fox", "to": "vulpes"}).raise_for_status()
    annif.learn(project, DOCUMENTS)
    labels = http.get("/v1/models/animals/labels?sort=name").json()["labels"]
    assert {each["label"] for each in labels} == {"vulpes", "dog", "sleep"}


def test_a_retry_is_learnt_once(server: ServerProcess, project: str, http: httpx2.Client) -> None:
    url, headers = f"{server.url}/annif/v1/projects/{project}/learn", {"Idempotency-Key": "one"}
    first, second = (requests.post(url, json=DOCUMENTS, headers=headers) for _ in range(2))
    assert (first.status_code, second.status_code, second.headers["Idempotent-Replayed"]) == (204, 204, "true")
    assert first.headers["Position"] == second.headers["Position"]
    assert http.get("/v1/models/animals").json()["updates"] == 2


def test_errors_have_the_status_and_format_of_annif(annif: Any, project: str, http: httpx2.Client) -> None:
    with pytest.raises(ValueError, match="there is no model named 'nothing'"):
        annif.get_project("nothing")
    with pytest.raises(ValueError, match="there is no model named 'nothing'"):
        annif.suggest("nothing", "text")
    with pytest.raises(ValueError, match="this path does not exist"):
        annif.detect_language("text", ["en"])
    plain = {"name": "scores", "algorithm": "falt", "params": {"calibrate": False, "optimise": "none"}}
    http.post("/v1/models", json=plain).raise_for_status()
    at = f"/annif/v1/projects/{project}"
    unnamed = {"text": "a", "metadata": {"": "b"}}
    wrong: list[tuple[str, dict[str, Any], int, str]] = [
        (f"{at}/suggest", {"data": {"txt": "a"}}, 400, "/text"),
        (f"{at}/suggest", {"data": {"text": "a", "limit": "-1"}}, 400, "/limit"),
        (f"{at}/suggest", {"data": {"text": "a", "limit": "x"}}, 400, "/limit"),
        (f"{at}/suggest", {"data": {"text": "a", "metadata_": "b"}}, 400, "/metadata/"),
        (f"{at}/suggest-batch", {"json": {"documents": [unnamed]}}, 400, "/documents/0/metadata/"),
        (f"{at}/suggest", {"data": {"text": "a", "threshold": "nan"}}, 400, "/threshold"),
        (f"{at}/suggest", {"content": b"text=%ff"}, 400, ""),
        (f"{at}/suggest", {"content": b"text=a&text=b"}, 400, ""),
        (f"{at}/suggest", {"content": b"a=&" * 200 + b"text=a"}, 400, ""),
        (f"{at}/suggest", {"data": {"text": "word " * 30_000}}, 400, ""),
        (f"{at}/suggest-batch", {"json": {"documents": [{"text": "a"}] * 33}}, 400, "/documents"),
        (f"{at}/suggest-batch", {"json": {"documents": [{"text": "a"}, {"text": 1}]}}, 400, "/documents/1/text"),
        (f"{at}/suggest-batch", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400, ""),
        (f"{at}/learn", {"json": {}}, 400, ""),
        (f"{at}/learn", {"json": [*DOCUMENTS, {"text": "a"}]}, 400, "/2/subjects"),
        (f"{at}/learn", {"json": [{"text": "a", "subjects": [{"uri": ""}]}]}, 400, "/0/subjects/0/uri"),
        (f"{at}/learn", {"json": [{"text": "a", "subjects": [{"uri": "a" * 257}]}]}, 400, "/0/subjects"),
        (f"{at}/learn", {"json": [{"text": "a", "subjects": [{"uri": "ä" * 200}]}]}, 400, "/0/subjects/0"),
        ("/annif/v1/projects/scores/suggest", {"data": {"text": "a"}}, 400, ""),
    ]
    for path, sent, status, pointer in wrong:
        answer = http.post(path, **sent)
        problem = answer.json()
        assert (answer.status_code, problem["status"]) == (status, status), (path, sent, problem)
        assert answer.headers["content-type"] == "application/problem+json"
        assert pointer in [error.get("pointer") for error in problem["errors"]] or not pointer, problem
    refused = http.post(f"{at}/suggest-batch?limit=x", json={"documents": []})
    assert (refused.status_code, refused.json()["errors"][0]["parameter"]) == (400, "limit")
    assert http.get("/v1/models/animals").json()["updates"] == 0
    http.delete("/v1/models/scores")


def test_a_key_in_the_address_has_its_models(server_process: Callable[..., ServerProcess]) -> None:
    with server_process() as server, httpx2.Client(base_url=server.start().url, timeout=120) as http:
        admin = http.post("/v1/keys", json={"name": "admin", "scopes": ["admin"], "models": ["*"]}).json()["key"]
        http.headers["Authorization"] = f"Bearer {admin}"
        for name in ("animals", "plants"):
            http.post("/v1/models", json={"name": name, "algorithm": "falt"}).raise_for_status()
        asked = {"name": "annif", "scopes": ["predict", "read"], "models": ["animals"]}
        key = http.post("/v1/keys", json=asked).json()["key"]
        reader = annif_client.AnnifClient(f"http://annif:{key}@127.0.0.1:{server.port}/annif/v1/")
        assert [each["project_id"] for each in reader.projects] == ["animals"]
        assert reader.suggest("animals", "text") == []
        with pytest.raises(requests.HTTPError, match="403 Client Error"):
            reader.learn("animals", DOCUMENTS)


def test_a_trained_model_suggests_with_its_titles(annif: Any, http: httpx2.Client) -> None:
    rows = [{"text": f"{('fox', 'dog')[i % 2]} number{i % 5}", "tags": [("fox", "dog")[i % 2]]} for i in range(40)]
    parts = {"file": "\n".join(map(json.dumps, rows)).encode(), "label_details": json.dumps(TITLES).encode()}
    query = {"name": "texts", "format": "ndjson", "tags": "tags", "text": json.dumps({"fields": ["text"]})}
    http.post("/v1/datasets", params=query, files=parts).raise_for_status()
    job = {"trainer": "m3l", "data": {"dataset": "texts"}, "model": "served", "promote": "always"}
    answer = http.post("/v1/jobs", json=job)
    assert answer.status_code == 202, answer.text
    http.get(f"{answer.headers['location']}/events")  # ends when the job does
    results = annif.suggest("served", "fox number3")
    assert [(each["uri"], each["label"]) for each in results] == [(FOX, "Foxes"), (DOG, "dog")]
    likely = http.post("/v1/models/served/predict", json={"x": {"text": "fox number3"}, "probabilities": True}).json()
    assert [each["score"] for each in results] == sorted(likely["probabilities"].values(), reverse=True)
    assert annif.get_project("served")["is_trained"] is True
    refused = http.post("/annif/v1/projects/served/learn", json=DOCUMENTS)
    assert (refused.status_code, refused.json()["code"]) == (403, "learning_not_allowed")


@given(
    pairs=st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=4).map(lambda name: f"metadata_{name}"),
        st.text(st.characters(codec="utf-8"), max_size=9),
        max_size=4,
    ),
    quote=st.sampled_from([quote, quote_plus]),
)
def test_a_form_is_read_as_urllib_reads_it(pairs: dict[str, str], quote: Callable[[str], str]) -> None:
    raw = "&".join(["text=a%2bb+c%", *(f"{quote(name)}={quote(value)}" for name, value in pairs.items())]).encode()
    sent, metadata = read_form(raw, schemas.AnnifLimits())
    expected = parse_qsl(raw.decode(), keep_blank_values=True, errors="strict")
    assert [("text", sent.text), *((f"metadata_{name}", value) for name, value in metadata.items())] == expected
