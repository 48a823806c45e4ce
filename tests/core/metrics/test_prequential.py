"""Prequential measures: against loops over the definitions, against the batch measures, and to the bit."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.cases import for_each

from manylabel_core import metrics
from manylabel_core.metrics import Prequential
from manylabel_core.metrics.measures import MEASURES
from manylabel_core.metrics.prequential import PartialTruth, pooled
from manylabel_core.rows import Targets, as_targets
from manylabel_core.state import State

NAMES = [
    "precision",
    "recall",
    "f1",
    "micro_f1",
    "macro_f1",
    "hamming_loss",
    "one_error",
    "ranking_loss",
    "subset_accuracy",
    *(f"{name}_at_{k}" for name in ("precision", "f1", "ndcg") for k in (1, 5, 10, 100)),
]


class Example(NamedTuple):
    scores: list[float]  # the threshold, then a score for each label that exists when the batch ends
    truth: dict[int, bool]  # what was listed
    complete: bool
    n_labels: int
    n_known: int
    weight: float = 1.0


@st.composite
def streams(draw: st.DrawFn) -> list[Example]:
    """Labels appear as the stream goes; few different scores, so that many tie."""
    stream: list[Example] = []
    n_labels = draw(st.integers(0, 3))
    for _ in range(draw(st.integers(0, 14))):
        n_known = draw(st.integers(0, n_labels) if draw(st.booleans()) else st.just(n_labels))
        n_labels += draw(st.sampled_from([0, 0, 0, 1, 3]))
        listed = draw(st.lists(st.integers(0, n_labels - 1), unique=True)) if n_labels else []
        truth = {label: draw(st.booleans()) for label in listed}
        scores = draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=30, max_size=30))
        weight = draw(st.sampled_from([1.0, 1.0, 0.5, 3.25, 1000.0]))
        stream.append(Example(scores, truth, draw(st.booleans()), n_labels, n_known, weight))
    return stream


def feed(prequential: Prequential, batch: list[Example], dtype: type = np.float64) -> None:
    prequential.update(*given_of(*batch, dtype=dtype))


def given_of(*batch: Example, dtype: type = np.float64) -> tuple[np.ndarray, Targets, np.ndarray]:
    width = max((example.n_labels for example in batch), default=0)
    scores = np.array([np.resize(example.scores, 1 + width) for example in batch], dtype=dtype)
    targets = Targets(
        indptr=np.cumsum([0, *(len(example.truth) for example in batch)], dtype=np.int64),
        indices=np.array([label for example in batch for label in example.truth], dtype=np.int32),
        signs=np.array([2 * sign - 1 for example in batch for sign in example.truth.values()], dtype=np.int8),
        complete=np.array([example.complete for example in batch], dtype=np.bool_),
        n_labels=np.array([example.n_labels for example in batch], dtype=np.int64),
        weights=np.array([example.weight for example in batch]),
    )
    n_known = np.array([example.n_known for example in batch], dtype=np.int64)
    return scores.reshape(len(batch), 1 + width), targets, n_known


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def frequent(stream: list[Example]) -> list[Example]:
    """The same examples, scored by how frequent their labels were in those before: a label is predicted when that is
    more than half the best micro F1 of predicting some of the labels each time."""
    rated: list[Example] = []
    existed = 0
    positive, told = defaultdict[int, Fraction](Fraction), defaultdict[int, Fraction](Fraction)
    for example in stream:
        shares = {label: positive[label] / (told[label] or 1) for label in range(existed)}
        total, best, chosen = sum(positive.values()), Fraction(0), list[int]()
        for label in sorted(shares, key=lambda label: -shares[label]):
            chosen.append(label)
            if total:
                hits = sum(positive[one] for one in chosen)
                best = max(best, Fraction(2 * hits, sum(told[one] for one in chosen) + total))
        scores = [float(best / 2), *(float(share) for share in shares.values())]
        rated.append(example._replace(scores=scores + [0.0] * (example.n_labels - existed), n_known=existed))
        for label in range(100):
            weight = Fraction(example.weight)
            told[label] += weight * (example.complete or label in example.truth)
            positive[label] += weight * example.truth.get(label, False)
        existed = max(existed, example.n_labels)
    return rated


def due(stream: list[Example], last: int | None = None) -> dict[str, Any]:
    """The measures of the last of the examples of which something is known, and of the baseline."""
    n_labels = max((example.n_labels for example in stream), default=0)
    judged = [example for example in stream if example.truth or (example.complete and example.n_labels)]
    if not judged:
        return {"examples": 0, **dict.fromkeys(NAMES), "baseline": dict.fromkeys(NAMES)}
    rated = [one for one, example in zip(frequent(stream), stream, strict=True) if example in judged]
    measures, baseline = (defined(some[-(last or len(some)) :], n_labels) for some in (judged, rated))
    del baseline["examples"]
    return {**measures, "baseline": baseline}


def assert_measures(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The same within rounding, at both levels."""
    if not expected["examples"]:
        assert found == expected
        return
    assert found["baseline"] == pytest.approx(expected["baseline"], rel=1e-12)
    one, other = ({name: value for name, value in m.items() if name != "baseline"} for m in (found, expected))
    assert one == pytest.approx(other, rel=1e-12)


