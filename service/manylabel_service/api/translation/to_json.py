"""Predictions and the results of updates as JSON."""

import sys
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import pydantic_core
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from manylabel_service.api.context import Context
from manylabel_service.api.translation.batches import Items
from manylabel_service.api.web.bodies import note_replayed
from manylabel_service.api.web.problems import Problem, batch_too_large
from manylabel_service.audit.call import note
from manylabel_service.hosting.explanations import LabelExplanation
from manylabel_service.hosting.predictions import Prediction
from manylabel_service.hosting.selection import Selection
from manylabel_service.online.label_next import RankedPredictions
from manylabel_service.online.state.outcome import UpdateResult
from manylabel_service.slices import in_slices


class ResponseItems:
    """JSON of a response with a list of items, up to the end of this list; its size is limited.

    Parameters
    ----------
    begin : JSON up to the list.
    most : maximum bytes.
    advice : what a client can send instead, in an error.

    Attributes
    ----------
    content : the JSON, without a second copy of each item.
    """

    def __init__(self, begin: bytes, most: int, advice: str) -> None:
        self._most, self._advice = most, advice
        self._separator = b""
        self.content = bytearray(begin + b"[")

    def add(self, *parts: bytes) -> None:
        """Append an item; raise a Problem batch_too_large above the maximum."""
        if len(self.content) + sum(map(len, parts)) > self._most:
            raise response_too_large(self._most, self._advice)
        self.content += self._separator
        self._separator = b","
        for part in parts:
            self.content += part

    def end(self, rest: bytes) -> bytes | bytearray:
        """Return the response with the JSON after the list."""
        self.content += b"]"
        self.content += rest
        return self.content


def response_too_large(most: int, advice: str) -> Problem:
    """Return the problem of a response with more than `most` bytes."""
    return batch_too_large(f"the response would have more than {most:,} bytes, its limit: {advice}")


async def response_json(
    predictions: Sequence[Prediction] | None,
    batch: bool,
    facts: dict[str, Any],
    selection: Selection,
    ids: Sequence[str] | None = None,
    max_bytes: int | None = None,
) -> bytes | bytearray:
    """Return the JSON of a response with facts, and with the predictions, if any, of one example or a batch.

    `ids` are the ids of stored predictions. Raises a Problem batch_too_large for predictions above `max_bytes`.
    """
    if predictions is None:
        return pydantic_core.to_json(facts)
    if not batch:
        document = {**to_dict(predictions[0], selection, None if ids is None else ids[0]), **facts}
        return pydantic_core.to_json(document, inf_nan_mode="null")
    most = sys.maxsize if max_bytes is None else max_bytes
    items = ResponseItems(b'{"predictions":', most, "send fewer examples, or a smaller top")
    async for prediction, id in in_slices(zip(predictions, repeat(None) if ids is None else ids, strict=False)):
        items.add(pydantic_core.to_json(to_dict(prediction, selection, id), inf_nan_mode="null"))
    return items.end(b"," + pydantic_core.to_json(facts)[1:])


async def posted(document: Any) -> list[bytes]:
    """Return the `x` of each item of a valid body, as JSON."""
    return [pydantic_core.to_json(item["x"]) async for item in in_slices(document.get("examples", [document]))]


async def unlabelled(found: RankedPredictions, max_bytes: int) -> bytes | bytearray:
    """Return the JSON of stored predictions without labels; raise a Problem above `max_bytes`."""
    items = ResponseItems(b'{"predictions":', max_bytes, "request fewer predictions with the parameter limit")
    async for one, prediction in in_slices(zip(found.predictions, found.current, strict=True)):
        document = {"id": one.id, "uncertainty": one.uncertainty, "labels": prediction.labels}
        document["probabilities"] = prediction.probabilities
        if one.auto is not None:
            document["auto"], document["review"] = one.auto, one.review
        part = pydantic_core.to_json(document)
        # The record is JSON already.
        items.add(*((part,) if one.record is None else (part[:-1], b',"record":', one.record, b"}")))
    facts = {"candidates": found.candidates, "position": found.position, "updates": found.updates}
    return items.end(b"," + pydantic_core.to_json(facts)[1:])


