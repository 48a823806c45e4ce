"""A server with TLS: its certificate, and the change of the certificate."""

import contextlib
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import Authority, Pair
from tests.support.server_process import ServerProcess
from tests.support.waiting import eventually

from manylabel_clients import Client, ConnectionFailed
from manylabel_service.server.tls import Certificate, expiry

SECONDS = 120.0
DAY = 86_400.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def first(authority: Authority) -> Pair:
    return authority.issue("first")


@pytest.fixture(scope="module")
def second(authority: Authority) -> Pair:
    return authority.issue("second")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, first: Pair) -> Pair:
    """Files of the server's certificate."""
    folder = tmp_path_factory.mktemp("files")
    return put(first, Pair(folder / "cert.pem", folder / "key.pem"))


@pytest.fixture(scope="module")
def running(
    module_server_process: Callable[..., ServerProcess], authority: Authority, files: Pair
) -> Iterator[ServerProcess]:
    with module_server_process(*flags(files), "--header-timeout-seconds", "2", tls=authority.trusted()) as server:
        yield server.start()


@pytest.fixture
def server(running: ServerProcess, files: Pair, first: Pair) -> ServerProcess:
    """A server that shows the first certificate, to begin with."""
    if shown(running) != "first":
        put(first, files)
        eventually(lambda: shown(running) == "first", SECONDS)
    return running


def flags(files: Pair) -> list[str]:
    return ["--tls-cert-file", str(files.cert), "--tls-key-file", str(files.key)]


def put(pair: Pair, files: Pair) -> Pair:
    """Put a certificate and its key where others are, as those do who renew them: whole files."""
    for new, file in zip(pair, files, strict=True):
        shutil.copyfile(new, file.with_suffix(".new"))
        os.replace(file.with_suffix(".new"), file)
    return files


def connect(server: ServerProcess) -> http.client.HTTPSConnection:
    return http.client.HTTPSConnection("127.0.0.1", server.port, timeout=SECONDS, context=server.tls)


def live(connection: http.client.HTTPSConnection) -> http.client.HTTPResponse:
    connection.request("GET", "/livez")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b'{"live":true}')
    return answer


def shown(server: ServerProcess) -> str:
    """Whose certificate a new connection is shown."""
    connection = connect(server)
    try:
        connection.connect()
        certificate: Any = connection.sock.getpeercert()
        return str(dict(pair for part in certificate["subject"] for pair in part)["commonName"])
    finally:
        connection.close()


