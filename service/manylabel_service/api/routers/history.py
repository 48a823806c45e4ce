"""GET /v1/models/{name}/log: the entries of the log of a model."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pydantic_core
from pydantic import AfterValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_core.label_health import Kind
from manylabel_service.api.context import ContextOf
from manylabel_service.api.schemas.base import At, ResponseModel
from manylabel_service.api.schemas.metrics import PromiseOfModel
from manylabel_service.api.schemas.models import GroupOfLabels
from manylabel_service.api.translation.from_json import read_moment
from manylabel_service.api.translation.model_access import HISTORY, online
from manylabel_service.api.web.parameters import Parameters, from_query, up_to
from manylabel_service.api.web.routes import Router, content
from manylabel_service.audit.call import note
from manylabel_service.clock import rfc3339
from manylabel_service.hosting.examples import Example, Source
from manylabel_service.online.state.log_entries import Update, decode
from manylabel_service.online.updates.replay import LARGE_ENTRY_BYTES
from manylabel_service.slices import Pace
from manylabel_service.storage import Entry

router = Router("models", errors=["model_not_found", "model_is_trained"])


class LoggedExample(ResponseModel):
    """Example with its texts as features."""

    x: dict[str, Any] | list[float | None]
    y: list[str] | dict[str, bool]
    weight: float = 1.0
    source: Source = "human"
    ref: str | None = None


class LoggedStream(ResponseModel):
    """Position of the examples of an update in a stream: the key of the stream, and the line number of each example."""

    key: str
    lines: list[int]


class AuditOfEntry(ResponseModel):
    """Prediction whose answer the teacher verifies."""

    id: str
    rate: float
    """Probability with which the audit was drawn."""


class CorrectedExample(ResponseModel):
    """Learnt example that is corrected."""

    position: str
    """Position of the entry of the example."""
    index: int
    """Index of the example in the entry."""
    labels: list[str] | None
    """Labels that a person has checked; null for all."""


class HistoryEntry(At):
    """Entry of the log of a model; its kind determines the fields."""

    time: str
    """Time of the append, by the clock of the store (RFC 3339, UTC)."""
    kind: Literal[
        "update", "correction", "rollback", "label", "describe", "groups", "promise", "served", "dismissal", "undo"
    ]
    examples: list[LoggedExample] | None = None
    """Examples of an update; of a correction, the corrected example, or none if its labels were confirmed."""
    corrects: CorrectedExample | None = None
    """Example that is corrected."""
    prediction_ids: list[str] | None = None
    """Ids of the stored predictions that an update labels."""
    stream: LoggedStream | None = None
    """Position of an update in its stream."""
    to: str | None = None
    """Position to which a rollback returns, or new name of a label that was renamed or merged."""
    label: str | None = None
    """Name of the label that was changed, whose suggestion was dismissed, or whose change was undone."""
    undoes: str | None = None
    """Position of the change that was undone."""
    suggestion: Kind | None = None
    """Kind of a dismissed suggestion."""
    other: str | None = None
    """Other label of a dismissed suggestion."""
    change: Literal["renamed", "merged", "retired", "paused", "resumed"] | None = None
    """Change of a label."""
    labels: dict[str, dict[str, str | None]] | None = None
    """Titles, descriptions and URIs by label."""
    groups: list[GroupOfLabels] | None = None
    """All groups of labels."""
    parents: dict[str, str] | None = None
    """Parent of each child."""
    promise: PromiseOfModel | None = None
    """Promises from this entry on; null for none."""
    audits: list[AuditOfEntry] | None = None
    """Predictions that were audited under a promise of parity, and wait for the teacher's labels."""
    answered: int | None = None
    """Number of answers that were served without the teacher."""
    empty: int | None = None
    """Number of answers without a label that were served without the teacher."""
    unsure: int | None = None
    """Number of predictions for which the teacher was to be asked because they were unsure."""
    idempotency_key: str | None = None
    """Idempotency key of the request, if it had one."""


MAX_ENTRIES = 10_000
"""Maximum entries of one response."""

MAX_BYTES = 4 << 20
"""Approximate maximum bytes of stored entries per response."""

