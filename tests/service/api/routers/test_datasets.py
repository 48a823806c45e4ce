"""Datasets over HTTP: uploads of every format, refusals, and uploads that break off."""

import contextlib
import gzip
import http.client
import io
import json
import os
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.service.api.answers import ok, refused
from tests.support.cases import for_each
from tests.support.processes import READER, has_ended, processes
from tests.support.server_process import open_scratch_files
from tests.support.waiting import eventually

from manylabel_service.api.translation.uploads import Multipart, boundary_of
from manylabel_service.api.web.problems import Problem
from manylabel_service.datasets.upload_slots import MAX_UPLOADS

BYTES = {"Content-Type": "application/octet-stream"}
ARFF = b"@relation r\n@attribute tempo real\n@attribute rock {0,1}\n@attribute jazz {0,1}\n@data\n120,1,0\n80,0,1\n"
XML = b'<labels><label name="jazz"/><label name="rock"/></labels>'
CSV = b"tempo,rock,jazz\n120,1,0\n80,0,1\n"
SVM = b"1 1:120\n2 1:80\n"


def npz() -> bytes:
    file = io.BytesIO()
    X, Y = np.float32([[120], [80]]), np.int8([[1, 0], [0, 1]])
    np.savez(file, X=X, Y=Y, label_names=np.array(["rock", "jazz"]))
    return file.getvalue()


NDJSON = b'{"x": {"tempo": 120}, "y": ["rock"]}\n{"x": {"tempo": 80}, "y": ["jazz"]}\n'


def address(name: str = "songs", format: str = "libsvm", **more: object) -> str:
    return f"/v1/datasets?{urlencode({'name': name, 'format': format, **more})}"


def upload(client: TestClient, data: bytes = SVM, headers: dict[str, str] = BYTES, **parameters: object) -> Any:
    return client.post(address(**parameters), content=data, headers=headers)  # type: ignore[arg-type]


@pytest.fixture
def none(client: TestClient) -> Iterator[TestClient]:
    """A client of a server without datasets."""
    yield client
    for one in client.get("/v1/datasets").json()["datasets"]:
        client.delete(f"/v1/datasets/{one['name']}").raise_for_status()


def names(client: TestClient) -> list[str]:
    return [one["name"] for one in client.get("/v1/datasets").raise_for_status().json()["datasets"]]


# -- formats ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format", "data", "media_type", "parameters"),
    [
        ("libsvm", SVM, "text/plain", {"zero_based": "false"}),
        ("arff", ARFF, "text/plain; charset=utf-8", {"label_columns": "-2"}),
        ("npz", npz(), "application/octet-stream", {}),
        ("ndjson", NDJSON, "application/x-ndjson", {}),
        ("csv", CSV, "text/csv", {"label_columns": '"rock",jazz'}),
    ],
)
def test_every_format_is_read(
    none: TestClient, format: str, data: bytes, media_type: str, parameters: dict[str, str]
) -> None:
    answer = upload(none, data, {"Content-Type": media_type}, format=format, split=1, **parameters)
    assert (answer.status_code, answer.headers["location"]) == (201, "/v1/datasets/songs"), answer.text
    record = answer.json()
    facts = {"name": "songs", "format": format, "rows": 2, "features": 1, "labels": 2, "cardinality": 1.0}
    assert record.items() >= {**facts, "density": 0.5, "views": {"x": 1}, "splits": {"train": 1, "test": 1}}.items()
    assert none.get("/v1/datasets").json() == {"datasets": [record]}
    assert none.get("/v1/datasets/songs").json() == record
    details = none.get("/v1/datasets/songs?details=true").json()
    report = details.pop("report")
    assert (report["rows"], report["labels"]) == (2, dict.fromkeys(details["label_names"], 1))
    due = ["1", "2"] if format == "libsvm" else ["rock", "jazz"]
    assert details == {**record, "label_names": due, "label_counts": [1, 1], "unlabelled": 0}
    assert none.delete("/v1/datasets/songs").status_code == 204
    assert names(none) == []


