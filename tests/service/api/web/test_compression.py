"""Compressed bodies are read like plain ones, with the same limits; responses are compressed on request."""

import asyncio
import gzip
import http.client
import json
import socket
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.service.api.answers import create, refused
from tests.support.cases import for_each
from tests.support.server_process import ServerProcess
from tests.support.waiting import DEADLINE_SECONDS

from manylabel_service.api.web import compression
from manylabel_service.api.web.bodies import SMALL_BYTES, BodyBuffer
from manylabel_service.api.web.codings import CODINGS, MAX_WINDOW_BYTES, Unpacker, accepted, zstd
from manylabel_service.api.web.compression import MIN_BYTES, DecompressedBody
from manylabel_service.api.web.problems import Problem

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
ITEM = {"x": {"a": 1.5, "b": -1}, "y": ["p", "q"]}
MIB = 2**20
BYTES = json.dumps([n**0.5 % 1 for n in range(50_000)]).encode() * 9
NAMES = sorted(name.decode() for name in CODINGS)


def pack(coding: str, data: bytes) -> bytes:
    packer = CODINGS[coding.encode()].packer()
    return packer.pack(data) + packer.end()


def unpack(coding: str, data: bytes) -> bytes:
    unpacker = Unpacker(CODINGS[coding.encode()])
    found = b"".join(unpacker.unpack(data))
    assert unpacker.complete
    return found


def bomb(begin: bytes, mib: int) -> bytes:
    """Return gzip of some bytes and that many MiB of spaces, a thousandth as long, without its end."""
    encoder = zlib.compressobj(9, wbits=31)
    head = encoder.compress(begin) + encoder.flush(zlib.Z_FULL_FLUSH)
    block = encoder.compress(b" " * MIB) + encoder.flush(zlib.Z_FULL_FLUSH)
    return head + block * mib


def test_zstd_is_available() -> None:
    assert NAMES == ["gzip"] if zstd is None else ["gzip", "zstd"]


