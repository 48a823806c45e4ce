"""Titles of labels as evidence: against a transcription of Eq. (10e), and the promises of every learner."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.core.online.models.test_stack import (
    ALONE,
    DOUBLE,
    MAKERS,
    learn,
    margins_of,
    plain_stack,
    stream,
)
from tests.support.cases import for_each

from manylabel_core import FALT, SALT, KernelFALT, KernelSALT, PassiveAggressive
from manylabel_core.explanation import NotLinear
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.models.stack.titles import MAX_TITLE_WORDS
from manylabel_core.online.models.stack.titles import Titles as TitleIndex
from manylabel_core.rows import Rows, Targets, as_rows

Array = NDArray[np.float64]
Titles = dict[int, list[int]]

N_LABELS, N_WORDS = 6, 8
"""Numbers of labels and words of `texts`; features 2k and 2k + 1 are word k in two fields."""


def texts(seed: int = 0, n: int = 300) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Texts with words in two fields, rare and frequent ones; label l has word l of its title where it is true."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, N_LABELS)) < 0.2).astype(np.int64)
    words = rng.random((n, N_WORDS)) < np.linspace(0.05, 0.7, N_WORDS)
    words[:, :N_LABELS] |= Y.astype(bool) & (rng.random((n, N_LABELS)) < 0.7)
    X = np.zeros((n, 2 * N_WORDS), np.float32)
    X[:, ::2], X[:, 1::2] = words * (rng.random(words.shape) < 0.8), words * (rng.random(words.shape) < 0.4)
    return X * rng.choice([1.0, 1.7], X.shape).astype(np.float32), Y


TITLES: Titles = {label: [label, 100 + label, N_WORDS - 1] for label in range(N_LABELS - 1)}
"""A word that says which, one that no text has, and a frequent one; the last label has no title."""

WORDS = np.repeat(np.arange(N_WORDS), 2)


def titled(make: Any = FALT, titles: Titles = TITLES, n_features: int = 2 * N_WORDS, **parameters: Any) -> Any:
    model = make(**parameters)
    model.pipeline.grow(n_features, N_LABELS)
    model.pipeline.set_titles(titles)
    model.pipeline.link(np.arange(n_features), WORDS[:n_features])
    return model


def plain_evidence(
    X: NDArray[Any], titles: Titles, words: NDArray[np.int64] = WORDS, n_labels: int = N_LABELS
) -> Array:
    """n_l of every example, before it was learnt."""
    evidence, seen, counts = np.zeros((len(X), n_labels)), np.zeros(X.shape[1]), dict.fromkeys(range(300), 0)
    for i, x in enumerate(X):
        z = x * ((i + 2) / (seen + 2)) ** 0.25
        for label, title in titles.items():
            total = sum(z[f] * (counts[words[f]] + 2) ** -0.25 for f in range(len(x)) if words[f] in title)
            own = sum((counts[word] + 2) ** -0.5 for word in title)
            if total > 0:
                evidence[i, label] = 2.0 * np.sqrt(min(1.0, total / (np.linalg.norm(z) * np.sqrt(own))))
        seen += x != 0
        for feature in np.flatnonzero(x):
            counts[words[feature]] += 1
    return evidence


def bits(model: OnlineLearner) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in model.state().items()}


@pytest.mark.parametrize(("make", "parameters"), MAKERS.values(), ids=MAKERS)
def test_a_stack_with_titles_is_the_literal_algorithm(make: Any, parameters: dict[str, Any]) -> None:
    X, Y, known = stream(1)
    weights = np.random.default_rng(5).choice([0.5, 1.0, 3.0], len(Y))
    margins, starts = margins_of(make, X, Y, known, weights)
    words, titles = [0, 0, 1, 1, 2, 3], {0: [0, 9], 1: [1, 2], 2: [3], 4: [0, 3]}
    evidence = plain_evidence(X.toarray(), titles, words, Y.shape[1])
    assert evidence.max() > 1.0
    logits, shown = plain_stack(margins, Y, known, weights, starts, evidence, list(titles))
    for settings, due in ((ALONE, logits), (DOUBLE, shown)):
        model = make(**settings, **parameters)
        model.pipeline.grow(len(words), Y.shape[1] - 1)
        model.pipeline.set_titles(titles)
        model.pipeline.link(np.arange(len(words)), words)
        found = learn(model, X, Y, known, weights)
        np.testing.assert_allclose(found[1:], due[1:], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("make", [FALT, SALT, KernelFALT, KernelSALT])
def test_grouping_growth_and_restarts_leave_no_trace(make: Any) -> None:
    X, Y = texts(n=120)
    first = np.array([np.flatnonzero(np.append(X[:, f], 1))[0] for f in range(X.shape[1])])
    X = X[:, np.argsort(first, kind="stable")]  # columns in the order of their first example
    words = WORDS[np.argsort(first, kind="stable")]
    seen = np.maximum.accumulate((X != 0) * (1 + np.arange(X.shape[1])), axis=0).max(axis=1)
    n_seen = np.maximum.accumulate(seen)

    def learnt(steps: list[int], restart: bool, room: int = 0) -> tuple[Any, list[Array]]:
        model, scores, at = make(), [], 0
        model.pipeline.grow(0, N_LABELS)
        model.pipeline.reserve(room, room)
        model.pipeline.set_titles(TITLES)
        for size in steps:
            part, before = X[at : at + size], model.n_features_
            now = int(n_seen[min(at + size, len(X)) - 1])
            rows = as_rows(part[:, : max(now, 1)])[0].without_zeros()
            if size == 1:  # a prediction, with features that were never learnt
                ends = np.array([0, int(rows.indptr[-1])])
                scores.append(model.pipeline.score(Rows(ends, rows.indices, rows.values), words[before:now])[0])
            model.pipeline.grow(now, N_LABELS)
            model.pipeline.link(np.arange(before, now), words[before:now])
            own = Y[at : at + size]
            found = np.nonzero(own)
            indptr = np.concatenate([[0], np.cumsum(own.sum(axis=1))])
            truth = Targets(
                indptr,
                found[1].astype(np.int32),
                np.ones(len(found[1]), np.int8),
                np.ones(len(own), np.bool_),
                np.full(len(own), N_LABELS),
            )
            before_learning = model.pipeline.learn(rows, truth).scores
            if size == 1:
                assert scores[-1].tobytes() == before_learning[0].tobytes()
            at += size
            if restart:
                model, old = make(), model
                model.restore(old.state())
        return model, scores

    one_by_one, _ = learnt([1] * len(X), restart=False)
    for steps, restart, room in (([len(X)], False, 0), ([7] * 18, True, 0), ([1] * len(X), True, 50)):
        assert bits(learnt(steps, restart, room)[0]) == bits(one_by_one)


def test_edits_lead_to_the_same_bits_as_the_last_titles() -> None:
    X, Y = texts()
    model, plain = titled(), titled()
    for each in (model, plain):
        each.partial_fit(X[:100], Y[:100])
    shifted = titled()
    shifted.pipeline.set_titles({5: [5]})  # the word gets a place before the other words
    shifted.pipeline.link([10, 11], [5, 5])
    assert bits(shifted) == bits(titled(titles={**TITLES, 5: [5]}))
    model.pipeline.set_titles({0: [3, 5, 250], 2: []})
    model.pipeline.set_titles({0: [], 5: [1, 1]})
    model.pipeline.set_titles({5: [], 2: TITLES[2][::-1] * 2, 0: TITLES[0]})
    model.pipeline.link(np.arange(2 * N_WORDS), WORDS)
    assert bits(model) == bits(plain)
    model.pipeline.set_titles({0: [7]})
    again = FALT()
    again.restore(model.state())
    for each in (model, again):
        each.partial_fit(X[100:], Y[100:])
    assert bits(model) == bits(again) != bits(plain.partial_fit(X[100:], Y[100:]))


def test_without_titles_nothing_changes() -> None:
    X, Y = texts()
    plain = FALT().partial_fit(X, Y)
    model = FALT()
    model.pipeline.grow(2 * N_WORDS, N_LABELS)
    model.pipeline.link(np.arange(2 * N_WORDS), WORDS)
    model.pipeline.set_titles({0: [], 1: []})
    assert bits(model.partial_fit(X, Y)) == bits(plain)
    assert model.pipeline.nbytes == plain.pipeline.nbytes
    assert [len(plain.state()[f"stack.{name}"]) for name in ("shared", "titles.words", "titles.features")] == [20, 0, 0]
    assert titled().partial_fit(X, Y).pipeline.nbytes > plain.pipeline.nbytes


def zero_shot(titles: Titles, seed: int = 3) -> tuple[Any, float]:
    """A model of 20 labels, each with a word of its own, of which the last two were never true; and its micro-F1."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 18, 1500)
    Y = (truth[:, np.newaxis] == np.arange(20)).astype(int)
    X = (rng.random((1500, 60)) < 0.1).astype(np.float32)
    X[:, :20] *= rng.random((1500, 20)) < 0.1
    X[:, 18:20] = 0.0
    X[np.arange(1500), truth] = rng.random(1500) < 0.8
    model = FALT()
    model.pipeline.grow(60, 20)
    model.pipeline.set_titles(titles)
    model.pipeline.link(np.arange(60), np.arange(60))
    scores = np.concatenate(
        [model.pipeline.learn(*_arrays(X[i : i + 100], Y[i : i + 100])).scores for i in range(0, 1500, 100)]
    )
    predicted = scores[:, 1:] > scores[:, :1]
    return model, float(2 * (predicted & (Y == 1)).sum() / (predicted.sum() + Y.sum()))


