"""Predictions and the results of updates as JSON."""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import pydantic_core
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from manylabel_core.metrics.reliability import EDGES, Reliability
from manylabel_service.api.context import Context
from manylabel_service.api.translation.batches import Items
from manylabel_service.api.web.bodies import note_replayed
from manylabel_service.api.web.problems import Problem
from manylabel_service.audit.call import note
from manylabel_service.hosting.explanations import LabelExplanation
from manylabel_service.hosting.predictions import Prediction
from manylabel_service.hosting.selection import Selection
from manylabel_service.online.label_next import RankedPredictions
from manylabel_service.online.state.outcome import UpdateResult
from manylabel_service.slices import in_slices


async def response_json(
    predictions: Sequence[Prediction] | None,
    batch: bool,
    facts: dict[str, Any],
    selection: Selection,
    ids: Sequence[str] | None = None,
) -> bytes:
    """Return the JSON of a response with facts, and with predictions, if any, of one example or a batch.

    `ids` are those of stored predictions.
    """
    if predictions is None:
        return pydantic_core.to_json(facts)
    if not batch:
        document = {**to_dict(predictions[0], selection, None if ids is None else ids[0]), **facts}
        return pydantic_core.to_json(document, inf_nan_mode="null")
    parts = []
    async for prediction, id in in_slices(zip(predictions, repeat(None) if ids is None else ids, strict=False)):
        parts.append(pydantic_core.to_json(to_dict(prediction, selection, id), inf_nan_mode="null"))
    return b'{"predictions":[' + b",".join(parts) + b"]," + pydantic_core.to_json(facts)[1:]


async def posted(document: Any) -> list[bytes]:
    """Return the `x` of each item of a valid body, as JSON."""
    return [pydantic_core.to_json(item["x"]) async for item in in_slices(document.get("examples", [document]))]


async def unlabelled(found: RankedPredictions) -> bytes:
    """Return the JSON of stored predictions that wait for their labels."""
    parts = []
    async for one in in_slices(found.predictions):
        prediction = one.prediction
        document = {"id": one.id, "uncertainty": one.uncertainty, "labels": prediction.labels}
        document["probabilities"] = prediction.probabilities
        if one.auto is not None:
            document["auto"], document["review"] = one.auto, one.review
        part = pydantic_core.to_json(document)
        # The record is JSON already.
        parts.append(part if one.record is None else part[:-1] + b',"record":' + one.record + b"}")
    facts = {"candidates": found.candidates, "position": found.position, "updates": found.updates}
    return b'{"predictions":[' + b",".join(parts) + b"]," + pydantic_core.to_json(facts)[1:]


def check_size(items: Items[Any], scores: int, probabilities: bool, context: Context) -> None:
    """Reject a batch whose response would have too many scores and probabilities; raises a Problem."""
    if items.batch:
        check_numbers(len(items.values), numbers(scores, probabilities), context)


def check_numbers(examples: int, needed: int, context: Context) -> None:
    """Reject a batch whose response would exceed `max_response_scores`; raises a Problem."""
    max_scores = context.settings.limits.max_response_scores
    if needed > max_scores:
        fitting = max(1, examples * max_scores // needed)
        detail = f"with this number of labels, a batch can have at most about {fitting:,} examples"
        raise Problem("batch_too_large", detail)


def receipt(updated: UpdateResult, scope: Scope) -> dict[str, Any]:
    """Return the fields of the response to every update, and note the position for the audit log."""
    note(scope, position=updated.position)
    return {"position": updated.position, "updates": updated.updates, "durability": updated.durability}


def receipt_of_change(updated: UpdateResult, request: Request, response: Response) -> dict[str, Any]:
    """Return the receipt of a change of a model; a header of the response shows whether the change was replayed."""
    note_replayed(response, updated.replayed)
    return receipt(updated, request.scope)


def numbers(scores: int, probabilities: bool) -> int:
    """Return the number of scores and requested probabilities in a response."""
    return 2 * scores if probabilities else scores


def to_dict(prediction: Prediction, selection: Selection, id: str | None = None) -> dict[str, Any]:
    """Return the selected part of a prediction as a JSON value, with its id if it is stored."""
    prediction, scores_of = selection(prediction)
    document: dict[str, Any] = {"labels": prediction.labels, "scores": prediction.scores}
    if scores_of is not None:
        document["scores_of"] = scores_of
    document["threshold"] = prediction.threshold
    if prediction.probabilities is not None:
        document["probabilities"] = prediction.probabilities
    if prediction.auto is not None:
        document["auto"], document["review"] = prediction.auto, prediction.review
    if prediction.explanations is not None:
        document["explanations"] = {label: _explanation(each) for label, each in prediction.explanations.items()}
    if selection.learning is not None:
        found = {label: selection.learning(label) for label in prediction.scores}
        document["learning"] = {label: seen for label, seen in found.items() if seen is not None}
    if id is not None:
        document["id"] = id
    return document


def reliability(found: Reliability) -> dict[str, Any]:
    """Return the reliability diagram; NaN in empty bins."""
    edges, columns = EDGES.tolist(), [column.tolist() for column in found[:3]]
    bins = [
        {
            "from": begin,
            "to": end,
            "count": int(number) if number.is_integer() else number,
            "mean_probability": mean,
            "share_true": share,
        }
        for begin, end, number, mean, share in zip(edges[:-1], edges[1:], *columns, strict=True)
    ]
    return {
        "bins": bins,
        "expected_calibration_error": found.expected_calibration_error,
        "brier_score": found.brier_score,
    }


def _explanation(explanation: LabelExplanation) -> dict[str, Any]:
    """Return an explanation as JSON: contributions for and against the label, its title and the rest."""
    parts = [part._asdict() for part in explanation.parts]
    above = [part for part in parts if part["contribution"] > 0]
    below = [part for part in reversed(parts) if part["contribution"] < 0]
    title = {"title": explanation.title} if explanation.title else {}
    return {"for": above, "against": below, **title, "rest": explanation.rest}
