"""Online model initialised from a version of a trained model."""

from typing import Any

from manylabel_core import FALT, Vocabulary
from manylabel_core.index_columns import IndexColumns
from manylabel_core.state import DamagedState
from manylabel_service.errors import CannotInitialise, VersionDamaged
from manylabel_service.hosting.kernels import GATE
from manylabel_service.online.spec.limits import UNLIMITED, ModelLimits
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.spec.tiers import tiers_of_size, tiers_of_spec
from manylabel_service.online.state.category_fields import numbers_among, state_of_numbers
from manylabel_service.online.state.label_details import DetailsOfLabels
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.trained.artifact import ModelArtifact
from manylabel_service.trained.predictor import read_estimator, takes_views
from manylabel_service.trained.version import Version

GONE_ON_WITH = ("auto", "none")
"""Scalings that an online model can take over from a version."""


def warm_start(
    spec: ModelSpec,
    source: str,
    version: Version,
    data: bytes,
    leaves_scaling: bool = False,
    leaves_text: bool = False,
) -> OnlineModel:
    """Return the state of a new model with the weights and the names of a version. Raises CannotInitialise,
    VersionDamaged or NotCompiled.

    Only FALT can be initialised: SALT and kernel FALT have more state, which depends on their stream.

    Parameters
    ----------
    spec : spec of the new model. Declared features and labels must be the same as those of the version, in the same
        order.
    source, version, data : name of the trained model, the version, and its contents as stored.
    leaves_scaling, leaves_text : whether the scaling and the text options of the version replace those of the spec; the
        state has the resulting spec.
    """
    try:
        contents = ModelArtifact.from_bytes(data)
        estimator = read_estimator(contents.estimator)
    except DamagedState as error:
        raise VersionDamaged(source, version.number, str(error)) from error
    if leaves_scaling and not takes_views(estimator) and _scaling_of(estimator) in GONE_ON_WITH:
        scaling = _scaling_of(estimator)
        missing = spec.missing if spec.scaling == scaling else None
        spec = ModelSpec.model_validate({**spec.model_dump(), "scaling": scaling, "missing": missing})
    if contents.text is not None:
        if leaves_text:
            spec = ModelSpec.model_validate({**spec.model_dump(), "text": contents.text.to_json()})
        elif spec.text is None or spec.text.settings() != contents.text:
            raise CannotInitialise(("text",), "must be omitted, or equal to the text options of the trained model")
    _check_kind(spec, estimator, contents)
    (features,) = contents.features.values()
    _check_columns(spec, features, contents.labels)
    n_features = features if isinstance(features, int) else len(features)
    _check_limits(spec.limits or UNLIMITED, n_features, len(contents.labels))
    GATE.require((*tiers_of_spec(spec), *tiers_of_size(spec, n_features, len(contents.labels))))
    try:
        learner = FALT.from_linear(estimator, **spec.params.model_dump(), scaling=spec.scaling, missing=spec.missing)
    except ValueError as error:
        raise CannotInitialise(("init_from",), f"cannot be continued: {error}") from error
    model = OnlineModel(spec)
    model.learner.restore(learner.state())
    model.scaled_before = 0 if estimator.scaling_ is None else int(estimator.scaling_.arrays()["scaling.count"][0])
    if spec.features is None or isinstance(features, int):
        _name_columns(model, features)
    model.labels = Vocabulary(contents.labels)
    model.details = DetailsOfLabels.of(contents.label_details, model.labels)
    return model


def _check_kind(spec: ModelSpec, estimator: Any, contents: ModelArtifact) -> None:
    if spec.algorithm != "falt":
        raise CannotInitialise(
            ("algorithm",), f"must be falt if the model starts from a trained one, not {spec.algorithm}"
        )
    if takes_views(estimator):
        raise CannotInitialise(
            ("init_from",), f"must be a model without views; this model has {', '.join(contents.features)}"
        )
    if not hasattr(estimator, "coef_"):
        kernel = getattr(estimator, "kernel", "no linear")
        raise CannotInitialise(
            ("init_from",), f"must be a linear model (kernel = linear); this model has the kernel {kernel}"
        )
    name = _scaling_of(estimator)
    if name not in GONE_ON_WITH:
        raise CannotInitialise(("init_from",), f"must be a model with the scaling auto or none; this model has {name}")
    if spec.scaling not in (("auto",) if name == "auto" else ("none", "unit")):
        allowed = "auto, as in the trained model" if name == "auto" else "none or unit: the trained model has none"
        raise CannotInitialise(("scaling",), f"must be {allowed}")
    intercept = getattr(estimator, "intercept_", None)
    if not spec.params.model_dump()["fit_intercept"] and intercept is not None and intercept.any():
        raise CannotInitialise(("params", "fit_intercept"), "must be true: the trained model has intercepts")


def _scaling_of(estimator: Any) -> str:
    scaling = estimator.scaling_
    return "none" if scaling is None else str(scaling.name)


def _check_columns(spec: ModelSpec, features: tuple[str, ...] | int, labels: tuple[str, ...]) -> None:
    if spec.features is not None and spec.features != (features if isinstance(features, int) else list(features)):
        due = f"the number of columns, {features}" if isinstance(features, int) else "its names in the same order"
        raise CannotInitialise(("features",), f"must be null or the features of the trained model: {due}")
    if spec.labels is not None and tuple(spec.labels) != labels:
        raise CannotInitialise(("labels",), "must be null or the labels of the trained model, in the same order")


def _check_limits(limits: ModelLimits, n_features: int, n_labels: int) -> None:
    if limits.hashes:
        path = ("limits", "features", "policy")
        raise CannotInitialise(path, "must be reject or ignore: the features of the trained model have names")
    for kind, limit, n_columns in (("features", limits.features, n_features), ("labels", limits.labels, n_labels)):
        if limit is not None and limit.most < n_columns:
            raise CannotInitialise(
                ("limits", kind, "most"), f"must be at least {n_columns}, the number of {kind} of the trained model"
            )


def _name_columns(model: OnlineModel, features: tuple[str, ...] | int) -> None:
    """Set the input kind and the first columns as if examples had been learnt."""
    arrays, layout = model.features.state()
    if isinstance(features, int):
        layout = {**layout, "kind": "numbered", "size": features}
        arrays["indices"] = IndexColumns(features).to_array()
    else:
        numbers, facts = state_of_numbers(numbers_among(features))
        layout = {**layout, "kind": "named", "numbers": facts}
        arrays.update(Vocabulary(features).state())
        arrays.update(numbers)
    model.features.restore(arrays, layout)