def _arrays(X: NDArray[np.float32], Y: NDArray[np.int64]) -> tuple[Rows, Targets]:
    found = np.nonzero(Y)
    indptr = np.concatenate([[0], np.cumsum(Y.sum(axis=1))])
    signs, n = np.ones(len(found[1]), np.int8), len(Y)
    truth = Targets(indptr, found[1].astype(np.int32), signs, np.ones(n, np.bool_), np.full(n, Y.shape[1]))
    return as_rows(X)[0].without_zeros(), truth


def test_a_label_that_was_never_seen_is_predicted_by_its_title_once_titles_have_earned_trust() -> None:
    own = {label: [label] for label in range(20)}
    model, _ = zero_shot(own)
    X = np.zeros((2, 60), np.float32)
    X[0, [18, 40]], X[1, [19, 50]] = 1.0, 1.0
    assert (model.decision_function(X).argmax(axis=1) == [18, 19]).all()
    assert model.predict(X)[:, 18:].tolist() == [[1, 0], [0, 1]]
    assert model.state()["stack.shared"][5] > 1.0
    again, _ = zero_shot({label: own[label] for label in range(18)})
    assert not again.predict(X)[:, 18:].any()


def test_a_restarted_label_keeps_its_title() -> None:
    X, Y = texts()
    model = titled(drift="adwin", on_drift="restart").partial_fit(X, Y)
    model.pipeline._react(1)
    again = FALT(drift="adwin", on_drift="restart")
    again.restore(model.state())
    assert model.state()["calibration.labels"][5, 0] == 1e-300
    model.pipeline.set_titles({0: []})
    assert model.state()["calibration.labels"][5, 0] == 0.0
    assert model.state()["calibration.labels"][5, 1] >= 1.0


