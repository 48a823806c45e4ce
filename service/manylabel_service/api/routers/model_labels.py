"""GET /v1/models/{name}/labels: the labels of a model, one by one."""

import re
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from manylabel_service.api import schemas
from manylabel_service.api.context import ContextOf
from manylabel_service.api.translation.model_access import online
from manylabel_service.api.web.parameters import Flag, Parameters, each_once, one_of
from manylabel_service.api.web.routes import json_answer, problems
from manylabel_service.online.state.label_table import SORTS, label_page

router = APIRouter(tags=["models"])

MAX_LISTED = 1000


def _read_limit(value: object) -> object:
    if isinstance(value, str) and (not re.fullmatch("[0-9]{1,9}", value) or not 1 <= int(value) <= MAX_LISTED):
        raise ValueError(f"must be an integer from 1 to {MAX_LISTED}")
    return value


def _read_offset(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch("[0-9]{1,9}", value):
        raise ValueError("must be an integer, at least 0")
    return value


class Listing(Parameters):
    """Which labels are listed, and in which order."""

    sort: one_of(SORTS) = "frequency"  # type: ignore[valid-type]
    """Labels are sorted by this; those without a value come last."""
    descending: Flag = True
    """Whether the highest come first."""
    offset: Annotated[int, Field(ge=0, lt=10**9), BeforeValidator(_read_offset)] = 0
    """So many are left out before the first listed."""
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED), BeforeValidator(_read_limit)] = 100
    """At most so many are listed."""


@router.get(
    "/v1/models/{name}/labels",
    summary="List the labels of a model",
    response_model=schemas.LabelList,
    responses=problems("model_not_found", "model_is_trained", "invalid_request", "not_ready", "storage_unavailable"),
    dependencies=[Depends(each_once)],
)
async def list_labels(context: ContextOf, name: str, query: Annotated[Listing, Query()]) -> Response:
    """Lists the labels with how frequent they are, how well each was predicted before it was learnt, and by what."""
    replica = online(await context.registry.get(name))
    replica.check_serving()
    model = replica.model
    page = label_page(model, query.sort, query.descending, query.offset, query.limit)
    facts = {"position": model.position, "updates": model.updates}
    return json_answer({"labels": page.labels, "total": page.total, **facts})
