"""Entries of a log as lines of JSON."""

from collections.abc import Sequence
from typing import Any

import pydantic_core

from manylabel_service.clock import rfc3339
from manylabel_service.hosting.examples import Example
from manylabel_service.online.state.log_entries import Update, decode
from manylabel_service.slices import Pace
from manylabel_service.storage import Entry


async def lines_of(entries: Sequence[Entry]) -> bytes:
    """Return a line of JSON for each entry; other tasks may run between two entries."""
    lines = []
    pace = Pace()
    for entry in entries:
        lines.append(pydantic_core.to_json(_line(entry), inf_nan_mode="null") + b"\n")
        await pace.rest()
    return b"".join(lines)


def _line(entry: Entry) -> dict[str, Any]:
    change = decode(entry.payload)
    line: dict[str, Any] = {"position": entry.position, "time": rfc3339(entry.time_ms)}
    if isinstance(change, Update):
        line |= {"kind": "update", "examples": [_example(each) for each in change.examples]}
        if change.prediction_ids is not None:
            line["prediction_ids"] = change.prediction_ids
        if change.stream is not None:
            line["stream"] = {"key": change.stream.key, "lines": change.stream.lines}
    else:
        line |= change.to_json()
    if change.key is not None:
        line["idempotency_key"] = change.key.key
    return line


def _example(example: Example) -> dict[str, Any]:
    """Return an example in the format of an update."""
    x, y, weight, source, ref = example
    values = x.values.tolist()
    features: Any = values
    if x.names is not None:
        features = dict(zip(x.names, values, strict=True))
        features |= {name: vector.tolist() for name, vector in (x.vectors or {}).items()}
    elif x.indices is not None:
        features = {"indices": x.indices.tolist(), "values": values}
    known = {name: sign > 0 for name, sign in zip(y.names, y.signs.tolist(), strict=True)}
    labels: Any = [name for name, is_true in known.items() if is_true] if y.complete else known
    line = {"x": features, "y": labels}
    line |= {} if weight == 1.0 else {"weight": weight}
    line |= {} if source == "human" else {"source": source}
    return line | ({} if ref is None else {"ref": ref})
