"""Start of a follower: its spec, the part of the log that it learns, and its initial state."""

import asyncio

from manylabel_service.errors import BeforeHistory, InvalidField
from manylabel_service.hosting.kernels import when_loaded
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.follow import Follow
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.storage import START, position_key


@when_loaded
async def begin_follower(
    leader: Replica, spec: ModelSpec, *, from_start: bool, until: str | int | None
) -> tuple[ModelSpec, OnlineModel | None, Follow]:
    """Return the spec of a follower, its initial state (None: empty), and the log that it learns.

    Parameters
    ----------
    leader : the model to follow.
    spec : spec of the follower. Its text options, features and labels are copied from the leader if they are not set.
    from_start : whether the follower begins at the start of the history; otherwise it begins now.
    until : last position or time (milliseconds of Unix time) to learn; None: no end.

    Raises
    ------
    InvalidField
        The spec does not fit, `until` is before the beginning, or the leader follows another model.
    PositionNotFound, BeforeHistory, HistoryDamaged, NotReady, StorageError, ModelGone
    """
    if leader.follow is not None:
        raise InvalidField(("follow", "model"), f"must have a separate log: it follows {leader.follow.model!r}")
    await leader.sync()
    leader.check_serving()
    # A spec may declare hundreds of thousands of names.
    spec = await asyncio.to_thread(_spec_of_follower, spec, leader.model.online_spec)
    reader = leader.history()
    begin = await leader.files.first_state() if from_start else leader.position
    end = until
    if isinstance(until, int):
        try:
            end = await reader.find(until)
        except BeforeHistory:  # or the log has no entry yet
            end = None if leader.position == START else START
    elif until is not None:
        end = until = await reader.find(until)
    if isinstance(end, str) and position_key(end) < position_key(begin):
        raise InvalidField(("follow", "until"), f"must not be before the start, position {begin}")
    follow = Follow(
        model=leader.name,
        incarnation=leader.record.incarnation,
        begin=begin,
        until=until if isinstance(until, str) else None,
        until_ms=until if isinstance(until, int) else None,
    )
    state = None
    if follow.has_seed:
        state = await asyncio.to_thread(_initial_state, spec, await leader.state_at(begin))
    return spec, state, follow


def _spec_of_follower(spec: ModelSpec, leading: ModelSpec) -> ModelSpec:
    """Return the spec of a follower, with texts, features and labels of the leader; raise InvalidField."""
    for field in ("text", "features", "labels"):
        if getattr(spec, field) not in (None, getattr(leading, field)):
            raise InvalidField((field,), f"must be omitted, or the same as in model {leading.name!r}")
    same = {field: getattr(leading, field) for field in ("text", "features", "labels")}
    return ModelSpec.model_validate({**spec.model_dump(), **same})


def _initial_state(spec: ModelSpec, state: OnlineModel) -> OnlineModel:
    """Return a model like another state, which is consumed, with its requests and position; raise InvalidField."""
    model = without_learning(spec, state)
    model.take_requests(state)
    model.position = state.position
    return model


def without_learning(spec: ModelSpec, state: OnlineModel) -> OnlineModel:
    """Return a model that has learnt nothing, with the labels, titles, groups and promise of another state.

    The other state is consumed. Raises InvalidField if the spec allows fewer labels.
    """
    model = OnlineModel(spec)
    most = None if model.limits.labels is None else model.limits.labels.most
    if most is not None and most < len(state.labels):
        detail = f"must be at least {len(state.labels)}, the number of labels of the model to follow"
        raise InvalidField(("limits", "labels", "most"), detail)
    model.labels, model.retired, model.paused, model.renamed = state.labels, state.retired, state.paused, state.renamed
    model.hide()
    model.old_names, model.details, model.groups = state.old_names, state.details, state.groups
    model.dismissals = state.dismissals
    model.learner.pipeline.grow(0, len(model.labels))
    if model.titles is not None:
        model.titles.restore(model.details.by_column())
    promise, parity = state.promises.promise, state.promises.parity
    if parity is not None and model.factor(parity.target.of) <= 0.0:
        parity = None  # the model does not learn from the teacher
    if (promise or parity) is not None and model.learner.calibrate:
        model.set_promise(None if promise is None else promise.target, None if parity is None else parity.target)
    return model