def defined(stream: list[Example], n_labels: int) -> dict[str, float]:
    """The measures from their definitions; only examples of which something is known."""
    terms: list[list[float]] = []
    weights: list[float] = []
    with_truth: list[float] = []
    counts = np.zeros((n_labels, 3))
    for example in stream:
        others = range(example.n_labels) if example.complete else ()
        truth = dict.fromkeys(others, False) | example.truth
        threshold, s = example.scores[0], np.resize(example.scores, 1 + example.n_labels)[1:]
        y = {label for label, relevant in truth.items() if relevant}
        p = {label for label in truth if label < example.n_known and s[label] > threshold}
        ranked = [label for label in truth if label < example.n_known]
        pairs = [(s[j], s[k]) for j in ranked for k in ranked if j in y and k not in y]
        best = [j for j in ranked if j in y and all(s[j] > s[k] for k in ranked if k not in y)]
        if truth:
            hits = len(y & p)
            wrong = len(y ^ p)
            misranked = sum(a <= b for a, b in pairs)
            weights.append(example.weight)
            terms.append(
                [
                    ratio(hits, len(p)),
                    ratio(hits, len(y)),
                    wrong / len(truth),
                    not best,
                    ratio(misranked, len(pairs)),
                    not wrong,
                    *best_of(y, {label: s[label] for label in ranked}),
                ]
            )
            with_truth.append(example.weight * bool(y))
            for label in truth:
                counts[label] += example.weight * np.array([label in y & p, label in p - y, label in y - p])
    precision, recall, hamming, one, ranking, subset, *best = (
        np.average(terms, axis=0, weights=weights) if terms else [0.0] * 18
    )
    best[8:] = [ratio(value * sum(weights), sum(with_truth)) for value in best[8:]]
    tp, fp, fn = counts.sum(axis=0)
    return {
        "examples": len(terms),
        "precision": precision,
        "recall": recall,
        "f1": ratio(2 * precision * recall, precision + recall),
        "micro_f1": ratio(2 * tp, 2 * tp + fp + fn),
        "macro_f1": ratio(sum(ratio(2 * a, 2 * a + b + c) for a, b, c in counts), n_labels),
        "hamming_loss": hamming,
        "one_error": one,
        "ranking_loss": ranking,
        "subset_accuracy": subset,
        **dict(zip(NAMES[9:], best, strict=True)),
    }


def best_of(y: set[int], scores: dict[int, float]) -> list[float]:
    """P@k, F1@k and NDCG@k of one example, by the order of the labels that is worst where scores tie."""
    order = sorted(scores, key=lambda label: (-scores[label], label in y))
    discounts = [1 / math.log2(2 + place) for place in range(100)]
    hits = [sum(label in y for label in order[:k]) for k in (1, 5, 10, 100)]
    gains = [sum(discounts[at] for at, label in enumerate(order[:k]) if label in y) for k in (1, 5, 10, 100)]
    return [
        *(n / k for n, k in zip(hits, (1, 5, 10, 100), strict=True)),
        *(2 * n / (k + len(y)) for n, k in zip(hits, (1, 5, 10, 100), strict=True)),
        *(ratio(gain, sum(discounts[: min(k, len(y))])) for gain, k in zip(gains, (1, 5, 10, 100), strict=True)),
    ]


def same_bits(one: Prequential, other: Prequential) -> bool:
    a, b = one.state(), other.state()
    return a.keys() == b.keys() and all(
        a[name].dtype == b[name].dtype and a[name].shape == b[name].shape and a[name].tobytes() == b[name].tobytes()
        for name in a
    )


