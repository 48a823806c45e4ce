"""/v1/models/{name}/doubts: labels of learnt examples that the rest of the stream contradicts."""

from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.access.grant import Access
from manylabel_service.api.context import Context, ContextOf
from manylabel_service.api.schemas.base import RequestModel, ResponseModel
from manylabel_service.api.schemas.requests import Name
from manylabel_service.api.translation.model_access import online
from manylabel_service.api.web.access import AccessOf
from manylabel_service.api.web.large_json import read_model
from manylabel_service.api.web.parameters import Parameters, from_query, one_of, up_to
from manylabel_service.api.web.routes import Router, json_response
from manylabel_service.errors import DoubtsNotFound, LabelNotFound, ModelFollows
from manylabel_service.hosting.explanations import Name as FeatureName
from manylabel_service.jobs.spec.schemas import MAX_DOUBTS, DataOfStream, DoubtsSpec, Job
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.model import OnlineModel

router = Router("models", errors=["model_not_found", "model_is_trained"])

MAX_EXAMINED = 1_000_000


class DoubtsRequest(RequestModel):
    """Search for doubtful labels."""

    label: Name | None = None
    """The only label to judge; null for all labels."""
    top: Annotated[int, Field(strict=True, ge=1, le=MAX_DOUBTS)] = 100
    """Maximum number of doubts in each of the two lists."""
    last: Annotated[int, Field(strict=True, ge=1, le=MAX_EXAMINED)] = 100_000
    """Maximum number of the latest examples to examine."""


class WhichDoubts(Parameters):
    """Part of the newest list of doubts."""

    kind: one_of(("missing", "wrong")) = "missing"  # type: ignore[valid-type]
    """`missing`: probable labels that the example does not have. `wrong`: improbable labels that it has; a person must
    judge them, because many are right."""
    label: Name | None = None
    """The only label to list."""
    top: up_to(MAX_DOUBTS) = 100  # type: ignore[valid-type]
    """Maximum number of doubts listed."""


class DoubtedPlace(ResponseModel):
    """Learnt example."""

    position: str
    """Position of the entry of the example."""
    index: int
    """Index of the example in the entry."""
    ref: str | None
    """Reference that was sent with the example."""
    time: str
    """Time of the append of the entry, by the clock of the store (RFC 3339, UTC)."""


class FeatureForDoubt(ResponseModel):
    """Feature that contradicts a label."""

    feature: FeatureName
    """Name or number of the feature."""
    contribution: float
    """Contribution to the score of the label by the model that has not learnt the example."""


class ListedDoubt(DoubtedPlace):
    """Doubtful label of a learnt example."""

    label: str
    given: bool
    """Whether the example has the label."""
    kind: Literal["missing", "wrong"]
    probability: float
    """Probability of the label by a model that has not learnt the example."""
    share: float
    """Share of the examples with the label."""
    seen: int
    """Number of examples with the label that this model has learnt."""
    neighbours: float
    """Share of the ten most similar examples that have the label, weighted by their similarity."""
    similar: list[DoubtedPlace]
    """Similar examples that contradict the example, at most 3: they have the missing label, or lack the wrong one."""
    evidence: list[FeatureForDoubt] = Field(alias="for")
    """Features that contradict the example, at most 5: they speak for the missing label, or against the wrong one."""
    score: float
    """Value by which the list is sorted, in log-odds; higher is more doubtful."""
    existed: bool
    """Whether the model had the label when it learnt the example."""


class LeftOut(ResponseModel):
    """Numbers of omitted examples and labels."""

    not_human: int
    """Number of examples whose labels are not from people."""
    before_since: int
    """Number of examples before `since`, which are no longer in the history or exceed `last`."""
    too_rare: int
    """Number of labels with too few examples to be judged."""
    checked: int
    """Number of doubts that were corrected or confirmed, or whose label was retired or paused, since the search."""


