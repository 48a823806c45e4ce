"""/ and /ui: files of the web UI are public, cached, and of one version."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import refused
from tests.support.cases import for_each

from manylabel_service.ui import Files

VERSION = Files.shipped().version
MAIN = f"/ui/{VERSION}/main.js"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
ALWAYS = {"x-content-type-options": "nosniff", "x-frame-options": "DENY", "referrer-policy": "no-referrer"}


@pytest.fixture(scope="module")
def keyed(serve: Callable[..., AbstractContextManager[TestClient]]) -> Iterator[TestClient]:
    """A client without a key, of a server that requires one."""
    with serve() as client:
        assert client.post("/v1/keys", json={"name": "first", "scopes": ["admin"]}).status_code == 201
        assert client.get("/v1/models").status_code == 401
        yield client


@for_each(
    ("path", "media_type", "kept"),
    [
        ("/", "text/html; charset=utf-8", "no-cache"),
        (MAIN, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"),
        (f"/ui/{VERSION}/ui.css", "text/css; charset=utf-8", "public, max-age=31536000, immutable"),
        (f"/ui/{VERSION}/icon.svg", "image/svg+xml", "public, max-age=31536000, immutable"),
    ],
)
def test_a_file_has_its_type_policy_and_cache_control(
    client: TestClient, path: str, media_type: str, kept: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    expected = {
        **ALWAYS,
        "content-type": media_type,
        "cache-control": kept,
        "content-security-policy": POLICY,
    }
    assert {name: answer.headers.get_list(name) for name in expected} == {n: [v] for n, v in expected.items()}
    head = client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert {name: head.headers.get(name) for name in expected} == expected


def test_a_file_is_compressed_on_request(client: TestClient) -> None:
    plain = client.get(MAIN, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    for wanted in ("gzip", "gzip, deflate, br, zstd"):
        with client.stream("GET", MAIN, headers={"Accept-Encoding": wanted}) as packed:
            raw = b"".join(packed.iter_raw())
        assert packed.headers["content-encoding"] == "gzip", wanted
        assert int(packed.headers["content-length"]) == len(raw) < len(plain.content)
        assert gzip.decompress(raw) == plain.content
    for unwanted in ("identity", "br"):
        answer = client.get(MAIN, headers={"Accept-Encoding": unwanted})
        assert "content-encoding" not in answer.headers
        assert answer.content == plain.content


def test_an_unchanged_page_is_not_sent_again(client: TestClient) -> None:
    tag = client.get("/").headers["etag"]
    for sent in (tag, f'"other", {tag}', "*"):
        again = client.get("/", headers={"If-None-Match": sent})
        assert (again.status_code, again.content) == (304, b""), sent
        assert again.headers["etag"] == tag
        assert again.headers["cache-control"] == "no-cache"
        assert again.headers["content-security-policy"] == POLICY
    assert client.get("/", headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize("path", ["/ui/0.0.1-0123456789/main.js", f"/ui/{VERSION}/nothing.js", f"/ui/{VERSION}/"])
def test_files_of_other_versions_are_not_found(client: TestClient, path: str) -> None:
    answer = client.get(path)
    refused(answer, 404, "not_found")
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'; frame-ancestors 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", [f"/ui/{VERSION}/..%2f__init__.py", f"/ui/{VERSION}/../../app.py", "/ui/"])
def test_other_files_are_not_found(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("path", ["/", MAIN])
def test_no_key_is_needed(keyed: TestClient, path: str) -> None:
    assert keyed.get(path).status_code == 200
    assert keyed.get(path, headers={"Authorization": "Bearer nonsense"}).status_code == 200
    assert keyed.post(path).status_code == 405