@pytest.mark.parametrize("coding", NAMES)
class TestRequests:
    def test_all_calls_read_compressed_bodies(self, client: TestClient, model: str, coding: str) -> None:
        headers = {**JSON, "Content-Encoding": coding}
        for call in ("update", "predict-update", "predict"):
            plain = client.post(f"{model}/{call}", json=ITEM)
            packed = client.post(f"{model}/{call}", content=pack(coding, json.dumps(ITEM).encode()), headers=headers)
            assert (plain.status_code, packed.status_code) == (200, 200), packed.text
            assert packed.json().keys() == plain.json().keys()
        assert client.get(model).json()["updates"] == 4
        assert packed.json() == plain.json()

    def test_a_retry_may_have_another_coding(self, client: TestClient, model: str, coding: str) -> None:
        body, key = json.dumps(ITEM).encode(), {"Idempotency-Key": "one"}
        first = client.post(f"{model}/update", content=body, headers={**JSON, **key})
        headers = {**JSON, **key, "Content-Encoding": coding.upper()}
        again = client.post(f"{model}/update", content=pack(coding, body), headers=headers)
        assert (again.json(), again.headers["idempotent-replayed"]) == (first.json(), "true")

    def test_a_stream_is_decompressed(self, client: TestClient, model: str, coding: str) -> None:
        lines = b"".join(json.dumps(ITEM).encode() + b"\n" for _ in range(5000))
        packed = pack(coding, lines)
        answer = client.post(
            f"{model}/stream",
            content=(packed[begin : begin + 50] for begin in range(0, len(packed), 50)),
            headers={**NDJSON, "Content-Encoding": coding},
        )
        assert [json.loads(line)["updates"] for line in answer.text.splitlines()] == list(range(1, 5001))

    def test_a_snapshot_and_a_dataset_are_decompressed(self, client: TestClient, model: str, coding: str) -> None:
        client.post(f"{model}/update", json=ITEM).raise_for_status()
        position = client.post(f"{model}/snapshots").json()["position"]
        state = client.get(f"{model}/snapshots/{position}").content
        headers = {"Content-Type": "application/octet-stream", "Content-Encoding": coding}
        assert client.put("/v1/models/copy", content=pack(coding, state), headers=headers).status_code == 201
        rows = b"a,b,p\n1,2,1\n3,4,0\n"
        query = "name=rows&format=csv&label_columns=1"
        answer = client.post(f"/v1/datasets?{query}", content=pack(coding, rows), headers=headers)
        assert (answer.status_code, answer.json()["rows"]) == (201, 2), answer.text
        client.delete("/v1/models/copy")
        client.delete("/v1/datasets/rows")

    def test_an_optional_body_may_be_compressed(self, client: TestClient, model: str, coding: str) -> None:
        headers = {**JSON, "Content-Encoding": coding}
        named = client.post(f"{model}/snapshots", content=pack(coding, b'{"note": "packed"}'), headers=headers)
        assert (named.status_code, named.json()["note"]) == (201, "packed")
        assert client.post(f"{model}/snapshots", headers=headers).status_code == 201

    def test_a_body_may_have_several_frames(self, client: TestClient, model: str, coding: str) -> None:
        body = json.dumps(ITEM).encode()
        packed = pack(coding, body[:5]) + pack(coding, b"") + pack(coding, body[5:])
        answer = client.post(f"{model}/update", content=packed, headers={**JSON, "Content-Encoding": coding})
        assert answer.status_code == 200

    @pytest.mark.parametrize("wrong", ["plain", "short", "behind", "inside", "tiny parts"])
    def test_a_badly_compressed_body_is_refused(self, client: TestClient, model: str, coding: str, wrong: str) -> None:
        body = json.dumps(ITEM).encode()
        packed = pack(coding, body)
        broken = bytearray(pack(coding, body * 100))
        broken[len(broken) // 2] ^= 0xFF
        content = {
            "plain": body,
            "short": packed[:-1],
            "behind": packed + b"xxxxxxxx",
            "inside": bytes(broken[:-8]),
            "tiny parts": pack(coding, b"") * 1000 + packed,
        }[wrong]
        answer = client.post(f"{model}/update", content=content, headers={**JSON, "Content-Encoding": coding})
        refused(answer, 400, "malformed_request")
        assert client.get(model).json()["updates"] == 0

    def test_the_limit_of_a_body_holds_after_decompression(self, serve: Any, coding: str) -> None:
        with serve(max_body_bytes=10_000) as small:
            model, headers = create(small, "small"), {**JSON, "Content-Encoding": coding}
            body = json.dumps(ITEM).encode().ljust(10_000)
            assert small.post(f"{model}/update", content=pack(coding, body), headers=headers).status_code == 200
            answer = small.post(f"{model}/update", content=pack(coding, body + b" "), headers=headers)
            refused(answer, 413, "body_too_large")

    def test_a_stream_with_too_high_a_ratio_is_ended(
        self, client: TestClient, model: str, coding: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compression, "FREE_BYTES", MIB // 4)
        lines = json.dumps(ITEM).encode() + b"\n" * MIB
        headers = {**NDJSON, "Content-Encoding": coding}
        content = gzip.compress(lines, 9) if coding == "gzip" else pack(coding, lines)
        answer = client.post(f"{model}/stream", content=content, headers=headers)
        first, *_, last = answer.text.splitlines()
        assert json.loads(first)["updates"] == 1
        assert json.loads(last)["error"]["code"] == "body_too_large"
        assert "250 times" in last

    async def test_other_tasks_run_while_a_body_is_decompressed(self, coding: str) -> None:
        body = DecompressedBody(CODINGS[coding.encode()], messages(pack(coding, BYTES)), held())
        served = 0

        async def serve_others() -> None:
            nonlocal served
            while True:
                served += 1
                await asyncio.sleep(0)

        others = asyncio.create_task(serve_others())
        size = len(await everything(body))
        others.cancel()
        assert size == len(BYTES)
        assert served >= 3

    async def test_the_memory_of_decoders_is_counted(self, coding: str) -> None:
        counted = held(4 * MIB)
        content = pack(coding, BYTES)
        body = DecompressedBody(CODINGS[coding.encode()], messages(content), counted)
        if coding == "gzip":
            await everything(body)
            assert 0 < counted.n_bytes <= SMALL_BYTES
        else:
            with pytest.raises(Problem) as raised:
                await everything(body)
            assert raised.value.code == "server_busy"
        body.release()
        assert counted.n_bytes == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    coding=st.sampled_from(NAMES),
    at=st.floats(0, 1, exclude_max=True),
    inserted=st.binary(max_size=5),
    n_removed=st.integers(0, 5),
)
def test_any_damaged_body_is_read_or_refused(
    client: TestClient, model: str, coding: str, at: float, inserted: bytes, n_removed: int
) -> None:
    packed = pack(coding, json.dumps(ITEM).encode())
    begin = int(at * len(packed))
    content = packed[:begin] + inserted + packed[begin + n_removed :]
    answer = client.post(f"{model}/predict", content=content, headers={**JSON, "Content-Encoding": coding})
    assert answer.status_code in (200, 400, 413, 422), answer.text


def held(max_bytes: int = 2**28) -> BodyBuffer:
    return BodyBuffer(max_bytes, lambda: None)


def messages(content: bytes, size: int = 2**16) -> Any:
    """Return a receiver of a body in chunks."""
    portions = [content[begin : begin + size] for begin in range(0, len(content), size)]

    async def receive() -> Any:
        body = portions.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(portions)}

    receive.portions = portions  # type: ignore[attr-defined]
    return receive