def test_an_arff_file_comes_with_its_xml(none: TestClient) -> None:
    for name, files in (("a", {"file": ARFF, "labels": XML}), ("b", {"labels": XML, "file": ARFF})):
        answer = none.post(address(name, "arff"), files=files)
        assert answer.status_code == 201, answer.text
        assert none.get(f"/v1/datasets/{name}?details=true").json()["label_names"] == ["rock", "jazz"]


def test_columns_are_what_the_query_says(none: TestClient) -> None:
    """The words for the columns of a table are those of the command and of the reader."""
    data = "120,5;007;n.d.;p, é;\n80;012;-9;;x\n".encode("cp1252")
    words = {
        "names": "tempo,zip,size,tags,note",
        "category": "zip",
        "number": "size",
        "missing": "-9, n.d.",
        "decimal": ",",
        "ignore": "note",
        "tags": "tags",
        "separator": ", ",
        "empty": "none",
        "encoding": "cp1252",
    }
    answer = upload(none, data, format="csv", **words)
    assert answer.status_code == 201, answer.text
    report = none.get("/v1/datasets/songs?details=true").json()["report"]
    assert [(column["name"], column["kind"]) for column in report["columns"]] == [
        ("tempo", "number"),
        ("zip", "category"),
        ("size", "number"),
        ("tags", "labels"),
        ("note", "ignored"),
    ]
    assert report["first"] == [
        {"x": {"tempo": 120.5, "zip": "007"}, "y": ["p", "é"]},
        {"x": {"tempo": 80.0, "zip": "012"}, "y": []},
    ]
    assert none.delete("/v1/datasets/songs").status_code == 204
    whole = upload(none, b"a,l\n1,p q\n", format="csv", tags="l", separator="")
    assert whole.json()["labels"] == 1


@for_each(
    ("words", "place"),
    [
        ({"decimal": "x"}, "decimal"),
        ({"empty": "maybe"}, "empty"),
        ({"encoding": "klingon"}, "encoding"),
        ({"number": ""}, "number"),
        ({"format": "ndjson", "decimal": ","}, "decimal"),
        ({"format": "libsvm", "category": "a"}, "category"),
    ],
)
def test_words_for_columns_that_are_refused(none: TestClient, words: dict[str, str], place: str) -> None:
    answer = upload(none, b"a,l\n1,p\n", **{"format": "csv", **({} if "format" in words else {"tags": "l"}), **words})
    assert answer.status_code == 422, answer.text
    assert place in answer.text


def test_a_table_with_two_readings_is_refused_with_the_cure(none: TestClient) -> None:
    answer = upload(none, b'a,l\n"1,234",p\n', format="csv", tags="l")
    assert answer.status_code == 422
    assert "line 2: column 'a' is '1,234', which has two readings: state whether the decimal mark is" in answer.text


# -- refusals ---------------------------------------------------------------------------------------------------


@for_each(
    ("query", "place"),
    [
        ("format=csv", "name"),
        ("name=Songs&format=npz", "name"),
        ("name=&format=npz", "name"),
        ("name=a/b&format=npz", "name"),
        ("name=songs&name=songs&format=libsvm", "name"),
        ("name=songs", "format"),
        ("name=songs&format=xls", "format"),
        ("name=songs&format=csv", "label_columns"),
        ("name=songs&format=csv&label_columns=", "label_columns"),
        ("name=songs&format=csv&label_columns=a,,b", "label_columns"),
        ("name=songs&format=csv&label_columns=%22a", "label_columns"),
        ("name=songs&format=npz&label_columns=1", "label_columns"),
        ("name=songs&format=ndjson&label_columns=1", "label_columns"),
        ("name=songs&format=ndjson&label_columns=a,b", "label_columns"),
        ("name=songs&format=csv&label_columns=a,b&separator=;", "label_columns"),
        ("name=songs&format=csv&label_columns=a&tags=b", "label_columns"),
        ("name=songs&format=ndjson&separator=;", "separator"),
        ("name=songs&format=csv&label_columns=1&zero_based=true", "zero_based"),
        ("name=songs&format=libsvm&zero_based=yes", "zero_based"),
        ("name=songs&format=libsvm&split=0", "split"),
        ("name=songs&format=libsvm&split=1.5", "split"),
        ("name=songs&format=libsvm&labels=2", "labels"),
        ("name=songs&format=csv&tags=b&text=", "text"),
        ("name=songs&format=csv&tags=b&text=a,,b", "text"),
        ("name=songs&format=csv&tags=b&text={", "text"),
        ('name=songs&format=csv&tags=b&text={"ngrams": 9}', "text"),
        ('name=songs&format=csv&tags=b&text={"field": []}', "text"),
        ("name=songs&format=libsvm&text=a", "text"),
        ("name=songs&format=libsvm&weight=a", "weight"),
        ("name=songs&format=csv&tags=b&weight=", "weight"),
        ("name=songs&format=ndjson&weight=a", "weight"),
    ],
)
def test_bad_parameters_are_refused(none: TestClient, query: str, place: str) -> None:
    refused(none.post(f"/v1/datasets?{query}", content=SVM, headers=BYTES), 422, "invalid_request", place)
    assert names(none) == []