MEDIA_TYPE = "application/x-ndjson"


def _checked(value: str) -> str:
    read_moment(value)
    return value


_Moment = Annotated[str, AfterValidator(_checked)]


class WhichEntries(Parameters):
    """Range of the entries of the log."""

    after: _Moment | None = Field(default=None, alias="from")
    """Position after which, or time from which, entries are returned; default: the beginning of the history."""
    to: _Moment | None = None
    """Position or time up to which entries are returned, inclusive; default: the end."""
    limit: up_to(MAX_ENTRIES) = 1_000  # type: ignore[valid-type]
    """Maximum number of entries."""


@router.endpoint(
    "GET /v1/models/{name}/log",
    "Read the log of a model",
    "export",
    None,
    ["model_follows", *HISTORY],
    responses={
        200: {
            "description": "One line of JSON for each entry, the earliest first",
            **content(HistoryEntry, media_type=MEDIA_TYPE),
        }
    },
    response_class=Response,
)
async def read_log(
    request: Request, context: ContextOf, name: str, query: Annotated[WhichEntries, from_query(WhichEntries)]
) -> Response:
    """Returns the entries of the model's log in its history: what was sent to the model, and when, including updates
    that the model rejected at their position. A response can end before `limit`, after some megabytes of entries. To
    continue, send the position of the last line as `from`; a response without lines is the end."""
    async with context.registry.use(name) as model:
        replica = online(model)
        after = None if query.after is None else read_moment(query.after)
        to = None if query.to is None else read_moment(query.to)
        entries = await replica.read_log(after, to, query.limit, MAX_BYTES)
        if entries:
            note(request.scope, position=entries[-1].position)
        return Response(await lines_of(entries), media_type=MEDIA_TYPE)


async def lines_of(entries: Sequence[Entry]) -> bytes:
    """Return a line of JSON for each entry; other tasks may run between two entries, and during a large one."""
    lines = []
    pace = Pace()
    for entry in entries:
        large = len(entry.payload) >= LARGE_ENTRY_BYTES
        lines.append(await asyncio.to_thread(_line, entry) if large else _line(entry))
        await pace.rest()
    return b"".join(lines)


def _line(entry: Entry) -> bytes:
    change = decode(entry.payload)
    line: dict[str, Any] = {"position": entry.position, "time": rfc3339(entry.time_ms)}
    examples = b""
    if isinstance(change, Update):
        line["kind"] = "update"
        if change.corrects is not None:
            position, index, labels, _ = change.corrects
            line |= {"kind": "correction", "corrects": {"position": position, "index": index, "labels": labels}}
        # One example at a time, because the numbers of all examples as Python objects would take ten times the bytes of
        # the entry.
        examples = b',"examples":[' + b",".join(_json(_example(each)) for each in change.examples) + b"]"
        if change.prediction_ids is not None:
            line["prediction_ids"] = change.prediction_ids
        if change.stream is not None:
            line["stream"] = {"key": change.stream.key, "lines": change.stream.lines}
    else:
        line |= change.to_json()
    if change.key is not None:
        line["idempotency_key"] = change.key.key
    return _json(line)[:-1] + examples + b"}\n"


def _json(document: dict[str, Any]) -> bytes:
    return pydantic_core.to_json(document, inf_nan_mode="null")


def _example(example: Example) -> dict[str, Any]:
    """Return an example in the format of an update."""
    x, y, weight, source, ref = example
    values = x.values.tolist()
    features: Any = values
    if x.names is not None:
        features = dict(zip(x.names, values, strict=True))
        features |= {name: vector.tolist() for name, vector in (x.vectors or {}).items()}
    elif x.indices is not None:
        features = {"indices": x.indices.tolist(), "values": values}
    known = {name: sign > 0 for name, sign in zip(y.names, y.signs.tolist(), strict=True)}
    labels: Any = [name for name, is_true in known.items() if is_true] if y.complete else known
    line = {"x": features, "y": labels}
    line |= {} if weight == 1.0 else {"weight": weight}
    line |= {} if source == "human" else {"source": source}
    return line | ({} if ref is None else {"ref": ref})
