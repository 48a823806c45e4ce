"""Suggestions for the labels of a model, as rows: some follow from its counts, others were found by a search.

A row has the fields of `manylabel_core.label_health.Suggestion`, with names of labels. The counts of a model are
sufficient to find names that differ only in spelling, and rare labels that are no longer used; other suggestions need
the examples.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.label_health import KINDS, Suggestion, VocabularyCounts, suggest
from manylabel_core.label_health.rules import UNUSED
from manylabel_core.label_structure import Group
from manylabel_service.errors import InvalidField
from manylabel_service.online.state.dismissals import Dismissals
from manylabel_service.online.state.groups import check_written
from manylabel_service.online.state.model import OnlineModel

MAX_SUGGESTIONS = 1_000
"""Maximum number of suggestions of a kind."""
MAX_GROUPED_CHARACTERS = 5_000
"""Maximum total length of the names of labels in groups or with a parent. Above it, suggested parents have no request,
because the request would name all these labels."""

_BY_COUNTS = ("spelling", "rare")
"""Rules that need only the counts of a model, and no search."""

Row = dict[str, Any]


class VocabularyFacts(NamedTuple):
    """Copy of the facts of a model that suggestions need.

    Attributes
    ----------
    names : names of all labels.
    examples, known, last_seen : arrays of shape (n_labels,), see `Prequential.labels`.
    n_examples : number of examples that the metrics count.
    hidden : retired and paused labels.
    groups : groups and parents as JSON.
    dismissals : dismissed suggestions.
    """

    names: Sequence[str]
    examples: NDArray[np.float64]
    known: NDArray[np.float64]
    last_seen: NDArray[np.int64]
    n_examples: int
    hidden: Collection[str]
    groups: dict[str, Any]
    dismissals: Dismissals

    @classmethod
    def of(cls, model: OnlineModel) -> "VocabularyFacts":
        """Return the vocabulary of a model."""
        names, counted = model.labels.names, model.prequential.labels()
        n = len(names)
        return cls(
            names,
            _of_length(counted.relevant, n),
            _of_length(counted.told, n),
            _of_length(counted.last, n),
            model.prequential.given,
            frozenset(model.hidden),
            model.groups.to_json(model.labels),
            model.dismissals.copy(),
        )


def row_of(suggestion: Suggestion, names: Sequence[str]) -> Row:
    """Return a suggestion as a row, with names of labels."""
    other = None if suggestion.other is None else names[suggestion.other]
    return {**suggestion._asdict(), "label": names[suggestion.label], "other": other}


def rows_of(suggestions: Sequence[Suggestion], names: Sequence[str]) -> list[Row]:
    """Return the strongest suggestions of each kind as rows."""
    left = dict.fromkeys(KINDS, MAX_SUGGESTIONS)
    rows = []
    for suggestion in suggestions:
        if left[suggestion.kind] > 0:
            left[suggestion.kind] -= 1
            rows.append(row_of(suggestion, names))
    return rows


def current_rows(rows: Sequence[Row], current: Callable[[str], str]) -> list[Row]:
    """Return the rows of a search with current names of labels; rows about labels that were merged since are
    omitted."""
    named = [
        {**row, "label": current(row["label"]), "other": None if row["other"] is None else current(row["other"])}
        for row in rows
    ]
    return [row for row in named if row["label"] != row["other"]]


def suggestions(vocabulary: VocabularyFacts, found: Sequence[Row], path: str) -> list[Row]:
    """Return the suggestions for a model, by kind, the strongest first.

    Parameters
    ----------
    vocabulary : facts of the model.
    found : rows of a search with current names.
    path : path of the model, for requests.

    Returns
    -------
    list of dict
        Rows as in the HTTP interface.
    """
    names = vocabulary.names
    columns = {name: column for column, name in enumerate(names)}
    allowed = np.array([name not in vocabulary.hidden for name in names], dtype=np.bool_)
    last = vocabulary.last_seen - 1
    counts = VocabularyCounts(vocabulary.n_examples, vocabulary.examples, vocabulary.known, last)
    by_counts = rows_of(suggest(names, counts, listed=allowed), names)
    pairs = {frozenset((row["label"], row["other"])) for row in by_counts}
    later = [row for row in found if row["why"] not in _BY_COUNTS and {row["label"], row["other"]} not in pairs]

    def is_open(row: Row) -> bool:
        for label in (row["label"], row["other"]):
            if label is not None and (label not in columns or not allowed[columns[label]]):
                return False
        both = [columns[label] for label in (row["label"], row["other"]) if label is not None]
        fewest = min(float(vocabulary.examples[column]) for column in both)
        if vocabulary.dismissals.hides(row["kind"], both[0], both[1] if len(both) > 1 else None, fewest):
            return False
        if row["kind"] == "pause":
            return bool(vocabulary.n_examples - vocabulary.last_seen[columns[row["label"]]] >= UNUSED)
        return True

    rows = sorted(filter(is_open, [*by_counts, *later]), key=lambda row: (KINDS.index(row["kind"]), -row["strength"]))
    return list(_with_requests(rows, vocabulary, columns, path))


def _with_requests(
    rows: Sequence[Row], vocabulary: VocabularyFacts, columns: dict[str, int], path: str
) -> Iterator[Row]:
    """Yield rows as in the HTTP interface. Parents that contradict the groups, and merges within a group, are
    omitted."""
    groups, parents = vocabulary.groups["groups"], vocabulary.groups["parents"]
    groups_of: dict[str, set[int]] = {label: set() for pair in parents.items() for label in pair}
    for number, group in enumerate(groups):
        for label in group["labels"]:
            groups_of.setdefault(label, set()).add(number)
    is_small = sum(map(len, groups_of)) <= MAX_GROUPED_CHARACTERS
    for row in rows:
        label, other, kind = row["label"], row["other"], row["kind"]
        request = None
        if kind == "parent":
            if label in parents:
                continue
            if is_small:
                body = {"groups": groups, "parents": {**parents, label: other}}
                if not _is_valid(body):
                    continue
                request = {"method": "PUT", "path": f"{path}/groups", "body": body}
        elif groups_of.get(label, set()) & groups_of.get(other, set()):
            continue
        elif other is not None and label not in groups_of:
            body = {"label": label, "into": other}
            request = {"method": "POST", "path": f"{path}/labels/merge", "body": body}
        elif kind == "pause":
            request = {"method": "POST", "path": f"{path}/labels/pause", "body": {"label": label}}
        both = [label] if other is None else [label, other]
        seen = [int(vocabulary.last_seen[columns[each]]) or None for each in both]
        evidence = {
            "examples": [_number(n) for n in row["examples"][: len(both)]],
            "together": _number(row["together"]),
            "changes": _number(row["changes"]),
            "alike": row["alike"],
            "means": row["means"],
            "last_seen": seen,
        }
        merges = other is not None and kind != "parent"
        yield {
            "kind": kind,
            "why": row["why"],
            "label": label,
            "into": other if merges else None,
            "parent": other if kind == "parent" else None,
            "evidence": evidence,
            "request": request,
        }


def _is_valid(body: dict[str, Any]) -> bool:
    """Return whether groups and parents are valid."""
    groups = [Group(group["name"], tuple(group["labels"]), group["choose"]) for group in body["groups"]]
    try:
        check_written(groups, body["parents"])
    except InvalidField:
        return False
    return True


def _number(n: float) -> float:
    return int(n) if float(n).is_integer() else n


def _of_length(counts: NDArray[Any], n_labels: int) -> NDArray[Any]:
    """Return counts of the first labels, with 0 for those without counts."""
    return np.pad(counts[:n_labels], (0, max(0, n_labels - len(counts))))
