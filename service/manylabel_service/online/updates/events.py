"""Events of a model, by the results of applying log entries."""

from collections.abc import Iterator

from manylabel_service.hosting.events import Event
from manylabel_service.online.state.apply import ApplyResult
from manylabel_service.online.state.outcome import UpdateOutcome


def events_of(result: ApplyResult) -> Iterator[Event]:
    """Yield the events of one log entry; all but the last have `resume`."""
    answer = result.answer
    if not isinstance(answer, UpdateOutcome) or result.replayed:
        return
    position = answer.position
    data: dict[str, object] = {"position": position, "updates": answer.updates}
    if result.kind == "rollback":
        yield Event("rollback", position, {**data, "to": answer.rolled_back_to})
        return
    if (relabel := result.relabelled) is not None:
        name = relabel.to or relabel.label
        yield Event("label", position, {**data, "label": name, "change": relabel.change, "before": relabel.label})
        return
    if result.kind in ("describe", "regroup"):
        changes = [*((name, "new") for name in result.new_labels), *((name, "described") for name in result.described)]
        for left, (name, change) in zip(reversed(range(len(changes))), changes, strict=True):
            resume = result.previous_position if left else None
            yield Event("label", position, {**data, "label": name, "change": change}, resume)
        return
    if result.kind == "promise" or not result.learnt:
        return
    for name in result.new_labels:
        yield Event("label", position, {**data, "label": name, "change": "new"}, result.previous_position)
    for updates, label in result.alarms:
        yield Event(
            "drift", position, {"position": position, "updates": updates, "label": label}, result.previous_position
        )
    yield Event("update", position, {**data, "examples": result.learnt})
