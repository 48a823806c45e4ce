"""Snapshots may come from anyone, so a forged one is refused before a compiled function reads it."""

import functools
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.service.online.folds import SPECS, append, dense, learn, named, new_model, sparse, ulid
from tests.support.cases import for_each

from manylabel_core.state import DamagedState, NewerState, State
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.log_entries import Update
from manylabel_service.online.state.model import MAX_HEADER_BYTES, OnlineModel
from manylabel_service.online.state.stream_offsets import StreamPart
from manylabel_service.storage import SEED

Arrays = dict[str, NDArray[Any]]
KEY = IdempotencyKey("k", b"d" * 16)


def named_model(**spec: Any) -> OnlineModel:
    """A model with something in each part of its state."""
    model = new_model(**spec)
    learn(model, (named(a=1, b=2), ["x"]), (named(b=-1), ["y"]), key=KEY, want_predictions=True)
    states = {model.position: model.to_bytes()}
    learn(model, (named(c=3), ["z", "x"]), prediction_ids=(ulid(5),), want_predictions=True)
    learn(model, (named(a=3), ["x"]), (named(c=1), []), stream=StreamPart("s", (4, 9)))
    late = IdempotencyKey("late", b"l" * 16)
    learn(model, (named(a=3), ["q"]), key=late, want_predictions=True, prediction_ids=(ulid(7),))
    append(model, Rollback("1", IdempotencyKey("back", b"b" * 16)), states)
    tell(model, ulid(8), x=1, y=-1)
    tell(model, ulid(9), z=-1)
    tell(model, ulid(8), z=1)
    learn(model, (named(e=3, a=1), ["v", "x"]))
    return model


def tell(model: OnlineModel, id: str, **signs: int) -> None:
    """A part of the truth of a stored prediction."""
    y = Labels(tuple(signs), np.array(list(signs.values()), dtype=np.int8), complete=False)
    served = (np.array([0.5, -0.5]),)
    append(model, Update((Example(named(a=1), y),), prediction_ids=(id,), served=served))


def numbered_model(first: Features, **spec: Any) -> OnlineModel:
    model = new_model(**spec)
    learn(model, (first, ["x"]), (sparse(1), ["y"]), key=KEY, want_predictions=True)
    return model


MODELS: dict[str, Callable[[], OnlineModel]] = {
    **{f"{spec['algorithm']}-{spec.get('scaling', 'auto')}": (lambda spec=spec: named_model(**spec)) for spec in SPECS},
    "unit": lambda: named_model(scaling="unit"),
    "watched": lambda: named_model(params={"drift": "adwin", "on_drift": "restart"}),
    "measured": lambda: named_model(algorithm="salt", params={"optimise": "macro_f1"}),
    "project": lambda: named_model(algorithm="kernel_falt", params={"budget": 2, "strategy": "project"}),
    "nystroem": lambda: named_model(algorithm="kernel_salt", params={"budget": 2}),
    "aggressive": lambda: named_model(algorithm="passive_aggressive", params={"drift": "adwin"}),
    "kernel-aggressive": lambda: named_model(algorithm="kernel_passive_aggressive", params={"budget": 2}),
    "poly": lambda: named_model(algorithm="kernel_falt", params={"kernel": "poly"}),
    "declared": lambda: named_model(features=list("abcde"), labels=list("xyzqv")),
    "sparse": lambda: numbered_model(sparse(0, 3)),
    "sparse-kernel": lambda: numbered_model(sparse(0, 3), algorithm="kernel_falt"),
    "dense": lambda: numbered_model(dense(1, 0, 2), algorithm="salt", scaling="auto"),
    "declared-number": lambda: numbered_model(sparse(2), features=4),
    "new": new_model,
    "new-declared": lambda: new_model(features=3, labels=["x"]),
}


