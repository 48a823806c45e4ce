"""The contract of every online learner, in the manner of river's checks: a check for each promise, for each learner.

A learner is a function of its examples in their order: grouping, room and restarts leave no trace, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.core.online.catalogue import LEARNERS, Make, again, configured
from tests.support.cases import for_each

from manylabel_core import online
from manylabel_core.online._examples import find_problem
from manylabel_core.online.kernel import KernelLearner
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.models.expansion._expansion import score_expansion
from manylabel_core.online.models.linear._learn import learn_linear
from manylabel_core.rows import Rows, Targets
from manylabel_core.scaling import scaling
from manylabel_core.scaling._scaling import to_unit_norm


class Example(NamedTuple):
    x: dict[int, float]
    truth: dict[int, bool]
    complete: bool
    n_features: int
    n_labels: int


Stream = list[Example]
Check = Callable[[OnlineLearner, "Stream", st.DataObject], None]


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
def any_of(draw: st.DrawFn, make: Make) -> OnlineLearner:
    """A learner of the catalogue, with those of its parameters that most have."""
    common = {
        "scaling": draw(st.sampled_from(["auto", "auto", "none", "unit"])),
        "missing": draw(st.sampled_from([None, None, "zero"])),
        "fit_intercept": draw(st.booleans()),
        "optimise": draw(st.sampled_from([None, None, "micro_f1", "none", "macro_f1", "hamming"])),
        "drift": draw(st.sampled_from([None, None, "adwin"])),
        "dtype": draw(st.sampled_from(["float32", "float32", "float64"])),
    }
    sizes = {name: draw(st.sampled_from([0.01, 0.5, 3.0])) for name in ("C", "eta")}
    return configured(make, **common, **sizes)


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
    model.pipeline.grow(max(e.n_features for e in batch), max(e.n_labels for e in batch))
    scores = model.pipeline.learn(*as_arrays(batch)).scores
    for row, e in zip(scores, batch, strict=True):
        assert not row[1 + e.n_labels :].any(), "a label that did not exist has a score"
    return [row[: 1 + e.n_labels].tolist() for row, e in zip(scores, batch, strict=True)]


def assert_same_bits(one: OnlineLearner, other: OnlineLearner) -> None:
    assert (one.n_features_, one.n_labels_, one.pipeline.nbytes) == (
        other.n_features_,
        other.n_labels_,
        other.pipeline.nbytes,
    )
    ours, theirs = one.state(), other.state()
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert (array.shape, array.dtype) == (theirs[name].shape, theirs[name].dtype), name
        assert array.tobytes() == theirs[name].tobytes(), name


def assert_counted(model: OnlineLearner, arrays: dict[str, NDArray[np.generic]]) -> None:
    """All bytes of the state count, and what features of a kernel are computed by, which is in no state."""
    held = sum(array.nbytes for array in arrays.values())
    if getattr(model, "strategy", None) == "nystroem":
        assert held <= model.pipeline.nbytes
    else:
        assert held == model.pipeline.nbytes


def reference(model: OnlineLearner, stream: Stream) -> tuple[OnlineLearner, list[list[float]]]:
    """The examples learnt one by one, with room made as it is needed."""
    model = again(model)
    return model, [learn(model, [example])[0] for example in stream]


def check_grouping_into_calls(model: OnlineLearner, stream: Stream, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 7), min_size=25, max_size=25))
    one_by_one, expected = reference(model, stream)
    seen: list[list[float]] = []
    for size in sizes:
        if batch := stream[len(seen) : len(seen) + size]:
            seen += learn(model, batch)
    assert seen == expected
    assert_same_bits(model, one_by_one)


def check_room_made_ahead(model: OnlineLearner, stream: Stream, data: st.DataObject) -> None:
    one_by_one, expected = reference(model, stream)
    model.pipeline.grow(max(e.n_features for e in stream), max(e.n_labels for e in stream))
    assert [learn(model, [example])[0] for example in stream] == expected
    assert_same_bits(model, one_by_one)


def check_probabilities_of_a_group_are_those_of_each(model: OnlineLearner, stream: Stream, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 9))
    one_by_one = again(model)
    for first in range(0, len(stream), size):
        batch = stream[first : first + size]
        for learner in (model, one_by_one):
            learner.pipeline.grow(batch[-1].n_features, batch[-1].n_labels)
        rows, targets = as_arrays(batch)
        expected, seen = model.pipeline.learn(rows, targets, probabilities=True).probabilities, []
        for i in range(len(batch)):
            shown = one_by_one.pipeline.probabilities(one_by_one.pipeline.score(rows.part(i, i + 1)))
            seen.append(
                one_by_one.pipeline.learn(rows.part(i, i + 1), targets.part(i, i + 1), probabilities=True).probabilities
            )
            n_labels = batch[i].n_labels
            assert shown[0, :n_labels].tobytes() == expected[i, :n_labels].tobytes()
            assert not expected[i, n_labels:].any()
        assert np.concatenate(seen).tobytes() == expected.tobytes()


def check_restart_in_between(model: OnlineLearner, stream: Stream, data: st.DataObject) -> None:
    restarts = data.draw(st.sets(st.integers(0, 24)))
    one_by_one, expected = reference(model, stream)
    seen, states = [], []
    for i, example in enumerate(stream):
        if i in restarts:
            arrays = model.state()
            assert all(array.flags.c_contiguous and array.flags.owndata for array in arrays.values())
            assert_counted(model, arrays)
            states.append((arrays, {name: array.tobytes() for name, array in arrays.items()}))
            model = again(model)
            model.restore(arrays)
        seen += learn(model, [example])
    assert seen == expected
    assert_same_bits(model, one_by_one)
    for arrays, kept in states:
        assert {name: array.tobytes() for name, array in arrays.items()} == kept, "a state is a copy"


def check_the_size_after_learning_is_known_before(model: OnlineLearner, stream: Stream, data: st.DataObject) -> None:
    """Exactly for linear models, as a bound for support vectors, detectors of drift and ranks."""
    size = data.draw(st.integers(1, 9))
    for first in range(0, len(stream), size):
        batch = stream[first : first + size]
        n_values = sum(len(e.x) for e in batch)
        bound, most = (
            model.pipeline.nbytes_after(batch[-1].n_features, batch[-1].n_labels, n_examples, n)
            for n_examples, n in ((len(batch), n_values), (2**53, 2**53 * batch[-1].n_features))
        )
        learn(model, batch)
        assert_counted(model, model.state())
        assert model.pipeline.nbytes <= bound <= most
        if (budget := getattr(model, "budget", None)) is not None:
            assert isinstance(model, KernelLearner)
            assert model.n_support_ <= budget
            assert most < 2**53
        exact = not isinstance(model, KernelLearner) and model.drift is None and not model.pipeline.model.takes_ranks
        assert model.pipeline.nbytes == bound or not exact


def check_scoring_is_learning_without_a_trace(model: OnlineLearner, stream: Stream, data: st.DataObject) -> None:
    """Scores of a row are those of learning it next, also where it has features the learner has not grown to."""
    one_by_one, expected = reference(model, stream)
    for i, example in enumerate(stream):
        scores = model.pipeline.score(as_arrays([example])[0])
        assert scores[0].tolist() == expected[i][: 1 + model.n_labels_]
        learn(model, [example])
    assert_same_bits(model, one_by_one)


def check_scoring_many_is_scoring_each(model: OnlineLearner, stream: Stream, data: st.DataObject) -> None:
    values_at_once = data.draw(st.integers(1, 40))
    learn(model, stream)
    rows, _ = as_arrays(stream)
    with pytest.MonkeyPatch.context() as patch:  # parts of a call, cut to bound the memory of scaling
        patch.setattr(scaling, "MAX_SCALED_VALUES", values_at_once)
        other = again(model)
        learn(other, stream)
        assert_same_bits(model, other)
        many = other.pipeline.score(rows)
    for i in range(len(stream)):
        assert model.pipeline.score(rows.part(i, i + 1))[0].tolist() == many[i].tolist()


def check_a_stored_zero_is_an_absent_feature(model: OnlineLearner, stream: Stream, data: st.DataObject) -> None:
    """Unless missing values stand at the mean."""
    model.set_params(missing="zero")
    dense = [e._replace(x={j: e.x.get(j, 0.0) for j in range(e.n_features)}) for e in stream]
    without = [e._replace(x={j: value for j, value in e.x.items() if value != 0}) for e in stream]
    one, expected = reference(model, without)
    other, seen = reference(model, dense)
    assert seen == expected
    assert_same_bits(one, other)


def check_sparse_and_dense_matrices(model: OnlineLearner, stream: Stream, data: st.DataObject) -> None:
    form = data.draw(st.sampled_from([sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array]))
    n_features, n_labels = stream[-1].n_features, stream[-1].n_labels
    X, Y = np.zeros((len(stream), n_features), np.float32), np.zeros((len(stream), n_labels), np.int8)
    known = np.zeros_like(Y)
    for i, e in enumerate(stream):
        X[i, list(e.x)], Y[i, list(e.truth)] = list(e.x.values()), list(e.truth.values())
        known[i, list(e.truth)] = 1
        if e.complete:
            known[i] = 1
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan  # a sparse matrix does not store missing values
    has = ~np.isnan(X)
    stored = form(sp.coo_array((X[has], np.nonzero(has)), shape=X.shape))
    dense = again(model).partial_fit(X, Y, known=known.astype(bool))
    sparse = again(model).partial_fit(stored, form(Y), known=form(known))
    assert_same_bits(dense, sparse)
    if n_labels:
        for one, other in zip(dense.scores(X), sparse.scores(stored), strict=True):
            assert one.tobytes() == other.tobytes()


def check_what_is_not_listed_is_nan(model: OnlineLearner, stream: Stream, data: st.DataObject) -> None:
    full = [e._replace(x={j: e.x.get(j, np.nan) for j in range(e.n_features)}) for e in stream]
    one, expected = reference(model, stream)
    other, seen = reference(model, full)
    assert seen == expected
    assert_same_bits(one, other)


def check_read_only_and_double_input_is_taken_too(model: OnlineLearner, stream: Stream, data: st.DataObject) -> None:
    one, expected = reference(model, stream)
    rows, targets = as_arrays(stream)
    for array in rows:
        array.flags.writeable = False
    model.pipeline.grow(one.n_features_, one.n_labels_)
    functions = [find_problem, learn_linear, score_expansion, to_unit_norm]
    compiled = [len(function.signatures) for function in functions]
    scores = model.pipeline.learn(rows._replace(values=rows.values.astype(np.float64)), targets).scores
    assert [len(function.signatures) for function in functions] == compiled, "it needs no compilation of its own"
    assert [row[: len(e)].tolist() for row, e in zip(scores, expected, strict=True)] == expected
    assert_same_bits(one, model)


def check_known_truth_alone_counts(model: OnlineLearner, stream: Stream, data: st.DataObject) -> None:
    """Unknown labels may be anything; a list in which each label is known is complete."""
    seed = data.draw(st.integers(0, 99))
    rng = np.random.default_rng(seed)
    n_features, n_labels = stream[-1].n_features, stream[-1].n_labels
    X, Y = rng.normal(size=(len(stream), n_features)), rng.integers(0, 2, size=(len(stream), n_labels))
    known = rng.random(Y.shape) < 0.5
    one, other = again(model).partial_fit(X, Y, known), again(model).partial_fit(X, np.where(known, Y, 1 - Y), known)
    assert_same_bits(one, other)
    assert_same_bits(again(model).partial_fit(X, Y), again(model).partial_fit(X, Y, np.ones_like(known)))


def check_a_label_that_is_forgotten_is_as_a_new_one(model: OnlineLearner, stream: Stream, data: st.DataObject) -> None:
    """It scores and is stored as one never seen, no other label's score changes, and the state can be restored."""
    learn(model, stream)
    if not model.n_labels_:
        return
    label = data.draw(st.integers(0, model.n_labels_ - 1))
    inner, rows = model.pipeline.model, model.pipeline._scaling.score(model.pipeline._plain(as_arrays(stream)[0]))
    before, after = np.empty((2, len(stream), 1 + model.n_labels_))
    inner.score(rows, before)
    inner.forget(label)
    inner.score(rows, after)
    with_new = np.empty((len(stream), 2 + model.n_labels_))
    larger = again(model)
    larger.restore(model.state())
    larger.pipeline.grow(model.n_features_, model.n_labels_ + 1)
    larger.pipeline.model.score(rows, with_new)
    np.testing.assert_array_equal(after[:, 1 + label], with_new[:, -1])
    assert model._stacked or not after[:, 1 + label].any()
    np.testing.assert_array_equal(np.delete(after, 1 + label, axis=1), np.delete(before, 1 + label, axis=1))
    grown = larger.state()
    for name, array in model.state().items():
        of_the_model = name.split(".")[0] not in ("scaling", "calibration", "drift")
        if of_the_model and grown[name].shape[-1] > array.shape[-1]:
            # After the column of the threshold, if the array has one.
            column = label + array.shape[-1] - model.n_labels_
            np.testing.assert_array_equal(array[..., column], grown[name][..., -1], err_msg=name)
    other = again(model)
    other.restore(model.state())
    assert learn(model, stream) == learn(other, stream)


