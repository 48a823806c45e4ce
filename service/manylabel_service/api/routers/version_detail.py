"""GET /v1/models/{name}/detail: details of a version, for people."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import pydantic_core
from starlette.responses import Response

from manylabel_service.api import schemas
from manylabel_service.api.context import Context, ContextOf
from manylabel_service.api.translation.model_access import WhichVersion, trained
from manylabel_service.api.web.parameters import from_query
from manylabel_service.api.web.routes import RawJSONResponse, Router
from manylabel_service.trained.detail import Detail, LabelCorrelation, read_detail

router = Router("versions", errors=["model_not_found", "model_is_online"])


@router.endpoint(
    "GET /v1/models/{name}/detail",
    "Show details of a version",
    "read",
    schemas.ModelDetail,
    ["version_not_found", "no_version_served", "version_damaged"],
)
async def show_detail(
    context: ContextOf, name: str, query: Annotated[WhichVersion, from_query(WhichVersion)]
) -> Response:
    """Shows scores and correlations of labels, weights of views, and the course of the training."""
    async with context.examining:
        detail = await _detail(context, name, query.version)
        content = await asyncio.to_thread(_to_json, detail)
    return RawJSONResponse(content)


async def _detail(context: Context, name: str, number: int | None) -> Detail:
    model = trained(await context.registry.get(name))
    version, data = await context.registry.ask(model, lambda model: model.version(number))
    return await asyncio.to_thread(read_detail, name, version, data)


def _to_json(detail: Detail) -> bytes:
    """Return the response as JSON. Long lists are written in parts, because one call would block the event loop."""
    meta, trace = detail.version.meta, detail.convergence
    facts = {
        "version": detail.version.number,
        "trainer": meta.trainer,
        "params": dict(meta.params),
        "measures": None if meta.measures is None else dict(meta.measures),
        "baseline": None if meta.baseline is None else dict(meta.baseline),
        "view_weights": detail.view_weights,
        "convergence": {name: getattr(trace, name) for name in type(trace).__slots__},
    }
    scores = b"null" if detail.label_scores is None else _object(detail.label_scores)
    decisions = _object(detail.label_decisions)
    parts = (
        _json(facts)[:-1],
        b',"label_scores":',
        scores,
        b',"label_decisions":',
        decisions,
        b',"label_correlation":',
    )
    return b"".join((*parts, _correlation(detail.label_correlation), b"}"))


def _object(by_label: Mapping[str, Any]) -> bytes:
    return b"{" + b",".join(_json(label) + b":" + _json(facts) for label, facts in by_label.items()) + b"}"


def _correlation(found: LabelCorrelation | None) -> bytes:
    if found is None:
        return b"null"
    rows: Iterator[bytes] = (_json(row.tolist()) for row in found.values)
    return b'{"labels":' + _json(found.labels) + b',"values":[' + b",".join(rows) + b"]}"


def _json(value: Any) -> bytes:
    """Return a value of JSON, with null for each number that is not finite."""
    return pydantic_core.to_json(value, inf_nan_mode="null")
