"""Every call with every kind of key, through the balancer."""

import json
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.service.access.calls import ALL_SCOPES, OTHER, PLACES, SCOPES, expected, outcome
from tests.support.waiting import eventually

UNKNOWN = f"ml_{'a' * 12}_{'A' * 43}"


class Caller:
    """A caller asks the balancer with one key after the other.

    Parameters
    ----------
    port : of the balancer.
    admin : a key for everything.
    """

    def __init__(self, port: int, admin: str) -> None:
        self._port, self._admin = port, admin

    def check_all(self) -> int:
        """Return how many calls were answered as they should; raise AssertionError at the first that was not."""
        wrong, keys = self._wrong(), self._keys()
        callers = {"no key": None, **wrong, **keys}
        for method, path in SCOPES:
            place = path.format(**PLACES)
            found = {kind: self._outcome(method, place, key) for kind, key in callers.items()}
            assert found == expected(method, path, wrong), (method, path, found)
        return len(SCOPES) * len(callers)

    def _keys(self) -> dict[str, str]:
        keys = {scope: self._make(scopes=[scope])["key"] for scope in ALL_SCOPES}
        keys[OTHER] = self._make(models=["other", "other-*"])["key"]
        for key in keys.values():
            eventually(lambda key=key: not any(self._is_refused(key, number) for number in range(20)))
        return keys

    def _wrong(self) -> dict[str, str]:
        revoked = self._make()
        expired = self._make(expires_at=(datetime.now(UTC) + timedelta(seconds=1)).isoformat())
        assert self._ask("delete", f"/v1/keys/{revoked['id']}", self._admin)[0] == 204
        for key in (revoked, expired):  # both replicas have to learn of the keys, and 20 requests reach both
            eventually(lambda key=key: all(self._is_refused(key["key"], number) for number in range(20)))
        return {
            "malformed": "swordfish",
            "unknown": UNKNOWN,
            "wrong secret": self._admin[:16] + UNKNOWN[16:],
            "revoked": revoked["key"],
            "expired": expired["key"],
        }

    def _make(self, **fields: Any) -> dict[str, Any]:
        body = json.dumps({"name": "table", "scopes": ["admin"], **fields}).encode()
        status, _, told = self._ask("post", "/v1/keys", self._admin, body)
        assert status == 201, told
        made: dict[str, Any] = json.loads(told)
        return made

    def _is_refused(self, key: str, number: int) -> bool:
        return self._ask("get", f"/v1/models/absent-{number}", key)[0] == 401

    def _outcome(self, method: str, place: str, key: str | None) -> tuple[int, str]:
        status, media_type, body = self._ask(method, place, key)
        return outcome(place, status, media_type, body)

    def _ask(self, method: str, place: str, key: str | None, body: bytes | None = None) -> tuple[int, str, bytes]:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        url = f"http://127.0.0.1:{self._port}{place}"
        while True:
            try:
                with urllib.request.urlopen(
                    urllib.request.Request(url, body, headers, method=method.upper()), timeout=30
                ) as answer:
                    return answer.status, answer.headers.get("Content-Type", ""), answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    told = error.read()
                    if error.code != 429:
                        return error.code, error.headers.get("Content-Type", ""), told
                    time.sleep(float(error.headers["Retry-After"]))  # too many wrong keys were tried from one address
