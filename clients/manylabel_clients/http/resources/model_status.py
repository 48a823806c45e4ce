"""Descriptions of online models and of trained models."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from manylabel_clients.http.responses import ModelStatus, ModelSummary, TrainedStatus, TrainedSummary
from manylabel_clients.http.transport.json_body import from_json

TRAINED = "trained"
"""Value of `algorithm` for a trained model."""


AnySummary: TypeAlias = ModelSummary | TrainedSummary
"""Summary of an online or a trained model."""
AnyStatus: TypeAlias = ModelStatus | TrainedStatus
"""Status of an online or a trained model."""


def model_status(answer: Mapping[str, Any]) -> AnyStatus:
    """Return the status of a model from its JSON."""
    return from_json(TrainedStatus, answer) if answer["algorithm"] == TRAINED else from_json(ModelStatus, answer)


def model_summary(answer: Mapping[str, Any]) -> AnySummary:
    """Return the summary or status of a model from its JSON in a list."""
    if answer.get("loaded", True):
        return model_status(answer)
    return from_json(TrainedSummary, answer) if answer["algorithm"] == TRAINED else from_json(ModelSummary, answer)