def exercise(model: OnlineModel) -> None:
    """Everything that a server does with a model, so that a state that must not be there does harm here."""
    named_features = model.features.layout.kind != "numbered"
    xs = [named(a=1, new=2), named(c=-1)] if named_features else [sparse(1)]
    xs = [x for x in xs if not model.features.layout.problem(x)]
    model.predict(xs)
    for x in xs:
        learn(model, *[(x, ["x"]), (x, []), (x, ["x", "y"])], want_predictions=True, key=IdempotencyKey("n", b"n" * 16))
    model.prequential.measures()
    OnlineModel.from_bytes(model.seed("seed")).predict(xs)
    again = OnlineModel.from_bytes(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()


@for_each("make", MODELS.values(), ids=MODELS)
def test_a_restored_model_is_the_model(make: Callable[[], OnlineModel]) -> None:
    model = make()
    again = OnlineModel.from_bytes(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()
    exercise(model)
    exercise(again)
    assert again.to_bytes() == model.to_bytes()


@for_each("make", MODELS.values(), ids=MODELS)
def test_a_restored_model_does_not_keep_the_bytes_that_it_was_restored_from(make: Callable[[], OnlineModel]) -> None:
    data = make().to_bytes()
    restored = OnlineModel.from_bytes(buffer := bytearray(data))
    buffer.clear()  # raises BufferError while an array is a view of the bytes
    assert restored.to_bytes() == data


def test_a_state_of_a_newer_version_is_refused_as_such() -> None:
    arrays, header = State.from_bytes(named_model().to_bytes())
    with pytest.raises(NewerState, match="format 2"):
        OnlineModel.from_bytes(State(arrays, {**header, "version": 2}).to_bytes())


def test_a_copy_has_the_learnt_state_without_requests() -> None:
    model = named_model()
    before = model.to_bytes()
    seed = OnlineModel.from_bytes(model.seed("seed"))
    assert (seed.spec.name, seed.position, seed.updates) == ("seed", SEED, model.updates)
    assert (len(seed.keys), len(seed.labelled), len(seed.streams), seed.rollbacks) == (0, 0, 0, [])
    assert seed.labelled.floor == ""
    assert seed.predict([named(a=1, e=2)]) == model.predict([named(a=1, e=2)])
    assert seed.prequential.measures() == model.prequential.measures()
    learn(seed, (named(a=1), ["new"]))
    assert model.to_bytes() == before
    with pytest.raises(ValueError, match="name"):
        model.seed("Not A Name")


# -- forged states --------------------------------------------------------------------------------

Change = Callable[[Arrays, dict[str, Any]], None]


def setting(name: str, change: Callable[[NDArray[Any]], Any]) -> Change:
    """Replace an array by a function of it."""

    def apply(arrays: Arrays, header: dict[str, Any]) -> None:
        arrays[name] = np.asarray(change(arrays[name]), dtype=arrays[name].dtype)

    return apply


def saying(**facts: Any) -> Change:
    return lambda arrays, header: header.update(facts)


def parts(change: Callable[[list[list[Any]]], None]) -> Change:
    """Change the partial labels."""

    def apply(arrays: Arrays, header: dict[str, Any]) -> None:
        rows = msgpack.unpackb(arrays["parts"].tobytes())
        change(rows)
        arrays["parts"] = np.frombuffer(msgpack.packb(rows), dtype=np.uint8)

    return apply


def layout(**facts: Any) -> Change:
    return lambda arrays, header: header["layout"].update(facts)


def huge(arrays: Arrays, header: dict[str, Any]) -> None:
    header["layout"]["size"] = header["spec"]["features"] = 10**30


def one_label_more(arrays: Arrays, header: dict[str, Any]) -> None:
    for name, axis in (("counts", 1), ("seen", 0)):
        array = arrays[f"prequential.{name}"]
        arrays[f"prequential.{name}"] = np.concatenate([array, array.take([-1], axis) * 0], axis)
    arrays["prequential.totals"][:, -1] += 1


# tests/core/online/test_forged.py has the checks of the arrays of learners; these cases show that they are called.
FORGED: list[tuple[str, Change]] = [
    ("falt-auto", setting("learner.weights", lambda w: w[:-1])),
    ("falt-auto", setting("learner.weights", lambda w: w * np.nan)),
    ("falt-auto", lambda arrays, header: arrays.update(more=np.zeros(1))),
    ("falt-auto", lambda arrays, header: arrays.update({"learner.more": np.zeros(1)})),
    ("falt-auto", lambda arrays, header: header.pop("rollbacks")),
    ("falt-auto", saying(more=1)),
    ("falt-auto", saying(scaled_before=10**6)),
    ("falt-auto", saying(scaled_before=-1)),
    ("falt-auto", setting("learner.scaling.count", lambda count: count + 1)),
    ("watched", setting("learner.scaling.count", lambda count: 0 * count - 1)),
    ("watched", setting("learner.drift.seen", lambda seen: [seen[0] + 1, *seen[1:]])),
    ("watched", lambda arrays, header: header["spec"]["params"].update(on_drift=None, drift=None)),
    ("measured", lambda arrays, header: header["spec"]["params"].update(calibrate=False, optimise="none")),
    ("measured", lambda arrays, header: header["spec"]["params"].update(optimise="micro_f1")),
    ("unit", lambda arrays, header: header["spec"].update(scaling="auto")),
    ("falt-auto", lambda arrays, header: header["spec"].update(scaling="none")),
    ("falt-auto", lambda arrays, header: header["spec"]["params"].update(step="implicit")),
    ("nystroem", lambda arrays, header: header["spec"]["params"].update(budget=1)),
    ("kernel_falt-auto", setting("learner.vectors.indices", lambda indices: indices + 1000)),
    ("kernel_falt-auto", lambda arrays, header: header["spec"]["params"].update(budget=1)),
    ("falt-auto", setting("features.offsets", lambda offsets: [0, 2**62, *offsets[2:]])),
    ("falt-auto", setting("features.offsets", lambda offsets: [0, 2**63 - 1, -(2**63), *offsets[3:]])),
    ("falt-auto", setting("features.offsets", lambda offsets: [0, *offsets])),
    ("falt-auto", setting("features.bytes", lambda names: names | 0x80)),
    ("falt-auto", setting("labels.bytes", lambda names: names * 0 + 65)),
    ("falt-auto", setting("labels.offsets", lambda offsets: offsets[:-1])),
    ("falt-auto", setting("prequential.codes", lambda codes: codes + 2**20)),
    ("falt-auto", setting("prequential.counts", lambda counts: counts[:, :-1])),
    ("falt-auto", one_label_more),
    ("falt-auto", setting("prequential.window", lambda window: window + 1)),
    ("falt-auto", setting("keys", lambda packed: packed[:-1])),
    ("falt-auto", setting("keys", lambda packed: [0x93, 1, 2, 3])),
    ("falt-auto", setting("keys", lambda packed: [0x91, 0x90])),
    ("falt-auto", setting("keys", lambda packed: [0x91] * 5000)),
    ("falt-auto", setting("keys", lambda packed: [0xDD, 0xFF, 0xFF, 0xFF, 0xFF])),
    ("falt-auto", setting("labelled", lambda packed: packed[:-1])),
    ("falt-auto", setting("labelled", lambda packed: packed[::-1])),
    ("falt-auto", setting("labelled", lambda packed: np.concatenate([packed, packed]))),
    ("falt-auto", setting("parts", lambda packed: packed[:-1])),
    ("falt-auto", setting("parts", lambda packed: [0x91, 0x92, 0xA1, 115, 0xC4, 0])),
    ("falt-auto", setting("parts", lambda packed: [0x92, *packed[1:], *packed[1:]])),
    ("falt-auto", parts(lambda rows: rows[0].__setitem__(1, bytes(4) * 3))),
    ("falt-auto", parts(lambda rows: rows[0].__setitem__(1, b"\xff" * 12))),
    ("falt-auto", parts(lambda rows: rows[0].__setitem__(1, b""))),
    ("falt-auto", parts(lambda rows: rows[0].__setitem__(2, 10**9))),
    ("falt-auto", parts(lambda rows: rows[0].__setitem__(2, "one"))),
    ("falt-auto", parts(lambda rows: rows[0].__setitem__(4, b"\0" * 3))),
    ("falt-auto", parts(lambda rows: rows[0].__setitem__(5, np.full(6, np.inf).tobytes()))),
    ("falt-auto", parts(lambda rows: rows[0].__setitem__(5, b""))),
    ("new", saying(labelled_floor=True)),
    ("new", saying(labelled_floor=0)),
    ("falt-auto", setting("streams", lambda packed: packed[:-1])),
    ("falt-auto", setting("streams", lambda packed: [0x80])),
    ("falt-auto", setting("streams", lambda packed: [0x91, 0x92, 0xA1, 115, 0])),
    ("falt-auto", setting("streams", lambda packed: [0x91, 0xA2, 115, 115])),
    ("falt-auto", saying(position=7)),
    ("falt-auto", saying(position="seven")),
    ("falt-auto", saying(position="1" * 65)),
    ("falt-auto", saying(position="3")),  # before its own rollback
    ("falt-auto", saying(updates=-1)),
    ("falt-auto", saying(updates=2**60)),
    ("falt-auto", saying(updates=1)),
    ("falt-auto", saying(updates=0)),
    ("falt-auto", saying(updates=True)),
    ("falt-auto", saying(updates=3.0)),
    ("falt-auto", saying(rollbacks=[["5", "5"]])),
    ("falt-auto", saying(rollbacks=[["5", "4"], ["5", "1"]])),
    ("falt-auto", saying(rollbacks=[["5"]])),
    ("falt-auto", saying(rollbacks=[[5, 1]])),
    ("falt-auto", saying(rollbacks={"5": "1"})),
    ("falt-auto", saying(rollbacks=[[f"{i}", "0"] for i in range(1, 2000)])),
    ("falt-auto", saying(spec={"name": "m"})),
    ("falt-auto", saying(spec=None)),
    ("falt-auto", saying(layout=None)),
    ("falt-auto", saying(version="1")),
    ("falt-auto", saying(version=0)),
    ("falt-auto", layout(kind="numbered")),
    ("falt-auto", layout(kind=None)),
    ("falt-auto", layout(kind="other")),
    ("falt-auto", layout(size=4)),
    ("falt-auto", layout(fixed=True)),
    ("falt-auto", layout(declared=True)),
    ("sparse", layout(size=2**40)),
    ("sparse", layout(size=3)),
    ("sparse", layout(size=-1)),
    ("sparse", layout(size=4.0)),
    ("sparse", layout(size=True)),
    ("sparse", layout(kind="named", size=0)),
    ("sparse", layout(fixed=1)),
    ("dense", layout(size=2)),
    ("declared", lambda arrays, header: header.update(declared=["labels"])),
    ("declared", lambda arrays, header: header.update(declared="features")),
    ("declared", lambda arrays, header: header.update(declared=["features", "labels", "spec"])),
    ("declared", lambda arrays, header: header.update(declared=[["features"]])),
    ("falt-auto", lambda arrays, header: header.update(declared=["features"])),
    ("sparse", setting("features.indices", lambda indices: indices[:-1])),
    ("sparse", setting("features.indices", lambda indices: [0, 0, 1])),
    ("sparse", setting("features.indices", lambda indices: [0, 4, 1])),
    ("sparse", setting("features.indices", lambda indices: [0, -1, 1])),
    ("dense", setting("features.indices", lambda indices: [0, 1, 1])),
    ("falt-auto", setting("features.indices", lambda indices: [0])),
    ("falt-auto", saying(position="1" * MAX_HEADER_BYTES)),
    ("declared-number", lambda arrays, header: header["spec"].update(features=5)),
    ("declared-number", huge),
    ("new", saying(updates=5)),
    ("new", layout(kind="named", size=1)),
]


@functools.cache
def state_of(model: str) -> bytes:
    return bytes(MODELS[model]().to_bytes())


@for_each(("model", "change"), FORGED, ids=[f"{i}-{name}" for i, (name, _) in enumerate(FORGED)])
def test_a_forged_state_with_a_valid_checksum_is_refused(model: str, change: Change) -> None:
    arrays, header = State.from_bytes(state_of(model))
    change(arrays, header)
    with pytest.raises(DamagedState):
        OnlineModel.from_bytes(State(arrays, header).to_bytes())


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@settings(max_examples=settings.default.max_examples // 8)
@given(data=st.data())
def test_any_state_that_is_restored_can_be_used(make: Callable[[], OnlineModel], data: st.DataObject) -> None:
    """Rewrites numbers and shapes at random, under a true checksum."""
    arrays, header = State.from_bytes(make().to_bytes())
    for name in data.draw(st.lists(st.sampled_from(sorted(arrays)), min_size=1, max_size=2, unique=True)):
        arrays[name] = data.draw(rewritten(arrays[name]), label=name)
    if data.draw(st.booleans()):
        header[data.draw(st.sampled_from(sorted(header)))] = data.draw(documents)
    try:
        model = OnlineModel.from_bytes(State(arrays, header).to_bytes())
    except DamagedState:
        return
    if len(model.features) < 10_000:
        exercise(model)


facts = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(-1e9, 1e9) | st.text(max_size=3)
documents = st.recursive(
    facts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "size", "fixed"]), inner),
    max_leaves=6,
)
EXTREMES = {
    "f": [0.0, 1e-40, 1e14, 1e38, np.inf, np.nan],
    "i": [0, 1, 2, 3, 100, 2**31, 2**62, 2**63 - 1],
    "u": [0, 1, 0x7F, 0x80, 0x90, 0xC0, 0xDD, 0xFF],
}


@st.composite
def rewritten(draw: st.DrawFn, array: NDArray[Any]) -> NDArray[Any]:
    flat = array.reshape(-1).copy()
    how = draw(st.sampled_from(["number", "bits", "cut", "longer", "reshape", "type"]))
    if how == "number" and flat.size:
        at = draw(st.integers(0, flat.size - 1))
        number = draw(st.sampled_from(EXTREMES[flat.dtype.kind])) * draw(st.sampled_from([1, -1]))
        with np.errstate(all="ignore"):
            flat[at] = np.array(number).astype(flat.dtype)
    elif how == "bits" and flat.size:
        raw = flat.view(np.uint8)
        raw[draw(st.integers(0, raw.size - 1))] ^= draw(st.integers(1, 255))
    elif how == "cut":
        return array[draw(st.integers(0, 2)) :]
    elif how == "longer":
        return np.concatenate([array, array[:1]])
    elif how == "reshape":
        return array.reshape(1, *array.shape) if draw(st.booleans()) else flat
    elif how == "type":
        with np.errstate(all="ignore"):
            return array.astype(draw(st.sampled_from([np.float32, np.float64, np.int8, np.uint64, np.bool_])))
    return flat.reshape(array.shape)
