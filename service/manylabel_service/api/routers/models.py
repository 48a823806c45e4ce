"""/v1/models: create (also from a snapshot), list, show, delete."""

import asyncio
from contextlib import ExitStack
from functools import partial
from mmap import MAP_PRIVATE, mmap
from typing import IO, Annotated, Any, Literal

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from manylabel_core.state import DamagedState
from manylabel_service import names
from manylabel_service.access.grant import Access
from manylabel_service.api import schemas
from manylabel_service.api.context import Context, ContextOf
from manylabel_service.api.translation.from_json import path_in_spec, read_moment
from manylabel_service.api.translation.model_access import HISTORY, MEASURED, online, trained
from manylabel_service.api.translation.uploads import receive_file
from manylabel_service.api.web.access import AccessOf
from manylabel_service.api.web.bodies import BYTES
from manylabel_service.api.web.large_json import LARGE_BYTES, read_large_json
from manylabel_service.api.web.parameters import Parameters, from_query, one_of, up_to, wrong
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.routes import Router, body, json_response
from manylabel_service.api.web.validation import Path, check_all_known, check_known, invalid_body
from manylabel_service.audit.call import note
from manylabel_service.errors import InvalidField, check_limit
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.models.init_from import warm_start
from manylabel_service.models.listing import MAX_PAGE_MODELS
from manylabel_service.online.following import begin_follower, without_learning
from manylabel_service.online.size_limits import check_arrays
from manylabel_service.online.spec.params import PARAMS
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.settings import Settings

router = Router("models", errors=["model_not_found"])


_EXAMPLE = {"name": "tags", "algorithm": "falt", "params": {"eta": 0.5, "passes": 20}, "scaling": "unit"}


@router.endpoint(
    "POST /v1/models",
    "Create a model",
    "admin",
    schemas.ModelStatus | schemas.StoredModel,
    ["model_not_found", "model_is_trained", "model_exists", "limit_exceeded", "storage_full", *HISTORY, *MEASURED],
    takes=schemas.ModelRequest,
    example=_EXAMPLE,
    status=201,
)
async def create_model(request: Request, response: Response, context: ContextOf, access: AccessOf) -> dict[str, Any]:
    """Creates an online model. It is empty, or starts from a version of a trained model, from the settings of another
    model (`like`), or from the state of another model at a position or time (`fork`). A follower learns from the log of
    another model, with its own spec, and accepts no updates. The header Location has its address."""
    document, raw = await read_large_json(request)
    _check_count(document, context.settings)
    names_of_clients = isinstance(document, dict) and isinstance(document.get("parents"), dict)
    check_all_known({**document, "parents": None} if names_of_clients else document, ())
    try:
        # Parsing hundreds of thousands of names would hold the interpreter lock for long.
        large = len(raw) >= LARGE_BYTES
        wanted, spec = await asyncio.to_thread(_validated, document) if large else _validated(document)
    except ValidationError as error:
        raise invalid_body(error, (), path_in_spec, _described(document)) from error
    note(request.scope, model=spec.name)
    response.headers["Location"] = f"/v1/models/{spec.name}"
    access.require_names(spec.name, *[each.model for each in (wanted.init_from, wanted.fork, wanted.follow) if each])
    access.require_names(*filter(None, [wanted.like]))
    if wanted.follow is not None:
        return await _followed(context, spec, wanted, wanted.follow)
    if wanted.fork is not None:
        return to_dict(await _forked(context, spec.name, wanted.fork, document))
    if wanted.like is not None:
        return to_dict(await _like(context, spec.name, wanted.like, document))
    if wanted.init_from is not None:
        state = await _begin(context, spec, wanted.init_from, wanted.leaves_scaling, wanted.leaves_text)
    elif wanted.details or wanted.groups or wanted.parents or wanted.promise:
        state = await asyncio.to_thread(OnlineModel, spec)  # a spec may declare hundreds of thousands of names
    else:
        return to_dict(await context.registry.create(spec))
    await asyncio.to_thread(_change, state, wanted)
    spec, states = state.online_spec, [state]
    del state, document, wanted  # the model needs the memory
    return to_dict(await context.registry.create(spec, states.pop()))


def _change(state: OnlineModel, wanted: schemas.ModelRequest) -> None:
    """Set the details, groups and promise of a new model; raises InvalidField."""
    state.describe(wanted.details)
    if wanted.groups or wanted.parents:
        state.regroup([each.group for each in wanted.groups], wanted.parents)
        state.learner.pipeline.grow(state.learner.n_features_, len(state.labels))
    if wanted.promise is not None:
        try:
            state.set_promise(wanted.promise.target, wanted.promise.parity_target)
        except InvalidField as error:
            raise InvalidField(("promise", *error.path), error.detail) from error


