"""A learner is a function of its examples in their order: grouping, room and restarts leave no trace, to the bit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from manylabel_core import FALT, SALT, KernelFALT, KernelPassiveAggressive, KernelSALT, PassiveAggressive
from manylabel_core.online._examples import find_problem
from manylabel_core.online.kernel import KernelLearner
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.models.expansion._expansion import score_expansion
from manylabel_core.online.models.linear._learn import learn_linear
from manylabel_core.online.scaling import scaling
from manylabel_core.online.scaling._scaling import standardise, to_unit_norm
from manylabel_core.rows import Rows, Targets


class Example(NamedTuple):
    x: dict[int, float]
    truth: dict[int, bool]
    complete: bool
    n_features: int
    n_labels: int


Stream = list[Example]


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Features and labels appear as the stream goes; truth is complete or partial; zeros may be stored."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    stream: Stream = []
    n_features, n_labels = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 25))):
        n_features += int(rng.choice([0, 0, 1, 5]))
        n_labels += int(rng.choice([0, 0, 0, 1, 9]))
        columns = np.flatnonzero(rng.random(n_features) < 0.7)
        values = np.float32(
            rng.normal(size=len(columns)) * (rng.random(len(columns)) < 0.9) * 10.0 ** rng.integers(-2, 3)
        )
        listed = np.flatnonzero(rng.random(n_labels) < 0.5)
        truth = {int(label): bool(rng.random() < 0.5) for label in listed}
        x = dict(zip(columns.tolist(), values.tolist(), strict=True))
        stream.append(Example(x, truth, bool(rng.random() < 0.6), n_features, n_labels))
    return stream


@st.composite
def learners(draw: st.DrawFn) -> OnlineLearner:
    common = {
        "eta": draw(st.sampled_from([0.01, 0.5, 3.0])),
        **draw(st.sampled_from([{}, {}, {"passes": 1}, {"passes": 5}, {"passes_per_label": 0.5}])),
        "scaling": draw(st.sampled_from(["auto", "auto", "none", "unit", "standard"])),
        "fit_intercept": draw(st.booleans()),
        "average": draw(st.booleans()),
        "optimise": draw(st.sampled_from([None, None, "none", "macro_f1", "hamming"])),
        "drift": draw(st.sampled_from([None, None, "adwin"])),
        "dtype": draw(st.sampled_from(["float32", "float32", "float64"])),
    }
    match draw(st.sampled_from(["falt", "salt", "passive-aggressive", "kernel-pa", "kernel", "budget", "features"])):
        case "falt":
            steps = [None, "adaptive", "implicit"] if not any("passes" in name for name in common) else [None]
            return FALT(step=draw(st.sampled_from(steps)), **common)
        case "salt":
            steps = [None, "implicit"] if not any("passes" in name for name in common) else [None]
            return SALT(step=draw(st.sampled_from(steps)), delta=draw(st.sampled_from([0.01, 1.0])), **common)
        case "passive-aggressive" | "kernel-pa" as name:
            C = common.pop("eta")
            for passes in ("passes", "passes_per_label"):
                common.pop(passes, None)
            make = PassiveAggressive if name == "passive-aggressive" else KernelPassiveAggressive
            return make(C=C, variant=draw(st.sampled_from(["PA-I", "PA-II"])), **common)
        case "kernel":
            return KernelFALT(kernel=draw(st.sampled_from(["rbf", "linear", "poly"])), gamma=0.2, **common)
        case "budget":
            strategy = draw(st.sampled_from(["merge", "project"]))
            return KernelFALT(budget=draw(st.integers(1, 6)), strategy=strategy, gamma=0.2, **common)
        case _:
            make = draw(st.sampled_from([KernelFALT, KernelSALT]))
            strategy, budget = draw(st.sampled_from(["rff", "nystroem"])), 2 * draw(st.integers(1, 4))
            return make(budget=budget, strategy=strategy, seed=draw(st.integers(0, 2**63 - 1)), gamma=0.2, **common)


def as_arrays(batch: Stream) -> tuple[Rows, Targets]:
    def joined(lists: list[list[float]], dtype: type) -> NDArray[np.generic]:
        return np.array([value for one in lists for value in one], dtype=dtype)

    rows = Rows(
        np.cumsum([0, *(len(e.x) for e in batch)], dtype=np.int64),
        joined([list(e.x) for e in batch], np.int32),
        joined([list(e.x.values()) for e in batch], np.float32),
    )
    targets = Targets(
        np.cumsum([0, *(len(e.truth) for e in batch)], dtype=np.int64),
        joined([list(e.truth) for e in batch], np.int32),
        joined([[2 * sign - 1 for sign in e.truth.values()] for e in batch], np.int8),
        np.array([e.complete for e in batch], dtype=np.bool_),
        np.array([e.n_labels for e in batch], dtype=np.int64),
    )
    return rows, targets


def learn(model: OnlineLearner, batch: Stream) -> list[list[float]]:
    """Learn a batch in one call; the scores of each example for the labels that existed."""
    model.grow(max(e.n_features for e in batch), max(e.n_labels for e in batch))
    scores = model.learn(*as_arrays(batch)).scores
    for row, e in zip(scores, batch, strict=True):
        assert not row[1 + e.n_labels :].any(), "a label that did not exist has a score"
    return [row[: 1 + e.n_labels].tolist() for row, e in zip(scores, batch, strict=True)]


def again(model: OnlineLearner) -> OnlineLearner:
    """A new learner with the same parameters."""
    return type(model)(**model.get_params())


def assert_same_bits(one: OnlineLearner, other: OnlineLearner) -> None:
    assert (one.n_features_, one.n_labels_, one.nbytes) == (other.n_features_, other.n_labels_, other.nbytes)
    ours, theirs = one.state(), other.state()
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert (array.shape, array.dtype) == (theirs[name].shape, theirs[name].dtype), name
        assert array.tobytes() == theirs[name].tobytes(), name


def assert_counted(model: OnlineLearner, arrays: dict[str, NDArray[np.generic]]) -> None:
    """All bytes of the state count, and what features of a kernel are computed by, which is in no state."""
    held = sum(array.nbytes for array in arrays.values())
    if getattr(model, "strategy", None) in ("rff", "nystroem"):
        assert held <= model.nbytes
    else:
        assert held == model.nbytes


def reference(model: OnlineLearner, stream: Stream) -> tuple[OnlineLearner, list[list[float]]]:
    """The examples learnt one by one, with room made as it is needed."""
    model = again(model)
    return model, [learn(model, [example])[0] for example in stream]


@given(learners(), streams(), st.lists(st.integers(1, 7), min_size=25, max_size=25))
def test_grouping_into_calls(model: OnlineLearner, stream: Stream, sizes: list[int]) -> None:
    one_by_one, expected = reference(model, stream)
    seen: list[list[float]] = []
    for size in sizes:
        if batch := stream[len(seen) : len(seen) + size]:
            seen += learn(model, batch)
    assert seen == expected
    assert_same_bits(model, one_by_one)


@given(learners(), streams())
def test_room_made_ahead(model: OnlineLearner, stream: Stream) -> None:
    one_by_one, expected = reference(model, stream)
    model.grow(max(e.n_features for e in stream), max(e.n_labels for e in stream))
    assert [learn(model, [example])[0] for example in stream] == expected
    assert_same_bits(model, one_by_one)


@given(learners(), streams(), st.integers(1, 9))
def test_probabilities_of_a_group_are_those_of_each_example(model: OnlineLearner, stream: Stream, size: int) -> None:
    one_by_one = again(model)
    for first in range(0, len(stream), size):
        batch = stream[first : first + size]
        for learner in (model, one_by_one):
            learner.grow(batch[-1].n_features, batch[-1].n_labels)
        rows, targets = as_arrays(batch)
        expected, seen = model.learn(rows, targets, probabilities=True).probabilities, []
        for i in range(len(batch)):
            shown = one_by_one.probabilities(one_by_one.score(rows.part(i, i + 1)))
            seen.append(one_by_one.learn(rows.part(i, i + 1), targets.part(i, i + 1), probabilities=True).probabilities)
            n_labels = batch[i].n_labels
            assert shown[0, :n_labels].tobytes() == expected[i, :n_labels].tobytes()
            assert not expected[i, n_labels:].any()
        assert np.concatenate(seen).tobytes() == expected.tobytes()


@given(learners(), streams(), st.sets(st.integers(0, 24)))
def test_restart_in_between(model: OnlineLearner, stream: Stream, restarts: set[int]) -> None:
    one_by_one, expected = reference(model, stream)
    seen = []
    for i, example in enumerate(stream):
        if i in restarts:
            arrays = model.state()
            assert all(array.flags.c_contiguous and array.flags.owndata for array in arrays.values())
            assert_counted(model, arrays)
            model = again(model)
            model.restore(arrays)
        seen += learn(model, [example])
    assert seen == expected
    assert_same_bits(model, one_by_one)


@given(learners(), streams(), st.integers(1, 9))
def test_the_size_after_learning_is_known_beforehand(model: OnlineLearner, stream: Stream, size: int) -> None:
    """Exactly for linear models, as a bound for support vectors and detectors of drift."""
    for first in range(0, len(stream), size):
        batch = stream[first : first + size]
        n_values = sum(len(e.x) for e in batch)
        bound = model.nbytes_after(batch[-1].n_features, batch[-1].n_labels, len(batch), n_values)
        learn(model, batch)
        assert_counted(model, model.state())
        assert model.nbytes <= bound
        if not isinstance(model, KernelLearner) and model.drift is None:
            assert model.nbytes == bound


@given(learners(), streams())
def test_scoring_is_learning_without_a_trace(model: OnlineLearner, stream: Stream) -> None:
    """Scores of a row are those of learning it next, also where it has features the learner has not grown to."""
    one_by_one, expected = reference(model, stream)
    for i, example in enumerate(stream):
        scores = model.score(as_arrays([example])[0])
        assert scores[0].tolist() == expected[i][: 1 + model.n_labels_]
        learn(model, [example])
    assert_same_bits(model, one_by_one)


@given(learners(), streams(), st.integers(1, 40))
def test_scoring_many_is_scoring_each(model: OnlineLearner, stream: Stream, values_at_once: int) -> None:
    learn(model, stream)
    rows, _ = as_arrays(stream)
    with pytest.MonkeyPatch.context() as patch:  # parts of a call, cut to bound the memory of scaling
        patch.setattr(scaling, "MAX_SCALED_VALUES", values_at_once)
        other = again(model)
        learn(other, stream)
        assert_same_bits(model, other)
        many = other.score(rows)
    for i in range(len(stream)):
        assert model.score(rows.part(i, i + 1))[0].tolist() == many[i].tolist()


@given(learners(), streams())
def test_a_stored_zero_is_an_absent_feature(model: OnlineLearner, stream: Stream) -> None:
    dense = [e._replace(x={j: e.x.get(j, 0.0) for j in range(e.n_features)}) for e in stream]
    without = [e._replace(x={j: value for j, value in e.x.items() if value != 0}) for e in stream]
    one, expected = reference(model, without)
    other, seen = reference(model, dense)
    assert seen == expected
    assert_same_bits(one, other)


@given(learners(), streams(), st.sampled_from([sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array]))
def test_sparse_and_dense_matrices(model: OnlineLearner, stream: Stream, form: type) -> None:
    n_features, n_labels = stream[-1].n_features, stream[-1].n_labels
    X, Y = np.zeros((len(stream), n_features), np.float32), np.zeros((len(stream), n_labels), np.int8)
    known = np.zeros_like(Y)
    for i, e in enumerate(stream):
        X[i, list(e.x)], Y[i, list(e.truth)] = list(e.x.values()), list(e.truth.values())
        known[i, list(e.truth)] = 1
        if e.complete:
            known[i] = 1
    dense = again(model).partial_fit(X, Y, known=known.astype(bool))
    sparse = again(model).partial_fit(form(X), form(Y), known=form(known))
    assert_same_bits(dense, sparse)
    if n_labels:
        for one, other in zip(dense.scores(X), sparse.scores(form(X)), strict=True):
            assert one.tobytes() == other.tobytes()


@given(learners(), streams())
def test_read_only_and_double_input_is_taken_too(model: OnlineLearner, stream: Stream) -> None:
    one, expected = reference(model, stream)
    rows, targets = as_arrays(stream)
    for array in rows:
        array.flags.writeable = False
    model.grow(one.n_features_, one.n_labels_)
    functions = [find_problem, learn_linear, score_expansion, to_unit_norm, standardise]
    compiled = [len(function.signatures) for function in functions]
    scores = model.learn(rows._replace(values=rows.values.astype(np.float64)), targets).scores
    assert [len(function.signatures) for function in functions] == compiled, "it needs no compilation of its own"
    assert [row[: len(e)].tolist() for row, e in zip(scores, expected, strict=True)] == expected
    assert_same_bits(one, model)
