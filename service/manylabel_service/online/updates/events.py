"""Events of a model, derived from the results of applying log entries."""

from collections.abc import Iterator
from dataclasses import replace

from manylabel_service.hosting.events import Event
from manylabel_service.online.state.apply import ApplyResult
from manylabel_service.online.state.outcome import UpdateOutcome


def events_of(result: ApplyResult) -> Iterator[Event]:
    """Yield the events of one log entry; all but the last have `resume`."""
    answer = result.answer
    if not isinstance(answer, UpdateOutcome) or result.replayed:
        return
    position, events = answer.position, list[Event]()
    data: dict[str, object] = {"position": position, "updates": answer.updates}
    if answer.rolled_back_to is not None:
        events.append(Event("rollback", position, {**data, "to": answer.rolled_back_to}))
    for label, change, before, alike in result.label_changes:
        more = {name: label for name, label in (("before", before), ("alike", alike)) if label is not None}
        events.append(Event("label", position, {**data, "label": label, "change": change, **more}))
    for updates, alarmed in result.alarms:
        events.append(Event("drift", position, {"position": position, "updates": updates, "label": alarmed}))
    for is_open in result.openings:
        events.append(Event("parity", position, {**data, "state": "open" if is_open else "closed"}))
    if result.learnt:
        events.append(Event("update", position, {**data, "examples": result.learnt}))
    for event in events[:-1]:
        yield replace(event, resume=result.previous_position)
    yield from events[-1:]
