"""Translation of tasks and annotations of Label Studio to examples, and of predictions to its format."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeGuard

import numpy as np
from pydantic import ValidationError

from manylabel_core.records import RecordEncoder
from manylabel_service.api.translation.from_json import LABELS, check_count, record_features, to_labels
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.validation import Path
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.hosting.predictions import Prediction
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.integrations.label_studio.config import (
    ConfigRefused,
    LabelConfig,
    Question,
    fields_of,
    read_config,
)
from manylabel_service.online.replica import Replica

_DIGEST = b"label-studio-key"
"""Constant digest, because the idempotency key alone identifies an annotation and its update time."""

_STEPS = (1, 2, 5)


class AnnotationRefused(ValueError):
    """The annotation is invalid; the message is the end of a sentence."""


def truth(config: LabelConfig, result: Sequence[Any]) -> Labels | None:
    """Return the true labels of an annotation; None if it has none.

    The labels are complete if all questions allow any number of labels: all labels that were not chosen are irrelevant.
    Otherwise they are partial: the chosen labels, and the alternatives of the same question.
    """
    chosen = _chosen(result)
    signs: dict[str, bool] = {}
    for question in config.questions:
        if question.multiple or question.name in chosen:
            signs.update(_signs(question, chosen.get(question.name, [])))
    if config.is_complete:
        return Labels.all_of(label for label, relevant in signs.items() if relevant)
    if not signs:
        return None
    return Labels(tuple(signs), np.where(list(signs.values()), 1, -1).astype(np.int8), complete=False)


def _signs(question: Question, chosen: Sequence[str]) -> dict[str, bool]:
    if question.yes is not None:
        return {question.name: question.yes in chosen}
    ticked = set(chosen)
    signs = {choice.label: choice.value in ticked for choice in question.choices}
    known = {choice.value for choice in question.choices}
    return signs | {value: True for value in chosen if value not in known}  # the choices are defined by the task


def _chosen(result: Sequence[Any]) -> dict[str, list[str]]:
    chosen: dict[str, list[str]] = {}
    for item in result:
        if not isinstance(item, Mapping) or item.get("type") != "choices":
            continue
        value, name = item.get("value"), item.get("from_name")
        choices = value.get("choices") if isinstance(value, Mapping) else None
        if not (isinstance(name, str) and isinstance(choices, list) and all(isinstance(one, str) for one in choices)):
            raise AnnotationRefused("has choices without from_name or value.choices")
        chosen.setdefault(name, []).extend(choices)
    return chosen


def shown(config: LabelConfig, prediction: Prediction | None, version: str) -> dict[str, Any]:
    """Return a prediction in Label Studio's format; None for a task that is not a record.

    `score` is the certainty, 1 minus the uncertainty over the known labels of the project; 0 if none is known. If the
    model promises a precision, the certainty is scaled: below 0.5 if the task needs review, 0.5 or more if not.
    """
    scores = {} if prediction is None else prediction.scores
    known = [abs(scores[label]) for label in config.labels if label in scores]
    certainty = float(np.tanh(min(known))) if known else 0.0
    result = [
        {
            "from_name": question.name,
            "to_name": question.to_name,
            "type": "choices",
            "value": {"choices": choices},
        }
        for question in config.questions
        if (choices := list(_predicted(question, scores)))
    ]
    if prediction is None or prediction.review is None:
        return {"result": result, "score": certainty, "model_version": version}
    settled = not prediction.review
    score = 0.5 + certainty / 2 if settled else min(certainty / 2, float(np.nextafter(0.5, 0.0)))
    return {"result": result, "score": score, "model_version": version, "settled": settled}


def _predicted(question: Question, scores: Mapping[str, float]) -> Iterator[str]:
    """Yield the predicted choices: any number of them, or only the best choice that the model knows."""
    if question.yes is not None:
        if (score := scores.get(question.name)) is not None:
            yield next(choice.value for choice in question.choices if (choice.value == question.yes) == (score > 0))
        return
    known = [choice for choice in question.choices if choice.label in scores]
    if question.multiple:
        yield from (choice.value for choice in known if scores[choice.label] > 0)
    elif known:
        yield max(known, key=lambda choice: scores[choice.label]).value


def annotation_key(annotation: Mapping[str, Any]) -> IdempotencyKey:
    """Return the idempotency key of an annotation, which differs after each edit. Raises AnnotationRefused."""
    id, project, updated = (annotation.get(name) for name in ("id", "project", "updated_at"))
    if not (is_number(id) and (project is None or is_number(project)) and isinstance(updated, str)):
        raise AnnotationRefused("must have an id and a project, integers from 0 to 2^63 - 1, and updated_at, a time")
    try:
        at = datetime.fromisoformat(updated)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise AnnotationRefused("must have updated_at, a time in the years 1 to 9999 UTC") from error
    return IdempotencyKey(f"label-studio-{project}-{id}-{at:%Y%m%dT%H%M%S.%f}", _DIGEST)


def is_number(value: object) -> TypeGuard[int]:
    """Return whether a value is a valid id of a project, a task or an annotation."""
    return type(value) is int and 0 <= value < 2**63


def milestones(updates: int) -> list[int]:
    """Return 0, 1, 2, 5, 10, 20, 50 and so on up to a number of examples learnt."""
    reached, power = [0], 1
    while power <= updates:
        reached += [power * step for step in _STEPS if power * step <= updates]
        power *= 10
    return reached


def model_versions(name: str, incarnation: int, updates: int) -> list[str]:
    """Return the names of versions of a model, from the first to the current one.

    Label Studio requests the prediction of a task again when the version has changed. The version changes when the
    model has learnt enough to change its predictions.
    """
    return [f"{name}.{incarnation}.{reached}" for reached in milestones(updates)]


SMALL_CONFIG = 4096
"""Characters of a configuration that is parsed on the event loop; a longer one is parsed in a thread."""


async def to_config(text: object, at: Path) -> LabelConfig:
    """Return the labelling configuration at the path `at` of the body; raises a Problem."""
    if not isinstance(text, str):
        raise invalid(at, "must be a labelling configuration")
    try:
        return read_config(text) if len(text) <= SMALL_CONFIG else await asyncio.to_thread(read_config, text)
    except ConfigRefused as error:
        raise invalid(at, str(error)) from error


class TaskReader:
    """Encoder of tasks as records; a field that a tag `<Text>` shows is text.

    `skipped` has the names of fields whose values records do not allow.
    """

    def __init__(self, replica: Replica, config: LabelConfig, max_features: int) -> None:
        self._config = config
        self._max_features = max_features
        self.skipped = set[str]()
        self._records = replica.records
        known = self._records.text.fields or ()
        if not config.texts <= set(known):
            fields = (*known, *sorted(config.texts.difference(known)))
            self._records = RecordEncoder(replace(self._records.text, fields=fields), self._records.limits)

    def features(self, data: Mapping[str, Any], at: Path) -> Features:
        """Return the features of a task; raises a Problem with the field path."""
        check_count(data, at, self._records.limits.fields)
        return record_features(dict(fields_of(data, self._config, self.skipped)), at, self._max_features, self._records)

    def example(self, data: Mapping[str, Any], annotation: Mapping[str, Any], at: Path) -> Example | None:
        """Return the example of the annotation at a path; None if it was skipped or has no labels.

        Raises a Problem with the field path.
        """
        result = annotation.get("result")
        if annotation.get("was_cancelled") or not isinstance(result, list):
            return None
        try:
            y = truth(self._config, result)
        except AnnotationRefused as error:
            raise invalid((*at, "result"), str(error)) from error
        if y is None:
            return None
        signs: Any = dict(zip(y.names, (y.signs > 0).tolist(), strict=True))
        try:
            named = LABELS.validate_python(list(y.names) if y.complete else signs)
        except ValidationError as error:
            raise invalid((*at, "result"), "has an invalid choice: labels have 1 to 256 bytes") from error
        return Example(self.features(data, ("task", "data")), to_labels(named, (*at, "result")))