def test_a_title_has_its_part_in_an_explanation_and_none_in_a_linear_form() -> None:
    X, Y = texts()
    model = titled().partial_fit(X, Y)
    for i in range(20):
        rows, _ = as_rows(X[i : i + 1])
        margins = model.decision_function(X[i : i + 1])[0]
        for label, each in enumerate(model.pipeline.explain(rows, list(range(N_LABELS)), 3)):
            others = model.pipeline.explain(rows, [label], 100)[0]
            assert each.title == others.title >= 0.0
            np.testing.assert_allclose(others.contributions.sum() + each.title + others.rest, margins[label], rtol=1e-9)
    assert model.pipeline.explain(rows, [N_LABELS - 1], 3)[0].title == 0.0
    with pytest.raises(NotLinear, match="titles"):
        model.pipeline.linear_form()
    model.pipeline.set_titles({label: [] for label in TITLES})
    assert model.pipeline.linear_form().weights.shape == (2 * N_WORDS, N_LABELS)


@for_each(
    ("titles", "message"),
    [
        ({N_LABELS: [0]}, r"^titles\[6\] has no label"),
        ({-1: [0]}, r"^titles\[-1\] has no label"),
        ({0: [-1]}, r"^titles\[0\] must be whole numbers"),
        ({0: [0.5]}, r"^titles\[0\] must be whole numbers"),
        ({0: [[1]]}, r"^titles\[0\] must be whole numbers"),
        ({1: [1], 0: list(range(MAX_TITLE_WORDS + 1))}, r"^titles\[0\] must have at most 100 words"),
    ],
)
def test_invalid_titles_change_nothing(titles: Any, message: str) -> None:
    model = titled()
    before = bits(model)
    with pytest.raises(ValueError, match=message):
        model.pipeline.set_titles(titles)
    for features, words in (([0, 1], [1]), ([2 * N_WORDS], [1]), ([-1], [1]), ([0], [-2]), ([0.5], [1])):
        with pytest.raises(ValueError, match=r"^(features|words) must"):
            model.pipeline.link(features, words)
    assert bits(model) == before


