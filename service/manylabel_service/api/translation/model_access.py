"""Requests to a model that may leave the memory of this process, and come back."""

from collections.abc import Iterator
from contextlib import contextmanager

from manylabel_service.api.context import Context
from manylabel_service.api.web.problems import Problem, problem_of
from manylabel_service.errors import ModelIsOnline, ModelIsTrained, ServiceError
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.online.replica import Replica
from manylabel_service.trained.model import TrainedModel


def online(hosted: HostedModel, refusal: type[ModelIsTrained] = ModelIsTrained) -> Replica:
    """Return a model that learns online; raise ModelIsTrained, or this error of its kind, if it is none."""
    if not isinstance(hosted, Replica):
        raise refusal(hosted.record.name)
    return hosted


def trained(hosted: HostedModel) -> TrainedModel:
    """Return a trained model; raise ModelIsOnline if it is none."""
    if not isinstance(hosted, TrainedModel):
        raise ModelIsOnline(hosted.record.name)
    return hosted


@contextmanager
def counting_refusals(context: Context, name: str) -> Iterator[None]:
    """Count the requests to learn that are refused inside."""
    try:
        yield
    except ServiceError as error:
        problem = problem_of(error)
        context.telemetry.rejected(name, problem.code)
        raise problem from error
    except Problem as problem:
        context.telemetry.rejected(name, problem.code)
        raise
