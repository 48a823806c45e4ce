"""An application that has keys of every kind."""

from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.testclient import TestClient
from tests.service.access.calls import ALL_SCOPES, OTHER
from tests.support.waiting import eventually

from manylabel_service.access.keyring import Keyring

UNKNOWN = f"ml_{'a' * 12}_{'A' * 43}"


class Keyed:
    """A client of an application, with keys.

    Attributes
    ----------
    admin : a key for everything.
    keys : further keys by their scope, and `OTHER` for all scopes and models of other names.
    wrong : invalid keys, by their defect.
    keyring : of the application.
    """

    def __init__(self, client: TestClient) -> None:
        self.client = client
        app: Any = client.app
        self.keyring: Keyring = app.state.context.keyring
        made = client.post("/v1/keys", json={"name": "first", "scopes": ["admin"]})
        assert made.status_code == 201, made.text
        self.admin: str = made.json()["key"]
        self.keys = {scope: self.make(scopes=[scope])["key"] for scope in ALL_SCOPES}
        self.keys[OTHER] = self.make(models=["other", "other-*"])["key"]
        revoked, expired = self.make(), self._expired()
        assert self.call("delete", f"/v1/keys/{revoked['id']}").status_code == 204
        self.wrong = {
            "malformed": "swordfish",
            "unknown": UNKNOWN,
            "wrong secret": self.admin[:16] + UNKNOWN[16:],
            "longer": f"{self.admin}0",
            "revoked": revoked["key"],
            "expired": expired["key"],
        }

    def call(self, method: str, path: str, key: str | None = None, **options: Any) -> Any:
        """Send a request with a key, the admin's if none is given."""
        return self.client.request(method, path, headers={"Authorization": f"Bearer {key or self.admin}"}, **options)

    def make(self, **fields: Any) -> dict[str, Any]:
        """Make a key, for everything unless fields say otherwise."""
        answer = self._asked(fields)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def damage(self, *ids: str) -> None:
        """Damage stored keys."""
        store: Any = self.keyring._key_store._documents

        async def damage() -> None:
            for id in ids:
                await store.put("key", id, b"{}", revision=(await store.get("key", id)).revision)

        assert self.client.portal is not None
        self.client.portal.call(damage)

    def _asked(self, fields: dict[str, Any]) -> Any:
        return self.call("post", "/v1/keys", json={"name": "test", "scopes": ["admin"], **fields})

    def _expired(self) -> dict[str, Any]:
        """Create a key that has expired; a busy machine may need several attempts."""
        seconds = 0.05
        while (answer := self._asked({"expires_at": in_seconds(seconds)})).status_code == 422:
            seconds *= 4
        made: dict[str, Any] = answer.json()
        eventually(lambda: self.shown(made["id"])["state"] == "expired")
        return made

    def shown(self, id: str) -> dict[str, Any]:
        """Return a key as the server shows it."""
        found: dict[str, Any] = self.call("get", f"/v1/keys/{id}").json()
        return found


def in_seconds(seconds: float) -> str:
    """Return a time in the format of requests."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
