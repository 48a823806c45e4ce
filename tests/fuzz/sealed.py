"""States with a valid checksum and invalid contents."""

import functools
import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from manylabel_core.batch import M3L, PrBR
from manylabel_core.datasets import Dataset, read_dataset
from manylabel_core.state import State
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.log_entries import Update
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.trained.artifact import ModelArtifact
from manylabel_service.trained.predictor import Predictor

EXAMPLES = (
    Example(Features(("a", "b"), None, np.array([1.0, -2.0], dtype=np.float32)), Labels.all_of(["p"])),
    Example(
        Features(("b", "c"), None, np.array([0.5, 3.0], dtype=np.float32)),
        Labels(("p", "q"), np.array([1, -1], dtype=np.int8), complete=False),
        2.0,
    ),
)
SPECS: Sequence[dict[str, Any]] = (
    {"algorithm": "falt"},
    {"algorithm": "salt", "params": {"calibrate": True, "drift": "adwin", "on_drift": "restart"}},
    {"algorithm": "kernel_falt", "params": {"budget": 2}},
    {"algorithm": "falt", "limits": {"features": {"most": 3, "policy": "hash"}}},
)
ROWS = b"""{"x": {"views": {"v": [1, 2], "w": {"indices": [1], "values": [0.5]}}}, "y": ["l"]}
{"x": {"views": {"v": [0, 1], "w": {"indices": [0], "values": [2]}}}, "y": ["m"]}
"""


def model(data: bytes) -> object:
    """Restore a changed online model, and have it predict."""
    restored = OnlineModel.from_bytes(_changed(_models(), data))
    restored.predict([EXAMPLES[0].x], restored.learner.calibrate)
    return restored.to_bytes()


def predictor(data: bytes) -> object:
    """Serve a changed version of a trained model; it tries itself."""
    return Predictor(None, _changed(_versions(), data))  # type: ignore[arg-type]  # it is only kept


def dataset(data: bytes) -> object:
    """Read a changed dataset, and describe it."""
    restored = Dataset.from_bytes(_changed(_datasets(), data))
    return restored.to_bytes(), restored.take(np.arange(restored.n_rows)[:1])


@functools.cache
def _models() -> tuple[State, ...]:
    states = []
    for spec in SPECS:
        online = OnlineModel(ModelSpec.model_validate({"name": "m", **spec}))
        ApplyBatch(online, [LogEntry(str(at), Update(EXAMPLES)) for at in range(1, 4)]).step(max_examples=10)
        states.append(State.from_bytes(online.to_bytes()))
    return tuple(states)


@functools.cache
def _versions() -> tuple[State, ...]:
    X = np.random.default_rng(0).normal(size=(30, 4))
    Y = (X[:, :2] > 0).astype(np.int8)
    wholes = [
        ModelArtifact(estimator.fit(X, Y).to_bytes(), ("p", "q"), {"x": ("a", "b", "c", "d")})
        for estimator in (M3L(), M3L(kernel="rbf"), PrBR())
    ]
    return tuple(State.from_bytes(whole.to_bytes()) for whole in wholes)


@functools.cache
def _datasets() -> tuple[State, ...]:
    return (State.from_bytes(read_dataset(io.BytesIO(ROWS), "ndjson").to_bytes()),)


def _changed(states: Sequence[State], data: bytes) -> bytes:
    """Return one of the states with changes read from the bytes and a valid checksum; inner states change too."""
    changes = _Changes(data)
    state = states[changes.number(len(states))]
    arrays, header = dict(state.arrays), json.loads(json.dumps(state.header))
    if "estimator" in arrays and changes.number(2):
        inner = State.from_bytes(arrays["estimator"].tobytes())
        arrays["estimator"] = np.frombuffer(_rewritten(dict(inner.arrays), dict(inner.header), changes), dtype=np.uint8)
    return _rewritten(arrays, header, changes)


def _rewritten(arrays: dict[str, Any], header: dict[str, Any], changes: "_Changes") -> bytes:
    whole = State(dict(arrays), json.loads(json.dumps(header))).to_bytes()
    while changes.left:
        if changes.number(3):
            _change_array(arrays, changes)
        else:
            _change_header(header, changes)
    try:
        return State(arrays, header).to_bytes()
    except (ValueError, TypeError):
        return whole  # nothing that can be written


class _Changes:
    """Bytes that are read as numbers in turn; 0 at the end."""

    VALUES: Sequence[Any] = (0, 1, -1, 2**31, -(2**31), 2**62, 0.5, float("nan"), float("inf"), 1e38, 255, 7)

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    @property
    def left(self) -> bool:
        return bool(self._data)

    def number(self, below: int) -> int:
        taken, self._data = self._data[:2], self._data[2:]
        return int.from_bytes(taken, "little") % below

    def value(self) -> Any:
        return self.VALUES[self.number(len(self.VALUES))]


def _change_array(arrays: dict[str, Any], changes: _Changes) -> None:
    if not arrays:
        return
    name = sorted(arrays)[changes.number(len(arrays))]
    array = arrays[name].copy()
    kind = changes.number(6)
    if kind == 0:
        del arrays[name]
        return
    if kind == 1:
        array = array[: changes.number(len(array) + 1)] if array.ndim else array
    elif kind == 2:
        array = array.reshape(-1) if changes.number(2) else array[None]
    elif kind == 3:
        types = (np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, np.bool_)
        with np.errstate(all="ignore"):
            array = array.astype(types[changes.number(len(types))])
    elif array.size:
        with np.errstate(all="ignore"):
            value = np.array(changes.value(), dtype=np.float64).astype(array.dtype)
        array.reshape(-1)[changes.number(array.size)] = value
    arrays[name] = np.ascontiguousarray(array)


def _change_header(header: Any, changes: _Changes) -> None:
    """Change something in the header, at a depth."""
    while isinstance(header, (dict, list)) and header:
        keys = list(header) if isinstance(header, dict) else list(range(len(header)))
        key = keys[changes.number(len(keys))]
        below = header[key]
        if isinstance(below, (dict, list)) and below and changes.number(4):
            header = below
            continue
        if changes.number(4) == 0:
            del header[key]
        else:
            header[key] = (None, [], {}, "", "x", True, changes.value())[changes.number(7)]
        return