async def everything(body: DecompressedBody) -> bytes:
    found = bytearray()
    while True:
        message = await body.receive()
        found += message["body"]
        if not message["more_body"]:
            return bytes(found)


def test_the_window_of_zstd_is_limited() -> None:
    def packed(window_bytes: int) -> bytes:
        options = {zstd.CompressionParameter.window_log: window_bytes.bit_length() - 1}
        encoder = zstd.ZstdCompressor(options=options)
        return bytes(encoder.compress(b"x" * (2 * MAX_WINDOW_BYTES)) + encoder.flush())

    assert len(unpack("zstd", packed(MAX_WINDOW_BYTES))) == 2 * MAX_WINDOW_BYTES
    with pytest.raises(Problem) as raised:
        unpack("zstd", packed(2 * MAX_WINDOW_BYTES))
    assert raised.value.code == "malformed_request"


@pytest.mark.parametrize("coding", ["br", "deflate", "gzip, gzip", "gzip,identity", "x"])
def test_an_unknown_coding_is_refused_with_the_known_ones(client: TestClient, model: str, coding: str) -> None:
    for path, kind in (("update", JSON), ("stream", NDJSON)):
        answer = client.post(f"{model}/{path}", content=b"{}", headers={**kind, "Content-Encoding": coding})
        refused(answer, 415, "unsupported_media_type")
        assert answer.headers["accept-encoding"] == ", ".join(NAMES)
    plain = client.post(f"{model}/update", json=ITEM, headers={"Content-Encoding": "identity"})
    assert plain.status_code == 200


@pytest.fixture(scope="module")
def large(client: TestClient) -> Iterator[str]:
    """Address of a model with large responses."""
    address = create(client, "large", labels=[f"label {n}" for n in range(500)])
    yield address
    client.delete(address)


def asked(client: TestClient, path: str, header: str | None, **parameters: Any) -> Any:
    """Return a response as it was sent, compressed or not."""
    client.headers.pop("accept-encoding", None)
    headers = {} if header is None else {"Accept-Encoding": header}
    with client.stream("POST", path, headers=headers, **parameters) as answer:
        answer.raw_content = b"".join(answer.iter_raw())
    return answer


class TestAnswers:
    def plain(self, client: TestClient, large: str) -> Any:
        answer = asked(client, f"{large}/predict", None, json=ITEM)
        assert "content-encoding" not in answer.headers
        assert len(answer.raw_content) > MIN_BYTES
        return json.loads(answer.raw_content)

    @pytest.mark.parametrize("coding", NAMES)
    def test_responses_are_compressed_on_request(self, client: TestClient, large: str, coding: str) -> None:
        answer = asked(client, f"{large}/predict", coding, json=ITEM)
        assert (answer.headers["content-encoding"], answer.headers["vary"]) == (coding, "accept-encoding")
        assert int(answer.headers["content-length"]) == len(answer.raw_content)
        plain = self.plain(client, large)
        assert json.loads(unpack(coding, answer.raw_content)) == plain
        assert len(answer.raw_content) < len(json.dumps(plain)) / 2

    @pytest.mark.parametrize(
        "header", ["identity", "br", "gzip;q=0", "*;q=0", "", "gzip;q=x", "identity, gzip;q=0.5, zstd;q=0.5"]
    )
    def test_responses_are_plain_without_an_acceptable_coding(
        self, client: TestClient, large: str, header: str
    ) -> None:
        answer = asked(client, f"{large}/predict", header, json=ITEM)
        assert "content-encoding" not in answer.headers
        assert json.loads(answer.raw_content) == self.plain(client, large)

    def test_small_responses_are_plain(self, client: TestClient, model: str) -> None:
        for answer in (asked(client, f"{model}/predict", "gzip", json=ITEM), asked(client, "/v1/none", "gzip")):
            assert "content-encoding" not in answer.headers

    def test_head_has_the_headers_of_get(self, client: TestClient) -> None:
        client.get("/openapi.json").raise_for_status()
        headers = {"Accept-Encoding": "gzip"}
        get, head = (client.request(method, "/openapi.json", headers=headers) for method in ("GET", "HEAD"))
        assert get.headers["content-encoding"] == head.headers["content-encoding"] == "gzip"
        assert get.headers["content-length"] == head.headers["content-length"]
        assert head.content == b""

    def test_a_large_response_is_compressed_in_chunks(self, client: TestClient, large: str) -> None:
        body = {"examples": [{"x": {"a": n / 7}} for n in range(500)]}
        answer = asked(client, f"{large}/predict", "gzip", json=body)
        plain = asked(client, f"{large}/predict", None, json=body)
        assert len(plain.raw_content) > 3 * MIB
        assert gzip.decompress(answer.raw_content) == plain.raw_content


