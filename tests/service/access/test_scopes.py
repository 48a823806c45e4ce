"""Every route declares its scopes, in the code and in the description."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from fastapi import APIRouter
from starlette.responses import Response
from starlette.testclient import TestClient
from tests.service.access.calls import ALL_SCOPES, PAGE, SCOPES

from manylabel_service import app as app_module
from manylabel_service.access.grant import Scope
from manylabel_service.api.web.access import OPEN, needs
from manylabel_service.api.web.routes import DirectRoute, GuardedRoute
from manylabel_service.app import create_app
from manylabel_service.settings import Settings
from manylabel_service.storage import SQLiteStore

ROOT = Path(__file__).parents[3]


def test_every_call_needs_the_scopes_of_the_table(client: TestClient) -> None:
    app: Any = client.app
    routes = [route for route in app.routes if isinstance(route, GuardedRoute)]
    assert {(m.lower(), route.path): route.scopes for route in routes for m in route.methods} == SCOPES | PAGE


def test_the_client_and_the_docs_have_all_scopes() -> None:
    table = (ROOT / "docs" / "keys.md").read_text().partition("| scope | allows |")[2].partition("\n\n")[0]
    documented = re.findall(r"^\| `(\w+)`", table, re.MULTILINE)
    assert documented == list(get_args(Scope)) == list(ALL_SCOPES)


def test_the_description_has_the_scopes(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    schemes = document["components"]["securitySchemes"].keys()
    assert schemes == {"bearer", "basic", "apiKey"}
    for (method, path), scopes in SCOPES.items():
        operation = document["paths"][path][method]
        assert operation["security"] == ([{scheme: list(scopes)} for scheme in schemes] if scopes else [])
        last = operation["description"].splitlines()[-1]
        assert all(f"`{scope}`" in last for scope in scopes)
        assert scopes or last == "Needs no key."


@pytest.mark.parametrize("route_class", [GuardedRoute, DirectRoute])
def test_an_endpoint_without_a_scope_cannot_be_added(route_class: type[GuardedRoute]) -> None:
    router = APIRouter(route_class=route_class)
    router.get("/declared")(OPEN(endpoint_of_nothing()))
    router.get("/declared/too")(needs("read")(endpoint_of_nothing()))
    with pytest.raises(TypeError, match="does not say which scope"):
        router.get("/undeclared")(endpoint_of_nothing())


def test_an_application_does_not_start_with_an_unguarded_route(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Part:
        router = APIRouter()

    Part.router.get("/unguarded")(endpoint_of_nothing())
    monkeypatch.setattr(app_module, "_PARTS", (*app_module._PARTS, Part))
    with pytest.raises(TypeError, match="/unguarded is not a GuardedRoute"):
        create_app(Settings(data_dir=tmp_path), SQLiteStore(tmp_path))


def endpoint_of_nothing() -> Any:
    async def nothing() -> Response:
        """Answers nothing."""
        return Response()

    return nothing