def check_size(items: Items[Any], scores: int, probabilities: bool, context: Context) -> None:
    """Reject a batch whose response would have too many scores and probabilities; raises a Problem."""
    if items.batch:
        check_numbers(len(items.values), numbers(scores, probabilities), context)


_NUMBER_BYTES = 24
"""Maximum bytes of a score or a probability in a response, with its separators."""


def check_predictions(context: Context, probabilities: bool, labels: Sequence[int], mean_bytes: float) -> None:
    """Reject a batch to predict and learn whose response would be too large; raises a Problem.

    Parameters
    ----------
    probabilities : whether the response has probabilities.
    labels : number of labels of each prediction.
    mean_bytes : mean bytes of the name of a label.
    """
    limits, shown = context.settings.limits, context.settings.max_scores
    check_numbers(len(labels), numbers(sum(labels), probabilities), context)
    listed = sum(numbers(min(n, shown), probabilities) for n in labels)
    needed = int(listed * (mean_bytes + _NUMBER_BYTES) + sum(labels) * mean_bytes)
    if needed > limits.max_response_bytes:
        fitting = max(1, len(labels) * limits.max_response_bytes // needed)
        raise batch_too_large(
            f"the response would have more than {limits.max_response_bytes:,} bytes, its limit: send at most about "
            f"{fitting:,} examples, because of the number and length of the labels"
        )


def check_numbers(examples: int, needed: int, context: Context) -> None:
    """Reject a batch whose response would exceed `max_response_scores`; raises a Problem."""
    max_scores = context.settings.limits.max_response_scores
    if needed > max_scores:
        fitting = max(1, examples * max_scores // needed)
        raise batch_too_large(
            f"the response would have more than {max_scores:,} scores and probabilities, its limit: send at most about "
            f"{fitting:,} examples, because of the number of labels"
        )


def receipt(updated: UpdateResult, scope: Scope) -> dict[str, Any]:
    """Return the fields of the response to every update, and note the position for the audit log."""
    note(scope, position=updated.position)
    return {"position": updated.position, "updates": updated.updates}


def receipt_of_change(updated: UpdateResult, request: Request, response: Response) -> dict[str, Any]:
    """Return the receipt of a change of a model; a header of the response shows whether the change was replayed."""
    note_replayed(response, updated.replayed)
    return receipt(updated, request.scope)


def numbers(scores: int, probabilities: bool) -> int:
    """Return the number of scores and requested probabilities in a response."""
    return 2 * scores if probabilities else scores


def to_dict(prediction: Prediction, selection: Selection, id: str | None = None) -> dict[str, Any]:
    """Return the selected part of a prediction as a JSON value, with its id, if any, unless it is not stored."""
    prediction, scores_of = selection(prediction)
    document: dict[str, Any] = {"labels": prediction.labels, "scores": prediction.scores}
    if scores_of is not None:
        document["scores_of"] = scores_of
    document["threshold"] = prediction.threshold
    if prediction.probabilities is not None:
        document["probabilities"] = prediction.probabilities
    if prediction.auto is not None:
        document["auto"], document["review"] = prediction.auto, prediction.review
    if prediction.deferral is not None:
        document["ask"], document["why"] = prediction.deferral.ask, prediction.deferral.why
        if prediction.check:
            document["check"] = True
    if prediction.explanations is not None:
        document["explanations"] = {label: _explanation(each) for label, each in prediction.explanations.items()}
    if selection.learning is not None:
        found = {label: selection.learning(label) for label in prediction.scores}
        document["learning"] = {label: seen for label, seen in found.items() if seen is not None}
    if id is not None and prediction.stored:
        document["id"] = id
    return document


def _explanation(explanation: LabelExplanation) -> dict[str, Any]:
    """Return an explanation as JSON: contributions for and against the label, its title and the rest."""
    parts = [part._asdict() for part in explanation.parts]
    above = [part for part in parts if part["contribution"] > 0]
    below = [part for part in reversed(parts) if part["contribution"] < 0]
    title = {"title": explanation.title} if explanation.title else {}
    return {"for": above, "against": below, **title, "rest": explanation.rest}
