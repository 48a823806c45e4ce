"""Web pages of other sites cannot reach a server through a browser."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import refused
from tests.support.cases import for_each

PAGE = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}


@for_each("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "localhost."])
def test_names_of_the_loopback_are_allowed(client: TestClient, host: str) -> None:
    assert client.get("/livez", headers={"Host": host}).status_code == 200


@for_each("host", ["evil.example", "evil.example:8000", "localhost.evil.example", "10.1.2.3", "[::2]:80"])
@for_each("path", ["/livez", "/v1/models", "/docs"])
def test_other_hosts_are_refused(client: TestClient, host: str, path: str) -> None:
    answer = client.get(path, headers={"Host": host})
    assert "allowed_hosts" in refused(answer, 421, "host_not_allowed")["detail"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/models", b'{"name": "theirs", "algorithm": "falt"}'),
        ("POST", "/v1/models/test/snapshots", b""),
        ("POST", "/v1/datasets?name=theirs&format=csv&label_columns=y", b"x,y\n1,1\n"),
        ("DELETE", "/v1/models/test", b""),
        ("GET", "/v1/models", b""),
        ("OPTIONS", "/v1/models", b""),
    ],
)
def test_requests_from_other_sites_are_refused(
    client: TestClient, model: str, method: str, path: str, body: bytes
) -> None:
    headers = {"Content-Type": "text/plain", **PAGE}
    for sent in (headers, {**headers, "Origin": "null"}, {k: v for k, v in headers.items() if k != "Origin"}):
        refused(client.request(method, path, content=body, headers=sent), 403, "origin_not_allowed")
    assert [each["name"] for each in client.get("/v1/models").json()["models"]] == ["test"]
    assert client.get(f"{model}/snapshots").json()["snapshots"] == []


def test_own_pages_and_links_are_allowed(client: TestClient) -> None:
    own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert client.get("/v1/models", headers=own).status_code == 200
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/docs", headers=link).status_code == 200
    assert client.post("/v1/models", headers=link).status_code == 403
    frame = {**link, "Sec-Fetch-Dest": "iframe"}
    assert client.get("/docs", headers=frame).status_code == 403


@pytest.fixture(scope="module")
def open_client(serve: Any) -> Iterator[TestClient]:
    with serve(allowed_hosts="tags.example, *.inside.example", allowed_origins="https://page.example") as client:
        yield client


def test_allowed_hosts_are_served(open_client: TestClient) -> None:
    for host, status in (
        ("tags.example:8000", 200),
        ("one.inside.example", 200),
        ("localhost", 200),
        ("inside.example", 421),
        ("two.tags.example", 421),
    ):
        assert open_client.get("/livez", headers={"Host": host}).status_code == status, host


def test_allowed_origins_are_served(open_client: TestClient) -> None:
    page = {**PAGE, "Origin": "https://page.example"}
    answer = open_client.get("/v1/models", headers=page)
    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Origin"] == "https://page.example"
    asked = open_client.options(
        "/v1/models", headers={**page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-a"}
    )
    assert asked.status_code == 200
    assert "POST" in asked.headers["Access-Control-Allow-Methods"]
    assert open_client.get("/v1/models", headers=PAGE).status_code == 403


def test_any_address_is_allowed_on_every_interface(serve: Any) -> None:
    with serve(host="0.0.0.0", insecure=True) as client:
        for host, status in (("10.1.2.3:8000", 200), ("[fe80::1]", 200), ("evil.example", 421)):
            assert client.get("/livez", headers={"Host": host}).status_code == status, host
