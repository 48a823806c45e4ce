"""Large tables of weights hold only the blocks that are not all 0: learners learn the bits that they would without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.core.online.catalogue import LINEAR
from tests.support.cases import for_each

from manylabel_core import FALT, KernelFALT
from manylabel_core.batch import M3L
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.models.linear import sparse_table
from manylabel_core.online.models.linear._sparse_table import (
    ROOM,
    add_products,
    add_to_columns,
    add_to_row,
    blocks_of,
    divide_column,
    missing_room,
)
from manylabel_core.online.models.linear.sparse_table import SparseTable
from manylabel_core.rows import Rows, Targets, as_rows, as_targets

Arrays = dict[str, NDArray[Any]]
MAKERS: dict[str, Callable[..., OnlineLearner]] = {
    **LINEAR,
    "falt-macro": partial(FALT, optimise="macro_f1"),
    "falt-no-intercept": partial(FALT, fit_intercept=False, scaling="none"),
    "falt-restart": partial(FALT, drift="adwin", on_drift="restart"),
    "falt-raise": partial(FALT, drift="adwin", on_drift="raise"),
    "kernel-falt": partial(KernelFALT, gamma=0.5, budget=20),
}
ALWAYS_DENSE = ("salt-implicit", "salt-gradient", "salt-one-pass", "salt-passes")
"""Their only table has several planes."""
N, D, L = 240, 60, 45
NEVER = 2**62


@contextmanager
def larger_than(n_bytes: int) -> Iterator[None]:
    """Tables whose dense ones had more bytes than this are sparse."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_table, "DENSE_BYTES", n_bytes)
        patch.setattr(sparse_table, "MIN_SPARSE_BLOCKS", 1)
        yield