@given(streams(), st.integers(1, 6))
def test_measures_follow_the_definitions(stream: list[Example], window: int) -> None:
    prequential = Prequential(window)
    feed(prequential, stream)
    measures = prequential.measures()
    assert_measures(measures["cumulative"], due(stream))
    assert measures["window"].pop("size") == window
    assert_measures(measures["window"], due(stream, window))


@given(streams(), st.integers(1, 6), st.lists(st.integers(0, 14), max_size=4), st.booleans())
def test_grouping_and_restores_do_not_change_a_bit(
    stream: list[Example], window: int, cuts: list[int], restored: bool
) -> None:
    whole, grouped = Prequential(window), Prequential(window)
    feed(whole, stream, np.float32)
    for start, stop in pairwise([0, *sorted(cuts), 14]):
        feed(grouped, stream[start:stop])
        if restored:
            arrays, grouped = State.from_bytes(State(grouped.state(), {}).to_bytes()).arrays, Prequential(window)
            grouped.restore(arrays)
    assert same_bits(grouped, whole)
    assert grouped.measures() == whole.measures()


@given(streams(), st.integers(1, 6), st.data())
def test_labels_in_parts_count_as_labels_at_once(stream: list[Example], window: int, data: st.DataObject) -> None:
    """Other examples come between the parts; the prediction of the example does not change."""
    partial = [at for at, example in enumerate(stream) if not example.complete and len(example.truth) > 1]
    at = data.draw(st.sampled_from(partial)) if partial else None
    assume(at is not None)
    one, others = stream[at], stream[at + 1 :]
    told = list(one.truth.items())
    cut, later = data.draw(st.integers(1, len(told) - 1)), data.draw(st.integers(0, len(others)))
    whole, parts = Prequential(window), Prequential(window)
    feed(whole, stream)
    feed(parts, stream[:at])
    first = parts.update_part(*given_of(one._replace(truth=dict(told[:cut]))))
    assert first is not None
    feed(parts, others[:later])
    restored = Prequential(window)
    restored.restore(State.from_bytes(State(parts.state(), {}).to_bytes()).arrays)
    restored.check_parts([first])
    second = restored.update_part(*given_of(one._replace(truth=dict(told[cut:]))), first)
    assert second is not None
    restored.check_parts([second])
    restored.restore(State.from_bytes(State(restored.state(), {}).to_bytes()).arrays)
    feed(restored, others[later:])
    # The baseline of a partial label depends on the frequencies when the label arrived.
    for period in ("cumulative", "window"):
        found, expected = (one.measures()[period] | {"baseline": {}} for one in (restored, whole))
        assert_measures(found, expected)


def test_forged_parts_are_refused() -> None:
    prequential = Prequential(3)
    feed(prequential, [Example([0.0, 1.0, -1.0], {0: True}, False, 2, 2)])
    known = PartialTruth(1, np.array([0], np.int32), np.array([True]), np.array([[1.0], [np.nan]]))
    prequential.check_parts([known])
    for forged in (
        known._replace(number=0),
        known._replace(number=2),
        known._replace(weight=1),
        known._replace(labels=np.array([7], np.int32)),
        known._replace(labels=np.array([-1], np.int32)),
        known._replace(labels=np.array([1], np.int32)),
        known._replace(truth=np.array([False])),
        known._replace(margins=np.array([[-1.0], [np.nan]])),
        known._replace(margins=np.array([[1.0], [1.0]])),
    ):
        with pytest.raises(ValueError, match="parts"):
            prequential.check_parts([forged])


def _random(n: int, n_labels: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, n_labels)) < rng.choice([0.0, 0.05, 0.4, 1.0], size=(n, 1))).astype(np.int8)
    scores = rng.integers(-4, 5, size=(n, 1 + n_labels)) + np.column_stack([np.zeros(n), 2 * Y])
    return Y, scores.astype(np.float32)


