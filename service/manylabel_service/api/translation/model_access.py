"""Requests to a model that may leave the memory of this process, and come back."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from manylabel_service.api.context import Context
from manylabel_service.api.web.problems import Problem, problem_of
from manylabel_service.errors import ModelGone, ModelIsOnline, ModelIsTrained, ServiceError
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.online.replica import Replica
from manylabel_service.trained.model import TrainedModel

T = TypeVar("T")
H = TypeVar("H", bound=HostedModel)


def online(hosted: HostedModel) -> Replica:
    """A model that learns online; raises ModelIsTrained if it is none."""
    if not isinstance(hosted, Replica):
        raise ModelIsTrained(hosted.record.name)
    return hosted


def trained(hosted: HostedModel) -> TrainedModel:
    """A trained model; raises ModelIsOnline if it is none."""
    if not isinstance(hosted, TrainedModel):
        raise ModelIsOnline(hosted.record.name)
    return hosted


async def asked(context: Context, replica: H, ask: Callable[[H], Awaitable[T]]) -> T:
    """What a model answers; once more by its name if this replica has been put away, or deleted, meanwhile."""
    try:
        return await ask(replica)
    except ModelGone:
        await replica.confirm()  # it may not have heard of it yet
        return await ask(await context.registry.again(replica))


@contextmanager
def counting_refusals(context: Context, name: str) -> Iterator[None]:
    """Requests to learn inside, which are counted when they are refused."""
    try:
        yield
    except ServiceError as error:
        problem = problem_of(error)
        context.telemetry.rejected(name, problem.code)
        raise problem from error
    except Problem as problem:
        context.telemetry.rejected(name, problem.code)
        raise
