"""Exchanges about datasets: requests, repeated uploads and results."""

import io
import json
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from tests.clients.http.fake_server import FakeServer, ok, problem, unsent
from tests.support.cases import for_each

from manylabel_clients import (
    Conflict,
    DatasetInfo,
    Retry,
)
from manylabel_clients.http.resources.datasets import DatasetCalls
from manylabel_clients.http.transport.exchange import Request
from manylabel_clients.http.transport.upload import PIECE_BYTES

RETRY = Retry(attempts=3, base_seconds=1, cap_seconds=100, jitter=0)
DATASET = {
    "name": "songs", "format": "csv", "rows": 3, "features": 2, "labels": 2, "cardinality": 1.0, "density": 0.5,
    "views": {"x": 2}, "splits": {}, "checksum": "sha256:00", "bytes": 100, "created": "2026-11-21T00:00:00Z",
}  # fmt: skip
CUT = httpx2.ReadError("cut")


def body_of(request: Request) -> bytes:
    assert callable(request.body)
    return b"".join(request.body())


def query_of(request: Request) -> dict[str, str]:
    return {name: value for name, (value,) in parse_qs(urlsplit(request.path).query).items()}


def uploaded(*replies: Any, source: Any, labels: Any = None, format: Any = None, report: Any = None) -> FakeServer:
    fake = FakeServer(*replies)
    fake(unsent(DatasetCalls, retry=RETRY).upload_dataset("songs", source, format=format, labels=labels, report=report))
    return fake


def test_a_file_is_sent_in_pieces_with_its_length_and_format(tmp_path: Path) -> None:
    path = tmp_path / "songs.SVM"
    path.write_bytes(b"1 1:0.5\n" * 100_000)
    reported: list[int] = []
    (request,) = uploaded(ok(DATASET, 201), source=path, report=reported.append).requests
    assert (request.method, urlsplit(request.path).path) == ("POST", "/v1/datasets")
    assert query_of(request) == {"name": "songs", "format": "libsvm"}
    assert body_of(request) == path.read_bytes()
    assert request.headers["Content-Length"] == str(path.stat().st_size)
    assert reported == [*range(PIECE_BYTES, 800_000, PIECE_BYTES), 800_000]


@pytest.mark.parametrize("kind", [bytes, io.BytesIO, str])
def test_a_retry_sends_a_repeatable_source_from_its_start(kind: type, tmp_path: Path) -> None:
    data = b"a,b\n1,0\n"
    (tmp_path / "songs.csv").write_bytes(data)
    source = str(tmp_path / "songs.csv") if kind is str else kind(data)
    fake = uploaded(CUT, problem(503, "not_ready"), ok(DATASET, 201), source=source, format="csv", labels=1)
    assert [body_of(request) for request in fake.requests] == [data] * 3
    assert query_of(fake.requests[0])["label_columns"] == "1"


@for_each("as_path", [Path, str])
@for_each("details", [None, {"rock": "Rock", "jazz": {"uri": "http://x", "title": None}}])
def test_labels_and_their_details_are_sent_as_parts_beside_the_file(details: Any, as_path: Any, tmp_path: Path) -> None:
    xml = tmp_path / "songs.xml"
    xml.write_bytes(b"<labels/>\r\n\xff")
    fake = FakeServer(CUT, ok(DATASET, 201))
    calls = unsent(DatasetCalls, retry=RETRY)
    fake(calls.upload_dataset("s", b"data", format="arff", labels=as_path(xml), label_details=details))
    first, again = fake.requests
    assert body_of(first) == body_of(again)
    assert first.headers["Content-Length"] == str(len(body_of(first)))
    boundary = first.headers["Content-Type"].removeprefix("multipart/form-data; boundary=")
    before, *parts, after = body_of(first).split(f"--{boundary}".encode())
    assert (before, after) == (b"", b"--\r\n")
    found = {part.split(b'name="')[1].split(b'"')[0]: part.partition(b"\r\n\r\n")[2][:-2] for part in parts}
    expected = {b"labels": xml.read_bytes(), b"file": b"data"}
    if details:
        sent = {"rock": {"title": "Rock"}, "jazz": {"uri": "http://x", "title": None}}
        expected[b"label_details"] = json.dumps(sent).encode()
    assert found == expected


def test_an_open_file_is_sent_from_its_current_position() -> None:
    file = io.BytesIO(b"header\n1 1:1\n")
    file.readline()
    (request,) = uploaded(ok(DATASET, 201), source=file, format="libsvm").requests
    assert (body_of(request), body_of(request)) == (b"1 1:1\n", b"1 1:1\n")
    assert request.headers["Content-Length"] == "6"


def test_a_source_that_cannot_be_read_twice_is_not_retried() -> None:
    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.pieces = [b"1 1:1\n", b""]

        def read(self, size: int = -1) -> bytes:
            return self.pieces.pop(0)

        def seekable(self) -> bool:
            return False

    fake = FakeServer(problem(503, "not_ready"))
    with pytest.raises(Exception, match="not_ready"):
        fake(unsent(DatasetCalls, retry=RETRY).upload_dataset("songs", Pipe(), format="libsvm"))  # type: ignore[arg-type]
    (request,) = fake.requests
    assert body_of(request) == b"1 1:1\n"
    assert "Content-Length" not in request.headers


@pytest.mark.parametrize(("labels", "columns"), [(-3, "-3"), (["rock", "jazz"], "rock,jazz")])
def test_label_columns_are_a_query_parameter(labels: Any, columns: str) -> None:
    (request,) = uploaded(ok(DATASET, 201), source=b"x", labels=labels, format="csv").requests
    assert query_of(request)["label_columns"] == columns


def test_an_invalid_source_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    for source, kind, message in (
        (b"x", ValueError, "pass a format"),
        (tmp_path / "songs.txt", ValueError, "pass a format"),
        (tmp_path / "none.csv", FileNotFoundError, "none.csv"),
        (3, ValueError, "pass a format"),
    ):
        with pytest.raises(kind, match=message):
            uploaded(source=source)
    for source in (3, io.StringIO("x")):
        with pytest.raises(TypeError, match="binary mode"):
            uploaded(source=source, format="csv")


def test_a_dataset_is_uploaded_listed_and_described() -> None:
    calls = unsent(DatasetCalls, retry=RETRY)
    found = FakeServer(ok(DATASET, 201))(calls.upload_dataset("songs", b"x", format="csv", labels=1))
    assert found == DatasetInfo(**DATASET)
    (listed,) = FakeServer(ok({"datasets": [DATASET]}))(calls.datasets())
    assert listed == found
    fake = FakeServer(ok({**DATASET, "label_names": ["rock"]}))
    assert fake(calls.dataset("songs", details=True)).details == {"label_names": ["rock"]}
    assert fake.requests[0].path == "/v1/datasets/songs?details=true"


def test_a_dataset_created_by_an_attempt_without_response_is_no_conflict() -> None:
    data = b"a,b\n1,0\n"
    same = {**DATASET, "checksum": f"sha256:{sha256(data).hexdigest()}"}
    taken = problem(409, "dataset_exists")
    fake = uploaded(CUT, taken, ok(same), source=data, format="csv", labels=1)
    assert [request.method for request in fake.requests] == ["POST", "POST", "GET"]
    for replies in ([taken], [CUT, taken, ok(DATASET)], [CUT, taken, ok({**same, "format": "libsvm"})]):
        with pytest.raises(Conflict):
            uploaded(*replies, source=data, format="csv", labels=1)