@for_each(
    ("header", "due"),
    [
        (b"gzip", b"gzip"),
        (b"GZIP ; q=0.1", b"gzip"),
        (b"gzip, deflate", b"gzip"),
        (b"*", b"zstd"),
        (b"gzip, zstd", b"zstd"),
        (b"gzip;q=1.0, zstd;q=0.9, br", b"gzip"),
        (b"zstd;q=0, *;q=0.2", b"gzip"),
        (b"gzip;q=nan", None),
        (b"gzip;q=0.5, identity;q=0.5", b"gzip"),
        (b"gzip;q=0.4, identity;q=0.5", None),
    ],
)
def test_the_preferred_coding_is_used(header: bytes, due: bytes | None) -> None:
    coding = accepted(header)
    assert (None if coding is None else coding.name) == due


@pytest.fixture(scope="module")
def server(module_server_process: Callable[..., ServerProcess]) -> ServerProcess:
    server = module_server_process().start()
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", "/v1/models", b'{"name": "m", "algorithm": "falt"}', JSON)
    with connection.getresponse() as answer:
        assert answer.status == 201
    connection.close()
    return server


class TestOverASocket:
    @pytest.mark.parametrize("coding", NAMES)
    def test_each_line_of_a_stream_can_be_read_at_once(self, server: ServerProcess, coding: str) -> None:
        packer = CODINGS[coding.encode()].packer()
        unpacker = Unpacker(CODINGS[coding.encode()])
        head = (
            b"POST /v1/models/m/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
            b"Transfer-Encoding: chunked\r\nContent-Encoding: %b\r\nAccept-Encoding: %b\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_SECONDS) as connection:
            connection.sendall(head % (coding.encode(), coding.encode()))
            answer = http.client.HTTPResponse(connection, method="POST")
            answer.begin()  # before the first line is sent
            assert (answer.status, answer.headers["Content-Encoding"]) == (200, coding)
            numbers = []
            for _ in range(3):
                portion = packer.pack(json.dumps(ITEM).encode() + b"\n") + packer.flush()
                connection.sendall(b"%x\r\n%b\r\n" % (len(portion), portion))
                found = b""
                while not found.endswith(b"\n"):
                    found += b"".join(unpacker.unpack(answer.read1()))
                numbers.append(json.loads(found)["line"])
            portion = packer.end()
            connection.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(portion), portion))
            assert b"".join(unpacker.unpack(answer.read())) == b""
            assert unpacker.complete
        assert numbers == [1, 2, 3]

    def test_events_are_not_compressed(self, server: ServerProcess) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_SECONDS)
        connection.request("GET", "/v1/models/m/events", headers={"Accept-Encoding": "gzip, zstd"})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Content-Encoding"]) == (200, None)
        connection.close()

    def test_a_decompression_bomb_is_refused_before_its_end(self, server: ServerProcess) -> None:
        content = bomb(b"{}", 4096)
        head = (
            b"POST /v1/models/m/update HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_SECONDS) as connection:
            connection.sendall(head % len(content) + content[: 2**16])
            answer = http.client.HTTPResponse(connection, method="POST")
            answer.begin()
            assert (answer.status, json.loads(answer.read())["code"]) == (413, "body_too_large")
