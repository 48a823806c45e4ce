"""Suggestions for a vocabulary against their rules in plain NumPy, and properties of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.doubts import test_doubts
from tests.core.doubts import transcription as doubts_transcription
from tests.core.label_health import transcription

from manylabel_core.doubts import find_doubts
from manylabel_core.doubts.held_out import HeldOut
from manylabel_core.label_health import ProbabilitySums, Truths, count_labels, counts, rules, suggest, sums
from manylabel_core.rows import NO_WEIGHTS, Targets

NAMES = [
    "pets",
    "pet",
    "Pets ",
    "poodle",
    "poodel",
    "animal",
    "cat",
    "kitty",
    "noise",
    "birds",
    "café",
    "car",
    "vehicle",
]


def targets_of(truth, weights=None):
    """Return targets in which an example with unknown labels is partial."""
    complete = (truth != 0).all(axis=1)
    listed = [np.flatnonzero(row > 0 if whole else row != 0) for row, whole in zip(truth, complete, strict=True)]
    indptr = np.cumsum([0, *map(len, listed)])
    indices = np.concatenate([*listed, np.zeros(0, int)]).astype(np.int32)
    signs = truth[np.repeat(np.arange(len(truth)), np.diff(indptr)), indices].astype(np.int8)
    n_labels = np.full(len(truth), truth.shape[1])
    return Targets(indptr, indices, signs, complete, n_labels, NO_WEIGHTS if weights is None else weights)


def data(seed=0, n=1500, unknown=0.0, noise=0.05):
    """Return the truth and probabilities of `NAMES`: two names of pets by turns, a child, labels that go together,
    one that is noise, one that is no longer used."""
    rng = np.random.default_rng(seed)
    thing = rng.integers(0, 8, n)
    truth, p = -np.ones((n, len(NAMES)), dtype=int), rng.random((n, len(NAMES))) * noise
    by_turns = rng.random(n)
    truth[:, 0] = np.where((thing == 0) & (by_turns < 0.6), 1, -1)
    truth[:, 1] = np.where((thing == 0) & (by_turns >= 0.6), 1, -1)
    truth[np.flatnonzero(thing == 0)[:4], 2] = 1
    truth[:, 3] = np.where((thing == 1) & (by_turns >= 0.05), 1, -1)
    truth[:, 4] = np.where((thing == 1) & (by_turns < 0.05), 1, -1)
    truth[:, 5] = np.where((thing == 1) | (thing == 2), 1, -1)
    truth[:, 6] = np.where((thing == 2) & (by_turns < 0.5), 1, -1)
    truth[:, 7] = np.where((thing == 2) & (by_turns >= 0.5), 1, -1)
    truth[:, 8] = np.where(rng.random(n) < 0.1, 1, -1)
    truth[:40:2, 9] = 1
    truth[:3, 10] = 1
    truth[:, 11] = np.where(thing == 5, 1, -1)
    truth[:, 12] = np.where((thing == 5) & (rng.random(n) < 0.97), 1, -1)
    for labels, kind, share in (((0, 1, 2), 0, (0.5, 0.35, 0.05)), ((3, 4), 1, (0.9, 0.1)), ((6, 7), 2, (0.5, 0.5))):
        for label, each in zip(labels, share, strict=True):
            p[thing == kind, label] += each * 0.9
    p[thing == 5, 11] = p[thing == 5, 12] = 0.9
    if unknown:
        truth[(rng.random(truth.shape) < unknown) & (rng.random(n) < 0.5)[:, None]] = 0
    return truth, p


def summed(truth, p, weights=None, size=97):
    targets = targets_of(truth, weights)
    truths = Truths(targets, truth.shape[1])
    added = ProbabilitySums(truths)
    for half in (0, 1):
        for start in range(half, len(truth), 2 * size):
            rows = np.arange(start, min(start + 2 * size, len(truth)), 2)
            added.add(HeldOut(1 - half, rows, p[rows]), truth[rows].astype(np.int8))
    return truths, added


def found(truth, p, weights=None, names=NAMES, **options):
    names = names[: truth.shape[1]]
    truths, added = summed(truth, np.zeros(truth.shape) if p is None else p, weights)
    pairs = rules.named_pairs(names, truths.examples, truths.examples > 0)
    columns = np.array(list(pairs), dtype=np.int64).reshape(-1, 2).T
    counted = count_labels(truths, *columns)
    return suggest(names, counted, None if p is None else added, **options), pairs


def assert_like_the_rules(truth, p, weights=None, names=NAMES):
    suggestions, pairs = found(truth, p, weights, names)
    w = np.ones(len(truth)) if weights is None else weights
    due = transcription.suggestions(truth, w, p, pairs)
    assert sorted((s.kind, s.why, s.label, -1 if s.other is None else s.other) for s in suggestions) == sorted(
        (kind, why, label, -1 if other is None else other) for kind, why, label, other in due
    )
    return suggestions


def kinds(suggestions):
    return {(s.why, NAMES[s.label], None if s.other is None else NAMES[s.other]) for s in suggestions}


def test_the_rules_on_a_grown_vocabulary():
    truth, p = data()
    suggestions = kinds(assert_like_the_rules(truth, p))
    alike = ("cat", "kitty") if (truth[:, 6] > 0).sum() < (truth[:, 7] > 0).sum() else ("kitty", "cat")
    assert suggestions >= {
        ("spelling", "Pets ", "pets"),
        ("plural", "pet", "pets"),
        ("slip", "poodel", "poodle"),
        ("implied", "poodle", "animal"),
        ("alike", *alike),
        ("together", "vehicle", "car"),
        ("unlearnable", "noise", None),
        ("unused", "birds", None),
        ("rare", "café", None),
    }


def test_counts_alone_give_what_needs_no_probabilities():
    truth, _ = data()
    suggestions = kinds(assert_like_the_rules(truth, None))
    assert {why for why, _, _ in suggestions} == {"spelling", "implied", "together", "unused", "rare"}


def test_unknown_truths_are_not_false():
    truth, p = data(unknown=0.4)
    suggestions = kinds(assert_like_the_rules(truth, p))
    assert ("implied", "poodle", "animal") in suggestions
    suggested_as_false = kinds(found(np.where(truth == 0, -1, truth), p)[0])
    assert ("implied", "poodle", "animal") not in suggested_as_false


def test_weights_count():
    truth, p = data()
    weights = np.where(truth[:, 7] > 0, 0.125, 1.0)
    first, second = found(truth, p)[0], assert_like_the_rules(truth, p, weights)
    assert [s.examples for s in first] != [s.examples for s in second]


@pytest.mark.parametrize("seed", range(4))
def test_twofold_weights_are_examples_twice(seed):
    truth, p = data(seed, n=300)
    twice = np.repeat(np.arange(len(truth)), 2)
    heavy, many = found(truth, p, np.full(len(truth), 2.0))[0], found(truth[twice], p[twice])[0]
    assert kinds(heavy) == kinds(many)


def random_data(rng, unknown):
    """Return the truth and probabilities of labels, each of which belongs to a thing that the model knows in part."""
    n, n_labels = int(rng.integers(1, 300)), int(rng.integers(1, len(NAMES) + 1))
    thing_of, things = rng.integers(0, 4, n_labels), rng.integers(0, 5, n)
    share, told = rng.choice([0.05, 0.3, 0.5, 1.0], n_labels), rng.choice([0.1, 0.6, 1.0], n_labels)
    has = things[:, None] == thing_of
    one_of_them = rng.integers(0, n_labels, n)[:, None] % 3 == np.arange(n_labels) % 3
    given_by_turns = rng.random(n_labels) < 0.7
    given = has & (rng.random(has.shape) < share) & (one_of_them | ~given_by_turns)
    truth = np.where(given, 1, -1)
    truth[(rng.random(truth.shape) < unknown) & (rng.random((n, 1)) < 0.5)] = 0
    p = np.where(has, told * share, 0.02) * rng.uniform(0.8, 1.0, has.shape)
    return truth, p


@given(seed=st.integers(0, 2**32 - 1), unknown=st.sampled_from([0.0, 0.3]), weighted=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_rules_on_random_data(seed, unknown, weighted):
    rng = np.random.default_rng(seed)
    truth, p = random_data(rng, unknown)
    assert_like_the_rules(truth, p, rng.choice([0.5, 1.0, 3.0], len(truth)) if weighted else None)


@pytest.mark.parametrize("unknown", [0.0, 0.4])
def test_the_sums_of_pairs(unknown, monkeypatch):
    monkeypatch.setattr(counts, "_BLOCK_LABELS", 4)
    truth, p = data(n=200, unknown=unknown)
    weights = np.random.default_rng(5).choice([0.5, 1.0, 3.0], len(truth))
    truths, added = summed(truth, p, weights)
    first, second = np.array([(a, b) for a in range(len(NAMES)) for b in range(a + 1, len(NAMES))]).T
    together, only, own, other = transcription.pair_sums(truth, weights, p)
    mean = weights @ p / weights.sum()
    counted, likenesses = truths.pairs(first, second), added.likenesses(first, second)
    for part, due in zip(counted[2:], (together, only, only.T), strict=True):
        np.testing.assert_allclose(part, due[first, second], rtol=1e-9, atol=1e-9)
    excess = np.maximum(own - only * mean[:, None], 0)
    np.testing.assert_allclose(likenesses.own_of_first, excess[first, second], atol=1e-9)
    np.testing.assert_allclose(likenesses.own_of_second, excess[second, first], atol=1e-9)
    on_other = np.maximum(other - only * mean[None, :], 0)
    with np.errstate(invalid="ignore"):
        rates = on_other / only, np.maximum(excess / only, 1e-9)
    for pull, pair in ((likenesses.pull_of_first, (first, second)), (likenesses.pull_of_second, (second, first))):
        due = rates[0][pair] / rates[1][pair[::-1]]
        np.testing.assert_allclose(pull[np.isfinite(due)], due[np.isfinite(due)], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("uses", "n", "why"),
    [
        ([0, 1, 2], 1003, {"rare"}),
        ([0, 1, 2], 1002, set()),  # 999 examples since
        ([0, 1, 900], 2000, {"rare"}),
        ([0, 1, 1010], 2020, set()),  # last used in the second half
        (list(range(5)), 1005, {"unused"}),
        ([0, 1, 2, 3, 403], 1604, {"unused"}),
        ([0, 1, 2, 3, 404], 1605, set()),  # the longest gap before is too long
    ],
)
def test_labels_to_pause(uses, n, why):
    truth = -np.ones((n, 1), dtype=int)
    truth[uses] = 1
    assert {s.why for s in assert_like_the_rules(truth, None, names=["a"])} == why


def test_a_label_without_a_probability_is_not_compared():
    truth, p = data()
    p[::2, 1] = np.nan
    suggestions = kinds(assert_like_the_rules(truth, p))
    assert ("plural", "pet", "pets") not in suggestions


def test_blocks_do_not_matter():
    truth, p = data()
    one, other = (summed(truth, p, size=size)[1].likenesses(np.array([0, 3]), np.array([1, 4])) for size in (11, 5000))
    for part, expected in zip(one, other, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-12)


def test_many_labels_need_only_the_most_probable_pairs(monkeypatch):
    truth, p = data()
    dense = found(truth, p)[0]
    monkeypatch.setattr(sums, "MAX_DENSE_LABELS", 5)
    monkeypatch.setattr(sums, "MOST_PROBABLE", 12)
    monkeypatch.setattr(sums, "_BUFFERED", 500)
    sparse = found(truth, p)[0]
    assert [s[:4] for s in sparse] == [s[:4] for s in dense]
    monkeypatch.setattr(sums, "MOST_PROBABLE", 2)  # the two names of a thing are the two most probable ones
    assert ("plural", "pet", "pets") in kinds(found(truth, p)[0])


def test_pairs_are_bounded(monkeypatch):
    truth, p = data()
    monkeypatch.setattr(sums, "MAX_DENSE_LABELS", 5)
    monkeypatch.setattr(sums, "MOST_PROBABLE", 5)
    monkeypatch.setattr(sums, "_BUFFERED", 100)
    monkeypatch.setattr(sums, "MAX_PAIRS", 20)
    _, added = summed(truth, p)
    first, second = added.candidates(rules.LEAST)
    assert len(added._table[0]) <= 20
    assert (0, 1) in set(zip(first.tolist(), second.tolist(), strict=True))  # the largest sums stay


def test_labels_that_are_not_listed_and_known_parents():
    truth, p = data()
    listed = np.array([name != "poodel" for name in NAMES])
    parents = np.full(len(NAMES), -1, dtype=np.int32)
    parents[NAMES.index("poodle")] = NAMES.index("animal")
    suggestions = kinds(found(truth, p, listed=listed, parents=parents)[0])
    assert not {each for each in suggestions if "poodel" in each[1:]}
    assert ("implied", "poodle", "animal") not in suggestions
    assert ("implied", "poodle", "animal") in kinds(found(truth, p, listed=listed)[0])


def test_the_nearest_parent_only():
    truth = -np.ones((400, 3), dtype=int)
    truth[:40, 0] = truth[:80, 1] = truth[:160, 2] = 1
    suggestions = assert_like_the_rules(truth, None, names=["a", "b", "c"])
    assert {(s.label, s.other, s.changes) for s in suggestions if s.kind == "parent"} == {(0, 1, 0.0), (1, 2, 0.0)}


def test_the_rarer_label_changes():
    truth = -np.ones((50, 2), dtype=int)
    truth[:9, 0], truth[9:40, 1] = 1, 1
    (suggestion,) = found(truth, None, names=["Big cat", "big-cat"])[0]
    assert (suggestion.label, suggestion.other, suggestion.examples, suggestion.changes) == (0, 1, (9.0, 31.0), 9.0)
    assert suggestion.alike is None


@pytest.mark.parametrize("n", [0, 1])
def test_hardly_any_examples(n):
    truth = np.ones((n, 2), dtype=int)
    assert found(truth, np.full(truth.shape, 0.5), names=["a", "b"])[0] == []


def test_a_search_for_doubts_has_the_probabilities():
    X, signs = test_doubts.data(n=240)
    copied = np.random.default_rng(3).random(len(X)) < 0.5
    given = np.where(signs > 0, 1, -1)
    given = np.column_stack([given, np.where(copied, given[:, 1], -1)])  # two names of one thing, by turns
    given[copied, 1] = -1
    rows, targets = test_doubts.stream(X, given)
    truths = Truths(targets, 6)
    added = ProbabilitySums(truths)
    judges = test_doubts.judges(X.shape[1], 6)
    find_doubts(rows, targets, judges, X.shape[1], 6, observe=added.add)
    p, _ = doubts_transcription.probabilities(X, given, np.full(len(X), 6), None)
    pairs = np.array([(a, b) for a in range(6) for b in range(a + 1, 6)]).T
    _, expected = summed(given, p)
    for part, due in zip(added.likenesses(*pairs), expected.likenesses(*pairs), strict=True):
        np.testing.assert_allclose(part, due, rtol=1e-12)
    alike = added.likenesses(*pairs).alike
    assert tuple(pairs[:, alike.argmax()]) == (1, 5)


def two_labels(n, first=(), second=()):
    truth = -np.ones((n, 2), dtype=int)
    truth[list(first), 0] = truth[list(second), 1] = 1
    return truth


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (range(100), range(4, 100), {"together"}),
        (range(100), range(2, 104), {"together"}),  # 98 of 104
        (range(100), range(11, 100), set()),
        (range(4), range(4), set()),
        (range(40), range(60), {"implied"}),
        (range(40), range(59), set()),  # hardly more than the child
        (range(24), range(60), set()),  # too few to be sure
        (range(60), range(202), set()),  # more than half of all
    ],
)
def test_labels_that_are_given_together(first, second, why):
    truth = two_labels(400, first, second)
    assert {s.why for s in assert_like_the_rules(truth, None, names=["x", "y"])} == why


@pytest.mark.parametrize(("together", "why"), [(8, {"plural"}), (7, set())])
def test_a_plural_that_is_given_with_the_singular(together, why):
    truth = two_labels(100, range(10), range(10 - together, 40))
    assert {s.why for s in assert_like_the_rules(truth, None, names=["pet", "pets"])} == why


def test_few_examples_of_two_names():
    assert assert_like_the_rules(two_labels(100, range(4), range(4)), None, names=["pet", "pets"]) == []


@pytest.mark.parametrize(
    ("n_rare", "n_common", "own", "why"),
    [
        (3, 60, 0.9, {"slip"}),
        (9, 10, 0.9, {"slip"}),
        (3, 9, 0.9, set()),  # the common label is too rare as well
        (3, 60, 0.005, set()),  # the model does not know the common label
        (10, 60, 0.9, set()),  # frequent enough for a comparison, but not alike
    ],
)
def test_a_rare_slip(n_rare, n_common, own, why):
    truth = two_labels(400, range(n_rare), range(n_rare, n_rare + n_common))
    p = np.zeros(truth.shape)
    p[: n_rare + n_common, 1] = own  # nothing is known about the rare label
    assert {s.why for s in assert_like_the_rules(truth, p, names=["poodel", "poodle"])} - {"vague"} == why


@pytest.mark.parametrize(("n_true", "n", "why"), [(50, 100, {"unlearnable"}), (49, 100, set()), (51, 100, set())])
def test_a_vague_label(n_true, n, why):
    truth = -np.ones((n, 1), dtype=int)
    truth[:n_true] = 1
    assert {s.why for s in assert_like_the_rules(truth, np.full(truth.shape, 0.4), names=["a"])} == why
    told = np.where(truth > 0, 0.5, 0.4)
    assert not assert_like_the_rules(truth, told, names=["a"])


def test_alike_labels_whose_truth_is_hardly_ever_known():
    truth = two_labels(400, range(40), range(40, 80))
    p = np.zeros(truth.shape)
    p[:80] = 0.5
    assert [s.why for s in assert_like_the_rules(truth, p, names=["x", "y"])] == ["alike"]
    truth[:31, 1] = 0
    assert assert_like_the_rules(truth, p, names=["x", "y"]) == []