def test_bad_headers_are_refused(none: TestClient) -> None:
    for headers in (
        {},
        {"Content-Type": "application/json"},
        {"Content-Type": "multipart/form-data"},
        {"Content-Type": "multipart/form-data; boundary="},
        {"Content-Type": "multipart/form-data; boundary=" + "x" * 71},
        {**BYTES, "Content-Encoding": "br"},
    ):
        refused(upload(none, headers=headers), 415, "unsupported_media_type")
    assert names(none) == []


@pytest.mark.parametrize(
    ("format", "data", "place", "parameters"),
    [
        ("libsvm", b"1 1:1\n1 1:x\n", "line 2", {}),
        (
            "csv",
            b"a,w,rock\n1,2,0\n1,,1\n",
            "line 3: the weight in column 'w' is '': expected a number above 0 and at most 1000",
            {"label_columns": 1, "weight": "w"},
        ),
        ("npz", npz()[:-30], "not an .npz file", {}),
        ("libsvm", SVM, "both splits need rows: the split must be 1 to 1, not 2", {"split": 2}),
    ],
)
def test_a_bad_file_is_refused(
    none: TestClient, format: str, data: bytes, place: str, parameters: dict[str, object]
) -> None:
    problem = refused(upload(none, data, format=format, **parameters), 422, "invalid_dataset")
    assert place in problem["detail"]
    assert names(none) == []


def test_an_existing_name_is_refused(none: TestClient) -> None:
    upload(none).raise_for_status()
    refused(upload(none, b"1 1:1\n" * 9), 409, "dataset_exists")
    assert none.get("/v1/datasets/songs").json()["rows"] == 2


def test_an_unknown_dataset_is_not_found(none: TestClient) -> None:
    refused(none.get("/v1/datasets/nobody"), 404, "dataset_not_found")
    refused(none.get("/v1/datasets/nobody?details=true"), 404, "dataset_not_found")
    refused(none.delete("/v1/datasets/nobody"), 404, "dataset_not_found")
    refused(none.get("/v1/datasets/nobody?details=1"), 422, "invalid_request", "details")


def test_label_details_are_a_part_of_the_upload(none: TestClient) -> None:
    post: Callable[..., Any] = none.post
    details = {"jazz": {"title": "Jazz", "uri": "http://x/jazz", "description": None}}
    for name, format, parts in (("one", "arff", {"file": ARFF, "labels": XML}), ("two", "npz", {"file": npz()})):
        sent = {**parts, "label_details": json.dumps(details).encode()}
        post(address(name, format), files=sent).raise_for_status()
        assert none.get(f"/v1/datasets/{name}?details=true").json()["label_details"] == {
            "jazz": {"title": "Jazz", "uri": "http://x/jazz"}
        }
        assert "label_details" not in none.get(f"/v1/datasets/{name}").json()
        none.delete(f"/v1/datasets/{name}").raise_for_status()
    for wrong in (b"{", b'{"folk": {"title": "Folk"}}', b'{"jazz": {"title": ""}}', b'{"jazz": {"titel": "x"}}'):
        answer = post(address("wrong", "npz"), files={"file": npz(), "label_details": wrong})
        assert "label_details" in refused(answer, 422, "invalid_dataset")["detail"]
    assert names(none) == []


