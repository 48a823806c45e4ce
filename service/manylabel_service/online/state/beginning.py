"""Initial state of a follower."""

from manylabel_service.errors import InvalidField
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.model import OnlineModel


def spec_of_follower(spec: ModelSpec, leading: ModelSpec) -> ModelSpec:
    """Return the spec of a follower, with the texts, features and labels of the leader's. Raises InvalidField."""
    for field in ("text", "features", "labels"):
        if getattr(spec, field) not in (None, getattr(leading, field)):
            raise InvalidField((field,), f"must be omitted, or the same as in model {leading.name!r}")
    same = {field: getattr(leading, field) for field in ("text", "features", "labels")}
    return ModelSpec.model_validate({**spec.model_dump(), **same})


def beginning(spec: ModelSpec, state: OnlineModel) -> OnlineModel:
    """Return an empty model with the labels and requests of another state, which is consumed.
    Raises InvalidField."""
    model = OnlineModel(spec)
    most = None if model.limits.labels is None else model.limits.labels.most
    if most is not None and most < len(state.labels):
        detail = f"must be at least {len(state.labels)}, the number of labels of the model to follow"
        raise InvalidField(("limits", "labels", "most"), detail)
    model.labels, model.retired, model.paused, model.renamed = state.labels, state.retired, state.paused, state.renamed
    model.old_names, model.details, model.groups = state.old_names, state.details, state.groups
    model.take_requests(state)
    model.learner.pipeline.grow(0, len(model.labels))
    if model.titles is not None:
        model.titles.restore(model.details.by_column())
    if state.promises.promise is not None and model.learner.calibrate:
        model.set_promise(state.promises.promise.target)
    model.position = state.position
    return model
