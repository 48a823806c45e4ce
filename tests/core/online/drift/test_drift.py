"""Detectors of drift: against river's, and as a part of a learner."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone
from tests.support.cases import for_each
from tests.support.lazy import lazy

from manylabel_core import FALT, SALT, KernelFALT, KernelPassiveAggressive, KernelSALT, PassiveAggressive
from manylabel_core.online.drift._adwin import RUNS, n_runs, take_in
from manylabel_core.online.drift.detectors import Detectors, n_rows
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.pipeline import Learnt
from manylabel_core.rows import Targets, as_rows, as_targets

ADWIN = lazy("river.drift", "ADWIN")

Array = NDArray[np.float64]


class Windows:
    """Windows side by side, which restart after a change."""

    def __init__(self, n_columns: int, length: int) -> None:
        self.lengths, self.sums = np.zeros(n_columns, np.int64), np.zeros((n_columns, 2))
        self.runs = np.zeros((n_rows(length), n_columns, RUNS))
        self.changes = np.zeros(n_columns, np.int8)

    def take_in(self, errors: Array) -> None:
        take_in(errors, self.lengths, self.sums, self.runs, self.changes)

    def begin_anew(self) -> None:
        changed = self.changes != 0
        self.lengths[changed], self.sums[changed], self.runs[:, changed] = 0, 0.0, 0.0


def compare_with_river(streams: list[Array]) -> list[tuple[int, int]]:
    """Assert that all is as in river's, error by error and to the bit; give each change's time and direction."""
    windows, rivers, changes = Windows(len(streams), len(streams[0])), [ADWIN() for _ in streams], []
    for i, errors in enumerate(zip(*streams, strict=True)):
        windows.take_in(np.array(errors))
        for column, (adwin, error) in enumerate(zip(rivers, errors, strict=True)):
            adwin.update(error)
            assert (windows.changes[column] != 0) == adwin.drift_detected, (column, i)
            if adwin.drift_detected:
                changes.append((i, int(windows.changes[column])))
            else:
                length, (total, variance) = windows.lengths[column], windows.sums[column]
                assert (length, total, variance) == (adwin.width, adwin.total, adwin.variance), (column, i)
                assert total / length == adwin.estimation
        windows.begin_anew()
    return changes


@st.composite
def error_streams(draw: st.DrawFn) -> Array:
    """Pieces of 0/1 errors of some rate, of parts of 1, or of one value again and again."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pieces = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["bits", "parts", "same", "rising"]),
                st.integers(1, 400),
                st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.001, 0.01, 0.5, 1.0, 5e-324])),
            ),
            min_size=1,
            max_size=8,
        )
    )
    made = {
        "bits": lambda n, p: (rng.random(n) < p).astype(np.float64),
        "parts": lambda n, p: p * rng.random(n),
        "same": lambda n, p: np.full(n, p),
        "rising": lambda n, p: (rng.random(n) < np.linspace(0, p, n)).astype(np.float64),
    }
    return np.concatenate([made[kind](n, p) for kind, n, p in pieces])


@given(error_streams())
def test_changes_are_those_of_river(errors: Array) -> None:
    compare_with_river([errors])