def make_stream(seed: int) -> list[tuple[Rows, Targets, int, int]]:
    """Texts whose words and labels appear one after the other; half-way, labels change their meaning.

    Some truth is partial, some examples weigh more, some have no features or no labels.
    """
    rng = np.random.default_rng(seed)
    stream, n_labels = [], 2
    for i in range(N):
        n_features = min(D, 5 + i * D // (N - 40))
        n_labels = min(L, max(n_labels, 2 + i * L // (N - 40)))
        columns = np.unique((n_features * rng.random(rng.integers(0, 9)) ** 1.5).astype(np.int32))
        meant = (columns * 7 + (i > N // 2)) % n_labels
        known = np.unique(np.concatenate([meant[:3], rng.integers(0, n_labels, 2)])).astype(np.int32)
        signs = np.where(np.isin(known, meant), 1, -1).astype(np.int8)
        weights = np.array([[0.5], [3.0], []][i % 3])
        values = rng.integers(1, 4, len(columns)).astype(np.float32)
        rows = Rows(np.array([0, len(columns)]), columns, values)
        targets = Targets(np.array([0, len(known)]), known, signs, np.array([i % 5 > 0]), np.array([n_labels]), weights)
        stream.append((rows, targets, n_features, n_labels))
    return stream


def learn(model: OnlineLearner, rows: Rows, targets: Targets, n_features: int, n_labels: int) -> bytes:
    """The scores of examples before they are learnt."""
    model.pipeline.grow(n_features, n_labels)
    return model.pipeline.learn(rows, targets).scores[:, : 1 + n_labels].tobytes()


def new(make: Callable[..., OnlineLearner], **parameters: Any) -> OnlineLearner:
    model = make(**parameters)
    if model.pipeline.takes_titles:
        model.pipeline.grow(2, 2)
        model.pipeline.set_titles({0: [1, 2], 1: [2]})
        model.pipeline.link([0, 1], [1, 2])
    return model


def shown(model: OnlineLearner, stream: list[tuple[Rows, Targets, int, int]]) -> list[bytes]:
    """Return a model's output for examples: scores, explanations and its linear form."""
    said = [model.pipeline.score(rows).tobytes() for rows, *_ in stream[:12]]
    if not isinstance(model, KernelFALT):
        for rows, *_ in stream[:4]:
            for each in model.pipeline.explain(rows, [0, 3], 4):
                said += [each.features.tobytes(), each.contributions.tobytes(), np.float64(each.rest).tobytes()]
        if model.pipeline.takes_titles:
            model.pipeline.set_titles({0: [], 1: []})
        said += [np.asarray(part).tobytes() for part in model.pipeline.linear_form()[:2]]
    return said


def spare(model: OnlineLearner) -> int:
    """The bytes that count and are in no state: those of titles and landmarks."""
    return model.pipeline.nbytes - sum(array.nbytes for array in model.state().values())


def tables(model: OnlineLearner) -> list[Any]:
    model_ = model.pipeline.model
    experts = getattr(model_, "_experts", [model_])
    return [expert._table for expert in experts if hasattr(expert, "_table")]


def dense_state(make: Callable[..., OnlineLearner], state: Arrays) -> Arrays:
    """The state of a model whose tables are dense."""
    with larger_than(NEVER):
        model = make()
        model.restore(state)
        return model.state()


def assert_same(one: Arrays, other: Arrays) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert (array.shape, array.dtype) == (other[name].shape, other[name].dtype), name
        assert array.tobytes() == other[name].tobytes(), name


@for_each("name", MAKERS)
def test_a_sparse_table_has_the_bits_of_a_dense_one(name: str) -> None:
    make, stream = MAKERS[name], make_stream(0)
    with larger_than(NEVER):
        dense = new(make)
        expected = [learn(dense, *example) for example in stream]
        assert all(table.sparse is None for table in tables(dense))
        beside, state, said = spare(dense), dense.state(), shown(dense, stream)
    for n_bytes in (0, 4_000):
        with larger_than(n_bytes):
            model = new(make)
            assert [learn(model, *example) for example in stream] == expected
            assert any(table.sparse is not None for table in tables(model)) == (name not in ALWAYS_DENSE)
            own = model.state()
            assert spare(model) == beside
            again = make()
            again.restore(own)
            assert_same(again.state(), own)
            assert again.pipeline.nbytes == model.pipeline.nbytes
            assert shown(model, stream) == said == shown(again, stream)
        assert_same(dense_state(make, own), state)
        with larger_than(n_bytes):
            turned = make()
            turned.restore(state)
            assert_same(turned.state(), own)


def test_a_table_becomes_sparse_at_the_same_size_however_it_grows() -> None:
    """One by one, in groups, and with room made ahead: the state depends on the examples alone."""
    stream = make_stream(1)
    states = []
    with larger_than(3_000):
        for size in (1, 7, 100):
            model = new(FALT)
            for first in range(0, N, size):
                part = stream[first : first + size]
                model.pipeline.reserve(part[-1][2] + size % 50, part[-1][3] + size % 50)
                model.pipeline.grow(part[-1][2], part[-1][3])
                rows = Rows(*_joined([rows for rows, *_ in part]))
                model.pipeline.learn(rows, Targets(*_joined([truth for _, truth, *_ in part])))
                if first + size == 100 * (first // 100 + 1):
                    states.append((first + size, model.state()))
            states.append((N, model.state()))
    for at, state in states:
        assert_same(state, next(other for place, other in states if place == at))


def test_reserved_capacity_is_in_no_state() -> None:
    with larger_than(3_000):
        model, ahead = FALT(), FALT()
        ahead.pipeline.reserve(D, L)
        for example in make_stream(2)[:30]:
            assert learn(model, *example) == learn(ahead, *example)
        assert [table.sparse is None for table in tables(model)] == [True, True]
        assert [table.sparse is None for table in tables(ahead)] == [False, False]
        assert_same(model.state(), ahead.state())
        assert model.pipeline.nbytes == ahead.pipeline.nbytes


def test_a_sparse_centroid_is_divided_as_a_dense_one() -> None:
    """By 2^32, after some 130 examples that weigh 3."""
    rng = np.random.default_rng(0)
    rows = Rows(np.arange(201), rng.integers(0, 3, 200).astype(np.int32), np.ones(200, np.float32))
    labels = np.zeros(200, np.int32), np.ones(200, np.int8), np.ones(200, np.bool_), np.full(200, 20)
    truth = Targets(np.arange(201), *labels, np.full(200, 3.0))
    found = []
    for n_bytes in (NEVER, 0):
        with larger_than(n_bytes):
            model = FALT()
            model.pipeline.grow(3, 20)
            found.append((model.pipeline.learn(rows, truth).scores.tobytes(), dense_state(FALT, model.state())))
    assert found[0][0] == found[1][0]
    assert_same(found[0][1], found[1][1])
    assert found[0][1]["centroid.labels"][0, 0] < 2.0**32 < 1.1875**200


def test_a_sparse_table_starts_from_a_batch_model() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 20)), rng.integers(0, 2, (30, 9))
    batch = M3L(scaling="auto").fit(X, Y)
    found = []
    for n_bytes in (NEVER, 0):
        with larger_than(n_bytes):
            model = FALT.from_linear(batch)
            found.append((model.decision_function(X).tobytes(), model.partial_fit(X, Y).decision_function(X).tobytes()))
    assert found[0] == found[1]


def test_size_is_that_of_the_learnt_blocks() -> None:
    """The bound of the size after learning holds, and is no larger than with all blocks."""
    with larger_than(0):
        model, dense = FALT(scaling="none"), 2 * 4 * (1 + D) * (1 + L)
        model.pipeline.grow(D, L)
        tables = [array for name, array in model.state().items() if not name.startswith(("second.", "ranks."))]
        assert sum(array.nbytes for array in tables) < dense
        for rows, truth, *_ in make_stream(3):
            bound = model.pipeline.nbytes_after(D, L, 1, len(rows.values))
            model.pipeline.learn(rows, truth)
            assert sum(array.nbytes for array in model.state().values()) == model.pipeline.nbytes <= bound
        most = model.pipeline.nbytes_after(D, L, 2**53, 2**53)
        assert model.pipeline.nbytes < most == model.pipeline.nbytes_after(D, L, 1, 2 * D)


@pytest.mark.parametrize("scaling", ["none", "auto"])
def test_a_feature_counts_once_however_often_it_is_learnt(scaling: str) -> None:
    """The bound follows from distinct features, and from dense ones, which count in every example."""
    rng, n_features = np.random.default_rng(0), 2_000
    with larger_than(0):
        model = FALT(scaling=scaling)
        model.pipeline.grow(n_features, L)
        for size in (1, 2, 5, 20, 50, 100):
            X = np.where(rng.random((size, n_features)) < 0.005, 1.0, 0.0)
            X[:, :3] = rng.normal(size=(size, 3))
            n_values, n_distinct = np.count_nonzero(X), np.count_nonzero(X.any(axis=0))
            loose, bound = (model.pipeline.nbytes_after(n_features, L, size, n_values, n) for n in (None, n_distinct))
            model.pipeline.learn(as_rows(X)[0].without_zeros(), as_targets(rng.random((size, L)) < 0.1))
            assert model.pipeline.nbytes <= bound <= loose
        assert n_distinct < n_values
        assert bound < loose


FORGED: dict[str, tuple[str, Callable[[NDArray[Any]], NDArray[Any]]]] = {
    "ends-fall": ("weights.ends", lambda e: np.concatenate([e[1:], e[:1]])),
    "ends-negative": ("weights.ends", lambda e: np.concatenate([[-1], e[1:]])),
    "ends-overflow": ("weights.ends", lambda e: np.concatenate([[2**63 - 1, -(2**63), -1], e[3:]])),
    "ends-short": ("weights.ends", lambda e: e[:-1]),
    "ends-none": ("weights.ends", lambda e: e[:0]),
    "ends-beyond": ("weights.ends", lambda e: e + 1),
    "blocks-short": ("weights.blocks", lambda b: b[:-1]),
    "blocks-equal": ("weights.blocks", lambda b: 0 * b),
    "blocks-beyond": ("weights.blocks", lambda b: b + 5),
    "blocks-negative": ("weights.blocks", lambda b: b - 1),
    "values-short": ("weights.values", lambda v: v[:-1]),
    "values-narrow": ("weights.values", lambda v: v[:, :-1]),
    "values-infinite": ("weights.values", lambda v: v + np.float32("inf")),
    "values-nan": ("weights.values", lambda v: v + np.float32("nan")),
    "values-of-no-label": ("weights.values", lambda v: v + 1),
    "two-tables": ("weights", lambda w: np.vstack([w] * 60)),
    "other-size": ("centroid.sums.ends", lambda e: e[:-1]),
    "centroid-threshold": ("centroid.sums.values", lambda v: v + np.eye(1, 8, dtype="f")),
    "centroid-infinite": ("centroid.sums.values", lambda v: v * np.float32("inf")),
}


@for_each("name", FORGED)
def test_forged_sparse_tables_are_refused(name: str) -> None:
    array, forge = FORGED[name]
    with larger_than(0):
        model = FALT()
        for example in make_stream(4):
            learn(model, *example)
        state = model.state()
        assert len(state["weights.ends"]) == model.n_features_ > 0
        before = {key: value.copy() for key, value in state.items()}
        with pytest.raises(ValueError, match="state: "), np.errstate(invalid="ignore"):
            model.restore({**state, array: forge(state[array]).astype(state[array].dtype)})
        assert_same(model.state(), before)


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["outer", "outer", "columns", "clear", "divide"]), st.integers(0, 9), st.integers(0, 2**30)
    )
)


@given(STEPS)
def test_operations_are_those_of_a_dense_table(steps: list[Step]) -> None:
    """Every operation with rows of few, many and all blocks, against a plain array."""
    n_rows, n_columns = 10, 12 * 8
    table, dense = SparseTable("float32"), np.zeros((n_rows, n_columns), np.float32)
    table.enlarge(n_rows)
    missing = np.empty(12, np.int64)
    for kind, row, seed in steps:
        rng = np.random.default_rng(seed)
        if kind == "outer":
            blocks = np.flatnonzero(rng.random(12) < rng.choice([0.1, 0.5, 1.0]))
            tau, value = np.zeros(n_columns, np.float32), np.float32(rng.normal())
            tau.reshape(12, 8)[blocks] = rng.normal(size=(len(blocks), 8))
            table.reserve(missing_room(table.parts, np.array([row]), len(blocks)))
            if len(blocks):
                add_to_row(table.parts, row, value, tau, blocks, missing)
            dense[row] += value * tau
        elif kind == "columns":
            columns = np.flatnonzero(rng.random(n_columns) < 0.05)
            changes, blocks = rng.normal(size=len(columns)), blocks_of(columns)
            assert blocks.tolist() == np.unique(columns // 8).tolist()
            table.reserve(missing_room(table.parts, np.array([row]), len(blocks)))
            add_to_columns(table.parts, row, 0.5, changes, columns, blocks, missing)
            dense[row, columns] += (changes * 0.5).astype(np.float32)
        else:
            column = seed % n_columns
            if kind == "clear":
                table.clear(column)
                dense[:, column] = 0.0
            else:
                divide_column(table.parts, column, 4.0)
                dense[:, column] /= 4.0
        np.testing.assert_array_equal(table.dense(n_rows, n_columns), dense)
    ends, numbers, weights = table.pack(n_rows)
    packed = ends, numbers, np.asarray(weights)
    assert table.held >= len(packed[1]) == np.count_nonzero(dense.reshape(n_rows, 12, 8).any(axis=2))
    for each in (table, SparseTable.of(packed)):
        scores, expected = np.zeros(n_columns), np.zeros(n_columns)
        features, values = np.array([0, 2, 3, 4, 7, 9, 11], np.int32), np.arange(1.0, 8.0, dtype=np.float32)
        add_products(each.parts, features, values, scores)
        for feature, value in zip(features[:-1], values[:-1], strict=True):
            expected += np.float64(value) * dense[feature]
        assert scores.tobytes() == expected.tobytes()
        for column in (0, 9, 95):
            assert each.column(np.arange(10, dtype=np.int32), column).tolist() == dense[:, column].tolist()


def test_rows_that_grow_leave_little_room_unused() -> None:
    """Runs that became too short are taken by other rows."""
    table, rng = SparseTable("float32"), np.random.default_rng(0)
    table.enlarge(500)
    tau, missing = np.ones(256 * 8, np.float32), np.empty(4, np.int64)
    for _ in range(12_000):
        row, blocks = int(500 * rng.random() ** 2), np.unique(rng.integers(0, 256, 4))
        table.reserve(missing_room(table.parts, np.array([row]), len(blocks)))
        add_to_row(table.parts, row, np.float32(1.0), tau, blocks, missing)
    heads, book = table.parts[:2]
    assert table.held > 20_000
    assert heads[:500, ROOM].sum() < 1.25 * table.held
    assert book[0] < 1.6 * table.held


def test_an_example_with_many_labels_takes_room_for_its_blocks_alone() -> None:
    n_features, n_labels = 300, 1000
    rows = Rows(np.array([0, n_features]), np.arange(n_features, dtype=np.int32), np.ones(n_features, np.float32))
    listed, signs = np.arange(n_labels, dtype=np.int32), np.ones(n_labels, np.int8)
    targets = Targets(np.array([0, n_labels]), listed, signs, np.array([True]), np.array([n_labels]), np.empty(0))
    with larger_than(0):
        model = FALT()
        learn(model, rows, targets, n_features, n_labels)
        (table,) = [table.sparse for table in tables(model) if table.sparse is not None][-1:]
    n_blocks = 1 + n_labels // 8
    assert len(table.parts[3]) < 1.6 * n_features * n_blocks


def test_growth_leaves_arrays_that_callers_hold_unchanged() -> None:
    table = SparseTable("float32")
    table.enlarge(1)
    table.reserve(1)
    held = table.parts[3][:1]
    zero = np.zeros(1, np.int64)
    add_to_columns(table.parts, 0, 1.0, np.ones(1), zero, zero, np.empty(1, np.int64))
    table.reserve(10**6)
    table.clear(0)
    assert held[0, 0] == 1.0


def _joined(parts: list[Any]) -> list[NDArray[Any]]:
    """Rows or targets of several calls as those of one; weights are 1 where a part has none."""
    ends = np.concatenate([[0], np.cumsum([part.indptr[-1] for part in parts])])
    rest = [np.concatenate(column) for column in zip(*(part[1:] for part in parts), strict=True)]
    if isinstance(parts[0], Targets):
        rest[-1] = np.concatenate([part.weights if len(part.weights) else [1.0] for part in parts])
    return [ends, *rest]