def _check_count(document: Any, settings: Settings) -> None:
    """Reject too many names of labels or features, and too many fields of a label or group, before each is validated.
    Raises LimitExceeded or a Problem.
    """
    for kind, most in (("features", settings.max_features), ("labels", settings.max_labels)):
        named = document.get(kind) if isinstance(document, dict) else None
        if isinstance(named, list):
            check_limit(f"{kind} of the model", len(named), most)
    for kind, type_ in (("groups", list), ("parents", dict)):
        named = document.get(kind) if isinstance(document, dict) else None
        if isinstance(named, type_) and len(named) > settings.max_labels:
            raise invalid((kind,), f"must have at most {settings.max_labels:,} entries, one per label")
    for kind in ("labels", "groups") if isinstance(document, dict) else ():
        listed = document.get(kind)
        for place, each in enumerate(listed if isinstance(listed, list) else ()):
            check_known(each, (kind, place))


def _validated(document: Any) -> tuple[schemas.ModelRequest, ModelSpec]:
    """Return the request, and the spec of the model."""
    wanted = schemas.ModelRequest.model_validate(document)
    return wanted, wanted.spec


def _described(document: Any) -> dict[Path, type[BaseModel]]:
    """Return the known fields of a model and of the parameters of its algorithm, by path."""
    described: dict[Path, type[BaseModel]] = {(): schemas.ModelRequest}
    algorithm = document.get("algorithm", "falt") if isinstance(document, dict) else None
    params = PARAMS.get(algorithm) if isinstance(algorithm, str) else None
    return described if params is None else {**described, ("params",): params}


async def _begin(
    context: Context, spec: ModelSpec, source: schemas.LinearSource, leaves_scaling: bool, leaves_text: bool
) -> OnlineModel:
    """Return the initial state of a model that starts from a version, with the scaling of the version if none is
    requested."""
    async with context.registry.use(source.model) as model, context.examining:
        version, data = await trained(model).version(source.version)
        return await asyncio.to_thread(warm_start, spec, source.model, version, data, leaves_scaling, leaves_text)


async def _forked(context: Context, name: str, source: schemas.ForkSource, document: Any) -> HostedModel:
    """Create a model from the state of another one, without its idempotency keys."""
    _check_fields(document, "fork", "a fork")
    try:
        at = None if source.at is None else read_moment(source.at)
    except ValueError as error:
        raise invalid(("fork", "at"), str(error)) from None
    async with context.registry.use(source.model) as model, context.examining:
        states = [await online(model).state_at(model.position if at is None else at)]
        spec = states[0].online_spec.model_copy(update={"name": name})
        return await context.registry.create(spec, states.pop())  # free the state, because the model needs the memory


async def _like(context: Context, name: str, other: str, document: Any) -> HostedModel:
    """Create a model with the settings of another one, without what it has learnt."""
    _check_fields(document, "like", "the new model")
    async with context.registry.use(other) as model, context.examining:
        states = [await online(model).state_at(model.position)]
        spec = states[0].online_spec.model_copy(update={"name": name})
        states = [await asyncio.to_thread(without_learning, spec, states.pop())]
        return await context.registry.create(spec, states.pop())


def _check_fields(document: Any, field: str, new: str) -> None:
    """Reject all fields except the name and the field with the model to copy."""
    for each in document:
        if each not in ("name", field):
            raise invalid((each,), f"must be omitted: {new} takes it from the other model")


async def _followed(
    context: Context, spec: ModelSpec, wanted: schemas.ModelRequest, source: schemas.FollowSource
) -> dict[str, Any]:
    """Create a model that learns from the log of another."""
    for field in ("init_from", "fork", "groups", "parents", "promise"):
        if getattr(wanted, field):
            raise invalid((field,), "must be omitted: a follower takes it from the other model")
    if wanted.details:
        raise invalid(("labels",), "must be names without details: a follower has those of the other model")
    if source.model == spec.name:
        raise invalid(("follow", "model"), "must be another model")
    try:
        until = None if source.until is None else read_moment(source.until)
    except ValueError as error:
        raise invalid(("follow", "until"), str(error)) from None
    if wanted.leaves_text:
        spec = spec.model_copy(update={"text": None})
    async with context.registry.use(source.model) as model, context.examining:
        beginning = await begin_follower(online(model), spec, from_start=source.from_ == "start", until=until)
    replica = await context.registry.create(*beginning)
    return to_dict(replica) if replica.serving else context.registry.listing.described(replica.record)


class WhichModels(Parameters):
    """Parameters of the list of models."""

    leader: str | None = None
    """Name of a model: the list has only this model and its followers, on one page."""
    prefix: str = ""
    """Beginning of the names to list."""
    sort: one_of(("name", "used")) = "name"  # type: ignore[valid-type]
    """Order: `name`, or `used`, which lists the latest used models first."""
    after: str | None = None
    """Value of `next` of the previous page."""
    limit: up_to(MAX_PAGE_MODELS) = MAX_PAGE_MODELS  # type: ignore[valid-type]
    """Maximum number of models of a page."""