def test_unexpected_parts_are_refused(none: TestClient) -> None:
    post: Callable[..., Any] = none.post
    arff = address(format="arff")
    refused(post(arff, files={"labels": XML}), 422, "invalid_request")
    refused(post(arff, files={"file": ARFF, "more": b"x"}), 422, "invalid_request")
    refused(post(arff, files=[("file", ARFF), ("file", ARFF)]), 422, "invalid_request")
    refused(post(address(format="libsvm"), files={"file": SVM, "labels": XML}), 422, "invalid_request")
    refused(post(address(format="arff", label_columns=1), files={"file": ARFF, "labels": XML}), 422, "invalid_request")
    problem = refused(post(arff, files={"file": ARFF, "labels": b"<!DOCTYPE x []><x/>"}), 422, "invalid_dataset")
    assert "labels, line 1: document type declarations and entities are not allowed" in problem["detail"]
    cut = b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n' + ARFF
    refused(
        post(arff, content=cut, headers={"Content-Type": "multipart/form-data; boundary=b"}), 422, "invalid_request"
    )
    assert names(none) == []


@pytest.fixture(scope="module")
def small(serve: Callable[..., Any]) -> Iterator[TestClient]:
    with serve(max_dataset_bytes=20_000, max_datasets=1, max_labels=5) as client:
        yield client


def test_an_upload_has_a_limit(small: TestClient) -> None:
    large = b"1 1:1\n" * 4_000
    chunks = (large[begin : begin + 1_000] for begin in range(0, len(large), 1_000))
    setting = "more than 20,000 bytes; the setting max_dataset_bytes has this limit"
    for answer, detail in (
        (upload(small, large), f"the body has {setting}"),
        (small.post(address(), content=chunks, headers=BYTES), f"the file has {setting}"),
        (small.post(address(format="arff"), files={"file": large}), f"the file has {setting}"),
        (
            small.post(address(format="arff"), files={"labels": bytes(17 * 2**20), "file": ARFF}),
            f"the part labels has more than {2**24:,} bytes; no setting changes this limit",
        ),
    ):
        assert refused(answer, 413, "body_too_large")["detail"] == detail
    assert names(small) == []


def test_labels_and_datasets_have_limits(small: TestClient) -> None:
    many = b"".join(b"%d 1:1\n" % i for i in range(6))
    assert "6 labels; at most 5 are allowed" in refused(upload(small, many), 422, "invalid_dataset")["detail"]
    upload(small).raise_for_status()
    refused(upload(small, name="second"), 507, "limit_exceeded")
    small.delete("/v1/datasets/songs").raise_for_status()


def test_concurrent_uploads_are_limited(client: TestClient) -> None:
    app: Any = client.app
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_UPLOADS):
            stack.enter_context(app.state.context.datasets.uploads.upload())
        detail = refused(upload(client), 503, "not_ready")["detail"]
        assert "limit of concurrent uploads" in detail


# -- over a socket, in a process of its own ---------------------------------------------------------------------------

WAIT_SECONDS = 300.0


@pytest.fixture(scope="module")
def server(module_server_process: Callable[..., Any]) -> Any:
    return module_server_process("--idle-timeout-seconds", "3").start()


