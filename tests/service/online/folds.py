"""Helpers of the tests of model states: models, examples, logs, and applying logs."""

from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np
from hypothesis import strategies as st

from manylabel_core.label_structure import Group
from manylabel_core.promise import Target
from manylabel_core.state import State
from manylabel_service import ulid as prediction_ids
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.apply import ApplyBatch, ApplyResult, LogEntry
from manylabel_service.online.state.controls import Describe, Dismiss, Regroup, Relabel, Rollback, SetPromise
from manylabel_service.online.state.corrections import Corrects
from manylabel_service.online.state.log_entries import Change, Update, decode, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome
from manylabel_service.online.state.stream_offsets import StreamPart

Log = Sequence[LogEntry]
States = dict[str, bytes]

SPECS: list[dict[str, Any]] = [
    {"algorithm": "falt", "params": {"eta": 0.5}, "text": {"min_length": 1}},  # so that letters are words of titles
    {"algorithm": "falt", "window": 3},
    {"algorithm": "salt", "scaling": "unit", "sources": {"machine": 0.25, "rule": 0.0}},
    {"algorithm": "kernel_falt", "params": {"budget": 4}, "text": {"min_length": 1}},
]

LIMITED: list[dict[str, Any]] = [
    {**spec, "limits": {kind: {"most": 2, "policy": policy} for kind, policy in policies.items()}}
    for spec, policies in (
        ({"algorithm": "falt", "scaling": "unit"}, {"features": "reject", "labels": "reject"}),
        ({"algorithm": "salt", "window": 3}, {"features": "hash", "labels": "reject"}),
        ({"algorithm": "falt"}, {"features": "hash", "labels": "ignore"}),
        ({"algorithm": "kernel_falt", "params": {"budget": 4}}, {"features": "ignore", "labels": "ignore"}),
    )
]
"""Models with room for two features and two labels."""

DRIFTING_LENGTH = 600
"""Rows of the stream of `drifting`."""


def new_model(**spec: Any) -> OnlineModel:
    return OnlineModel(ModelSpec.model_validate({"name": "m", "algorithm": "falt", **spec}))


def named(**values: float) -> Features:
    return Features(tuple(values), None, np.array(list(values.values()), dtype=np.float32))


def dense(*values: float) -> Features:
    return Features(None, None, np.array(values, dtype=np.float32))


def sparse(*indices: int) -> Features:
    return Features(None, np.array(indices, dtype=np.int32), np.ones(len(indices), dtype=np.float32))


def fold(model: OnlineModel, log: Log, max_examples: int = 1000, states: States | None = None) -> list[ApplyResult]:
    """Apply a log; `states` are the snapshots that rollbacks find, by position."""
    folding = ApplyBatch(model, log)
    while folding.step(max_examples):
        if folding.needed_snapshot is not None:
            folding.roll_back(OnlineModel.from_bytes((states or {})[folding.needed_snapshot]))
    return folding.outcomes


def fold_one_by_one(model: OnlineModel, log: Log) -> tuple[list[object], States]:
    """Apply a log entry by entry; return the facts of the outcomes, and a snapshot of each position."""
    states, told = {model.position: model.to_bytes()}, []
    for entry in log:
        told += facts(fold(model, [entry], states=states))
        states[entry.position] = model.to_bytes()
    return told, states


def append(model: OnlineModel, change: Change, states: States | None = None) -> ApplyResult:
    """Apply one entry, as it is read from the log, at the next position."""
    position = str(int(model.position) + 1)
    (outcome,) = fold(model, [LogEntry(position, decode(encode(change)))], states=states)
    return outcome


def learn(model: OnlineModel, *examples: tuple[Features, Sequence[str]], **kwargs: Any) -> ApplyResult:
    """Apply one update."""
    if "prediction_ids" in kwargs:  # answered by a model without labels, if nothing else is said
        kwargs.setdefault("served", (np.empty(0),) * len(examples))
    return append(model, Update(tuple(Example(x, Labels.all_of(y)) for x, y in examples), **kwargs))


def taught(**spec: Any) -> OnlineModel:
    """Return a model that has learnt the labels p and q."""
    model = new_model(**spec)
    for _ in range(5):
        learn(model, (named(a=1), ["p", "q"]))
    return model


def drifting(n: int) -> Example:
    """Return row n of a stream of two labels: each equals a feature in the first half, and is random in the second."""
    rng = np.random.default_rng(n)
    told, chance = rng.integers(0, 2, 2).tolist(), rng.integers(0, 2, 2).tolist()
    first, second = told if n < DRIFTING_LENGTH // 2 else chance
    return Example(named(a=told[0], b=told[1]), Labels.all_of(["first"] * first + ["second"] * second))


def partial(**truth: bool) -> Labels:
    """The truth about some labels, where that of the others is unknown."""
    signs = np.array([1 if true else -1 for true in truth.values()], dtype=np.int8)
    return Labels(tuple(truth), signs, complete=False)


def forged(model: OnlineModel, header: dict[str, Any] | None = None, **arrays: object) -> bytes:
    """Bytes of a model with other facts in the header, and other arrays or packed documents; the checksum is right."""
    true = State.from_bytes(model.to_bytes())
    others = {
        name: value if isinstance(value, np.ndarray) else np.frombuffer(msgpack.packb(value), dtype=np.uint8)
        for name, value in arrays.items()
    }
    return State({**true.arrays, **others}, {**true.header, **(header or {})}).to_bytes()