def check_a_state_of_other_shapes_or_numbers_is_refused(
    model: OnlineLearner, stream: Stream, data: st.DataObject
) -> None:
    """Any array that is missing, of another type or of more axes, or not finite: the learner is as it was."""
    learn(model, stream)
    arrays = model.state()
    for name, array in arrays.items():
        others = {key: other for key, other in arrays.items() if key != name}
        with pytest.raises(ValueError, match=f"state: {name} "):
            model.restore(others)
        forged = [np.zeros(array.shape, np.float16), array[np.newaxis]]
        if array.dtype.kind == "f" and array.size:
            forged += [np.full_like(array, np.nan), np.full_like(array, -np.inf)]
        for wrong in forged:
            with pytest.raises(ValueError, match="state: "):
                model.restore({**others, name: wrong})
    assert all(array.tobytes() == arrays[key].tobytes() for key, array in model.state().items())


def check_scores_and_states_are_finite(model: OnlineLearner, stream: Stream, data: st.DataObject) -> None:
    """Values may be as large or as small as the limits allow."""
    power = data.draw(st.sampled_from([-30.0, 0.0, 12.0]))
    extreme = [e._replace(x={j: float(np.float32(v * 10.0**power)) for j, v in e.x.items()}) for e in stream]
    for _ in range(3):
        assert all(np.isfinite(row).all() for row in learn(model, extreme))
    assert all(np.isfinite(array).all() for array in model.state().values())


CHECKS = [check for name, check in list(globals().items()) if name.startswith("check_")]


def test_every_learner_is_in_the_catalogue() -> None:
    assert {type(make()).__name__ for make in LEARNERS.values()} == set(online.__all__)


@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
@for_each("check", CHECKS, ids=[check.__name__.removeprefix("check_") for check in CHECKS])
@settings(max_examples=settings.default.max_examples // 6)
@given(data=st.data())
def test_it_keeps_the_contract(make: Make, check: Check, data: st.DataObject) -> None:
    check(data.draw(any_of(make)), data.draw(streams()), data)


@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
def test_long_streams_leave_no_trace_of_calls_and_restarts(make: Make) -> None:
    """The stream goes on long after a budget is full."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    Y = ((X[:, :3] * X[:, 1:4] > 0) ^ (rng.random((150, 3)) < 0.1)).astype(int)
    whole, parts = (configured(make, fit_intercept=True) for _ in range(2))
    whole.partial_fit(X, Y)
    for i in range(0, 150, 3):
        parts.partial_fit(X[i : i + 3], Y[i : i + 3])
        arrays, parts = parts.state(), again(parts)
        parts.restore(arrays)
    assert_same_bits(whole, parts)
