"""The past of prequential measures: each point is what the measures were then, to the bit, and points thin out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from manylabel_core.metrics import Prequential, _prequential
from manylabel_core.metrics.history import MAX_ALARMS, MAX_POINTS, stride_of
from manylabel_core.metrics.measures import DEPTHS, STREAMED, WITH_HISTORY
from manylabel_core.rows import Targets
from manylabel_core.state import State

LENGTH = 3 * MAX_POINTS + 5
N_LABELS = 6


def stream(length: int = LENGTH) -> tuple[np.ndarray, Targets, np.ndarray]:
    """Labels appear as the stream goes, weights differ, and of some examples nothing, or not all, is known."""
    rng = np.random.default_rng(7)
    scores = rng.integers(-2, 3, size=(length, 1 + N_LABELS)) / 2
    n_labels = np.minimum(1 + np.arange(length) // 40, N_LABELS)
    complete = rng.random(length) < 0.7
    complete[:5] = False
    listed = [rng.permutation(n)[: rng.integers(0, n + 1)] for n in n_labels]
    listed[:5] = [one[:0] for one in listed[:5]]
    targets = Targets(
        indptr=np.cumsum([0, *map(len, listed)], dtype=np.int64),
        indices=np.concatenate(listed).astype(np.int32),
        signs=rng.choice(np.array([-1, 1], dtype=np.int8), size=sum(map(len, listed))),
        complete=complete,
        n_labels=n_labels,
        weights=rng.choice([1.0, 0.5, 3.25], size=length),
    )
    return scores, targets, np.maximum(n_labels - (rng.random(length) < 0.3), 0)


STREAM = stream()


def test_the_compiled_counts_have_the_metrics_of_the_table() -> None:
    counted = _prequential.DEPTHS, _prequential.N_BASIC, _prequential.N_MEASURES
    assert counted == (DEPTHS, len(WITH_HISTORY), len(STREAMED))


def feed(prequential: Prequential, begin: int, end: int) -> None:
    scores, targets, n_known = STREAM
    prequential.update(scores[begin:end], targets.part(begin, end), n_known[begin:end])


def bits(prequential: Prequential) -> bytes:
    return State(prequential.state(), {}).to_bytes()


def test_each_point_is_what_the_measures_were() -> None:
    prequential, shown = Prequential(window=50), []
    for at in range(LENGTH):
        feed(prequential, at, at + 1)
        shown.append(prequential.measures())
        if at in (0, 5, MAX_POINTS - 2, MAX_POINTS - 1, MAX_POINTS, 2 * MAX_POINTS - 1, LENGTH - 1):
            check_history(prequential, shown)


def check_history(prequential: Prequential, shown: list[dict[str, Any]]) -> None:
    past = prequential.history()
    stride = stride_of(len(shown))
    assert past.stride == stride
    assert past.given == sorted({*range(stride, len(shown) + 1, stride), len(shown)})
    for number, covered, measures in zip(past.given, past.covered, past.measures, strict=True):
        then = shown[number - 1]
        assert covered == then["cumulative"]["examples"]
        for part, name in enumerate(("cumulative", "window")):
            for whose, due in enumerate((then[name], then[name]["baseline"])):
                assert measures[whose, part].tolist() == [due[measure] or 0.0 for measure in WITH_HISTORY]


@pytest.fixture(scope="module")
def one_by_one() -> dict[int, bytes]:
    """The state after each example, given alone."""
    prequential, states = Prequential(window=50), {}
    for at in range(LENGTH):
        feed(prequential, at, at + 1)
        if at % 7 == 0 or at == LENGTH - 1:
            states[at + 1] = bits(prequential)
    return states


@given(cuts=st.sets(st.integers(1, LENGTH - 1), max_size=12), stored=st.booleans())
def test_points_do_not_depend_on_batches(one_by_one: dict[int, bytes], cuts: set[int], stored: bool) -> None:
    prequential, begin = Prequential(window=50), 0
    for end in [*sorted(cuts), LENGTH]:
        feed(prequential, begin, end)
        if stored:
            other = Prequential(window=50)
            other.restore(prequential.state())
            prequential = other
        if end in one_by_one:
            assert bits(prequential) == one_by_one[end]
        begin = end


def test_labels_in_parts_add_points() -> None:
    prequential, shown = Prequential(), []
    scores, n_known = np.array([[0.0, 1.0, -1.0]]), np.array([2])
    for number in range(4):
        before = None
        for label in range(2):
            part = Targets(
                indptr=np.array([0, 1], dtype=np.int64),
                indices=np.array([label], dtype=np.int32),
                signs=np.array([1 if number % 2 else -1], dtype=np.int8),
                complete=np.array([False]),
                n_labels=np.array([2], dtype=np.int64),
                weights=np.zeros(0),
            )
            before = prequential.update_part(scores, part, n_known, before)
            shown.append(prequential.measures())
    assert len(shown) == prequential.given == 8
    check_history(prequential, shown)


@given(given=st.integers(0, 2**50))
def test_points_are_bounded_and_no_fewer_than_half(given: int) -> None:
    stride = stride_of(given)
    assert given // stride < MAX_POINTS
    assert stride == 1 or given // stride >= MAX_POINTS // 2
    assert stride & (stride - 1) == 0


def test_memory_is_bounded() -> None:
    n_labels, held = 50, []
    rng = np.random.default_rng(1)
    prequential, before = Prequential(window=1), Prequential(window=1)
    before.update(np.zeros((1, 1 + n_labels)), _complete(rng, 1, n_labels), np.array([n_labels]))
    for _ in range(40):
        scores = rng.normal(size=(100, 1 + n_labels))
        prequential.update(scores, _complete(rng, 100, n_labels), np.full(100, n_labels))
        held.append(prequential.nbytes - before.nbytes)
    assert max(held) <= MAX_POINTS * 296 + 16 * MAX_ALARMS + 4_000


def _complete(rng: np.random.Generator, n: int, n_labels: int) -> Targets:
    listed = rng.integers(0, n_labels, size=(n, 1)).astype(np.int32)
    return Targets(
        indptr=np.arange(n + 1, dtype=np.int64),
        indices=listed.ravel(),
        signs=np.ones(n, dtype=np.int8),
        complete=np.ones(n, dtype=np.bool_),
        n_labels=np.full(n, n_labels, dtype=np.int64),
        weights=np.zeros(0),
    )


def test_alarms_are_the_latest() -> None:
    prequential = Prequential()
    feed(prequential, 0, LENGTH)
    for number in range(LENGTH - MAX_ALARMS - 10, LENGTH):
        prequential.note_alarm(number, number % (1 + N_LABELS))
    due = [(number, number % (1 + N_LABELS)) for number in range(LENGTH - MAX_ALARMS, LENGTH)]
    assert prequential.alarms == due
    other = Prequential()
    other.restore(prequential.state())
    assert other.alarms == due


def test_history_without_examples_is_empty() -> None:
    past = Prequential().history()
    assert (past.stride, past.given, past.covered, past.measures.shape) == (1, [], [], (0, 2, 2, len(WITH_HISTORY)))


Arrays = dict[str, Any]


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[Arrays], None]:
    def apply(arrays: Arrays) -> None:
        arrays[name] = np.asarray(change(arrays[name].copy()), dtype=arrays[name].dtype)

    return apply


def put(*at: int | slice, value: float) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[at] = value
        return array

    return change


@for_each(
    ("change", "names"),
    [
        (changed("points", lambda points: points[:-1]), "points"),
        (changed("points", lambda points: np.concatenate([points, points])), "points"),
        (changed("points", put(9, 0, 0, 0, value=1.5)), "points"),
        (changed("points", put(9, 0, 0, 0, value=-0.5)), "points"),
        (changed("points", put(9, 0, 0, 0, value=np.nan)), "points"),
        (changed("points", put(0, 0, 0, 0, value=0.5)), "points"),
        (changed("covered", lambda covered: covered[:-1]), "points"),
        (changed("covered", lambda covered: covered[::-1]), "covered"),
        (changed("covered", put(slice(-3, None), value=LENGTH + 1)), "covered"),
        (changed("covered", put(9, value=100)), "covered"),
        (changed("covered", put(9, value=-(2**63))), "covered"),
        (changed("alarms", lambda alarms: alarms[::-1]), "alarms"),
        (changed("alarms", put(0, 1, value=1 + N_LABELS)), "alarms"),
        (changed("alarms", put(0, 1, value=-1)), "alarms"),
        (changed("alarms", put(-1, 0, value=LENGTH + 1)), "alarms"),
        (changed("alarms", lambda alarms: np.repeat(alarms, MAX_ALARMS, axis=0)), "alarms"),
        (lambda arrays: arrays.pop("covered"), "covered"),
    ],
    ids=range(17),
)
def test_a_forged_past_is_refused(change: Callable[[Arrays], None], names: str) -> None:
    prequential = Prequential()
    feed(prequential, 0, LENGTH)
    for number in (5, 9, 12):
        prequential.note_alarm(number, 1)
    arrays = prequential.state()
    Prequential().restore(arrays)
    change(arrays)
    with pytest.raises(ValueError, match=f"^{names}: "):
        Prequential().restore(arrays)