def test_a_learner_without_a_stack_takes_no_titles() -> None:
    for model in (PassiveAggressive(), FALT(step="adaptive")):
        assert not model.pipeline.takes_titles
        model.pipeline.grow(1, 1)
        with pytest.raises(ValueError, match=r"^step must be 'stacked'"):
            model.pipeline.set_titles({0: [1]})
    assert KernelFALT().pipeline.takes_titles


@for_each(
    ("name", "forge"),
    [
        ("words", lambda w: w[::-1]),
        ("words", lambda w: w[:-1]),
        ("words", lambda w: w - 1),
        ("words", lambda w: w[:0]),
        ("words", lambda w: np.append(w, w[-1] + 1)),
        ("ends", lambda e: e[:-1]),
        ("ends", lambda e: e + 1),
        ("ends", lambda e: e[::-1]),
        ("places", lambda p: p[:-1]),
        ("places", lambda p: p + 1),
        ("places", lambda p: p - 1),
        ("places", lambda p: p[::-1]),
        ("places", lambda p: p * 0),
        ("features", lambda f: f[:-1]),
        ("features", lambda f: f + 1000),
        ("features", lambda f: f - 1),
    ],
)
def test_forged_titles_change_nothing(name: str, forge: Any) -> None:
    X, Y = texts()
    arrays = titled().partial_fit(X, Y).state()
    learner = titled()
    before = bits(learner)
    forged = np.asarray(forge(arrays[f"stack.titles.{name}"]), dtype=arrays[f"stack.titles.{name}"].dtype)
    with pytest.raises(ValueError, match="state: "):
        learner.restore({**arrays, f"stack.titles.{name}": forged})
    assert bits(learner) == before


def test_titles_without_their_coefficient_are_refused() -> None:
    X, Y = texts()
    plain, model = FALT().partial_fit(X, Y).state(), titled().partial_fit(X, Y).state()
    with pytest.raises(ValueError, match="labels have titles"):
        FALT().restore({**model, "stack.shared": plain["stack.shared"]})
    long = np.arange(MAX_TITLE_WORDS + 1)
    ends = np.full(N_LABELS, len(long))
    forged = {"words": long, "ends": ends, "places": long.astype(np.int32), "features": np.zeros(16, np.int32)}
    with pytest.raises(ValueError, match="at most 100 words"):
        FALT().restore({**model, **{f"stack.titles.{name}": array for name, array in forged.items()}})


def test_a_new_feature_does_not_copy_the_map_of_all_features() -> None:
    titles, seen, n = TitleIndex(), np.zeros(2 + 1_000_004), 1_000_000
    titles.link(np.arange(n, dtype=np.int32), np.arange(n), seen)
    titles.link(np.array([n], dtype=np.int32), np.array([n]), seen)
    tracemalloc.start()
    try:
        titles.link(np.array([n + 1], dtype=np.int32), np.array([n + 1]), seen)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n
