"""Requests to a model of either kind."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from manylabel_core.datasets.label_details import LabelDetails
from manylabel_service.api.context import Context
from manylabel_service.api.translation.to_json import receipt_of_change
from manylabel_service.api.web.parameters import Number, Parameters
from manylabel_service.api.web.problems import Problem, invalid, problem_of
from manylabel_service.api.web.validation import Path
from manylabel_service.errors import InvalidExample, ModelIsOnline, ModelIsTrained, ModelNotFound, ServiceError
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.hosting.predictions import PredictResult
from manylabel_service.hosting.signature import Signature
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.controls import Control
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.served_metrics import VersionMeasures
from manylabel_service.trained.model import TrainedModel


def online(hosted: HostedModel, refusal: type[ModelIsTrained] = ModelIsTrained) -> Replica:
    """Return an online model; raise ModelIsTrained, or the given subclass, for a trained one."""
    if not isinstance(hosted, Replica):
        raise refusal(hosted.record.name)
    return hosted


def labelled(hosted: HostedModel) -> Replica:
    """Return the replica that accepts labels of stored predictions; for a trained model, the replica of its served
    predictions."""
    if isinstance(hosted, TrainedModel):
        return hosted.answers
    return online(hosted)


def trained(hosted: HostedModel) -> TrainedModel:
    """Return a trained model; raise ModelIsOnline for an online one."""
    if not isinstance(hosted, TrainedModel):
        raise ModelIsOnline(hosted.record.name)
    return hosted


async def changed(request: Request, response: Response, replica: Replica, entry: Control) -> dict[str, Any]:
    """Return the response to a change by a control entry."""
    return receipt_of_change(await replica.change(entry), request, response)


async def predict(
    hosted: HostedModel,
    values: Sequence[Any],
    at: Callable[[int], Path],
    version: int | None = None,
    **options: Any,
) -> PredictResult:
    """Predict examples by a model, or by a version of a trained one; `at` returns the path of an example in the body.

    Raises a Problem for an example that does not fit the model, and the errors of the model.
    """
    if version is not None:
        options["version"] = version
    try:
        return await hosted.predict(values, **options)
    except InvalidExample as error:
        raise invalid((*at(error.index), *error.path), error.detail) from error


async def signature_of(hosted: HostedModel, version: int | None = None) -> Signature:
    """Return the description of a model, or of a version of a trained one."""
    return hosted.signature() if version is None else await trained(hosted).signature_of(version)


class WhichVersion(Parameters):
    """Parameter for the version of a trained model."""

    version: Number | None = None
    """Number of the version; default: the served one."""


class Measured(NamedTuple):
    """Metrics of a model, or of a version of a trained one, at a position."""

    state: OnlineModel | VersionMeasures
    place: dict[str, Any]
    label_details: LabelDetails = MappingProxyType({})
    """Metrics of the labels of a trained model."""


HISTORY = ("position_not_found", "before_history", "history_damaged")
"""Error codes of calls about the history of a model."""

MEASURED = (
    *("model_not_found", "model_is_online", "version_not_found", "no_version_served", "version_damaged"),
    *("invalid_request", "not_ready", "storage_unavailable"),
)
"""Error codes of `measured`."""


async def measured(context: Context, name: str, number: int | None) -> Measured:
    """Return the metrics of a model; for a trained model, the metrics of a version, by default the served one. Raises
    ModelIsOnline or ServiceError."""
    async with context.registry.use(name) as hosted:
        if isinstance(hosted, TrainedModel):
            version, state, position = await hosted.measured(number)
            place = {"version": version, "position": position, "updates": state.updates}
            return Measured(state, place, hosted.label_details(version))
        if number is not None:
            raise ModelIsOnline(name)
        model = online(hosted)
        model.check_serving()
        return Measured(model.model, {"position": model.position, "updates": model.model.updates})


@contextmanager
def counting_refusals(context: Context, name: str) -> Iterator[None]:
    """Count the updates that are rejected in this context; an unknown name of a model creates no time series."""
    try:
        yield
    except ModelNotFound:
        raise
    except ServiceError as error:
        problem = problem_of(error)
        context.telemetry.rejected(name, problem.code)
        raise problem from error
    except Problem as problem:
        context.telemetry.rejected(name, problem.code)
        raise