def begun(server: Any, length: int, sent: bytes) -> socket.socket:
    """Open a connection and begin an upload of an announced length."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_SECONDS)
    head = (
        f"POST {address()} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n"
    )
    connection.sendall(head.encode() + sent)
    return connection


def listed(server: Any) -> list[Any]:
    with urllib.request.urlopen(f"{server.url}/v1/datasets") as answer:
        found: list[Any] = json.load(answer)["datasets"]
        return found


def data_files(server: Any) -> set[str]:
    return {str(path.relative_to(server.data_dir)) for path in server.data_dir.rglob("*") if path.is_file()}


def test_an_upload_that_breaks_off_leaves_nothing(server: Any) -> None:
    before = data_files(server)
    for closing in (socket.socket.close, lambda c: (c.shutdown(socket.SHUT_WR), c.recv(1), c.close())):
        connection = begun(server, 10_000_000, b"1 1:1\n" * 400_000)
        eventually(lambda: open_scratch_files(server))
        closing(connection)
        eventually(lambda: not open_scratch_files(server))
    assert (listed(server), data_files(server)) == ([], before)


def test_stalled_uploads_give_way(server_process: Callable[..., Any]) -> None:
    """Uploads that advance by a byte now and then do not block another one."""
    with server_process() as server, contextlib.ExitStack() as stack:
        server.start()
        stalled = [stack.enter_context(begun(server, 1_000_000, SVM)) for _ in range(MAX_UPLOADS)]
        eventually(lambda: open_scratch_files(server) == MAX_UPLOADS)

        def uploaded() -> bool:
            for connection in stalled:
                connection.sendall(b" ")
            with begun(server, len(SVM), SVM) as connection:
                answer = http.client.HTTPResponse(connection)
                answer.begin()
                assert answer.status in (201, 503)
                return answer.status == 201

        eventually(uploaded)  # once they have stood still for long enough
        answer = http.client.HTTPResponse(stalled[0])  # it has stood still for longest
        answer.begin()
        assert (answer.status, json.loads(answer.read())["code"]) == (503, "not_ready")


def test_an_idle_upload_is_ended(server: Any) -> None:
    with begun(server, 1_000, SVM) as connection:
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert (answer.status, json.loads(answer.read())["code"]) == (408, "stream_idle")
    eventually(lambda: not open_scratch_files(server))
    assert listed(server) == []


def test_other_requests_are_answered_while_a_file_is_read(server: Any) -> None:
    """The file is read in another process."""
    data = b"1 1:1 2:1 3:1\n" * 50_000
    answers: list[int] = []

    def send() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_SECONDS)
        connection.request("POST", address("large"), data, {"Content-Type": "text/plain"})
        answers.append(connection.getresponse().status)
        connection.close()

    sender = threading.Thread(target=send)
    sender.start()
    eventually(lambda: processes(READER, ancestor=os.getpid()))
    n_meanwhile = 0
    # At most 20 requests, because the parser gives way to them.
    while n_meanwhile < 20 and processes(READER, ancestor=os.getpid()):
        assert listed(server) == []
        n_meanwhile += 1
    sender.join()
    assert answers == [201]
    assert n_meanwhile > 2
    assert [one["rows"] for one in listed(server)] == [50_000]


def test_a_server_killed_while_it_reads_leaves_nothing(server: Any) -> None:
    before = data_files(server)
    names_before = [one["name"] for one in listed(server)]
    data = b"1 1:1 2:1 3:1\n" * 150_000
    with begun(server, len(data), data):
        eventually(lambda: processes(READER, ancestor=os.getpid()))
        (reader,) = processes(READER, ancestor=os.getpid())
        server.kill()
        eventually(lambda: has_ended(reader))
    server.start()
    assert [one["name"] for one in listed(server)] == names_before
    assert {name for name in data_files(server) - before if "sqlite" not in name} == set()


# -- multipart --------------------------------------------------------------------------------------------------------

NAMES = ("file", "labels")


def part(name: str, data: bytes, more: str = '; filename="a b.arff"\r\nContent-Type: text/plain') -> bytes:
    return f'--b\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + data + b"\r\n"


def parts_of(body: bytes, ends: list[int]) -> tuple[dict[str, bytes], bool]:
    multipart = Multipart(b"b", NAMES)
    found: dict[str, bytes] = {}
    for begin, end in zip([0, *ends], [*ends, len(body)], strict=True):
        for name, data in multipart.feed(body[begin:end]):
            found[name] = found.get(name, b"") + data
    return found, multipart.ended


@given(
    file=st.text(alphabet="\r\n-bx", max_size=30),
    xml=st.binary(max_size=10),
    cuts=st.lists(st.integers(0, 300), max_size=8),
    preamble=st.sampled_from([b"", b"\r\n"]),
)
def test_parts_are_read_from_pieces_of_any_size(file: str, xml: bytes, cuts: list[int], preamble: bytes) -> None:
    data = file.encode()
    if b"\r\n--b" in b"\r\n" + data or b"\r\n--b" in xml:
        return
    body = preamble + part("file", data) + part("labels", xml, "") + b"--b--\r\nafterwards"
    found, ended = parts_of(body, sorted(min(cut, len(body)) for cut in cuts))
    assert ended
    assert (found.get("file", b""), found.get("labels", b"")) == (data, xml)


@for_each(
    "body",
    [
        b"ignored\r\n" + part("file", b"x") + b"--b--",
        b"--b\r\n\r\nx\r\n--b--",
        b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--",
        b'--b\r\nContent-Disposition: form-data; name="other"\r\n\r\nx\r\n--b--',
        b"--b\r\n" + b"x" * 9_000,
        part("file", b"x") + part("file", b"y"),
    ],
)
def test_a_bad_multipart_body_is_refused(body: bytes) -> None:
    with pytest.raises(Problem, match="not multipart/form-data as expected"):
        parts_of(body, [])


def test_a_line_that_only_begins_as_a_boundary_is_data() -> None:
    assert parts_of(part("file", b"x") + b"--bad", []) == ({"file": b"x\r\n--bad"}, False)


@given(data=st.binary(max_size=200))
def test_any_multipart_body_is_read_or_refused(data: bytes) -> None:
    for body in (data, part("file", b"x") + data, b"--b\r\n" + data):
        try:
            parts_of(body, [])
        except Problem as problem:
            assert problem.status == 422  # noqa: PT017 (no problem is as good)


def test_the_boundary_is_read_from_the_header() -> None:
    assert boundary_of('multipart/form-data; boundary="a b"; charset=x') == b"a b"
    assert boundary_of("multipart/form-data; BOUNDARY=xyz") == b"xyz"
    for wrong in ("multipart/form-data", "multipart/form-data; boundary=é", 'multipart/form-data; boundary=""'):
        with pytest.raises(Problem, match="must name a boundary"):
            boundary_of(wrong)


# -- records ----------------------------------------------------------------------------------------------------------

LINES = (
    b'{"title": "Chess for one", "section": "games", "n": 2, "tags": ["game"]}\n{"title": "x", "tags": ["c", "game"]}\n'
)
TABLE = b"title,section,n,tags\nChess for one,games,2,game\nx,,,c;game\n"
TEXT = {"fields": ["title"], "longer_than": None, "ngrams": [1, 1], "chars": None, "stop_words": [], "min_length": 2}


@pytest.mark.parametrize(
    ("format", "data", "media_type", "parameters"),
    [
        ("ndjson", LINES, "application/x-ndjson", {"tags": "tags", "text": "title"}),
        (
            "ndjson",
            gzip.compress(LINES, mtime=0),
            "application/gzip",
            {"tags": "tags", "text": '{"fields": ["title"]}'},
        ),
        ("csv", TABLE, "text/csv", {"tags": "tags", "separator": ";", "text": "title", "ignore": "n"}),
        ("tsv", TABLE.replace(b",", b"\t"), "text/tab-separated-values", {"label_columns": "1", "separator": ";"}),
    ],
)
def test_records_are_read(
    none: TestClient, format: str, data: bytes, media_type: str, parameters: dict[str, str]
) -> None:
    record = ok(upload(none, data, {"Content-Type": media_type}, format=format, **parameters), 201)
    fields = ["title"] if "text" in parameters else None
    assert record["text"] == {**TEXT, "fields": fields, "longer_than": None if fields else 200, "tokeniser": 1}
    features = 6 if fields else 5  # n and n=given, because the second row lacks it
    assert (record["features"], record["labels"]) == (features - 2 * ("ignore" in parameters), 2)
    assert none.get("/v1/datasets/songs").json() == record


@pytest.mark.parametrize(
    ("data", "parameters"),
    [
        (b"tempo,w,rock,jazz\n120,0.5,1,0\n80,2,0,1\n", {"format": "csv", "label_columns": 2, "weight": "w"}),
        (ARFF.replace(b"80,0,1", b"80,0,1,{0.25}"), {"format": "arff", "label_columns": -2}),
    ],
)
def test_rows_with_weights(none: TestClient, data: bytes, parameters: dict[str, Any]) -> None:
    """The description of a dataset says whether its rows have weights."""
    record = ok(upload(none, data, **parameters), 201)
    assert (record["weighted"], record["features"], record["labels"]) == (True, 1, 2)
    assert upload(none, CSV, name="plain", format="csv", label_columns=2).json()["weighted"] is False
    listed = none.get("/v1/datasets").json()["datasets"]
    assert {one["name"]: one["weighted"] for one in listed} == {"songs": True, "plain": False}