def _batch(Y: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    P, S = scores[:, 1:] > scores[:, :1], scores[:, 1:]
    ranked = ("one_error", "ranking_loss")
    values = {name: getattr(metrics, name)(Y, S if name in ranked else P) for name in NAMES[:9]}
    return values | {name: MEASURES[name](Y, S) for name in NAMES[9:]}


@for_each(("n", "n_labels", "window"), [(3_000, 23, 70), (300, 400, 90), (40, 5, 40), (40, 5, 41)])
def test_values_equal_those_of_the_batch_metrics(n: int, n_labels: int, window: int) -> None:
    Y, scores = _random(n, n_labels, seed=n)
    prequential = Prequential(window)
    for rows in np.array_split(np.arange(n), 37):
        prequential.update(scores[rows], as_targets(Y[rows]), np.full(len(rows), n_labels))
    measures = prequential.measures()
    assert measures["cumulative"].pop("baseline").keys() == measures["window"].pop("baseline").keys() == set(NAMES)
    assert measures["cumulative"] == pytest.approx({"examples": n, **_batch(Y, scores)}, rel=1e-12)
    recent = {"size": window, "examples": min(n, window), **_batch(Y[-window:], scores[-window:])}
    assert measures["window"] == pytest.approx(recent, rel=1e-12)


def test_the_window_does_not_drift() -> None:
    n, window, n_labels = 20_021, 50, 11
    Y, scores = _random(n, n_labels, seed=1)
    long, short = Prequential(window), Prequential(window)
    for prequential, rows in ((long, slice(None)), (short, slice(n - window, None))):
        prequential.update(scores[rows], as_targets(Y[rows]), np.full(len(Y[rows]), n_labels))
    windows = [one.measures()["window"] for one in (long, short)]
    for window in windows:
        del window["baseline"]  # the baseline depends on all earlier examples
    assert windows[0] == windows[1]


def test_memory_is_bounded_by_the_window() -> None:
    n, window, n_labels = 200, 30, 40
    Y, scores = _random(n, n_labels, seed=2)
    prequential = Prequential(window)
    held = []
    for _ in range(20):
        prequential.update(scores, as_targets(Y), np.full(n, n_labels))
        names = "covered", "points", "bins"
        past = [prequential.state()[name].nbytes for name in names]
        held.append(prequential.nbytes - sum(past))
    assert held[1:] == held[:1] * 19
    found = sorted(((scores[:, 1:] > scores[:, :1]) | (Y > 0)).sum(axis=1).tolist())
    assert held[0] <= 4 * (4 * sum(found[-window:]) + 9 * 8 * window + 2 * 3 * 8 * n_labels) + 32 * n_labels + 700
    empty = Prequential(10**12)
    assert empty.nbytes - empty.state()["bins"].nbytes < 7_000


def test_metrics_are_python_numbers() -> None:
    prequential = Prequential()
    prequential.update(np.array([[0.0, 1.0, -1.0]]), as_targets([[1, 1]]), np.array([2]))
    for measures in prequential.measures().values():
        assert {type(measures.pop(name)) for name in ("examples", "size") if name in measures} == {int}
        assert {type(value) for value in measures.pop("baseline").values()} == {float}
        assert {type(value) for value in measures.values()} == {float}


def test_the_smallest_weight_counts() -> None:
    prequential = Prequential()
    feed(prequential, [Example([0.0, 1.0], {0: True}, True, 1, 1, weight=1e-300)])
    assert prequential.measures()["cumulative"]["micro_f1"] == 1.0


def test_arrays_may_be_read_only_or_strided() -> None:
    Y, scores = _random(20, 6, seed=3)
    plain, other = Prequential(), Prequential()
    targets, n_known = Targets(*(array.copy() for array in as_targets(Y))), np.full(20, 6)  # others use NO_WEIGHTS too
    plain.update(scores, targets, n_known)
    wide = np.zeros((20, 14), dtype=np.float32)
    wide[:, ::2] = scores
    for array in (wide, n_known, *targets):
        array.flags.writeable = False
    other.update(wide[:, ::2], targets, n_known)
    assert same_bits(other, plain)


GOOD = as_targets([[1, 0, 1], [0, 1, 0]])


@for_each(
    ("targets", "n_known", "shape"),
    [
        (GOOD, [3, 3], (2, 3)),
        (GOOD, [3, 3], (1, 4)),
        (GOOD, [3, 3], (8,)),
        (GOOD, [3, 3], (2, 0)),
        (GOOD, [3], (2, 4)),
        (GOOD, [4, 3], (2, 5)),
        (GOOD, [3, -1], (2, 4)),
        (GOOD._replace(indices=np.array([0, 3, 1], np.int32)), [3, 3], (2, 4)),
        (GOOD._replace(indices=np.array([0, 2, -1], np.int32)), [3, 3], (2, 4)),
        (GOOD._replace(indices=np.array([0, 2], np.int32)), [3, 3], (2, 4)),
        (GOOD._replace(indptr=np.array([0, 3, 2])), [3, 3], (2, 4)),
        (GOOD._replace(indptr=np.array([0, 2, 4])), [3, 3], (2, 4)),
        (GOOD._replace(indptr=np.array([-1, 2, 3])), [3, 3], (2, 4)),
        (GOOD._replace(indptr=np.array([0, 3])), [3, 3], (2, 4)),
        (GOOD._replace(complete=np.array([True])), [3, 3], (2, 4)),
        (GOOD._replace(n_labels=np.array([3, 1])), [0, 0], (2, 4)),
        (GOOD._replace(n_labels=np.array([3, 4])), [3, 3], (2, 4)),
        (GOOD._replace(n_labels=np.array([1, 3])), [1, 3], (2, 4)),
        (GOOD._replace(indices=np.array([0, 0, 1], np.int32), n_labels=np.array([1, 3])), [1, 3], (2, 4)),
    ],
    ids=range(19),
)
def test_bad_input_changes_nothing(targets: Targets, n_known: list[int], shape: tuple[int, ...]) -> None:
    prequential, untouched = Prequential(), Prequential()
    for one in (prequential, untouched):
        one.update(np.zeros((2, 4)), GOOD, np.array([3, 3]))
    with pytest.raises(ValueError, match=r"^(targets|scores)"):
        prequential.update(np.zeros(shape), targets, np.array(n_known))
    assert same_bits(prequential, untouched)


@for_each(
    ("change", "field"),
    [
        (lambda arrays: {"window": np.array([4])}, "window"),
        (lambda arrays: {"window": np.zeros(0, np.int64)}, "window"),
        (lambda arrays: {"counts": arrays["counts"][:, :, :2]}, "counts"),
        (lambda arrays: {"counts": arrays["counts"] - np.array([0, 1])[:, None, None]}, "counts"),
        (lambda arrays: {"seen": arrays["seen"][:2]}, "seen"),
        (lambda arrays: {"seen": arrays["seen"] - 1}, "seen"),
        (lambda arrays: {"seen": arrays["seen"] + [0, 6, 6]}, "seen"),
        (lambda arrays: {"seen": arrays["seen"][:, ::-1].copy()}, "seen"),
        (lambda arrays: {"baseline_codes": arrays["baseline_codes"] ^ 1}, "codes"),
        (lambda arrays: {"totals": arrays["totals"] + [[0] * 8, [1, 0, 0, 0, 0, 0, 0, 0]]}, "totals"),
        (lambda arrays: {"totals": arrays["totals"] + [0, 0, 0, 0, 0, 2**40, 0, 0]}, "totals"),
        (lambda arrays: {"counts": arrays["counts"][:, :2]}, "totals"),
        (lambda arrays: {"counts": arrays["counts"].astype(float)}, "counts"),
        (lambda arrays: {"totals": arrays["totals"][:1]}, "totals"),
        (lambda arrays: {"sums": arrays["sums"][None]}, "sums"),
        (lambda arrays: {"ring": arrays["ring"][:, :2]}, "totals"),
        (lambda arrays: {"ring": -arrays["ring"]}, "ring"),
        (lambda arrays: {"ring": np.repeat(arrays["ring"], 2, axis=1)}, "totals"),
        (lambda arrays: {"codes": arrays["codes"][1:]}, "codes"),
        (lambda arrays: {"codes": arrays["codes"] + 4}, "codes"),
        (lambda arrays: {"codes": arrays["codes"] | 3}, "codes"),
        (lambda arrays: {"codes": -arrays["codes"]}, "codes"),
        (lambda arrays: {"codes": None}, "codes"),
        (lambda arrays: {"totals": arrays["totals"] - [6, 0, 0, 0, 0, 0, 0, 0]}, "totals"),
        (lambda arrays: {"totals": arrays["totals"] + [0, 9 * 2**16, 0, 0, 0, 0, 0, 0]}, "totals"),
        (lambda arrays: {"totals": arrays["totals"] + [2**53, 0, 0, 0, 0, 0, 0, 0]}, "totals"),
        (lambda arrays: {"totals": arrays["totals"] - [0, 0, 0, 5 * 2**16, 0, 0, 0, 0]}, "totals"),
        (lambda arrays: {"totals": arrays["totals"] + [0, 0, 0, 2**40, 0, 0, 0, 0]}, "totals"),
        (lambda arrays: {"counts": arrays["counts"] - 2**20}, "counts"),
        (lambda arrays: {"counts": arrays["counts"] * 0}, "groups"),
        (lambda arrays: {"sums": arrays["sums"] * np.nan}, "sums"),
        (lambda arrays: {"sums": arrays["sums"] + 6}, "sums"),
        # Sums of such numbers wrap around.
        (lambda arrays: {"ring": arrays["ring"] + [2**62, 2**62, 2**62, 0, 0, 0, 0, 0, 0, 0]}, "ring"),
        (lambda arrays: {"ring": arrays["ring"] + [0, 0, 0, 4, 0, 0, 0, 0, 0, 0]}, "ring"),
        (lambda arrays: {"ring": arrays["ring"] - [0, 0, 0, 3, 0, 0, 0, 0, 0, 0]}, "ring"),
        (lambda arrays: {"ring": arrays["ring"] + [0, 0, 0, 0, 9, 0, 0, 0, 0, 0]}, "ring"),
        (lambda arrays: {"ring": arrays["ring"] + [0, 0, 0, 0, 0, 2**40, 0, 0, 0, 0]}, "ring"),
        (lambda arrays: {"ring": arrays["ring"] + [0, 0, 0, 0, 0, 0, 2, 0, 0, 0]}, "ring"),
        (lambda arrays: {"ring": arrays["ring"] - [0, 0, 0, 0, 0, 0, 0, 0, 0, 2**16]}, "ring"),
        (lambda arrays: {"ring": arrays["ring"] + [0, 0, 0, 0, 0, 0, 0, 0, 0, 2**26]}, "ring"),
        (lambda arrays: {"ring": arrays["ring"] + [0, 0, 0, 0, 0, 0, 0, 0, 0, 2**20]}, "codes"),
        (lambda arrays: {"ring": np.roll(arrays["ring"], 1, axis=2)}, "ring"),
        (lambda arrays: {"codes": arrays["codes"] ^ 1}, "codes"),
        # Codes that continue a label with the same outcome: without such a label, twice, after the last label, and in
        # another example.
        (lambda arrays: {"codes": np.insert(arrays["codes"], 0, np.int32(-1))}, "codes"),
        (lambda arrays: {"codes": np.insert(arrays["codes"], 1, np.array([-1, -1], np.int32))}, "codes"),
        (lambda arrays: {"codes": np.insert(arrays["codes"], 1, np.int32(-(2**31)))}, "codes"),
        (lambda arrays: {"codes": np.array([1, -3], np.int32)}, "codes"),
        (lambda arrays: {"ring": arrays["ring"] + [0, 0, 0, 0, 0, 0, 0, 2**12, 0, 0]}, "ring"),
        (lambda arrays: {"ring": arrays["ring"] + [0, 0, 0, 0, 0, 0, 0, 0, 2**52, 0]}, "ring"),
        (lambda arrays: {"ring": arrays["ring"] + [0, 0, 0, 0, 0, 0, 0, 2**5, 0, 0]}, "ring"),
        (lambda arrays: {"totals": arrays["totals"] + [0, 0, 0, 0, 2**40, 0, 0, 0]}, "totals"),
        (lambda arrays: {"groups": arrays["groups"] + 1}, "groups"),
        (lambda arrays: {"groups": arrays["groups"] - [[2**20], [-(2**20)], [0], [0]]}, "groups"),
    ],
    ids=range(53),
)
def test_a_bad_state_changes_nothing(change: Any, field: str) -> None:
    Y, scores = _random(5, 3, seed=4)
    Y[:, 2], scores[:, 0] = 1, -9
    prequential, untouched = Prequential(3), Prequential(3)
    for one in (prequential, untouched):
        one.update(scores, as_targets(Y), np.full(5, 3))
    given = prequential.state() | change(prequential.state())
    arrays = {name: array for name, array in given.items() if array is not None}
    with pytest.raises(ValueError, match=f"^{field}: "):
        prequential.restore(arrays)
    assert same_bits(prequential, untouched)


def test_the_first_example_may_have_many_labels() -> None:
    n = 1_000
    Y = np.arange(2 * n).reshape(2, n) % 3 == 0
    scores = np.column_stack([np.zeros(2), np.where(np.arange(2 * n).reshape(2, n) % 2, 1.0, -1.0)])
    prequential = Prequential()
    prequential.update(scores, as_targets(Y.astype(int)), np.full(2, n))
    counts = prequential.labels()
    np.testing.assert_array_equal(counts.window, counts.cumulative)
    np.testing.assert_array_equal(counts.cumulative[:, 0], (Y & (scores[:, 1:] > 0)).sum(axis=0))
    assert prequential.nbytes < 2_000_000


def test_a_label_seen_once_takes_at_most_400_bytes() -> None:
    n_labels, step = 10_000, 400
    prequential, empty = Prequential(), Prequential()
    for begin in range(0, n_labels, step):
        # No label is more frequent than another, so the baseline predicts all of them for each example.
        new = np.arange(begin, begin + step)
        targets = Targets(
            indptr=np.arange(step + 1),
            indices=new.astype(np.int32),
            signs=np.ones(step, dtype=np.int8),
            complete=np.ones(step, dtype=np.bool_),
            n_labels=1 + new,
            weights=np.zeros(0),
        )
        scores = np.full((step, 1 + begin + step), -1.0)
        scores[:, 0] = 0.0
        prequential.update(scores, targets, new, np.full((step, begin + step), 0.01))
    assert prequential.labels().relevant.tolist() == [1] * n_labels
    assert prequential.measures()["window"]["baseline"]["hamming_loss"] > 0.99
    assert prequential.nbytes - empty.nbytes <= 400 * n_labels
    restored = Prequential()
    restored.restore(prequential.state())
    assert restored.nbytes - empty.nbytes <= 400 * n_labels
    assert same_bits(restored, prequential)


def test_state_shares_no_memory() -> None:
    Y, scores = _random(9, 3, seed=6)
    prequential, other = Prequential(4), Prequential(4)
    prequential.update(scores, as_targets(Y), np.full(9, 3))
    arrays = prequential.state()
    other.restore(arrays)
    before = {name: array.copy() for name, array in arrays.items()}
    for array in arrays.values():
        array[...] = 1
    for each in (prequential, other):
        for name, array in each.state().items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_holds_at_least_one_example(window: int) -> None:
    with pytest.raises(ValueError, match="window must be at least 1"):
        Prequential(window)


def test_outcomes_by_how_often_a_label_was_seen() -> None:
    prequential = Prequential()
    truths = [Example([0.0, 1.0, -1.0], {0: at % 2 == 0, 1: True}, True, 2, 2) for at in range(30)]
    feed(prequential, truths)
    groups = prequential.by_seen()
    assert list(groups) == ["never", "below_5", "below_20", "more"]
    # Label 0 is always predicted, and true in every second example; label 1 is always true, and never predicted.
    assert groups["never"] == {"true": 2, "precision": 1.0, "recall": 0.5, "f1": 2 / 3}
    assert groups["below_5"]["true"] == 4 + 4  # each of them is the second to the fifth time
    assert groups["below_20"]["true"] == 10 + 15
    assert groups["more"]["true"] == 10
    assert groups["more"]["recall"] == 0.0
    restored = Prequential()
    restored.restore(prequential.state())
    assert restored.by_seen() == groups


def test_outcomes_in_parts_belong_to_the_group_of_their_label() -> None:
    prequential = Prequential()
    one = Example([0.0, 1.0, -1.0], {0: True}, False, 2, 2)
    first = prequential.update_part(*given_of(one))
    prequential.update_part(*given_of(one._replace(truth={1: True})), first)
    assert prequential.by_seen()["never"] == {"true": 2, "precision": 1.0, "recall": 0.5, "f1": 2 / 3}


@given(streams(), st.sets(st.integers(0, 40)))
def test_hidden_labels_leave_macro_f1_and_nothing_else(stream: list[Example], hidden: set[int]) -> None:
    prequential = Prequential(window=5)
    feed(prequential, stream)
    before, labels = prequential.measures(), prequential.labels()
    prequential.hidden = hidden
    after = prequential.measures()
    for part, counts in (("cumulative", labels.cumulative), ("window", labels.window)):
        if not after[part]["examples"]:
            continue
        shown = [pooled(own)["f1"] for label, own in enumerate(counts) if label not in hidden]
        assert after[part].pop("macro_f1") == pytest.approx(sum(shown) / len(shown) if shown else 0.0)
        baselines = before[part]["baseline"], after[part]["baseline"]
        for measures in (before[part], *baselines):
            measures.pop("macro_f1", None)
    assert after == before or not after["cumulative"]["examples"]
