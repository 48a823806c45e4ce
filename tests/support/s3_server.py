"""SeaweedFS in a process of its own: a server of S3, with its objects in a directory.

`make test-archive` installs it; MANYLABEL_TEST_WEED=path names another.
"""

import json
import os
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.support.server_process import free_port
from tests.support.waiting import eventually

WEED = os.environ.get("MANYLABEL_TEST_WEED", ".venv-archive/bin/weed")
KEY, SECRET, BUCKET = "archivist", "a-secret-of-the-tests", "backups"


class S3Server:
    """A server of S3 with one bucket.

    Attributes
    ----------
    environment : variables with the endpoint and the credentials.
    address : of an archive in the bucket.
    """

    def __init__(self, directory: Path) -> None:
        assert Path(WEED).exists(), f"there is no {WEED}: run make test-archive"
        self._directory = directory
        self._ports = [free_port() for _ in range(8)]
        self.url = f"http://127.0.0.1:{self._ports[0]}"
        self.address = f"s3://{BUCKET}/ours"
        self.environment = {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "us-east-1",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the process, until it has the bucket."""
        config = self._directory / "s3.json"
        credentials = [{"accessKey": KEY, "secretKey": SECRET}]
        config.write_text(
            json.dumps(
                {"identities": [{"name": KEY, "credentials": credentials, "actions": ["Admin", "Read", "Write"]}]}
            )
        )
        s3, master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3_grpc = self._ports
        data = self._directory / "weed"
        data.mkdir(exist_ok=True)
        flags = {
            "dir": data,
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "s3": "true",
            "s3.config": config,
            "s3.port": s3,
            "s3.port.grpc": s3_grpc,
            "s3.port.lance": 0,
            "s3.port.iceberg": 0,
            "master.port": master,
            "master.port.grpc": master_grpc,
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": 64,
            "volume.port": volume,
            "volume.port.grpc": volume_grpc,
            "volume.max": 20,
            "filer.port": filer,
            "filer.port.grpc": filer_grpc,
        }
        log = (self._directory / "weed.log").open("ab")
        words = [f"-{name}={value}" for name, value in flags.items()]
        self.process = subprocess.Popen([WEED, "server", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        eventually(self._has_bucket, 120, otherwise=(self._directory / "weed.log").read_text)
        return self

    def keys(self, address: str) -> list[str]:
        """Return the keys of all objects at an address in the bucket."""
        import obstore

        prefix = address.removeprefix(f"s3://{BUCKET}/")
        return [found["path"] for page in obstore.list(self._bucket(), prefix) for found in page]

    def _bucket(self) -> Any:
        from obstore.store import S3Store

        return S3Store(
            BUCKET,
            endpoint=self.url,
            region="us-east-1",
            access_key_id=KEY,
            secret_access_key=SECRET,
            client_options={"allow_http": True},
        )

    def _has_bucket(self) -> bool:
        import obstore
        from obstore.exceptions import BaseError

        made = urllib.request.Request(f"http://127.0.0.1:{self._ports[5]}/buckets/{BUCKET}/", method="POST")
        try:
            urllib.request.urlopen(made).close()
            obstore.put(store := self._bucket(), "ready", b"1", use_multipart=False)
            return bool(bytes(obstore.get(store, "ready").bytes()) == b"1")
        except (OSError, urllib.error.URLError, BaseError):
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