def ulid(ms: int, random: int = 0) -> str:
    """The id of a prediction."""
    return prediction_ids.make(ms, random.to_bytes(10))


letters = st.sampled_from("abcdef")
values = st.integers(-3, 3).map(float)
categories = st.sampled_from(["a=x", "v=y"])
"""Names of categories: the letters are then numbers of records, which may be optional."""

vectors = st.dictionaries(
    st.sampled_from(["v", "w"]),
    st.lists(values, min_size=2, max_size=2).map(lambda numbers: np.array(numbers, dtype=np.float32))
    | st.just(np.ones(3, np.float32)),
    max_size=2,
)
"""Vectors of two numbers; sometimes of three, which are another block."""


sources = st.sampled_from(["human", "human", "machine", "rule"])


@st.composite
def examples(draw: st.DrawFn) -> Example:
    x = named(**draw(st.dictionaries(letters | categories, values, min_size=1, max_size=4)))
    x = x._replace(vectors=draw(st.none() | vectors) or None)
    if draw(st.booleans()):
        y = Labels.all_of(draw(st.lists(letters, unique=True, max_size=3)))
    else:
        truth = draw(st.dictionaries(letters, st.sampled_from([-1, 1]), max_size=3))
        y = Labels(tuple(truth), np.array(list(truth.values()), dtype=np.int8), complete=False)
    return Example(x, y, draw(st.sampled_from([1.0, 1.0, 2.5])), draw(sources))


keys = st.none() | st.builds(IdempotencyKey, st.sampled_from("kl"), st.sampled_from([b"0" * 16, b"1" * 16]))


@st.composite
def updates(draw: st.DrawFn) -> Update:
    """One to four examples; keys, ids of predictions and lines of streams come again."""
    learnt = draw(st.lists(examples(), min_size=1, max_size=4).map(tuple))
    size = len(learnt)
    ids = st.lists(st.integers(1, 9).map(ulid), min_size=size, max_size=size).map(tuple)
    lines = st.lists(st.integers(1, 9), min_size=size, max_size=size, unique=True).map(lambda few: tuple(sorted(few)))
    want_predictions = draw(st.booleans())
    told = draw(st.none() | ids)
    scores = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), max_size=3).map(np.array)
    return Update(
        learnt,
        draw(keys),
        want_predictions,
        told,
        draw(st.none() | st.builds(StreamPart, st.sampled_from("st"), lines, st.none() | st.integers(9, 12))),
        want_probabilities=want_predictions and draw(st.booleans()),
        served=None if told is None else tuple(draw(scores) for _ in told),
    )


SOME_GROUPS: list[tuple[tuple[Group, ...], dict[str, str]]] = [
    ((), {}),
    ((Group("g", ("a", "b"), "one"),), {"c": "a", "d": "a"}),
    ((Group("g", ("c", "d"), "at_most_one"),), {"c": "a", "d": "a", "a": "e"}),
]
regroups = st.builds(lambda drawn, key: Regroup(*drawn, key), st.sampled_from(SOME_GROUPS), keys)
promises = st.builds(SetPromise, st.sampled_from([None, Target(0.5, 0.3), Target(0.9, None)]), keys)
merges = st.builds(Relabel, letters, letters, keys, merges=st.just(True))
dismissals = st.builds(
    lambda pair, key: Dismiss(*pair, key),
    st.tuples(st.sampled_from(["name", "parent"]), letters, letters) | st.tuples(st.just("pause"), letters, st.none()),
    keys,
)
pauses = st.builds(Relabel, letters, st.none(), keys, paused=st.booleans())


@st.composite
def corrections(draw: st.DrawFn, position: int) -> Update:
    """A correction, or a confirmation, of an example of an earlier entry, or of none."""
    at = str(draw(st.integers(1, max(1, position - 1))))
    labels = draw(st.none() | st.lists(letters, unique=True, max_size=2).map(tuple))
    learnt = draw(st.lists(examples(), max_size=1).map(tuple))
    source = draw(st.sampled_from(["human", "machine"]))
    return Update(learnt, draw(keys), corrects=Corrects(at, draw(st.integers(0, 1)), labels, source))


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Updates, changes of labels, and rollbacks to where the log has been before."""
    log: list[LogEntry] = []
    for position in range(1, draw(st.integers(1, 7)) + 1):
        targets = st.integers(0, position - 1).map(str)
        rollbacks = st.builds(Rollback, targets, keys)
        relabels = st.builds(Relabel, letters, st.none() | letters, keys) | merges | pauses
        edits = st.dictionaries(letters, st.dictionaries(st.sampled_from(["title", "uri"]), st.none() | letters))
        describes = st.builds(Describe, edits, keys)
        controls = rollbacks | relabels | describes | regroups | promises | dismissals
        log.append(LogEntry(str(position), draw(updates() | updates() | controls | corrections(position))))
    return log


def facts(outcomes: Sequence[ApplyResult]) -> list[object]:
    """Return the facts of outcomes that answers contain."""
    return [(o.replayed, o.learnt, o.label_changes, *_told(o.answer)) for o in outcomes]


def _told(answer: UpdateOutcome | Exception) -> tuple[object, ...]:
    if not isinstance(answer, UpdateOutcome):
        return type(answer), str(answer)
    # By column: a label may have had another name when the request was answered.
    both = answer.scores, answer.probabilities, answer.decisions
    listed = [None if rows is None else [row.tolist() for row in rows] for rows in both]
    return answer.position, answer.updates, answer.skipped, answer.rolled_back_to, listed
