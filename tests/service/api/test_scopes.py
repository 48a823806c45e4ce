"""Every route says which scopes its callers need, in the code and in the description."""

from typing import Any

import pytest
from fastapi import APIRouter
from starlette.responses import Response
from starlette.testclient import TestClient

from manylabel_service import app as app_module
from manylabel_service.api.web.access import OPEN, needs
from manylabel_service.api.web.routes import DirectRoute, GuardedRoute
from manylabel_service.app import create_app
from manylabel_service.settings import Settings
from manylabel_service.storage import SQLiteStore

MODEL = "/v1/models/{name}"
STUDIO = "/v1/label-studio/{name}"
V2_MODEL = "/v2/models/{name}"
SCOPES: dict[tuple[str, str], tuple[str, ...]] = {
    ("get", "/livez"): (),
    ("get", "/readyz"): (),
    ("get", "/metrics"): ("read",),
    ("get", "/v1/audit"): ("admin",),
    ("post", "/v1/models"): ("admin",),
    ("get", "/v1/models"): ("read",),
    ("get", MODEL): ("read",),
    ("put", MODEL): ("export",),
    ("delete", MODEL): ("admin",),
    ("get", f"{MODEL}/metrics"): ("read",),
    ("get", f"{MODEL}/labels"): ("read",),
    ("get", f"{MODEL}/events"): ("read",),
    ("get", f"{MODEL}/detail"): ("read",),
    ("get", f"{MODEL}/versions"): ("read",),
    ("get", f"{MODEL}/snapshots"): ("read",),
    ("get", f"{MODEL}/predictions"): ("learn",),
    ("post", f"{MODEL}/predict"): ("predict",),
    ("post", f"{MODEL}/update"): ("learn",),
    ("post", f"{MODEL}/predict-update"): ("predict", "learn"),
    ("post", f"{MODEL}/labels"): ("learn",),
    ("post", f"{MODEL}/stream"): ("learn",),
    ("post", f"{MODEL}/labels/rename"): ("admin",),
    ("post", f"{MODEL}/labels/retire"): ("admin",),
    ("post", f"{MODEL}/snapshots"): ("admin",),
    ("delete", f"{MODEL}/snapshots/{{position}}"): ("admin",),
    ("get", f"{MODEL}/snapshots/{{position}}"): ("export",),
    ("post", f"{MODEL}/rollback"): ("admin",),
    ("get", f"{MODEL}/versions/{{version}}"): ("export",),
    ("delete", f"{MODEL}/versions/{{version}}"): ("admin",),
    ("post", f"{MODEL}/promote"): ("train",),
    ("post", "/v1/datasets"): ("train",),
    ("get", "/v1/datasets"): ("read",),
    ("get", "/v1/datasets/{name}"): ("read",),
    ("delete", "/v1/datasets/{name}"): ("train",),
    ("post", "/v1/jobs"): ("train",),
    ("get", "/v1/jobs"): ("read",),
    ("get", "/v1/jobs/{id}"): ("read",),
    ("delete", "/v1/jobs/{id}"): ("train",),
    ("get", "/v1/jobs/{id}/log"): ("read",),
    ("get", "/v1/jobs/{id}/events"): ("read",),
    ("post", "/v1/jobs/{id}/retry"): ("train",),
    ("get", "/v1/trainers"): ("read",),
    ("get", f"{STUDIO}/health"): ("predict",),
    ("post", f"{STUDIO}/setup"): ("predict",),
    ("post", f"{STUDIO}/predict"): ("predict",),
    ("get", f"{STUDIO}/versions"): ("predict",),
    ("post", f"{STUDIO}/webhook"): ("learn",),
    ("get", "/v2"): (),
    ("get", "/v2/health/live"): (),
    ("get", "/v2/health/ready"): (),
    ("get", V2_MODEL): ("read",),
    ("get", f"{V2_MODEL}/ready"): ("predict",),
    ("post", f"{V2_MODEL}/infer"): ("predict",),
    ("get", f"{V2_MODEL}/versions/{{version}}"): ("read",),
    ("get", f"{V2_MODEL}/versions/{{version}}/ready"): ("predict",),
    ("post", f"{V2_MODEL}/versions/{{version}}/infer"): ("predict",),
}
"""What each call needs: a new one needs a row, so that somebody has thought about it."""


def test_every_call_needs_what_the_table_says(client: TestClient) -> None:
    app: Any = client.app
    routes = [route for route in app.routes if isinstance(route, GuardedRoute)]
    assert {(m.lower(), route.path): route.scopes for route in routes for m in route.methods} == SCOPES


def test_the_description_says_it_too(client: TestClient) -> None:
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
def test_an_endpoint_without_a_scope_cannot_be_attached(route_class: type[GuardedRoute]) -> None:
    router = APIRouter(route_class=route_class)
    router.get("/declared")(OPEN(endpoint_of_nothing()))
    router.get("/declared/too")(needs("read")(endpoint_of_nothing()))
    with pytest.raises(TypeError, match="does not say which scope"):
        router.get("/undeclared")(endpoint_of_nothing())


def test_an_application_does_not_start_with_a_route_that_nobody_guards(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
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
