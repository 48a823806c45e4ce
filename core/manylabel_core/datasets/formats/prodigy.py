"""Rows of Prodigy: decisions of a person about one label, or a choice among options."""

from __future__ import annotations

from typing import Any

from manylabel_core.datasets.limits import shown

ANSWERS = ("accept", "reject", "ignore")
_OTHERS = ("answer", "options", "accept", "label", "config")


def decided(item: dict[str, Any], field: str) -> tuple[dict[str, Any], dict[str, bool] | None] | None:
    """Return the record and the known labels of a row of Prodigy; None if the object is not such a row.

    A row of Prodigy has an `answer`, and its labels are in `label` (a string) or in `accept` (ids of its `options`). An
    accepted label is true, a rejected label is false, and nothing is known about other labels. A choice states the
    truth of all options. Labels are unknown (None) for an ignored row, and for a rejected choice. The record omits the
    labels, and the fields whose names begin with an underscore.

    Raises
    ------
    ValueError
        If the row was not accepted, but its labels are in other fields: they would be learnt as true.
    """
    answer = item.get("answer")
    if not isinstance(answer, str) or answer not in ANSWERS:
        return None
    label, options, accept = item.get("label"), item.get("options"), item.get("accept")
    y: dict[str, bool] | None = None
    if field == "label" and isinstance(label, str):
        y = None if answer == "ignore" else {label: answer == "accept"}
    elif field == "accept" and isinstance(options, list) and isinstance(accept, list):
        y = dict.fromkeys(map(_id_of, options), False) | dict.fromkeys(map(_checked, accept), True)
        y = y if answer == "accept" else None
    elif answer != "accept" and "_task_hash" in item:
        raise ValueError(
            f"a row of Prodigy with the answer {shown(answer)}: its labels are read from label (a string) or from "
            f"accept (with options), not from {shown(field)}; omit such rows"
        )
    else:
        return None
    return {name: value for name, value in item.items() if name not in _OTHERS and not name.startswith("_")}, y


def _id_of(option: Any) -> str:
    return _checked(option.get("id") if isinstance(option, dict) else None)


def _checked(label: Any) -> str:
    if not isinstance(label, str):
        raise ValueError(f"options and accept must have strings as ids, not {shown(label)}")
    return label
