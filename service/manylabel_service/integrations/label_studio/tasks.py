"""Conversion of tasks and annotations of Label Studio to examples."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from manylabel_core.records import RecordEncoder
from manylabel_service.api.schemas.requests import LabelsBody
from manylabel_service.api.translation.from_json import check_count, record_features, to_labels
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.validation import Path
from manylabel_service.hosting.examples import Example, Features
from manylabel_service.integrations.label_studio.answers import AnnotationRefused, truth
from manylabel_service.integrations.label_studio.config import ConfigRefused, LabelConfig, fields_of, read_config
from manylabel_service.online.replica import Replica

_LABELS: TypeAdapter[list[str] | dict[str, bool]] = TypeAdapter(LabelsBody)


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
    """Encoder of tasks as records; a field that a tag `<Text>` shows is text."""

    def __init__(self, replica: Replica, config: LabelConfig, max_features: int) -> None:
        self._config = config
        self._max_features = max_features
        self._records = replica.records
        known = self._records.text.fields or ()
        if not config.texts <= set(known):
            fields = (*known, *sorted(config.texts.difference(known)))
            self._records = RecordEncoder(replace(self._records.text, fields=fields), self._records.limits)

    def features(self, data: Mapping[str, Any], at: Path) -> Features:
        """Return the features of a task; raises a Problem with the field path."""
        check_count(data, at, self._records.limits.fields)
        return record_features(dict(fields_of(data, self._config)), at, self._max_features, self._records)

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
            named = _LABELS.validate_python(list(y.names) if y.complete else signs)
        except ValidationError as error:
            raise invalid((*at, "result"), "has an invalid choice: labels have 1 to 256 bytes") from error
        return Example(self.features(data, ("task", "data")), to_labels(named, (*at, "result")))