class TestAnswers:
    def test_over_tls(self, server: ServerProcess) -> None:
        connection = connect(server)
        answer = live(connection)
        assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
        assert connection.sock.version() in ("TLSv1.2", "TLSv1.3")
        assert live(connection)
        connection.close()
        assert server.logged("serving")[0]["url"] == server.url
        assert server.url.startswith("https://")

    def test_large_responses_and_streams(self, server: ServerProcess) -> None:
        body = json.dumps({"name": "m", "algorithm": "falt", "labels": [f"label {n}" for n in range(1000)]})
        line = json.dumps({"x": {"a": 1}, "y": ["label 1"]}) + "\n"
        connection = connect(server)
        for path, content, kind, size in (
            ("/v1/models", body, "application/json", 100),
            ("/v1/models/m/predict", json.dumps({"examples": [{"x": {"a": 1}}] * 100}), "application/json", 10**6),
            ("/v1/models/m/stream", line * 50, "application/x-ndjson", 10**6),
        ):
            connection.request("POST", path, content, {"Content-Type": kind})
            answer = connection.getresponse()
            assert len(answer.read()) > size
            assert answer.status in (200, 201)
        connection.close()

    def test_too_large_headers_are_refused(self, server: ServerProcess) -> None:
        assert server.tls is not None
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as plain,
            server.tls.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 2**17)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            assert (answer.status, json.loads(answer.read())["code"]) == (431, "headers_too_large")
            assert answer.headers["Strict-Transport-Security"]
            assert connection.recv(1) == b""

    def test_a_silent_client_is_disconnected(self, server: ServerProcess) -> None:
        seconds = 30.0  # half of asyncio's timeout, which would apply without ours
        with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as connection:
            assert connection.recv(1) == b""

    def test_a_client_without_tls_is_disconnected(self, server: ServerProcess) -> None:
        with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as connection:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert not connection.recv(2**16).startswith(b"HTTP")
        assert shown(server) == "first"

    def test_the_expiry_of_the_certificate_is_a_metric(self, server: ServerProcess) -> None:
        with urllib.request.urlopen(f"{server.url}/metrics", context=server.tls) as answer:
            lines = answer.read().decode().splitlines()
        (line,) = [line for line in lines if line.startswith("manylabel_tls_certificate_expires_seconds ")]
        assert DAY < float(line.split()[1]) <= 2 * DAY

    @pytest.mark.usefixtures("programs")
    def test_the_client_and_the_command_verify_the_certificate(
        self, server: ServerProcess, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Client(server.url) as client, pytest.raises(ConnectionFailed, match="certificate"):
            client.models()
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        with Client(server.url) as client:
            client.models()
        monkeypatch.setenv("MANYLABEL_URL", server.url)
        command = [Path(sys.executable).with_name("manylabel"), "models"]
        assert subprocess.run(command, capture_output=True, timeout=SECONDS).returncode == 0


class TestChanges:
    def test_a_new_certificate_is_used_and_connections_stay_open(
        self, server: ServerProcess, files: Pair, second: Pair
    ) -> None:
        connection = connect(server)
        live(connection)
        assert shown(server) == "first"
        put(second, files)
        eventually(lambda: shown(server) == "second", SECONDS)
        live(connection)
        connection.close()
        assert server.logged("tls_certificate_read")

    @pytest.mark.parametrize("broken", ["nothing", "rubbish", "the key of another"])
    def test_the_old_certificate_is_used_while_the_files_are_invalid(
        self, server: ServerProcess, files: Pair, first: Pair, second: Pair, broken: str
    ) -> None:
        n_before = len(server.logged("tls_certificate_unusable"))
        if broken == "nothing":
            files.cert.unlink()
        elif broken == "rubbish":
            files.cert.write_text("-----BEGIN CERTIFICATE-----\nrubbish\n")
        else:
            shutil.copyfile(second.cert, files.cert)
        eventually(lambda: len(server.logged("tls_certificate_unusable")) > n_before, SECONDS)
        assert shown(server) == "first"
        put(second, files)
        eventually(lambda: shown(server) == "second", SECONDS)

    def test_a_changed_link_is_noticed(self, tmp_path: Path, first: Pair, second: Pair) -> None:
        """Replace the files as Kubernetes does with mounted secrets."""
        for name, pair in (("1", first), ("2", second)):
            (tmp_path / name).mkdir()
            put(pair, Pair(tmp_path / name / "cert", tmp_path / name / "key"))
        (tmp_path / "data").symlink_to("1")
        certificate = Certificate(tmp_path / "data" / "cert", tmp_path / "data" / "key")
        seen = certificate._stamps()
        (tmp_path / "next").symlink_to("2")
        os.replace(tmp_path / "next", tmp_path / "data")
        assert certificate._stamps() != seen

    @pytest.mark.long
    def test_every_worker_shows_it(
        self,
        server_process: Callable[..., ServerProcess],
        redis_server: Any,
        authority: Authority,
        first: Pair,
        second: Pair,
        tmp_path: Path,
    ) -> None:
        files = put(first, Pair(tmp_path / "cert.pem", tmp_path / "key.pem"))
        more = ("--workers", "2", "--store", redis_server.url)
        with server_process(*flags(files), *more, tls=authority.trusted()).start() as server:
            assert {shown(server) for _ in range(20)} == {"first"}
            put(second, files)
            eventually(lambda: len(server.logged("tls_certificate_read")) == 2, SECONDS)
            assert {shown(server) for _ in range(20)} == {"second"}


class TestSettings:
    def test_a_server_does_not_start_with_an_invalid_pair(
        self, server_process: Callable[..., ServerProcess], first: Pair, second: Pair
    ) -> None:
        server = server_process(*flags(Pair(first.cert, second.key))).start(wait=False)
        assert server.process is not None
        assert server.process.wait(SECONDS) == 1
        server.process = None
        assert "tls_cert_file" in server.logged("cannot_start")[0]["error"]

    @pytest.mark.usefixtures("programs")
    def test_an_encrypted_key_is_refused_and_not_asked_about(self, tmp_path: Path, first: Pair) -> None:
        locked = tmp_path / "locked.key"
        command = ["openssl", "pkcs8", "-topk8", "-in", first.key, "-out", locked, "-passout", "pass:secret"]
        subprocess.run(command, check=True, capture_output=True)
        with pytest.raises(ValueError, match="encrypted"):
            Certificate(first.cert, locked)

    def test_old_versions_of_tls_are_not_supported(self, first: Pair) -> None:
        assert Certificate(*first).context.minimum_version == ssl.TLSVersion.TLSv1_2

    @pytest.mark.usefixtures("programs")
    def test_the_expiry_of_a_certificate_is_read(self, first: Pair) -> None:
        command = ["openssl", "x509", "-enddate", "-noout", "-in", first.cert]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert expiry(first.cert.read_text()) == ssl.cert_time_to_seconds(told.strip().removeprefix("notAfter="))
        for text in ("", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"):
            with pytest.raises(ValueError, match="no certificate"):
                expiry(text)

    @pytest.mark.usefixtures("programs")
    def test_an_expiry_after_2049_is_read(self, tmp_path: Path) -> None:
        """Times after 2049 are written otherwise."""
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem")
        command = ["openssl", "req", "-x509", *key, "-out", "cert.pem", "-subj", "/CN=long", "-days", "20000"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        told = ["openssl", "x509", "-enddate", "-noout", "-in", "cert.pem"]
        end = subprocess.run(told, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
        due = ssl.cert_time_to_seconds(end.strip().removeprefix("notAfter="))
        assert expiry((tmp_path / "cert.pem").read_text()) == due
