"""Labelling configurations of models, and skipped fields of tasks, in the memory of this process."""

from collections import OrderedDict
from collections.abc import Collection
from typing import TypeVar

from manylabel_service.storage import ModelMeta

MAX_MODELS = 100
"""Maximum number of models whose configuration is stored; the latest ones are retained."""
MAX_SKIPPED = 100
"""Maximum number of skipped fields per model that are remembered, so that each is logged once."""

Value = TypeVar("Value")


class ModelNotes:
    """Latest labelling configuration and skipped fields of each model."""

    def __init__(self) -> None:
        self._configs: OrderedDict[ModelMeta, str] = OrderedDict()
        self._skipped: OrderedDict[ModelMeta, set[str]] = OrderedDict()

    def note_config(self, record: ModelMeta, config: str) -> None:
        """Store the latest labelling configuration of a model."""
        _put(self._configs, record, config)

    def config(self, record: ModelMeta) -> str | None:
        """Return the latest labelling configuration of a model; None if it is not stored."""
        return self._configs.get(record)

    def note_skipped(self, record: ModelMeta, fields: Collection[str]) -> list[str]:
        """Remember fields of tasks that a model skips; return those that are new."""
        known = self._skipped.get(record, set())
        new = sorted(set(fields) - known)[: MAX_SKIPPED - len(known)]
        _put(self._skipped, record, known.union(new))
        return new


def _put(values: OrderedDict[ModelMeta, Value], record: ModelMeta, value: Value) -> None:
    values[record] = value
    values.move_to_end(record)
    if len(values) > MAX_MODELS:
        values.popitem(last=False)
