"""GET /v1/replicas, and /readyz if a model needs a newer release."""

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import refused

from manylabel_service.api.routers.server import Replicas
from manylabel_service.online.state import log_entries
from manylabel_service.release import FORMAT


def test_a_single_server_describes_itself(serve: Callable[..., Any]) -> None:
    with serve() as client:
        client.post("/v1/models", json={"name": "m", "algorithm": "falt"}).raise_for_status()
        position = client.post("/v1/models/m/update", json={"x": {"a": 1}, "y": ["b"]}).json()["position"]
        answer = Replicas.model_validate_json(client.get("/v1/replicas").content)
        assert answer.format == FORMAT
        (alone,) = answer.replicas
        assert (alone.this, alone.role, alone.ready, alone.withheld) == (True, "server", True, {})
        assert alone.supports == FORMAT
        assert alone.models == {"m": position}
        assert len(alone.build) == 12


def test_a_server_is_not_ready_if_a_model_needs_a_newer_release(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve() as client:
        client.post("/v1/models", json={"name": "m", "algorithm": "falt"}).raise_for_status()
        with monkeypatch.context() as patch:
            patch.setattr(log_entries, "_FORMAT", FORMAT + 1)
            client.post("/v1/models/m/update", json={"x": {"a": 1}, "y": ["b"]}).raise_for_status()
        _reload(client)
        told = refused(client.get("/readyz"), 503, "release_too_old")
        assert "'m'" not in told["detail"], "names are for the log"
        assert int(refused(client.get("/v1/models/m"), 503, "release_too_old")["status"]) == 503
        refused(client.post("/v1/models/m/predict", json={"x": {"a": 1}}), 503, "release_too_old")
        (alone,) = client.get("/v1/replicas").json()["replicas"]
        assert (alone["models"], alone["withheld"]) == ({}, {"m": "release_too_old"})
        assert client.get("/livez").status_code == 200


def _reload(client: TestClient) -> None:
    """Evict the model, and request it, so that it is restored from the log."""
    registry: Any = client.app.state.context.registry  # type: ignore[attr-defined]
    registry._evict(registry._replicas["m"])
    assert client.get("/v1/models/m").status_code == 503