@router.endpoint("GET /v1/models", "List models", "read", schemas.ModelList)
async def list_models(
    context: ContextOf, access: AccessOf, query: Annotated[WhichModels, from_query(WhichModels)]
) -> Response:
    """Lists the models that the caller may see, in pages. A model that is not in this server's memory has only the
    fields of its spec. A page may have fewer models than `limit`; the last page has no `next`."""
    context.registry.require_ready()
    listing = context.registry.listing
    if query.leader is not None:
        shown = access.may_see if access.may_see(query.leader) else (lambda _: False)
        page = await listing.family(query.leader, shown)
    elif query.sort == "name":
        page = await listing.page(access.seen(query.prefix), query.after, query.limit)
    else:
        try:
            page = await listing.recent(access.seen(query.prefix), query.after, query.limit)
        except ValueError as error:
            raise wrong("after", str(error)) from None
    models = [visible(status, access) for status in page.models]
    more = {"damaged": page.damaged, "next": page.next}
    return json_response({"models": models, **{name: value for name, value in more.items() if value}})


@router.endpoint("GET /v1/models/{name}", "Show a model", "read", schemas.ModelStatus | schemas.TrainedStatus)
async def show_model(context: ContextOf, access: AccessOf, name: str) -> dict[str, Any]:
    """Shows a model: its spec, how much it has learnt, and its metrics."""
    return visible(to_dict(await context.registry.get(name)), access)


class WhatToDelete(Parameters):
    """Parameters of a deletion."""

    followers: Literal["delete"] | None = None
    """`delete`: the followers of the model are deleted too."""


@router.endpoint("DELETE /v1/models/{name}", "Delete a model", "admin", errors=["model_has_followers"], status=204)
async def delete_model(
    context: ContextOf, access: AccessOf, name: str, query: Annotated[WhatToDelete, from_query(WhatToDelete)]
) -> None:
    """Deletes an online model with its log and snapshots, or a trained model with its versions. The name can be used
    again. A model that has followers can only be deleted together with them."""
    if query.followers is not None:
        access.require_names(*await context.registry.followers(name))
    await context.registry.delete(name, with_followers=query.followers is not None)


def visible(status: dict[str, Any], access: Access) -> dict[str, Any]:
    """Return the status of a model without the name of a leader that the caller may not see."""
    follow = status.get("follow")
    if follow is None or access.may_see(follow["model"]):
        return status
    return {**status, "follow": {**follow, "model": None}}


def to_dict(replica: HostedModel) -> dict[str, Any]:
    """Return the status of a model."""
    return {**replica.details(), "loaded": True}


@router.endpoint(
    "PUT /v1/models/{name}",
    "Create a model from a snapshot",
    "export",
    schemas.ModelStatus,
    [
        "stream_idle",
        "model_exists",
        "body_too_large",
        "unsupported_media_type",
        "invalid_request",
        "storage_full",
        "limit_exceeded",
    ],
    named=False,
    status=201,
    openapi_extra=body(media_type="application/octet-stream"),
)
async def upload_model(request: Request, response: Response, context: ContextOf, name: str) -> dict[str, Any]:
    """Creates a model from a downloaded snapshot, of this server or another. The new model has the state of the
    snapshot, but not the idempotency keys and stored predictions of the old model."""
    if not names.valid(name):
        raise wrong("name", names.ALLOWED)
    context.registry.require_ready()
    settings = context.settings
    with ExitStack() as stack:
        limits = settings.max_model_bytes, "max_model_bytes", settings.limits.idle_timeout_seconds
        file, size_bytes = await receive_file(request, BYTES, *limits, context.datasets, stack)
        async with context.uploading:
            state = await asyncio.to_thread(_model, file, size_bytes, settings)
            replica = await context.registry.create(state.online_spec.model_copy(update={"name": name}), state)
    response.headers["Location"] = f"/v1/models/{name}"
    return to_dict(replica)


def _model(file: IO[bytes], size_bytes: int, settings: Settings) -> OnlineModel:
    """Return the model of a snapshot file, whose bytes are memory-mapped."""
    data = mmap(file.fileno(), size_bytes, flags=MAP_PRIVATE) if size_bytes else b""
    try:
        model = OnlineModel.from_bytes(memoryview(data), partial(check_arrays, settings=settings), requests=False)
    except (DamagedState, MemoryError) as error:  # a damaged file can require any size
        raise invalid((), f"must be an unchanged downloaded snapshot: {error}") from error
    if model.answers is not None:
        raise invalid((), "must be a snapshot of a model that learns online")
    return model
