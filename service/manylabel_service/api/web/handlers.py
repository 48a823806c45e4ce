"""What is raised, as answers."""

from collections.abc import Callable, Coroutine
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api.web.problems import Problem, problem_of, problem_response
from manylabel_service.errors import ServiceError

Handler = Callable[[Request, Any], Coroutine[Any, Any, Response]]


async def _problem(request: Request, error: Problem) -> Response:
    return problem_response(error, request.scope)


async def _service_error(request: Request, error: ServiceError) -> Response:
    return problem_response(problem_of(error), request.scope)


async def _framework_error(request: Request, error: HTTPException) -> Response:
    """No route fits: the only thing that the framework raises here."""
    if error.status_code != 405:
        return problem_response(Problem("not_found", "there is nothing at this address; see /docs"), request.scope)
    allowed = ", ".join(sorted(_methods_at(request)))
    detail = f"{request.method} is not possible here, only {allowed}"
    return problem_response(Problem("method_not_allowed", detail, headers={"Allow": allowed}), request.scope)


def _methods_at(request: Request) -> set[str]:
    path = request.scope["path"]
    matching = (route for route in request.app.routes if route.path_regex.match(path))
    return {method for route in matching for method in route.methods}


HANDLERS: dict[int | type[Exception], Handler] = {
    Problem: _problem,
    ServiceError: _service_error,
    HTTPException: _framework_error,
}