N = 20_000
LONG: dict[str, Any] = {
    "constant": lambda rng: np.full(N, 0.3),
    "abrupt": lambda rng: rng.random(N) < np.repeat([0.1, 0.3, 0.05, 0.5, 0.49], N // 5),
    "gradual": lambda rng: rng.random(N) < np.linspace(0.02, 0.5, N),
    "waves": lambda rng: rng.random(N) < 0.3 + 0.25 * np.sin(np.arange(N) / 1500),
    "rare": lambda rng: rng.random(N) < 0.002,
    "rarer": lambda rng: rng.random(N) < np.repeat([0.0005, 0.004], N // 2),
    "nearly-always": lambda rng: rng.random(N) > 0.002,
    "parts": lambda rng: rng.random(N) * np.repeat([0.2, 0.3, 0.25, 0.9], N // 4),
    "hamming": lambda rng: rng.binomial(17, np.repeat([0.05, 0.07], N // 2)) / 17,
}


@pytest.mark.usefixtures("dev_extra")  # river takes most of its time
def test_changes_in_long_streams_are_those_of_river() -> None:
    """Side by side, so that no window touches another."""
    rng = np.random.default_rng(0)
    changes = compare_with_river([np.float64(make(rng)) for make in LONG.values()])
    assert len(changes) > 20


@given(st.integers(0, 5000))
def test_runs_of_a_window(length: int) -> None:
    """The runs of all rows hold all errors, and the rows are enough."""
    runs = [n_runs(length, row) for row in range(n_rows(length))]
    assert sum(n << row for row, n in enumerate(runs)) == length
    assert all(4 <= n <= RUNS for n in runs[:-2])
    assert max(runs) <= RUNS
    assert n_runs(length, len(runs)) == 0


class Judged(NamedTuple):
    """Scores and truth of examples, with labels that appear and truths that are not known."""

    scores: Array
    targets: Targets
    n_labels: int

    def part(self, first: int, last: int) -> tuple[Array, Targets]:
        return self.scores[first:last], self.targets.part(first, last)


def judged_stream(seed: int, n: int = 600) -> Judged:
    """Six labels, wrong at rates that jump; the last three appear at 100, 100 and 350."""
    rng = np.random.default_rng(seed)
    n_labels = np.searchsorted([0, 0, 0, 100, 100, 350], np.arange(n), side="right")
    n_labels[rng.random(n) < 0.1] -= 1  # an example may be told with fewer labels than there are
    before, after = (0.4, 0.1)[seed % 2], rng.permutation(np.linspace(0.0, 0.9, 6))
    wrong = rng.random((n, 6)) < np.where(np.arange(n)[:, None] < 300, before, after)
    relevant, known = rng.random((n, 6)) < 0.3, rng.random((n, 6)) < 0.8
    complete = rng.random(n) < 0.5
    scores = np.zeros((n, 7))
    scores[:, 0] = rng.normal(size=n)
    scores[:, 1:] = scores[:, :1] + np.where(wrong != relevant, 1.0, -1.0) * rng.random((n, 6))
    scores[rng.random(scores.shape) < 0.02] = 0.0
    listed = [np.flatnonzero((relevant | known)[i, :width]) for i, width in enumerate(n_labels)]
    indptr = np.cumsum([0, *map(len, listed)])
    signs = np.concatenate([np.where(relevant[i, labels], 1, -1) for i, labels in enumerate(listed)])
    targets = Targets(indptr, np.concatenate(listed).astype(np.int32), signs.astype(np.int8), complete, n_labels)
    return Judged(scores, targets, 6)


def judged_by_river(stream: Judged) -> list[tuple[int, int]]:
    """Alarms of river's detectors, label by label in plain Python, where the error rose."""
    rivers, alarms, existing = [ADWIN() for _ in range(1 + stream.n_labels)], [], 0
    for i, scores in enumerate(stream.scores):
        truth = targets_of(stream.targets, i)
        predicted = [label for label in truth if label < existing]
        errors = {1 + label: float((scores[1 + label] > scores[0]) != truth[label]) for label in predicted}
        if errors:
            errors[0] = sum(errors.values()) / len(errors)
        for column in sorted(errors):
            before = 0.0 if rivers[column].drift_detected else rivers[column].estimation
            rivers[column].update(errors[column])
            if rivers[column].drift_detected and rivers[column].estimation > before:
                alarms.append((i, column))
        existing = max(existing, stream.targets.n_labels[i])
    return alarms


def targets_of(targets: Targets, i: int) -> dict[int, bool]:
    """The labels of example i whose truth is known, and that."""
    listed = slice(targets.indptr[i], targets.indptr[i + 1])
    truth = dict.fromkeys(range(targets.n_labels[i]), False) if targets.complete[i] else {}
    return truth | dict(zip(targets.indices[listed].tolist(), (targets.signs[listed] > 0).tolist(), strict=True))


def grown(n_labels: int) -> Detectors:
    detectors = Detectors()
    detectors.grow(n_labels=n_labels)
    return detectors


@for_each("seed", range(8))
def test_detectors_receive_known_labels_that_existed(seed: int) -> None:
    """Known labels only, that existed before the example; and the alarms are counted."""
    stream = judged_stream(seed)
    detectors = grown(6)
    alarms = detectors.watch(stream.scores, stream.targets)
    assert alarms == judged_by_river(stream)
    assert {column for _, column in alarms} > ({0} if seed % 2 else set())
    counts, last = detectors.alarms()
    for column in range(7):
        times = [1 + i for i, alarming in alarms if alarming == column]
        assert (counts[column], last[column]) == (len(times), max(times, default=0))


@given(st.integers(0, 20))
def test_no_alarm_is_raised_before_the_next_check(seed: int) -> None:
    stream = judged_stream(seed)
    detectors, first, expected = grown(6), 0, grown(6).watch(stream.scores, stream.targets)
    while first < len(stream.scores):
        last = min(first + detectors.n_until_check, len(stream.scores))
        alarms = detectors.watch(*stream.part(first, last))
        assert {i for i, _ in alarms} <= {last - first - 1}
        assert [(first + i, column) for i, column in alarms] == [pair for pair in expected if first <= pair[0] < last]
        first = last


def test_a_bound_for_the_longest_stream() -> None:
    assert grown(6).nbytes_after(0, 983, 2**53, 0) < 984 * 2200


def test_nothing_is_watched_without_detectors() -> None:
    model, watched = FALT(), FALT(drift="adwin")
    X, Y = drifting(0, 2000, ALL)
    assert learnt(watched, X, Y).alarms
    assert learnt(model, X, Y).alarms == []
    assert [array.tolist() for array in model.alarms()] == [[0] * 7] * 2
    assert not any(name.startswith("drift.") for name in model.state())
    assert watched.pipeline.nbytes - model.pipeline.nbytes == sum(
        a.nbytes for n, a in watched.state().items() if n.startswith("drift.")
    )


ALL = list(range(6))


def drifting(seed: int, n: int, labels: list[int]) -> tuple[Array, NDArray[np.int64]]:
    """Twenty features and six labels, linear but for noise; in the middle, these come to mean the contrary."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 20))
    scores = X @ rng.normal(size=(20, 6)) / np.sqrt(20)
    scores[n // 2 :, labels] *= -1
    return X, (scores + 0.3 * rng.normal(size=scores.shape) > 0.3).astype(np.int64)


def learnt(model: OnlineLearner, X: Array, Y: NDArray[np.int64], known: Any = None) -> Learnt:
    """Learn it all in one call."""
    model.pipeline.grow(X.shape[1], Y.shape[1])
    return model.pipeline.learn(as_rows(X, model.dtype)[0], as_targets(Y, known))


def f1(scores: Array, Y: NDArray[np.int64], label: int) -> float:
    predicted, relevant = scores[:, 1 + label] > scores[:, 0], Y[:, label] > 0
    return float(2 * (predicted & relevant).sum() / (predicted.sum() + relevant.sum()))


@pytest.mark.parametrize("make", [FALT, SALT, KernelFALT, PassiveAggressive])
def test_only_the_detector_of_a_drifting_label_alarms(make: type[FALT]) -> None:
    """The alarm comes within 100 examples; only the detector of all labels together may raise one too."""
    for seed in range(2):
        X, Y = drifting(seed, 2000, [2])
        model = make(drift="adwin")
        alarms = learnt(model, X, Y).alarms
        counts, last = model.alarms()
        assert counts[1:].tolist() == [0, 0, 1, 0, 0, 0]
        assert 1000 < last[3] <= 1100
        assert (last[3] - 1, 3) in alarms


REACTING: list[tuple[type[FALT], dict[str, Any]]] = [
    (FALT, {"on_drift": "restart"}),
    (FALT, {"on_drift": "restart", "step": "adaptive"}),
    (FALT, {"on_drift": "raise", "step": "adaptive"}),
    (SALT, {"on_drift": "restart"}),
    (SALT, {"on_drift": "restart", "step": "implicit"}),
    (SALT, {"on_drift": "raise", "step": "implicit"}),
    (KernelFALT, {"on_drift": "restart"}),
    (KernelFALT, {"on_drift": "restart", "budget": 200}),
    (KernelSALT, {"on_drift": "raise", "budget": 200, "step": "implicit"}),
    (KernelSALT, {"on_drift": "restart", "budget": 200}),
    (KernelPassiveAggressive, {"on_drift": "restart", "budget": 200}),
]


@pytest.mark.parametrize(
    ("make", "parameters", "gain"),
    [(FALT, {"on_drift": "restart"}, 0.03), (SALT, {"on_drift": "raise", "step": "implicit"}, 0.05)],
)
def test_f1_of_a_changed_label_is_higher_with_a_reaction(
    make: type[FALT], parameters: dict[str, Any], gain: float
) -> None:
    """Prequential, over the half of the stream after the change; the other labels lose nothing."""
    for seed in range(2):
        X, Y = drifting(seed, 3000, [2])
        model = make(drift="adwin", **parameters)
        helped = learnt(model, X, Y).scores[1500:]
        without = learnt(clone(model).set_params(on_drift=None), X, Y).scores[1500:]
        gains = [f1(helped, Y[1500:], label) - f1(without, Y[1500:], label) for label in ALL]
        assert gains.pop(2) > gain
        assert min(gains) > -0.02


@pytest.mark.parametrize("parameters", [{}, {"optimise": "macro_f1"}, {"calibrate": False, "scaling": "none"}])
def test_detectors_judge_the_predictions_of_learn(parameters: dict[str, Any]) -> None:
    """Detectors judge the predictions that `learn` gives, decision thresholds included, and change nothing in them."""
    X, Y = drifting(0, 900, ALL)
    known = np.random.default_rng(0).random(Y.shape) < 0.7
    known[:, 0] |= ~known.any(axis=1)
    model, unwatched = FALT(drift="adwin", **parameters), FALT(**parameters)
    scores, _, alarms = learnt(model, X, Y, known)
    other = learnt(unwatched, X, Y, known)
    assert scores.tobytes() == other.scores.tobytes()
    detectors = grown(6)
    assert detectors.watch(scores, as_targets(Y, known)) == alarms != []
    state = model.state()
    for name, array in detectors.state().items():
        assert array.tobytes() == state.pop(name).tobytes()
    assert state.keys() == unwatched.state().keys()
    assert not unwatched.alarms().counts.any()
    assert other.alarms == []


@pytest.mark.parametrize(("make", "parameters"), REACTING)
def test_a_reaction_comes_before_the_next_example(make: type[FALT], parameters: dict[str, Any]) -> None:
    """Read the alarms after each example, and respond by hand."""
    X, Y = drifting(0, 900, ALL)
    model, by_hand = make(drift="adwin", **parameters), make(drift="adwin", **parameters)
    scores, _, alarms = learnt(model, X, Y)
    by_hand.pipeline.grow(0, 0)
    pipeline = by_hand.pipeline
    reactions, pipeline._react = 0, lambda column: None
    for i in range(len(X)):
        one = learnt(by_hand, X[i : i + 1], Y[i : i + 1])
        assert one.scores[0].tolist() == scores[i].tolist()
        for _, column in one.alarms:
            reactions += 1
            if parameters["on_drift"] == "raise":
                pipeline.model.reset_step_sizes(None if column == 0 else column - 1)
            elif column > 0:
                pipeline.model.forget(column - 1)
                pipeline._calibration.forget(column - 1)
    assert reactions == len(alarms) > 0
    assert bits(model) == bits(by_hand)


def bits(model: OnlineLearner) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in model.state().items()}


@pytest.mark.parametrize(("make", "parameters"), REACTING)
@given(seed=st.integers(0, 99), sizes=st.lists(st.integers(1, 200), min_size=1, max_size=5), restores=st.booleans())
@settings(max_examples=settings.default.max_examples // 8)
def test_calls_and_restores_leave_no_trace_in_a_drifting_stream(
    make: type[FALT], parameters: dict[str, Any], seed: int, sizes: list[int], restores: bool
) -> None:
    """The bits are the same with labels that appear and truths that are unknown."""
    X, Y = drifting(seed, 900, ALL)
    known = np.random.default_rng(seed).random(Y.shape) < 0.9
    one, other = make(drift="adwin", **parameters), make(drift="adwin", **parameters)
    expected, seen, alarms, again, first = [], [], [], [], 0
    for begin, end, n_labels in [(0, 50, 2), (50, 900, 6)]:
        whole = learnt(one, X[begin:end], Y[begin:end, :n_labels], known[begin:end, :n_labels])
        expected += whole.scores.tolist()
        alarms += [(begin + i, column) for i, column in whole.alarms]
        while first < end:
            last = min(first + sizes[first % len(sizes)], end)
            part = learnt(other, X[first:last], Y[first:last, :n_labels], known[first:last, :n_labels])
            seen += part.scores.tolist()
            again += [(first + i, column) for i, column in part.alarms]
            first = last
            if restores:
                arrays, other = other.state(), make(drift="adwin", **parameters)
                other.restore(arrays)
    assert seen == expected
    assert again == alarms != []
    assert bits(one) == bits(other)
    assert one.pipeline.nbytes == other.pipeline.nbytes >= sum(array.nbytes for array in one.state().values())