class DoubtList(ResponseModel):
    """Doubtful labels of one kind, the most doubtful first."""

    job: str
    """Id of the job that made the list."""
    position: str
    """Position of the log up to which the examples were examined."""
    since: str | None
    """Position of the first examined example."""
    examined: int
    """Number of examined examples."""
    left_out: LeftOut
    doubts: list[ListedDoubt]


@router.endpoint(
    "GET /v1/models/{name}/doubts",
    "List doubtful labels",
    "learn",
    DoubtList,
    ["doubts_not_found", "model_follows"],
)
async def list_doubts(
    context: ContextOf, access: AccessOf, name: str, query: Annotated[WhichDoubts, from_query(WhichDoubts)]
) -> Response:
    """Returns the newest finished list of doubts: labels of learnt examples that the rest of the stream contradicts.
    Labels that were corrected or confirmed since are omitted. A follower has the list of its leader."""
    async with context.registry.use(await leader_of(context, access, name)) as hosted:
        replica = online(hosted)
        replica.check_serving()
        found = await context.jobs.doubts(replica.record.incarnation, query.label)
        if found is None:
            raise DoubtsNotFound(name)
        id, document = found
        rows, model = document[query.kind], replica.model
        current = [row for row in rows if _is_open(model, row, query.label)]
        of_label = [row for row in rows if query.label in (None, current_label(model, row["label"]))]
        job = await context.jobs.get(id)
        sampled = job.sampled
        learnt, not_human = (0, 0) if sampled is None else (sampled.learnt, document["not_human"])
        left_out = {
            "not_human": not_human,
            "before_since": max(0, learnt - document["examined"] - not_human),
            "too_rare": document["too_rare"],
            "checked": len(of_label) - len(current),
        }
        doubts = [
            {**row, "label": current_label(model, row["label"]), "kind": query.kind} for row in current[: query.top]
        ]
        facts = {part: document[part] for part in ("position", "since", "examined")}
        return json_response({"job": id, **facts, "left_out": left_out, "doubts": doubts})


@router.endpoint(
    "POST /v1/models/{name}/doubts",
    "Search for doubtful labels",
    "learn",
    Job,
    ["model_follows", "label_not_found", "jobs_full"],
    takes=DoubtsRequest,
    example={"top": 100},
    status=202,
)
async def search_doubts(request: Request, response: Response, context: ContextOf, access: AccessOf, name: str) -> Job:
    """Queues a job that searches for doubtful labels in the examples that the model has learnt. The header Location has
    the address of the job; its only result is the list. If a job for the current position exists, it is returned
    instead. For a follower, the examples are those of its leader."""
    leader = await leader_of(context, access, name)
    async with context.registry.use(leader) as hosted:
        replica = online(hosted)
        wanted, _ = await read_model(request, DoubtsRequest)
        replica.check_serving()
        label = None if wanted.label is None else current_label(replica.model, wanted.label)
        if label is not None and (label not in replica.model.labels or label in replica.model.hidden):
            raise LabelNotFound(label)
        params = {"label": label, "top": wanted.top}
        spec = DoubtsSpec(params=params, data=DataOfStream(stream=leader, last=wanted.last), model=leader)
        job, _ = await context.jobs.begin_search(spec, replica.record.incarnation, replica.position)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return job


async def leader_of(context: Context, access: Access, name: str) -> str:
    """Return the name of the model whose log has the examples; raise ModelFollows if the caller may not see this
    model."""
    async with context.registry.use(name) as hosted:
        replica: Replica = online(hosted)
        if replica.follow is None:
            return name
        if not access.may_see(replica.follow.model):
            raise ModelFollows(name)
        return replica.follow.model


def current_label(model: OnlineModel, label: str) -> str:
    """Return the current name of a label."""
    return model.old_names.current(label, model.labels.names)


def _is_open(model: OnlineModel, row: dict[str, Any], label: str | None) -> bool:
    """Return whether to list a doubt: the model learns the label, and no person has checked it since."""
    name = current_label(model, row["label"])
    if name in model.hidden or name not in model.labels or label not in (None, name):
        return False
    checked = model.corrections.find((row["position"], row["index"])).columns
    return checked is not None and model.labels.lookup([name])[0] not in checked
