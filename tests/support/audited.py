"""The lines of the audit log of an application under test."""

import json
from typing import Any

from starlette.testclient import TestClient


def audited(client: TestClient) -> list[dict[str, Any]]:
    """Return all lines of the audit log, the newest last."""
    context: Any = client.app.state.context  # type: ignore[attr-defined]
    assert client.portal is not None
    client.portal.call(context.audit.flush)
    path = context.settings.audit_place
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
